#include "ranks.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

/* --- checks ----------------------------------------------------------------------------------------------------------
 */

static _Thread_local int this_rank = -1;

_Noreturn void ranks_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: rank %d: does not hold: %s (last error: %s)\n", file, line, this_rank, what,
            hk_last_error());
    _exit(RANKS_FAILED);
}

void ranks_expect_status(const char *file, int line, const char *call, hk_status status, hk_status wanted)
{
    if (status == wanted)
        return;
    char what[600];
    snprintf(what, sizeof what, "%s is %s, not %s", call, hk_status_name(status), hk_status_name(wanted));
    ranks_fail(file, line, what);
}

void ranks_expect_text(const char *file, int line, const char *text, const char *part)
{
    if (strstr(text, part))
        return;
    char what[800];
    snprintf(what, sizeof what, "\"%s\" names \"%s\"", text, part);
    ranks_fail(file, line, what);
}

/* --- a store in shared memory ----------------------------------------------------------------------------------------
 */

enum { STORE_BYTES = 24 << 20, STORE_KEY = 96 };

/* Entries lie behind one another; each is complete before `used` grows past it. */
typedef struct entry {
    char key[STORE_KEY];
    size_t bytes;
    char value[];
} entry;

typedef struct shared_store {
    _Atomic size_t used;
    atomic_flag lock;
    _Alignas(64) char data[];
} shared_store;

static const entry *find(shared_store *store, const char *key, size_t *from)
{
    size_t used = atomic_load(&store->used);
    while (*from < used) {
        const entry *one = (const entry *)(const void *)(store->data + *from);
        if (strcmp(one->key, key) == 0)
            return one;
        *from += (sizeof *one + one->bytes + 63) / 64 * 64;
    }
    return NULL;
}

static hk_status store_set(void *context, const char *key, const void *value, size_t bytes)
{
    shared_store *store = context;
    size_t from = 0, room = (sizeof(entry) + bytes + 63) / 64 * 64;
    while (atomic_flag_test_and_set(&store->lock))
        sched_yield();
    hk_status status = find(store, key, &from) ? HK_ERR_REFUSED : HK_OK;
    size_t used = atomic_load(&store->used);
    if (status == HK_OK && (used + room > STORE_BYTES - sizeof *store || strlen(key) >= STORE_KEY))
        status = HK_ERR_NO_MEMORY;
    if (status == HK_OK) {
        entry *one = (entry *)(void *)(store->data + used);
        strcpy(one->key, key);
        one->bytes = bytes;
        memcpy(one->value, value, bytes);
        atomic_store(&store->used, used + room);
    }
    atomic_flag_clear(&store->lock);
    return status;
}

static hk_status store_get(void *context, const char *key, void *value, size_t *bytes, double timeout)
{
    shared_store *store = context;
    size_t from = 0;
    double end = ranks_seconds() + timeout;
    const entry *one;
    for (int turn = 0; !(one = find(store, key, &from)); turn++) {
        if (ranks_seconds() > end)
            return HK_ERR_TIMEOUT;
        if (turn < 50)
            sched_yield();
        else
            ranks_nap(0.0002);
    }
    if (one->bytes > *bytes)
        return HK_ERR_TRUNCATED;
    memcpy(value, one->value, one->bytes);
    *bytes = one->bytes;
    return HK_OK;
}

hk_store *ranks_store_new(void)
{
    hk_store *store = ranks_shared(sizeof *store); /* or leak checkers in ranks would miss who refers to it */
    *store =
        (hk_store){.size = sizeof *store, .context = ranks_shared(STORE_BYTES), .set = store_set, .get = store_get};
    return store;
}

void ranks_store_clear(hk_store *store)
{
    atomic_store(&((shared_store *)store->context)->used, 0);
}

void ranks_store_free(hk_store *store)
{
    munmap(store->context, STORE_BYTES);
    munmap(store, sizeof *store);
}

hk_options ranks_join(int rank, int ranks, const hk_store *store)
{
    static const unsigned char key[32] = "the key of every test's job, 32B";
    hk_options options = HK_OPTIONS_INIT;
    options.rank = rank;
    options.ranks = ranks;
    options.store = store;
    options.key = key;
    options.key_bytes = sizeof key;
    return options;
}

/* --- running ---------------------------------------------------------------------------------------------------------
 */

static void apply_settings(const char *settings)
{
    char copy[512], *rest = copy;
    snprintf(copy, sizeof copy, "%s", settings ? settings : "");
    for (char *one; (one = strtok_r(rest, " ", &rest)) != NULL;) {
        char *value = strchr(one, '=');
        if (!value)
            abort();
        *value++ = '\0';
        setenv(one, value, 1);
    }
}

static int run_rank(int rank, int ranks, const ranks_options *options, const hk_store *store, ranks_body *body,
                    void *argument)
{
    hk_comm *comm = NULL;
    this_rank = rank;
    if (!options->no_context) {
        hk_options join = ranks_join(rank, ranks, store);
        join.threads = options->threads;
        if (options->timeout > 0)
            join.timeout = options->timeout * ranks_slower();
        EXPECT_OK(hk_comm_create(&join, &comm));
    }
    int result = body(comm, rank, argument);
    if (result == RANKS_FREED)
        return 0;
    if (comm)
        EXPECT_OK(hk_comm_free(comm));
    return result;
}

/* cmocka's handlers would go on with the parent's tests in a rank that crashes. */
static void forget_handlers(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

static const ranks_options no_options;

void ranks_start(ranks_job *job, int ranks, const ranks_options *options, ranks_body *body, void *argument)
{
    options = options ? options : &no_options;
    memset(job, 0, sizeof *job);
    job->ranks = ranks;
    job->store = ranks_store_new();
    fflush(NULL);
    for (int rank = 0; rank < ranks; rank++) {
        job->pids[rank] = fork();
        if (job->pids[rank] < 0)
            abort();
        if (job->pids[rank] > 0)
            continue;
        forget_handlers();
        alarm((unsigned)((RANKS_SANITIZED ? 3 : 1) * RANKS_SECONDS * ranks_slower()));
        apply_settings(options->settings);
        exit(run_rank(rank, ranks, options, job->store, body, argument));
    }
}

int ranks_wait(ranks_job *job)
{
    int failed = 0;
    for (int rank = 0; rank < job->ranks; rank++) {
        if (waitpid(job->pids[rank], &job->status[rank], 0) != job->pids[rank])
            abort();
        failed += job->status[rank] != 0;
        if (WIFSIGNALED(job->status[rank]) && WTERMSIG(job->status[rank]) == SIGALRM)
            fprintf(stderr, "rank %d hung\n", rank);
        else if (WIFSIGNALED(job->status[rank]) && WTERMSIG(job->status[rank]) != SIGKILL)
            fprintf(stderr, "rank %d died of signal %d\n", rank, WTERMSIG(job->status[rank]));
    }
    ranks_store_free(job->store);
    return failed;
}

int ranks_run(int ranks, const ranks_options *options, ranks_body *body, void *argument)
{
    ranks_job job;
    ranks_start(&job, ranks, options, body, argument);
    return ranks_wait(&job);
}

typedef struct thread_rank {
    int rank, ranks, result;
    const ranks_options *options;
    const hk_store *store;
    ranks_body *body;
    void *argument;
    pthread_t thread;
} thread_rank;

static void *run_thread(void *argument)
{
    thread_rank *one = argument;
    one->result = run_rank(one->rank, one->ranks, one->options, one->store, one->body, one->argument);
    return NULL;
}

int ranks_run_threads(int ranks, const ranks_options *options, ranks_body *body, void *argument)
{
    static thread_rank all[RANKS_MOST];
    hk_store *store;
    int failed = 0;
    if (hk_store_local(&store) != HK_OK)
        abort();
    for (int rank = 0; rank < ranks; rank++) {
        all[rank] = (thread_rank){.rank = rank,
                                  .ranks = ranks,
                                  .options = options ? options : &no_options,
                                  .store = store,
                                  .body = body,
                                  .argument = argument};
        if (pthread_create(&all[rank].thread, NULL, run_thread, &all[rank]) != 0)
            abort();
    }
    for (int rank = 0; rank < ranks; rank++) {
        pthread_join(all[rank].thread, NULL);
        failed += all[rank].result != 0;
    }
    hk_store_free(store);
    return failed;
}

/* --- measuring -------------------------------------------------------------------------------------------------------
 */

void *ranks_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    return memory;
}

void *ranks_take(hk_comm *comm, size_t bytes, bool mapped)
{
    void *memory = NULL;
    if (mapped)
        EXPECT_OK(hk_alloc(comm, bytes, &memory));
    else
        EXPECT((memory = malloc(bytes)) != NULL);
    memset(memory, 0, bytes);
    return memory;
}

void ranks_give(hk_comm *comm, void *memory, size_t bytes, bool mapped)
{
    memset(memory, 0xa5, bytes);
    if (mapped)
        EXPECT_OK(hk_free(comm, memory));
    else
        free(memory);
}

void ranks_meet(int *place, int ranks)
{
    int ticket = __atomic_fetch_add(place, 1, __ATOMIC_SEQ_CST), all = (ticket / ranks + 1) * ranks;
    for (double end = ranks_seconds() + 20 * ranks_slower();
         __atomic_load_n(place, __ATOMIC_SEQ_CST) < all && ranks_seconds() < end;)
        ranks_nap(0.0005);
}

int ranks_slower(void)
{
    const char *slower = getenv("CONFORMANCE_SLOWER");
    int times = slower ? (int)strtol(slower, NULL, 10) : 1;
    return times > 0 ? times : 1;
}

double ranks_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void ranks_nap(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
    while (nanosleep(&time, &time) != 0)
        ;
}

static long status_field(pid_t pid, const char *name)
{
    char path[64], line[256];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)(pid ? pid : getpid()));
    FILE *file = fopen(path, "re");
    size_t length = strlen(name);
    while (file && value < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0)
            value = atol(line + length);
    }
    if (file)
        fclose(file);
    return value;
}

long ranks_resident(pid_t pid)
{
    return status_field(pid, "RssAnon:");
}

int ranks_threads(void)
{
    ranks_nap(0.05); /* one that was joined counts for a moment more: the kernel wakes who waits for it first */
    return (int)status_field(0, "Threads:");
}

int ranks_descriptors(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count - 3; /* ".", ".." and the directory itself */
}
