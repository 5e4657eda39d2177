/* hocket run: what it starts, forwards and returns. Ranks that join are this program again, as "rank MODE". */
#include "tests/multi/job.h"

#include "base/error.h"
#include "boot/boot.h"
#include "comm/comm.h"
#include "topo/topology.h"

#include <sched.h>
#include <setjmp.h>
#include <sys/stat.h>

#include <cmocka.h>

static char self[4096];

static bool has(const job *ended, int which, const char *text)
{
    bool found = strstr(ended->text[which].data, text) != NULL;
    if (!found)
        print_error("\"%s\" is not in: %s", text, ended->text[which].data);
    return found;
}

static int exit_status(const job *ended)
{
    return WIFEXITED(ended->status) ? WEXITSTATUS(ended->status) : 1000 + WTERMSIG(ended->status);
}

static size_t lines(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

/* Runs to the end, which must come within 10 s, with the exit status expected; leaves output in *ended. */
#define run(ended, expected, ...)                                                                                      \
    do {                                                                                                               \
        *(ended) = job_start(__VA_ARGS__);                                                                             \
        assert_true(job_wait(ended, 10 * JOB_SLOWER));                                                                 \
        if (exit_status(ended) != (expected))                                                                          \
            print_error("%s%s", (ended)->text[0].data, (ended)->text[1].data);                                         \
        assert_int_equal(exit_status(ended), expected);                                                                \
        assert_true(job_nothing_left(1));                                                                              \
    } while (0)

/* ---------------------------------------------------------------------------------------------------------------
 * Ranks
 * ------------------------------------------------------------------------------------------------------------- */

static int failed(const char *what)
{
    printf("%s: %s\n", what, hk_last_error());
    return 1;
}

static hk_status join(hki_boot **boot)
{
    hk_options options = HK_OPTIONS_INIT;
    return hki_boot_join(&options, boot);
}

/* Exchanges records of several lengths, twice over (two contexts), and prints where it stands and a mark of the key. */
static int rank_join(void)
{
    static const size_t lengths[] = {0, 1, 7, 4096, 300000};
    static char mine[300000], all[8 * 300000];
    for (int context = 0; context < 2; context++) {
        hki_boot *boot;
        if (join(&boot) != HK_OK)
            return failed("join");
        const hki_place *place = hki_boot_place(boot);
        for (int i = 0; i < 5; i++) {
            memset(mine, 'a' + place->rank + i, lengths[i]);
            if (hki_boot_exchange(boot, mine, lengths[i], all, 10) != HK_OK)
                return failed("exchange");
            for (int rank = 0; rank < place->ranks; rank++)
                for (size_t byte = 0; byte < lengths[i]; byte++)
                    if (all[(size_t)rank * lengths[i] + byte] != 'a' + rank + i)
                        return failed("content");
        }
        printf("%d of %d by %s key %d %02x%02x%02x%02x\n", place->rank, place->ranks, place->source, place->has_key,
               place->key[0], place->key[1], place->key[2], place->key[3]);
        hki_boot_leave(boot);
    }
    return 0;
}

/* After joining, neither a child by fork nor a program that it starts is a rank of the job. */
static int rank_children(void)
{
    hki_boot *boot, *other;
    if (join(&boot) != HK_OK)
        return failed("join");
    bool unset = getenv("HOCKET_LAUNCH") == NULL;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (join(&other) == HK_OK)
            printf("fork: %d of %d %s\n", hki_boot_place(other)->rank, hki_boot_place(other)->ranks,
                   unset ? "unset" : "still set");
        fflush(stdout);
        execl(self, self, "rank", "alone", (char *)NULL);
    }
    int status;
    waitpid(child, &status, 0);
    hki_boot_leave(boot);
    return status != 0;
}

static int rank_alone(void)
{
    hki_boot *boot;
    if (join(&boot) != HK_OK)
        return failed("join");
    printf("alone: %d of %d\n", hki_boot_place(boot)->rank, hki_boot_place(boot)->ranks);
    hki_boot_leave(boot);
    return 0;
}

/* One exchange with a short time; what it fails with is printed. Rank 1 does something else, by mode. */
static int rank_missing(const char *mode)
{
    hki_boot *boot;
    char mine[2] = {0}, all[16];
    if (join(&boot) != HK_OK)
        return failed("join");
    bool odd = hki_boot_place(boot)->rank == 1;
    if (odd && strcmp(mode, "late") == 0)
        job_nap(1.5);
    if (odd && strcmp(mode, "leaves") == 0) {
        hki_boot_leave(boot);
        job_nap(0.5);
        return 0;
    }
    if (odd && strcmp(mode, "exits") == 0)
        return 0;
    size_t bytes = odd && strcmp(mode, "length") == 0 ? 2 : 1;
    hk_status status = hki_boot_exchange(boot, mine, bytes, all, strcmp(mode, "late") == 0 ? 0.3 : 8);
    if (status != HK_OK)
        printf("%s: %s\n", hk_status_name(status), hk_last_error());
    hki_boot_leave(boot);
    return 0;
}

static int rank_cpus(void)
{
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    printf("%d cpus, first %d\n", CPU_COUNT(&set), CPU_ISSET(0, &set) ? 0 : 1);
    return 0;
}

/* Whether hwloc is in this process. */
static bool hwloc_is_loaded(void)
{
    char line[4500];
    bool found = false;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        found |= strstr(line, "libhwloc") != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* What the context knows of the host, and how. */
static int rank_topology(void)
{
    hk_comm *comm;
    const hki_topology *topology, *again;
    if (hk_init(&comm) != HK_OK)
        return failed("hk_init");
    hki_context *context = comm->context;
    printf("%s, %s\n", context->packed_topology ? "handed on" : "not handed on", context->topology ? "read" : "unread");
    if (hki_context_topology(context, &topology) != HK_OK || hki_context_topology(context, &again) != HK_OK)
        return failed("topology");
    printf("%s\n", topology == again ? "kept" : "made twice");
    hki_topology_draw(topology, stdout);
    printf("hwloc %s\n", hwloc_is_loaded() ? "loaded" : "not loaded");
    hk_comm_free(comm);
    return 0;
}

static int rank_main(const char *mode)
{
    if (strcmp(mode, "topology") == 0)
        return rank_topology();
    if (strcmp(mode, "join") == 0)
        return rank_join();
    if (strcmp(mode, "children") == 0)
        return rank_children();
    if (strcmp(mode, "alone") == 0)
        return rank_alone();
    if (strcmp(mode, "cpus") == 0)
        return rank_cpus();
    return rank_missing(mode);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Starting and ending
 * ------------------------------------------------------------------------------------------------------------- */

static void a_program_that_knows_nothing_of_hocket_runs_n_times(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "5", "sh", "-c", "echo one; echo two >&2");
    assert_string_equal(ended.text[0].data, "one\none\none\none\none\n");
    assert_string_equal(ended.text[1].data, "two\ntwo\ntwo\ntwo\ntwo\n");
    job_free(&ended);
}

static void the_exit_status_of_the_first_failure_is_passed_on(void **state)
{
    (void)state;
    job ended;
    run(&ended, 7, "run", "-n", "3", self, "exit7-rank1");
    assert_true(has(&ended, 1, "hocket run: rank 1 ended: exit status 7\n"));
    assert_int_equal(lines(ended.text[1].data), 1);
    job_free(&ended);
    run(&ended, 128 + SIGABRT, "run", "-n", "3", self, "abort-rank2");
    assert_true(has(&ended, 1, "hocket run: rank 2 died: signal 6 (Aborted"));
    job_free(&ended);
}

static void the_rank_that_failed_first_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        job ended;
        /* All others fail as soon as they see rank 2 die, as after a lost peer. */
        run(&ended, 128 + SIGKILL, "run", "-n", "4", self, "die-first-rank2");
        assert_true(has(&ended, 1, "hocket run: rank 2 died: signal 9 (Killed)\n"));
        job_free(&ended);
    }
}

static void what_cannot_be_run_is_said(void **state)
{
    (void)state;
    job ended;
    run(&ended, 127, "run", "-n", "2", "no-such-program");
    assert_string_equal(ended.text[1].data, "hocket run: cannot run no-such-program: No such file or directory\n");
    job_free(&ended);
    run(&ended, 127, "run", "-n", "2", "./no/such/program");
    assert_true(has(&ended, 1, "No such file or directory"));
    job_free(&ended);
    run(&ended, 126, "run", "-n", "2", "/etc/passwd");
    assert_true(has(&ended, 1, "Permission denied"));
    job_free(&ended);
    char script[] = "/tmp/hocket-script-XXXXXX";
    int file = mkstemp(script);
    assert_int_equal(write(file, "#!/no/such/interpreter\n", 23), 23);
    fchmod(file, 0700);
    close(file);
    run(&ended, 127, "run", "-n", "2", script);
    unlink(script);
    assert_true(has(&ended, 1, "hocket run: cannot start rank "));
    assert_true(has(&ended, 1, "No such file or directory"));
    assert_int_equal(lines(ended.text[1].data), 1);
    job_free(&ended);
}

static void wrong_usage_is_status_2_and_says_what(void **state)
{
    (void)state;
    job ended;
    run(&ended, 2, "run", "-n", "0", "true");
    assert_true(has(&ended, 1, "1 to 4096"));
    job_free(&ended);
    run(&ended, 2, "run", "true");
    assert_true(has(&ended, 1, "-n"));
    job_free(&ended);
    run(&ended, 2, "run", "-n", "2");
    assert_true(has(&ended, 1, "program"));
    job_free(&ended);
    run(&ended, 2, "run", "-n", "2", "--bind", "socket", "true");
    assert_true(has(&ended, 1, "share, core or none"));
    job_free(&ended);
    run(&ended, 2, "rnu");
    assert_true(has(&ended, 1, "did you mean \"run\"?"));
    job_free(&ended);
    run(&ended, 0, "--version");
    assert_true(has(&ended, 0, hk_version(NULL, NULL, NULL)));
    job_free(&ended);
    run(&ended, 0, "--help");
    assert_true(has(&ended, 0, "  run "));
    job_free(&ended);
}

static void a_hundred_and_twenty_eight_ranks_start_and_end(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "128", "--tag-output", "/bin/echo", "here");
    assert_int_equal(lines(ended.text[0].data), 128);
    assert_true(has(&ended, 0, "[127] here\n"));
    job_free(&ended);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Input and output
 * ------------------------------------------------------------------------------------------------------------- */

enum { TALKERS = 6, LINES = 20000 };

/* Line k of every rank has k % 150 letters, so reads cut them everywhere. */
static int talk(void)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"
                                  "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz";
    for (int k = 0; k < LINES; k++)
        printf("%d %.*s\n", k, k % 150, letters);
    return 0;
}

static void lines_stay_whole_and_in_order(void **state)
{
    (void)state;
    job ended;
    int next[TALKERS] = {0};
    run(&ended, 0, "run", "-n", "6", "--tag-output", self, "talk");
    for (char *line = strtok(ended.text[0].data, "\n"); line; line = strtok(NULL, "\n")) {
        int rank, k, used;
        assert_int_equal(sscanf(line, "[%d] %d %n", &rank, &k, &used), 2);
        assert_in_range(rank, 0, TALKERS - 1);
        assert_int_equal(k, next[rank]);
        assert_int_equal(strlen(line + used), k % 150);
        next[rank]++;
    }
    for (int rank = 0; rank < TALKERS; rank++)
        assert_int_equal(next[rank], LINES);
    job_free(&ended);
}

static void an_unfinished_last_line_is_not_lost(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "2", "printf", "no newline");
    assert_string_equal(ended.text[0].data, "no newlineno newline");
    job_free(&ended);
    run(&ended, 0, "run", "-n", "1", "--tag-output", "printf", "a\\nb");
    assert_string_equal(ended.text[0].data, "[0] a\n[0] b\n");
    job_free(&ended);
}

static void a_line_longer_than_any_buffer_arrives(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "1", "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x");
    assert_int_equal(ended.text[0].bytes, 3000000);
    assert_int_equal(strspn(ended.text[0].data, "x"), 3000000);
    job_free(&ended);
}

static void standard_input_goes_to_rank_0_alone(void **state)
{
    (void)state;
    int input[2];
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(write(input[1], "question\n", 9), 9);
    close(input[1]);
    char *const arguments[] = {"hocket", "run", "-n", "3", "--tag-output", "sh", "-c", "cat; echo end", NULL};
    job ended = job_start_list(input[0], arguments);
    close(input[0]);
    assert_true(job_wait(&ended, 10 * JOB_SLOWER));
    assert_true(has(&ended, 0, "[0] question\n"));
    assert_int_equal(lines(ended.text[0].data), 4);
    assert_true(job_nothing_left(1));
    job_free(&ended);
}

static void a_slow_reader_delays_but_loses_nothing(void **state)
{
    (void)state;
    job ended = job_start("run", "-n", "4", "sh", "-c", "head -c 5000000 /dev/zero | tr '\\0' '\\n'");
    job_nap(0.4); /* 20 MB are to come, of which a few fit into pipes and buffers */
    assert_int_equal(waitpid(ended.guard, NULL, WNOHANG), 0);
    assert_true(job_wait(&ended, 20 * JOB_SLOWER));
    assert_int_equal(ended.text[0].bytes, 4 * 5000000);
    job_free(&ended);
    assert_true(job_nothing_left(1));
}

static void ranks_notice_that_nobody_reads(void **state)
{
    (void)state;
    job ended = job_start("run", "-n", "2", "yes");
    char some[100];
    assert_true(read(ended.fds[0], some, sizeof some) > 0);
    close(ended.fds[0]);
    ended.fds[0] = -1;
    assert_true(job_wait(&ended, 10 * JOB_SLOWER));
    assert_int_equal(exit_status(&ended), 128 + SIGPIPE);
    assert_true(job_nothing_left(1));
    job_free(&ended);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Joining
 * ------------------------------------------------------------------------------------------------------------- */

static void ranks_find_each_other_again_and_again(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "5", self, "rank", "join");
    assert_int_equal(lines(ended.text[0].data), 10);
    char *key = strstr(ended.text[0].data, "key 1 ");
    assert_non_null(key);
    char mark[9] = {0};
    memcpy(mark, key + 6, 8);
    for (int rank = 0; rank < 5; rank++) {
        char line[80];
        snprintf(line, sizeof line, "%d of 5 by hocket run key 1 %s\n", rank, mark);
        assert_true(has(&ended, 0, line));
    }
    job_free(&ended);
}

static void each_job_has_its_own_key(void **state)
{
    (void)state;
    job first, second;
    run(&first, 0, "run", "-n", "1", self, "rank", "join");
    run(&second, 0, "run", "-n", "1", self, "rank", "join");
    assert_string_not_equal(first.text[0].data, second.text[0].data);
    job_free(&first);
    job_free(&second);
}

static void programs_one_after_the_other_join_each(void **state)
{
    (void)state;
    job ended;
    char command[8300];
    snprintf(command, sizeof command, "'%s' rank join && '%s' rank join", self, self);
    run(&ended, 0, "run", "-n", "3", "sh", "-c", command);
    assert_int_equal(lines(ended.text[0].data), 12);
    job_free(&ended);
}

static void what_a_rank_starts_is_not_that_rank(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "2", self, "rank", "children");
    assert_true(has(&ended, 0, "fork: 0 of 1 unset\n"));
    assert_true(has(&ended, 0, "alone: 0 of 1\n"));
    assert_int_equal(lines(ended.text[0].data), 4);
    job_free(&ended);
}

static void a_descriptor_that_is_not_the_launchers_is_refused(void **state)
{
    (void)state;
    job ended;
    char command[8300];
    snprintf(command, sizeof command, "HOCKET_LAUNCH=77 '%s' rank alone; HOCKET_LAUNCH=1 '%s' rank alone", self, self);
    run(&ended, 1, "run", "-n", "1", "sh", "-c", command);
    assert_true(has(&ended, 0, "descriptor 77 (HOCKET_LAUNCH) is not the one that `hocket run` opened"));
    assert_true(has(&ended, 0, "descriptor 1 (HOCKET_LAUNCH)"));
    job_free(&ended);
}

/* Every one of the three ranks failed with HK_ERR_BOOTSTRAP and the text. */
static void assert_all_told(const job *ended, const char *text)
{
    for (int rank = 0; rank < 3; rank++) {
        char line[200];
        snprintf(line, sizeof line, "[%d] HK_ERR_BOOTSTRAP: %s", rank, text);
        assert_true(has(ended, 0, line));
    }
}

static void a_rank_that_is_late_is_named_to_all(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "3", "--tag-output", self, "rank", "late");
    assert_all_told(&ended, "rank 1 of 3 did not arrive before the time of rank");
    job_free(&ended);
}

static void a_rank_that_gives_up_frees_the_others(void **state)
{
    (void)state;
    job ended;
    double start = job_seconds();
    run(&ended, 0, "run", "-n", "3", "--tag-output", self, "rank", "leaves");
    assert_true(job_seconds() - start < 5);
    assert_true(has(&ended, 0, "[0] HK_ERR_BOOTSTRAP: "));
    assert_true(has(&ended, 0, "[2] HK_ERR_BOOTSTRAP: "));
    assert_true(has(&ended, 0, "rank 1 ended, or gave up"));
    job_free(&ended);
}

static void a_rank_that_ends_well_without_joining_is_named(void **state)
{
    (void)state;
    job ended;
    double start = job_seconds();
    run(&ended, 1, "run", "-n", "3", "--tag-output", self, "rank", "exits");
    assert_true(job_seconds() - start < 5);
    assert_true(has(&ended, 0, "HK_ERR_BOOTSTRAP: "));
    assert_true(has(&ended, 1, "hocket run: rank 1 ended without joining the job"));
    job_free(&ended);
}

static void records_of_different_lengths_are_an_error(void **state)
{
    (void)state;
    job ended;
    run(&ended, 0, "run", "-n", "3", "--tag-output", self, "rank", "length");
    assert_all_told(&ended, "ranks gave records of different lengths");
    job_free(&ended);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Binding
 * ------------------------------------------------------------------------------------------------------------- */

static void ranks_are_bound_as_asked(void **state)
{
    (void)state;
    job ended;
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    if (CPU_COUNT(&set) < 2)
        skip();
    run(&ended, 0, "run", "-n", "2", "--bind", "core", self, "rank", "cpus");
    assert_int_equal(lines(ended.text[0].data), 2);
    assert_null(strstr(ended.text[0].data, "2 cpus"));
    assert_true(has(&ended, 0, "1 cpus"));
    job_free(&ended);
    char all[32];
    snprintf(all, sizeof all, "%d cpus", CPU_COUNT(&set));
    run(&ended, 0, "run", "-n", "2", "--bind=none", self, "rank", "cpus");
    assert_true(has(&ended, 0, all));
    job_free(&ended);
    run(&ended, 0, "run", "-n", "1", self, "rank", "cpus");
    assert_true(has(&ended, 0, all));
    job_free(&ended);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Topology
 * ------------------------------------------------------------------------------------------------------------- */

/* What a rank in mode topology prints. */
static char *expected_topology(const char *first_line, hk_status (*load)(hki_topology **))
{
    char *text = NULL;
    size_t bytes;
    hki_topology *topology;
    assert_int_equal(load(&topology), HK_OK);
    FILE *file = open_memstream(&text, &bytes);
    fprintf(file, "%s\nkept\n", first_line);
    hki_topology_draw(topology, file);
    fprintf(file, "hwloc not loaded\n");
    fclose(file);
    hki_topology_free(topology);
    return text;
}

static void ranks_know_the_host_as_the_launcher_read_it(void **state)
{
    (void)state;
    job ended;
    char *expected = expected_topology("handed on, read", hki_topology_load);
    run(&ended, 0, "run", "-n", "1", "--bind", "core", self, "rank", "topology");
    assert_string_equal(ended.text[0].data, expected);
    size_t one = ended.text[0].bytes;
    job_free(&ended);
    run(&ended, 0, "run", "-n", "3", self, "rank", "topology");
    assert_int_equal(ended.text[0].bytes, 3 * one);
    job_free(&ended);
    free(expected);
}

static void a_program_alone_reads_the_host_when_asked(void **state)
{
    (void)state;
    job ended;
    char command[8300];
    char *expected = expected_topology("not handed on, unread", hki_topology_load_system);
    snprintf(command, sizeof command, "unset HOCKET_LAUNCH; exec '%s' rank topology", self);
    run(&ended, 0, "run", "-n", "1", "sh", "-c", command);
    assert_string_equal(ended.text[0].data, expected);
    job_free(&ended);
    free(expected);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Programs that need their rank but not the others
 * ------------------------------------------------------------------------------------------------------------- */

static int own_rank(void)
{
    hki_boot *boot;
    if (join(&boot) != HK_OK)
        return -1;
    int rank = hki_boot_place(boot)->rank;
    hki_boot_leave(boot);
    return rank;
}

/* Rank 2 dies, holding the write end of a pipe that all others read; they fail the moment it closes. */
static int die_first(void)
{
    hki_boot *boot;
    char path[64] = "", all[4][64];
    if (join(&boot) != HK_OK)
        return 5;
    int rank = hki_boot_place(boot)->rank, ends[2];
    if (rank == 2 && pipe(ends) == 0)
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), ends[0]);
    if (hki_boot_exchange(boot, path, sizeof path, all, 10) != HK_OK)
        return 5;
    int pipe_end = rank == 2 ? -1 : open(all[2], O_RDONLY);
    if (hki_boot_exchange(boot, path, sizeof path, all, 10) != HK_OK)
        return 5;
    hki_boot_leave(boot);
    if (rank == 2)
        kill(getpid(), SIGKILL);
    char byte;
    return read(pipe_end, &byte, 1) == 0 ? 3 : 5;
}

static int program_main(const char *what)
{
    if (strcmp(what, "talk") == 0)
        return talk();
    if (strcmp(what, "die-first-rank2") == 0)
        return die_first();
    int rank = own_rank();
    if (strcmp(what, "exit7-rank1") == 0 && rank == 1)
        return 7;
    if (strcmp(what, "abort-rank2") == 0 && rank == 2)
        abort();
    if (rank < 0)
        return 5;
    pause(); /* until the launcher ends this rank */
    return 5;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "rank") == 0) {
        int status;
        if (!realpath(argv[0], self))
            return 5;
        status = rank_main(argv[2]);
        fflush(stdout);
        return status;
    }
    if (argc == 2)
        return program_main(argv[1]);
    if (!realpath("/proc/self/exe", self))
        return 5;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_that_knows_nothing_of_hocket_runs_n_times),
        cmocka_unit_test(the_exit_status_of_the_first_failure_is_passed_on),
        cmocka_unit_test(the_rank_that_failed_first_is_named),
        cmocka_unit_test(what_cannot_be_run_is_said),
        cmocka_unit_test(wrong_usage_is_status_2_and_says_what),
        cmocka_unit_test(a_hundred_and_twenty_eight_ranks_start_and_end),
        cmocka_unit_test(lines_stay_whole_and_in_order),
        cmocka_unit_test(an_unfinished_last_line_is_not_lost),
        cmocka_unit_test(a_line_longer_than_any_buffer_arrives),
        cmocka_unit_test(standard_input_goes_to_rank_0_alone),
        cmocka_unit_test(a_slow_reader_delays_but_loses_nothing),
        cmocka_unit_test(ranks_notice_that_nobody_reads),
        cmocka_unit_test(ranks_find_each_other_again_and_again),
        cmocka_unit_test(each_job_has_its_own_key),
        cmocka_unit_test(programs_one_after_the_other_join_each),
        cmocka_unit_test(what_a_rank_starts_is_not_that_rank),
        cmocka_unit_test(a_descriptor_that_is_not_the_launchers_is_refused),
        cmocka_unit_test(a_rank_that_is_late_is_named_to_all),
        cmocka_unit_test(a_rank_that_gives_up_frees_the_others),
        cmocka_unit_test(a_rank_that_ends_well_without_joining_is_named),
        cmocka_unit_test(records_of_different_lengths_are_an_error),
        cmocka_unit_test(ranks_are_bound_as_asked),
        cmocka_unit_test(ranks_know_the_host_as_the_launcher_read_it),
        cmocka_unit_test(a_program_alone_reads_the_host_when_asked),
    };
    return cmocka_run_group_tests_name("hocket run", tests, NULL, NULL);
}
