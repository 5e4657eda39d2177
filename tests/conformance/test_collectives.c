/*
 * Every algorithm, by name, on every transport: all types and operators, counts around every edge, roots, in-place
 * forms, per-rank counts with zeros and gaps, blocking or several in flight, on 1 to 9 and 16 ranks.
 *
 * A normal run samples. Every algorithm runs over every way, at each size class and several in flight, but
 *   shm     on all numbers of ranks; each in-place form and root up to 4 ranks, each type with each operator up to 3;
 *   others  on 2, 3 and 5 ranks; each in-place form and root on 3.
 * Elsewhere the form, the root, the type and the operator are drawn. Under a sanitizer shm has fewer numbers of ranks,
 * and only shm has each form. CONFORMANCE_ALL=1 runs everything on every way.
 */
#include "collective_draw.h"
#include "collective_world.h"

#include "comm/inspect.h"
#include "cost/select.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { IN_FLIGHT = 6, MIXED_IN_FLIGHT = 12 };

/* How much is drawn for an algorithm on a number of ranks. */
typedef struct effort {
    bool product;           /* every type with every operator */
    bool thin;              /* forms and roots are drawn: not each of them */
    unsigned large, rounds; /* calls above 1 MiB; rounds through the other sizes */
} effort;

static effort effort_of(const world_rank *self)
{
    bool few = self->ranks <= 3;
    if (world_everything())
        return (effort){.product = true, .large = self->ranks <= 4, .rounds = 2};
    if (RANKS_SANITIZED)
        return (effort){
            .product = self->way->whole && self->ranks <= 2, .thin = !few || !self->way->whole, .rounds = 1};
    return (effort){.product = self->way->whole && few,
                    .thin = self->way->whole ? self->ranks > 4 : self->ranks != 3,
                    .large = self->ranks == 3,
                    .rounds = 1};
}

/* --- one algorithm ---------------------------------------------------------------------------------------------------
 */

typedef struct sweep {
    world_rank *self;
    hk_comm *comm;
    draw_source source;
    const hki_algorithm *algorithm;
    uint32_t segments;
    uint64_t calls;
} sweep;

static void draw_one(sweep *at, draw_size size, call_case *drawn)
{
    draw_case(&at->source, at->algorithm, at->self->ranks, at->segments, size, at->self->eager, drawn);
}

static void run_one(sweep *at, const call_case *drawn)
{
    call_run(drawn, at->comm, &at->self->arena);
    at->calls++;
}

/* Every type with every operator that fits it and that the algorithm can serve. */
static void try_operators(sweep *at)
{
    static const hk_type opaque[] = {HK_OPAQUE(3), HK_OPAQUE(8)};
    for (uint32_t which = 0; which < HK_TYPE_COUNT + 2; which++) {
        hk_type type = which < HK_TYPE_COUNT ? which : opaque[which - HK_TYPE_COUNT];
        for (int op = 0; op < VALUES_OPERATORS; op++) {
            call_case drawn;
            if (!values_op_fits(op, type) || !draw_serves(at->algorithm, at->self->ranks, at->source.levels, op))
                continue;
            draw_case_of(&at->source, at->algorithm, at->self->ranks, at->segments,
                         op % 2 ? DRAW_LINES : DRAW_AROUND_RANKS, at->self->eager, type, op, &drawn);
            run_one(at, &drawn);
        }
    }
}

static void try_types(sweep *at)
{
    for (uint32_t type = 0; type < HK_TYPE_COUNT; type++) {
        call_case drawn;
        draw_case_of(&at->source, at->algorithm, at->self->ranks, at->segments, DRAW_LINES, at->self->eager, type, 0,
                     &drawn);
        run_one(at, &drawn);
    }
}

/* Each size in each in-place form, and each root. */
static void try_sizes(sweep *at, const effort *how)
{
    call_case drawn;
    for (draw_size size = 0; size < DRAW_LARGE; size++) {
        /* What is several slots long for each rank's block takes its time on many ranks. */
        call_form forms = how->thin || (size == DRAW_SLOTS && at->self->ranks > 4) ? 1 : CALL_FORMS;
        for (call_form form = 0; form < forms; form++) {
            draw_one(at, size, &drawn);
            if (forms == CALL_FORMS && !call_varies(at->algorithm->collective))
                drawn.form = form; /* where counts vary, they were drawn for the form */
            run_one(at, &drawn);
        }
    }
    for (unsigned i = 0; i < how->large; i++) {
        draw_one(at, DRAW_LARGE, &drawn);
        run_one(at, &drawn);
    }
    for (int root = 0; !how->thin && root < at->self->ranks && call_is_rooted(at->algorithm->collective); root++) {
        draw_one(at, DRAW_SMALL, &drawn);
        drawn.root = root;
        run_one(at, &drawn);
    }
}

/* Several calls in flight, waited for in an order of each rank's own. */
static void run_together(sweep *at, call_case *cases, int count)
{
    call_running calls[MIXED_IN_FLIGHT];
    int order[MIXED_IN_FLIGHT];
    at->self->arena.used = 0;
    for (int i = 0; i < count; i++) {
        uint64_t noise = values_noise(at->source.seed, at->source.drawn + 7 * (uint64_t)at->self->rank, (uint64_t)i);
        int swapped = (int)(noise % (uint64_t)(i + 1));
        order[i] = order[swapped];
        order[swapped] = i;
        cases[i].blocking = false;
        call_start(&calls[i], &cases[i], at->comm, &at->self->arena);
    }
    for (int i = 0; i < count; i++)
        call_wait(&calls[order[i]]);
    for (int i = 0; i < count; i++)
        call_finish(&calls[i]);
    at->calls += (uint64_t)count;
}

static void try_in_flight(sweep *at)
{
    call_case cases[IN_FLIGHT];
    for (int i = 0; i < IN_FLIGHT; i++)
        draw_one(at, (draw_size)draw(&at->source, DRAW_SLOTS), &cases[i]);
    run_together(at, cases, IN_FLIGHT);
}

static void try_algorithm(sweep *at, const effort *how)
{
    static const uint32_t segments[] = {1, 2, 4, 8, 16, 64};
    for (unsigned round = 0; round < how->rounds; round++) {
        at->segments = at->algorithm->segmented ? segments[draw(&at->source, 6)] : 1;
        world_force(at->self, &at->comm, at->algorithm, at->segments);
        if (round == 0 && how->product && hki_collective_reduces(at->algorithm->collective))
            try_operators(at);
        else if (round == 0 && how->product)
            try_types(at);
        if (at->algorithm->segmented) {
            at->segments = segments[1 + draw(&at->source, 5)];
            world_force(at->self, &at->comm, at->algorithm, at->segments);
        }
        try_sizes(at, how);
        try_in_flight(at);
    }
}

static void try_all_algorithms(world_rank *self, void *argument)
{
    size_t count, served = 0;
    const hki_algorithm *all = hki_algorithms(&count);
    effort how = effort_of(self);
    sweep at = {.self = self,
                .source = {.seed = values_noise(world_seed(), 10, (uint64_t)self->ranks), .levels = self->levels}};
    (void)argument;
    for (size_t i = 0; i < count; i++) {
        at.algorithm = &all[i];
        if (self->ranks > 1 && !draw_serves(&all[i], self->ranks, self->levels, HK_SUM))
            continue;
        served++;
        try_algorithm(&at, &how);
        hki_select_force(all[i].collective, NULL, 0);
    }
    size_t sizes = how.thin ? DRAW_LARGE : (DRAW_LARGE - 1) * CALL_FORMS + 1;
    EXPECT(served > count / 2 && at.calls >= served * (sizes + IN_FLIGHT));
    if (self->rank == 0)
        printf("  %s, %d ranks: %llu calls\n", self->way->name, self->ranks, (unsigned long long)at.calls);
    EXPECT_OK(hk_comm_free(at.comm));
}

/* --- where a message takes a millisecond -----------------------------------------------------------------------------
 */

/* Every algorithm with two types and four sizes, from a few elements to several slots, and the first of each collective
 * with every type. */
static void try_grid(world_rank *self, void *argument)
{
    static const draw_size sizes[] = {DRAW_AROUND_RANKS, DRAW_LINES, DRAW_EAGER, DRAW_SLOTS};
    static const hk_type types[] = {HK_FLOAT32, HK_BFLOAT16};
    size_t count, served = 0;
    const hki_algorithm *all = hki_algorithms(&count), *first[HKI_COLL_COUNT] = {NULL};
    sweep at = {.self = self,
                .source = {.seed = values_noise(world_seed(), 12, (uint64_t)self->ranks), .levels = self->levels}};
    (void)argument;
    for (size_t i = 0; i < count; i++) {
        call_case drawn;
        at.algorithm = &all[i];
        if (!draw_serves(&all[i], self->ranks, self->levels, HK_SUM))
            continue;
        served++;
        world_force(self, &at.comm, at.algorithm, 1);
        for (size_t k = 0; k < 8; k++) {
            draw_case_of(&at.source, at.algorithm, self->ranks, 1, sizes[k % 4], self->eager, types[k / 4], HK_SUM,
                         &drawn);
            run_one(&at, &drawn);
        }
        if (!first[all[i].collective])
            try_types(&at);
        first[all[i].collective] = &all[i];
        hki_select_force(all[i].collective, NULL, 0);
    }
    EXPECT(at.calls == 8 * served + HK_TYPE_COUNT * HKI_COLL_COUNT);
    const char *transport = getenv("HOCKET_TRANSPORT");
    for (int rank = 0; transport && rank < self->ranks; rank++)
        EXPECT(rank == self->rank || strcmp(hki_comm_transport(self->comm, rank), transport) == 0);
    if (self->rank == 0)
        printf("  %s, %d ranks: %zu algorithms, %llu calls\n", self->way->name, self->ranks, served,
               (unsigned long long)at.calls);
    EXPECT_OK(hk_comm_free(at.comm));
}

/* --- all algorithms beside one another -------------------------------------------------------------------------------
 */

/* Any collectives, each by any of its algorithms, in flight together. */
static void try_mixtures(world_rank *self, void *argument)
{
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count), *chosen[HKI_COLL_COUNT];
    sweep at = {.self = self,
                .source = {.seed = values_noise(world_seed(), 11, (uint64_t)self->ranks), .levels = self->levels}};
    int rounds = world_everything() ? 200 : RANKS_SANITIZED || self->way->slow ? 4 : 20;
    (void)argument;
    for (int round = 0; round < rounds; round++) {
        call_case cases[MIXED_IN_FLIGHT];
        memset(chosen, 0, sizeof chosen);
        for (size_t tries = 0; tries < 3 * count; tries++) {
            const hki_algorithm *one = &all[draw(&at.source, count)];
            if (draw_serves(one, self->ranks, self->levels, HK_SUM))
                chosen[one->collective] = one;
        }
        for (int i = 0; i < HKI_COLL_COUNT; i++)
            hki_select_force((hki_collective)i, chosen[i], 0);
        if (at.comm)
            EXPECT_OK(hk_comm_free(at.comm));
        EXPECT_OK(hk_comm_dup(self->comm, &at.comm));
        for (int i = 0; i < MIXED_IN_FLIGHT; i++) {
            do {
                at.algorithm = chosen[draw(&at.source, HKI_COLL_COUNT)];
            } while (!at.algorithm);
            draw_one(&at, (draw_size)draw(&at.source, DRAW_SLOTS), &cases[i]);
        }
        run_together(&at, cases, MIXED_IN_FLIGHT);
    }
    EXPECT_OK(hk_comm_free(at.comm));
}

/* --- the tests: one for each way and number of ranks
 * ------------------------------------------------------------------
 */

typedef struct trial {
    const world_way *way;
    int ranks;
    world_body *body;
    char name[96];
} trial;

static void run_trial(void **state)
{
    const trial *one = *state;
    assert_int_equal(world_run(one->way, one->ranks, one->body, NULL), 0);
}

static bool is_sampled(const world_way *way, int ranks)
{
    if (way->whole)
        return !RANKS_SANITIZED || ranks <= 3 || ranks == 5 || ranks == 8;
    return ranks == 2 || ranks == 3 || ranks == 5;
}

static size_t add(trial *one, const world_way *way, int ranks, world_body *body, const char *what)
{
    *one = (trial){.way = way, .ranks = ranks, .body = body};
    snprintf(one->name, sizeof one->name, "%s, %d ranks: %s", way->name, ranks, what);
    return 1;
}

/* Fills the trials of a way, and returns how many they are. */
static size_t add_trials(trial *trials, const world_way *way)
{
    static const char every[] = "every algorithm gives what is defined";
    static const char any[] = "any collectives go on beside one another";
    static const int ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};
    bool everything = world_everything();
    size_t count = 0;
    for (int few = 2; few <= 4 && way->slow; few += 2) {
        count += add(&trials[count], way, few, try_grid, every);
        count += add(&trials[count], way, few, try_mixtures, any);
    }
    if (way->only > 0) {
        count += add(&trials[count], way, way->only, try_all_algorithms, every);
        return count + add(&trials[count], way, way->only, try_mixtures, any);
    }
    for (size_t i = 0; i < sizeof ranks / sizeof *ranks && !way->slow; i++) {
        if (everything || is_sampled(way, ranks[i]))
            count += add(&trials[count], way, ranks[i], try_all_algorithms, every);
        if (ranks[i] != 1 && (everything || ranks[i] == 3 || (way->whole && is_sampled(way, ranks[i]))))
            count += add(&trials[count], way, ranks[i], try_mixtures, any);
    }
    return count;
}

int main(void)
{
    static trial trials[256];
    static struct CMUnitTest tests[256];
    size_t count = 0;
    for (size_t way = 0; way < world_way_count; way++) {
        if (world_way_wanted(&world_ways[way]))
            count += add_trials(&trials[count], &world_ways[way]);
    }
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){.name = trials[i].name, .test_func = run_trial, .initial_state = &trials[i]};
    if (count == 0)
        return 77;
    return _cmocka_run_group_tests("collectives", tests, count, NULL, NULL);
}
