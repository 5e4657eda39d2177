/* hocket run when something is killed: whatever dies, and whenever, nothing of the job is left a second later. */
#include "tests/multi/job.h"

#include <ctype.h>
#include <dirent.h>
#include <setjmp.h>

#include <cmocka.h>

/* A rank with a child in its session, one in a session of its own, and one that ignores SIGTERM; all of them say where
 * they are by holding the job's output open. */
static char family[] = "sleep 100 & setsid sleep 100 & (trap '' TERM; sleep 100; sleep 100) & sleep 100; sleep 100";

static bool wait_nothing_left(void)
{
    return job_nothing_left(1.0 * JOB_SLOWER);
}

/* Pids below `parent` (0 … count-1), at most capacity of them. */
static size_t children_of(pid_t parent, pid_t *pids, size_t capacity)
{
    size_t count = 0;
    DIR *directory = opendir("/proc");
    for (const struct dirent *entry = readdir(directory); entry; entry = readdir(directory)) {
        char path[300], text[512];
        pid_t above = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = isdigit((unsigned char)entry->d_name[0]) ? fopen(path, "r") : NULL;
        if (!file)
            continue;
        const char *end = fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
        fclose(file);
        if (end && sscanf(end + 1, " %*c %d", &above) == 1 && above == parent && count < capacity)
            pids[count++] = (pid_t)atoi(entry->d_name);
    }
    closedir(directory);
    return count;
}

/* The process that serves the ranks: the guard's one child. 0 while there is none. */
static pid_t worker_of(const job *running)
{
    pid_t worker = 0;
    children_of(running->guard, &worker, 1);
    return worker;
}

typedef enum victim { GUARD, WORKER, RANK } victim;

/* Kills one of the processes of a job at a random moment of its first 150 ms. Before it exists there is nothing to
 * kill: then the guard is the victim. */
static void kill_at_random(victim whom, unsigned *seed)
{
    job running = job_start("run", "-n", "4", "sh", "-c", family);
    job_nap(rand_r(seed) % 150 * 0.001);
    pid_t worker = worker_of(&running), ranks[8];
    size_t count = worker ? children_of(worker, ranks, 8) : 0;
    pid_t target = running.guard;
    if (whom == WORKER && worker)
        target = worker;
    if (whom == RANK && count > 0)
        target = ranks[(unsigned)rand_r(seed) % count];
    kill(target, SIGKILL);
    double killed = job_seconds();
    assert_true(job_wait(&running, 5 * JOB_SLOWER));
    assert_true(wait_nothing_left());
    if (job_seconds() - killed > 1.0 * JOB_SLOWER)
        print_error("killing the %s: gone after %.2f s\n",
                    whom == GUARD    ? "guard"
                    : whom == WORKER ? "worker"
                                     : "rank",
                    job_seconds() - killed);
    assert_true(job_seconds() - killed <= 1.0 * JOB_SLOWER);
    if (target == running.guard)
        assert_true(WIFSIGNALED(running.status));
    else if (target == worker)
        assert_non_null(strstr(running.text[1].data, "the process that served the ranks died: signal 9 (Killed)"));
    job_free(&running);
}

static void nothing_is_left_when_the_launcher_is_killed(void **state)
{
    unsigned *seed = *state;
    for (int i = 0; i < 17; i++)
        kill_at_random(GUARD, seed);
}

static void nothing_is_left_when_the_worker_is_killed(void **state)
{
    unsigned *seed = *state;
    for (int i = 0; i < 17; i++)
        kill_at_random(WORKER, seed);
}

static void nothing_is_left_when_a_rank_is_killed(void **state)
{
    unsigned *seed = *state;
    for (int i = 0; i < 16; i++)
        kill_at_random(RANK, seed);
}

/* Starts a job whose ranks have said "up". */
#define start_up(running, count, ...)                                                                                  \
    do {                                                                                                               \
        *(running) = job_start(__VA_ARGS__);                                                                           \
        int seen = 0;                                                                                                  \
        while (seen < (count)) {                                                                                       \
            job_read(running, 0);                                                                                      \
            assert_true((running)->fds[0] >= 0);                                                                       \
            seen = (int)(running)->text[0].bytes / 3;                                                                  \
        }                                                                                                              \
    } while (0)

static void a_signal_to_the_launcher_ends_the_job(void **state)
{
    (void)state;
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (int i = 0; i < 4; i++) {
        job running;
        start_up(&running, 3, "run", "-n", "3", "sh", "-c", "echo up; sleep 100 & sleep 100");
        kill(running.guard, signals[i]);
        assert_true(job_wait(&running, 2 * JOB_SLOWER));
        if (signals[i] == SIGQUIT)
            assert_int_equal(WEXITSTATUS(running.status), 128 + SIGQUIT);
        else
            assert_true(WIFSIGNALED(running.status) && WTERMSIG(running.status) == signals[i]);
        assert_non_null(strstr(running.text[1].data, "hocket run: interrupted by signal"));
        assert_true(wait_nothing_left());
        job_free(&running);
    }
}

static void ranks_may_tidy_up_on_sigterm(void **state)
{
    (void)state;
    job running;
    start_up(&running, 2, "run", "-n", "2", "sh", "-c",
             "trap 'echo tidied; exit 0' TERM; echo up; while :; do sleep 0.01; done");
    kill(running.guard, SIGTERM);
    assert_true(job_wait(&running, 2 * JOB_SLOWER));
    assert_non_null(strstr(running.text[0].data, "tidied\ntidied\n"));
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void a_rank_that_ignores_sigterm_is_killed_after_the_grace(void **state)
{
    (void)state;
    job running;
    start_up(&running, 2, "run", "-n", "2", "--grace", "0.3", "sh", "-c",
             "trap '' TERM; echo up; sleep 100; sleep 100");
    kill(running.guard, SIGTERM);
    double start = job_seconds();
    assert_true(job_wait(&running, 3 * JOB_SLOWER));
    assert_true(job_seconds() - start > 0.25);
    assert_non_null(strstr(running.text[1].data, "did not end on SIGTERM within 0.3 s: killed"));
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void a_second_signal_ends_the_grace(void **state)
{
    (void)state;
    job running;
    start_up(&running, 2, "run", "-n", "2", "--grace", "60", "sh", "-c", "trap '' TERM; echo up; sleep 100; sleep 100");
    kill(running.guard, SIGINT);
    job_nap(0.4);
    kill(running.guard, SIGINT);
    assert_true(job_wait(&running, 2 * JOB_SLOWER));
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void a_stopped_rank_ends_too(void **state)
{
    (void)state;
    job running;
    start_up(&running, 2, "run", "-n", "2", "sh", "-c", "echo up; kill -STOP $$");
    kill(running.guard, SIGTERM);
    assert_true(job_wait(&running, 2 * JOB_SLOWER));
    assert_true(wait_nothing_left());
    job_free(&running);
}

/* As from a shell with job control: the job stops as a whole and goes on as a whole. */
static void a_stopped_launcher_stops_its_ranks(void **state)
{
    (void)state;
    job running;
    int status;
    start_up(&running, 2, "run", "-n", "2", "sh", "-c", "echo up; sleep 0.2; echo on");
    kill(running.guard, SIGTSTP);
    assert_int_equal(waitpid(running.guard, &status, WUNTRACED), running.guard);
    assert_true(WIFSTOPPED(status));
    job_nap(0.5);
    struct pollfd output = {.fd = running.fds[0], .events = POLLIN};
    assert_int_equal(poll(&output, 1, 0), 0); /* the ranks stand still, too */
    kill(running.guard, SIGCONT);
    assert_true(job_wait(&running, 3 * JOB_SLOWER));
    assert_int_equal(running.status, 0);
    assert_string_equal(running.text[0].data, "up\nup\non\non\n");
    assert_true(wait_nothing_left());
    job_free(&running);
}

/* Reads the terminal until the text comes; false after 5 s. */
static bool terminal_says(int terminal, const char *text)
{
    char seen[4096] = "";
    size_t bytes = 0;
    double deadline = job_seconds() + 5 * JOB_SLOWER;
    while (!strstr(seen, text) && job_seconds() < deadline && bytes < sizeof seen - 1) {
        struct pollfd polled = {.fd = terminal, .events = POLLIN};
        if (poll(&polled, 1, 100) <= 0)
            continue;
        ssize_t got = read(terminal, seen + bytes, sizeof seen - 1 - bytes);
        if (got <= 0)
            break;
        bytes += (size_t)got;
        seen[bytes] = '\0';
    }
    return strstr(seen, text) != NULL;
}

static void rank_0_reads_the_terminal_and_ctrl_c_ends_the_job(void **state)
{
    (void)state;
    int terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), status;
    assert_true(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    pid_t guard = fork();
    if (guard == 0) {
        setsid();
        int side = open(ptsname(terminal), O_RDWR); /* becomes the controlling terminal */
        for (int fd = 0; fd < 3; fd++)
            dup2(side, fd);
        execl(HOCKET_PROGRAM, "hocket", "run", "-n", "2", "--tag-output", "sh", "-c",
              "read line && echo \"got $line\"; sleep 100", (char *)NULL);
        _exit(99);
    }
    assert_int_equal(write(terminal, "word\n", 5), 5);
    assert_true(terminal_says(terminal, "[0] got word"));
    assert_int_equal(write(terminal, "\x03", 1), 1);
    assert_true(terminal_says(terminal, "interrupted by signal 2"));
    double deadline = job_seconds() + 2 * JOB_SLOWER;
    while (waitpid(guard, &status, WNOHANG) == 0) {
        assert_true(job_seconds() < deadline);
        job_nap(0.005);
    }
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
    assert_true(wait_nothing_left());
    close(terminal);
}

static void the_time_limit_ends_the_job(void **state)
{
    (void)state;
    double start = job_seconds();
    job running = job_start("run", "-n", "3", "--timeout", "0.3", "sh", "-c", family);
    assert_true(job_wait(&running, 3 * JOB_SLOWER));
    assert_true(job_seconds() - start >= 0.3);
    assert_int_equal(WEXITSTATUS(running.status), 124);
    assert_non_null(strstr(running.text[1].data, "hocket run: the time of 0.3 s is up; still running: ranks 0-2"));
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void the_time_limit_holds_when_nobody_reads(void **state)
{
    (void)state;
    job running = job_start("run", "-n", "2", "--timeout", "0.5", "yes");
    siginfo_t info = {0};
    double deadline = job_seconds() + 5 * JOB_SLOWER;
    while (waitid(P_PID, (id_t)running.guard, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        assert_true(job_seconds() < deadline);
        job_nap(0.01);
    }
    assert_true(job_wait(&running, 2 * JOB_SLOWER));
    assert_int_equal(WEXITSTATUS(running.status), 124);
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void what_a_rank_leaves_running_ends_with_the_job(void **state)
{
    (void)state;
    double start = job_seconds();
    job running =
        job_start("run", "-n", "2", "sh", "-c", "(trap '' TERM; setsid sleep 100) & setsid sleep 100 & echo done");
    assert_true(job_wait(&running, 3 * JOB_SLOWER));
    assert_true(job_seconds() - start < 2 * JOB_SLOWER);
    assert_int_equal(WEXITSTATUS(running.status), 0);
    assert_string_equal(running.text[0].data, "done\ndone\n");
    assert_true(wait_nothing_left());
    job_free(&running);
}

static void others_go_on_when_asked_to(void **state)
{
    (void)state;
    int input[2];
    assert_int_equal(pipe2(input, O_CLOEXEC), 0);
    assert_int_equal(write(input[1], "x\n", 2), 2);
    close(input[1]);
    /* Rank 0 alone has something to read. */
    char *const arguments[] = {
        "hocket", "run", "-n", "3", "--keep-going", "sh", "-c", "read line && kill -9 $$; sleep 0.3; echo through",
        NULL};
    job running = job_start_list(input[0], arguments);
    close(input[0]);
    assert_true(job_wait(&running, 3 * JOB_SLOWER));
    assert_int_equal(WEXITSTATUS(running.status), 128 + SIGKILL);
    assert_string_equal(running.text[0].data, "through\nthrough\n");
    assert_string_equal(running.text[1].data, "hocket run: rank 0 died: signal 9 (Killed)\n");
    assert_true(wait_nothing_left());
    job_free(&running);
}

int main(void)
{
    unsigned seed = (unsigned)hki_now();
    print_message("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(nothing_is_left_when_the_launcher_is_killed, &seed),
        cmocka_unit_test_prestate(nothing_is_left_when_the_worker_is_killed, &seed),
        cmocka_unit_test_prestate(nothing_is_left_when_a_rank_is_killed, &seed),
        cmocka_unit_test(a_signal_to_the_launcher_ends_the_job),
        cmocka_unit_test(ranks_may_tidy_up_on_sigterm),
        cmocka_unit_test(a_rank_that_ignores_sigterm_is_killed_after_the_grace),
        cmocka_unit_test(a_second_signal_ends_the_grace),
        cmocka_unit_test(a_stopped_rank_ends_too),
        cmocka_unit_test(a_stopped_launcher_stops_its_ranks),
        cmocka_unit_test(rank_0_reads_the_terminal_and_ctrl_c_ends_the_job),
        cmocka_unit_test(the_time_limit_ends_the_job),
        cmocka_unit_test(the_time_limit_holds_when_nobody_reads),
        cmocka_unit_test(what_a_rank_leaves_running_ends_with_the_job),
        cmocka_unit_test(others_go_on_when_asked_to),
    };
    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}
