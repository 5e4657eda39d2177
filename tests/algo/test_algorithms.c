/*
 * Every line of algos.def through the verifier: P = 1 … 64 with every root, every in-place form and 1 and 4 segments;
 * then larger P with sampled roots. Hierarchical ones with every topology view of roots 0, 1, P/2 and P-1, and with one
 * of the others. Rounds and bytes are compared with the textbook forms beside each generator. Two
 * worker processes share the cases.
 *
 * What is sampled. Above 64 ranks: roots 0, 1, P/2 and P-1, the forms "separate" and "in place", 4 segments only. An
 * algorithm whose ranks take about P steps each makes P² of them, so those run up to P = 129 in full, at 255 … 257 with
 * separate buffers and 1 segment, and at 1000 for the few that LARGE_LINEAR lists.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "algorithm_cases.h"
#include "sched/verify.h"

/* The sanitizers slow the verifier down tenfold. What they look for does not depend on the size of the job, so with
 * them larger ones are sampled: one case in so many. */
#ifdef HKI_SANITIZED
enum { COMPLETE_UP_TO = 8, ONE_IN = 41 };
#else
enum { COMPLETE_UP_TO = 1024, ONE_IN = 1 };
#endif

enum { WORKERS = 2, MOST_COMPLAINTS = 20, MOST_RANKS = 1024 };

typedef struct tally {
    unsigned number;
    uint64_t seen, verified, steps, failures;
} tally;

/* Topology views for hierarchical algorithms: all on one node; 3 + 2 alternating; fours; dealt round three; one each;
 * pairs in sixes in eighteens; caches of 3, 2 and 1 on nodes of 5 and 4, every third of another switch. */
enum { VIEWS = 7, DEEPEST = 3 };
static hki_levels *views[VIEWS];

static uint32_t label_of(unsigned view, unsigned level, uint32_t rank)
{
    const uint32_t fives = rank / 9 * 2 + (rank % 9 >= 5);
    switch (view) {
    case 1:
        return rank / 5 * 2 + (rank % 5 >= 3);
    case 2:
        return rank / 4;
    case 3:
        return rank % 3;
    case 4:
        return rank;
    case 5:
        return rank / (level == 0 ? 2 : level == 1 ? 6 : 18);
    case 6:
        return level == 0 ? rank % 9 / 3 : level == 1 ? fives : fives % 3 / 2;
    default:
        return 0;
    }
}

static void fill_views(uint32_t ranks)
{
    static uint32_t labels[DEEPEST][MOST_RANKS];
    for (unsigned view = 0; view < VIEWS; view++) {
        for (unsigned level = 0; level < DEEPEST; level++)
            for (uint32_t rank = 0; rank < ranks; rank++)
                labels[level][rank] = label_of(view, level, rank);
        hki_levels_free(views[view]);
        assert_true(hki_levels_new(ranks, (const uint32_t *const[]){labels[0], labels[1], labels[2]}, DEEPEST, 1,
                                   &views[view]));
    }
}

typedef struct attempt {
    const hki_algorithm *algorithm;
    uint32_t ranks, root, segments;
    case_form form;
    unsigned view;
} attempt;

static const hki_levels *view_of(const attempt *trial)
{
    return trial->algorithm->hierarchical && views[trial->view] && views[trial->view]->ranks == trial->ranks
               ? views[trial->view]
               : NULL;
}

static hki_call call_of(const attempt *trial, uint32_t rank)
{
    return case_call(trial->algorithm, trial->ranks, rank, trial->root, trial->segments, trial->form, view_of(trial));
}

static void complain(tally *worker, const attempt *trial, const char *what)
{
    if (worker->failures++ < MOST_COMPLAINTS)
        fprintf(stderr, "%s %s, P=%u root=%u segments=%u %s view %u: %s\n",
                hki_collective_name(trial->algorithm->collective), trial->algorithm->name, trial->ranks, trial->root,
                trial->segments, case_form_name(trial->form), trial->view, what);
}

/* Algorithms whose last round may begin early when P is no power of two, as it needs only part of what came before. */
static const char *const LOOSE[] = {"barrier tree",
                                    "broadcast circulant",
                                    "broadcast scatter_bruck",
                                    "broadcast scatter_radix_bruck",
                                    "reduce double_tree",
                                    "allreduce bruck",
                                    "allreduce radix_bruck",
                                    "allreduce recursive_multiplying",
                                    "allreduce double_tree",
                                    "allgather recursive_doubling",
                                    "allgather bruck",
                                    "allgather radix_bruck",
                                    "allgatherv recursive_doubling",
                                    "allgatherv bruck",
                                    "allgatherv radix_bruck",
                                    "alltoall bruck",
                                    "alltoall linear",
                                    "alltoallv linear"};

static bool is_listed(const hki_algorithm *algorithm, const char *const *list, size_t count)
{
    char name[80];
    snprintf(name, sizeof name, "%s %s", hki_collective_name(algorithm->collective), algorithm->name);
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static bool rounds_fit(const attempt *trial, double book, uint32_t counted)
{
    bool power = (trial->ranks & (trial->ranks - 1)) == 0;
    bool exact = !trial->algorithm->segmented || trial->segments == 1;
    if (!power && is_listed(trial->algorithm, LOOSE, sizeof LOOSE / sizeof *LOOSE))
        exact = false;
    return exact ? fabs(book - counted) < 1e-9 : counted <= book + 1e-9;
}

static void compare_forms(tally *worker, const attempt *trial, const hki_verify_report *report)
{
    hki_call call = call_of(trial, 0);
    double rounds = trial->ranks > 1 ? trial->algorithm->rounds(&call) : 0;
    double sent = trial->ranks > 1 ? trial->algorithm->sent(&call) : 0;
    char text[120];
    if (!isnan(rounds) && !rounds_fit(trial, rounds, report->rounds)) {
        snprintf(text, sizeof text, "rounds are %u, by the book %g", report->rounds, rounds);
        complain(worker, trial, text);
    }
    if (!isnan(sent) && fabs(sent - report->sent) > 1e-9) {
        snprintf(text, sizeof text, "bytes sent are %g n, by the book %g n", report->sent, sent);
        complain(worker, trial, text);
    }
    if (trial->algorithm->keeps_order && !report->keeps_order)
        complain(worker, trial, "does not keep rank order, though it says so");
}

static void verify(tally *worker, const attempt *trial)
{
    static hki_schedule *schedules[MOST_RANKS];
    hk_status status = HK_OK;
    uint32_t made = 0;
    for (; made < trial->ranks && status == HK_OK; made++) {
        hki_call call = call_of(trial, made);
        status = hki_algorithm_schedule(trial->algorithm, &call, &schedules[made]);
    }
    hki_verify_report report;
    if (status == HK_OK)
        status = hki_verify((const hki_schedule *const *)schedules, trial->ranks, trial->algorithm->name, &report);
    else
        made--;
    if (status == HK_OK)
        compare_forms(worker, trial, &report);
    else
        complain(worker, trial, hk_last_error());
    if (status == HK_OK)
        worker->steps += report.steps;
    worker->verified++;
    for (uint32_t rank = 0; rank < made; rank++)
        hki_schedule_free(schedules[rank]);
}

/* Takes the trial if it is this worker's turn and the algorithm can serve it. */
static void consider(tally *worker, attempt trial)
{
    hki_call call = call_of(&trial, 0);
    if (hki_algorithm_refuses(trial.algorithm, &call))
        return;
    uint64_t number = worker->seen++;
    if (trial.ranks > COMPLETE_UP_TO && number / WORKERS % ONE_IN != 0)
        return;
    if (number % WORKERS == worker->number)
        verify(worker, &trial);
}

static void all_forms(tally *worker, attempt trial)
{
    unsigned view_count = trial.algorithm->hierarchical ? VIEWS : 1;
    bool all_views = trial.root < 2 || trial.root == trial.ranks / 2 || trial.root == trial.ranks - 1;
    for (trial.form = FORM_SEPARATE; trial.form < FORM_COUNT; trial.form++)
        for (trial.view = 0; trial.view < view_count && case_form_applies(trial.algorithm->collective, trial.form);
             trial.view++)
            if (all_views || trial.view == trial.root % view_count)
                consider(worker, trial);
}

static void small_trials(tally *worker)
{
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (uint32_t ranks = 1; ranks <= 64; ranks++) {
        fill_views(ranks);
        for (size_t i = 0; i < count; i++)
            for (uint32_t root = 0; root < (case_is_rooted(all[i].collective) ? ranks : 1); root++)
                for (uint32_t segments = 1; segments <= (all[i].segmented ? 4 : 1); segments *= 4)
                    all_forms(worker, (attempt){&all[i], ranks, root, segments, FORM_SEPARATE, 0});
    }
}

/* True if its ranks take about as many steps as there are ranks (measured on rank 0 and on a middle one). */
static bool is_linear(const hki_algorithm *algorithm, uint32_t ranks)
{
    uint64_t steps = 0;
    for (uint32_t rank = 0; rank < ranks; rank += ranks / 4) {
        attempt trial = {algorithm, ranks, 0, 1, FORM_SEPARATE, 1};
        hki_call call = call_of(&trial, rank);
        hki_schedule *schedule;
        if (hki_algorithm_refuses(algorithm, &call) || hki_algorithm_schedule(algorithm, &call, &schedule) != HK_OK)
            return false;
        steps += rank ? schedule->step_count + schedule->source_count : 0;
        hki_schedule_free(schedule);
    }
    return steps > 2 * ranks;
}

/* At 1000 ranks, one of each kind: compositions, scratch-bound, windowed and one-round ones. */
static const char *const LARGE_LINEAR[] = {"allreduce ring", "reduce_scatter ring", "allgather direct",
                                           "alltoall linear", "reduce reduce_scatter_gather"};

static void large_linear(tally *worker, const hki_algorithm *algorithm, uint32_t ranks)
{
    attempt trial = {algorithm, ranks, ranks / 2, 1, FORM_SEPARATE, 1};
    if (!case_is_rooted(algorithm->collective))
        trial.root = 0;
    if (ranks < 255)
        all_forms(worker, trial);
    else if (ranks < 258 ||
             (ranks == 1000 && is_listed(algorithm, LARGE_LINEAR, sizeof LARGE_LINEAR / sizeof *LARGE_LINEAR)))
        consider(worker, trial);
}

static void large_logarithmic(tally *worker, const hki_algorithm *algorithm, uint32_t ranks)
{
    const uint32_t roots[] = {0, 1, ranks / 2, ranks - 1};
    attempt trial = {algorithm, ranks, 0, 4, FORM_SEPARATE, 1};
    for (size_t i = 0; i < (case_is_rooted(algorithm->collective) ? 4u : 1u); i++) {
        trial.root = roots[i];
        for (trial.form = FORM_SEPARATE; trial.form <= FORM_IN_PLACE; trial.form++)
            if (case_form_applies(algorithm->collective, trial.form))
                consider(worker, trial);
    }
}

static void large_trials(tally *worker)
{
    static const uint32_t sizes[] = {96, 127, 128, 129, 255, 256, 257, 1000, 1024};
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fill_views(sizes[s]);
        for (size_t i = 0; i < count; i++)
            if (is_linear(&all[i], sizes[s]))
                large_linear(worker, &all[i], sizes[s]);
            else
                large_logarithmic(worker, &all[i], sizes[s]);
    }
}

/* Runs the trials in two processes; fails when one of them met a failure. */
static void run_workers(void (*trials)(tally *worker))
{
    pid_t children[WORKERS];
    for (unsigned i = 0; i < WORKERS; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            tally worker = {.number = i};
            trials(&worker);
            fprintf(stderr, "worker %u: %llu cases, %llu steps, %llu failures\n", i,
                    (unsigned long long)worker.verified, (unsigned long long)worker.steps,
                    (unsigned long long)worker.failures);
            _exit(worker.failures || worker.verified == 0);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void every_algorithm_holds_up_to_64_ranks(void **state)
{
    (void)state;
    run_workers(small_trials);
}

static void every_algorithm_holds_at_larger_sizes(void **state)
{
    (void)state;
    run_workers(large_trials);
}

/* ---- what algorithms refuse ---- */

static void what_cannot_serve_says_why(void **state)
{
    (void)state;
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++) {
        attempt trial = {&all[i], 7, 0, 1, FORM_SEPARATE, 0};
        hki_call call = call_of(&trial, 0);
        bool ordered = !hki_collective_reduces(all[i].collective) || all[i].keeps_order;
        call.commutative = false;
        if (!*all[i].constraint)
            assert_int_equal(hki_algorithm_refuses(&all[i], &call) == NULL, ordered);
        call.commutative = true;
        if (!all[i].hierarchical) /* those are constrained by levels, of which there are none */
            assert_int_equal(hki_algorithm_refuses(&all[i], &call) == NULL, !*all[i].constraint);
        call.segments = 3;
        assert_non_null(hki_algorithm_refuses(&all[i], &call));
        call.segments = 1;
        call.root = 7;
        assert_non_null(hki_algorithm_refuses(&all[i], &call));
    }
    const hki_algorithm *exchange = hki_algorithm_find(HKI_COLL_ALLGATHER, "neighbour_exchange");
    attempt trial = {exchange, 7, 0, 1, FORM_SEPARATE, 0};
    hki_call call = call_of(&trial, 0);
    hki_schedule *schedule = NULL;
    assert_int_equal(hki_algorithm_schedule(exchange, &call, &schedule), HK_ERR_UNSUPPORTED);
    assert_non_null(strstr(hk_last_error(), "even number of ranks"));
    assert_null(schedule);
}

/* Whatever the number of ranks, the root and the operator, something serves. */
static void every_call_has_an_algorithm(void **state)
{
    (void)state;
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (int collective = 0; collective < HKI_COLL_COUNT; collective++)
        for (uint32_t ranks = 1; ranks < 40; ranks++) {
            bool served = false;
            for (size_t i = 0; i < count; i++) {
                attempt trial = {&all[i], ranks, ranks / 2, 1, FORM_SEPARATE, 0};
                hki_call call = call_of(&trial, 0);
                call.commutative = false;
                served |= all[i].collective == (hki_collective)collective && !hki_algorithm_refuses(&all[i], &call);
            }
            assert_true(served);
        }
}

static void names_are_found_and_unique(void **state)
{
    (void)state;
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++) {
        assert_ptr_equal(hki_algorithm_find(all[i].collective, all[i].name), &all[i]);
        assert_true(*all[i].summary && *all[i].source && *all[i].rounds_text && *all[i].sent_text);
        assert_true(*all[i].scratch_text && all[i].rounds && all[i].sent);
    }
    for (int collective = 0; collective < HKI_COLL_COUNT; collective++)
        assert_int_equal(hki_collective_find(hki_collective_name((hki_collective)collective)), collective);
    assert_int_equal(hki_collective_find("alreduce"), -1);
    assert_null(hki_algorithm_find(HKI_COLL_SCAN, "ring"));
}

/* ---- what generating costs ---- */

/* The steps of one rank among 65,536, and the bytes of its schedule: a schedule with logarithmically many steps costs a
 * few KiB, whatever the number of blocks in its ranges. Bruck's all-to-all alone touches single blocks far apart. */
static void one_rank_of_65536_costs_only_its_steps(void **state)
{
    (void)state;
    static const char *const small[] = {"barrier dissemination",
                                        "barrier tree",
                                        "broadcast binomial",
                                        "broadcast knomial",
                                        "broadcast pipelined_tree",
                                        "broadcast double_tree",
                                        "broadcast circulant",
                                        "reduce binomial",
                                        "reduce binomial_ordered",
                                        "reduce knomial",
                                        "reduce pipelined_tree",
                                        "allreduce recursive_doubling",
                                        "allreduce rabenseifner",
                                        "allreduce recursive_multiplying",
                                        "allreduce knomial",
                                        "allreduce double_tree",
                                        "allreduce reduce_broadcast",
                                        "reduce_scatter recursive_halving",
                                        "reduce_scatter bruck",
                                        "allgather recursive_doubling",
                                        "allgather bruck",
                                        "allgather radix_bruck",
                                        "gather binomial",
                                        "scatter binomial",
                                        "scan recursive_doubling",
                                        "exscan recursive_doubling",
                                        "reduce_scatterv recursive_halving",
                                        "reduce_scatterv bruck",
                                        "allgatherv recursive_doubling",
                                        "allgatherv bruck",
                                        "allgatherv radix_bruck",
                                        "broadcast chain",
                                        "reduce chain",
                                        "scan linear",
                                        "exscan linear"};
    enum { RANKS = 65536, MIDDLE = 43690, MOST_STEPS = 200, MOST_BYTES = 64 << 10 };
    size_t count, found = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    for (size_t i = 0; i < count; i++) {
        if (!is_listed(&all[i], small, sizeof small / sizeof *small))
            continue;
        found++;
        for (uint32_t rank = 0; rank < RANKS; rank += MIDDLE) {
            attempt trial = {&all[i], RANKS, 0, 4, FORM_SEPARATE, 0};
            hki_call call = call_of(&trial, rank);
            hki_schedule *schedule;
            assert_int_equal(hki_algorithm_schedule(&all[i], &call, &schedule), HK_OK);
            assert_in_range(schedule->step_count, 1, MOST_STEPS);
            assert_in_range(schedule->bytes, 1, MOST_BYTES);
            hki_schedule_free(schedule);
        }
    }
    assert_int_equal(found, sizeof small / sizeof *small);
}

/* ---- rounds when a rank sends one message and receives one at a time ---- */

/* One rank's progress: its next send and receive, and the round in which each of its steps was done. */
typedef struct one_port {
    const hki_schedule *schedule;
    uint32_t next[2]; /* step index of the next SEND and RECV; step_count at the end */
    uint32_t last[2]; /* round of the last of each */
    uint32_t *round;  /* by step */
} one_port;

static void find_next(one_port *port, bool receives)
{
    uint32_t *next = &port->next[receives];
    while (*next < port->schedule->step_count && (port->schedule->steps[*next].verb == HKI_VERB_RECV) != receives)
        (*next)++;
}

/* The round before which a step cannot start, or 0 while something that it waits for is not done. */
static bool after(const one_port *port, uint32_t step, uint32_t *round)
{
    const hki_step *what = &port->schedule->steps[step];
    for (uint32_t i = 0; i < what->dep_count; i++) {
        uint32_t dep = port->round[port->schedule->deps[what->first_dep + i]];
        if (dep == 0)
            return false;
        if (dep > *round)
            *round = dep;
    }
    return true;
}

/* Moves the next message of `from` if its receiver's turn has come too. */
static bool move_next(one_port *ports, uint32_t from)
{
    one_port *sender = &ports[from];
    uint32_t send = sender->next[0];
    if (send == sender->schedule->step_count)
        return false;
    one_port *receiver = &ports[sender->schedule->steps[send].peer];
    uint32_t recv = receiver->next[1], round = sender->last[0];
    if (recv == receiver->schedule->step_count || receiver->schedule->steps[recv].peer != from)
        return false;
    if (receiver->last[1] > round)
        round = receiver->last[1];
    if (!after(sender, send, &round) || !after(receiver, recv, &round))
        return false;
    sender->round[send] = sender->last[0] = receiver->round[recv] = receiver->last[1] = round + 1;
    sender->next[0]++;
    receiver->next[1]++;
    find_next(sender, false);
    find_next(receiver, true);
    return true;
}

/* Plays a broadcast; returns the number of rounds. */
static uint32_t one_port_rounds(const attempt *trial)
{
    static one_port ports[64];
    uint32_t rounds = 0;
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        hki_call call = call_of(trial, rank);
        hki_schedule *schedule;
        assert_int_equal(hki_algorithm_schedule(trial->algorithm, &call, &schedule), HK_OK);
        ports[rank] = (one_port){.schedule = schedule, .round = calloc(schedule->step_count + 1, sizeof(uint32_t))};
        assert_non_null(ports[rank].round);
        find_next(&ports[rank], false);
        find_next(&ports[rank], true);
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t rank = 0; rank < trial->ranks; rank++)
            while (move_next(ports, rank))
                moved = true;
    }
    for (uint32_t rank = 0; rank < trial->ranks; rank++) {
        assert_int_equal(ports[rank].next[0], ports[rank].schedule->step_count);
        assert_int_equal(ports[rank].next[1], ports[rank].schedule->step_count);
        rounds = ports[rank].last[1] > rounds ? ports[rank].last[1] : rounds;
        free(ports[rank].round);
        hki_schedule_free((hki_schedule *)(uintptr_t)ports[rank].schedule);
    }
    return rounds;
}

/* S-1+⌈log₂P⌉ rounds for S segments is the least possible; a chain takes S-1+P-1. */
static void circulant_broadcast_takes_the_fewest_rounds(void **state)
{
    (void)state;
    const hki_algorithm *circulant = hki_algorithm_find(HKI_COLL_BROADCAST, "circulant");
    const hki_algorithm *chain = hki_algorithm_find(HKI_COLL_BROADCAST, "chain");
    for (uint32_t ranks = 2; ranks <= 64; ranks++)
        for (uint32_t segments = 1; segments <= 64; segments *= 2) {
            uint32_t log = 0;
            while (1u << log < ranks)
                log++;
            attempt trial = {circulant, ranks, ranks / 3, segments, FORM_SEPARATE, 0};
            assert_int_equal(one_port_rounds(&trial), segments - 1 + log);
            trial.algorithm = chain;
            assert_int_equal(one_port_rounds(&trial), segments - 1 + ranks - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found_and_unique),
        cmocka_unit_test(what_cannot_serve_says_why),
        cmocka_unit_test(every_call_has_an_algorithm),
        cmocka_unit_test(one_rank_of_65536_costs_only_its_steps),
        cmocka_unit_test(circulant_broadcast_takes_the_fewest_rounds),
        cmocka_unit_test(every_algorithm_holds_up_to_64_ranks),
        cmocka_unit_test(every_algorithm_holds_at_larger_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
