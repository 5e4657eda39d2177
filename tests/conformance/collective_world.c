#include "collective_world.h"

#include "base/settings.h"
#include "comm/comm.h"
#include "comm/transports.h"
#include "cost/select.h"

#include <signal.h>
#include <sys/mman.h>

const world_way world_ways[] = {
    {.name = "shm", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm", .hosts = 1, .whole = true},
    {.name = "stream", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm HOCKET_PROTOCOL=stream", .hosts = 1},
    {.name = "get", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm HOCKET_PROTOCOL=get", .hosts = 1},
    {.name = "mapped", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm", .hosts = 1, .mapped = true},
    {.name = "unasked_little", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm HOCKET_EAGER=64", .hosts = 1},
    {.name = "verified", .needs = "shm", .settings = "HOCKET_TRANSPORT=shm HOCKET_VERIFY=1", .hosts = 1},
    {.name = "tcp", .needs = "tcp", .settings = "HOCKET_TRANSPORT=tcp", .hosts = 1},
#ifdef HKI_HAVE_OPENSSL
    {.name = "tls", .needs = "tcp", .settings = "HOCKET_TRANSPORT=tcp HOCKET_TLS=required", .hosts = 1},
#endif
    {.name = "mixed", .needs = "shm tcp", .settings = "HOCKET_TRANSPORT=shm,tcp", .hosts = 2},
    {.name = "interleaved",
     .needs = "shm tcp",
     .settings = "HOCKET_TRANSPORT=shm,tcp",
     .hosts = 3,
     .interleaved = true},
    {.name = "2x2", .needs = "shm tcp", .settings = "HOCKET_TRANSPORT=shm,tcp", .hosts = 2, .only = 4},
    {.name = "3x2", .needs = "shm tcp", .settings = "HOCKET_TRANSPORT=shm,tcp", .hosts = 3, .only = 6},
    {.name = "1+3", .needs = "shm tcp", .settings = "HOCKET_TRANSPORT=shm,tcp", .hosts = 2, .apart = true, .only = 4},
    {.name = "emulated", .needs = "", .settings = "", .hosts = 1, .slow = true},
};
const size_t world_way_count = sizeof world_ways / sizeof *world_ways;

/* What the cases of DRAW_LARGE need in the worst case: two sides of 4 ranks' blocks, and their pictures. */
enum { ARENA_BYTES = 48 << 20 };

/* --- which ways there are --------------------------------------------------------------------------------------------
 */

/* Whether a list, separated by blanks or commas, has the word. */
static bool lists(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, " ,"), at += strspn(at, " ,")) {
        if (strncmp(at, word, length) == 0 && strcspn(at, " ,") == length)
            return true;
    }
    return false;
}

static bool is_built(const char *needs)
{
    char copy[64], *rest = copy;
    snprintf(copy, sizeof copy, "%s", needs);
    for (char *name; (name = strtok_r(rest, " ", &rest)) != NULL;) {
        const hk_transport_ops *const *one = hki_transports_all();
        while (*one && strcmp((*one)->name, name) != 0)
            one++;
        if (!*one)
            return false;
    }
    return true;
}

bool world_way_wanted(const world_way *way)
{
    static bool said[sizeof world_ways / sizeof *world_ways];
    const char *wanted = getenv("CONFORMANCE_WAYS");
    if (wanted ? !lists(wanted, way->name) : way->slow)
        return false;
    if (is_built(way->needs))
        return true;
    if (!said[way - world_ways])
        fprintf(stderr, "%s: left out, since this build lacks one of: %s\n", way->name, way->needs);
    said[way - world_ways] = true;
    return false;
}

bool world_everything(void)
{
    const char *all = getenv("CONFORMANCE_ALL");
    return all && strcmp(all, "0") != 0;
}

uint64_t world_seed(void)
{
    const char *seed = getenv("CONFORMANCE_SEED");
    return seed ? strtoull(seed, NULL, 0) : 1;
}

/* --- jobs ------------------------------------------------------------------------------------------------------------
 */

typedef struct world_job {
    const world_way *way;
    int ranks;
    hk_store *store;
    world_body *body;
    void *argument;
} world_job;

/* Consecutive ranks on a host, unevenly where the number does not divide: 3 and 2; or in turn; or rank 0 alone. */
static void choose_host(const world_way *way, int rank, int ranks)
{
    char name[16];
    int share = (ranks + way->hosts - 1) / way->hosts;
    snprintf(name, sizeof name, "host%d", way->apart ? rank != 0 : way->interleaved ? rank % way->hosts : rank / share);
    if (way->hosts > 1)
        setenv("HOCKET_HOST", name, 1);
}

static void make_arena(world_rank *self)
{
    void *memory;
    self->arena.bytes = ARENA_BYTES;
    if (self->way->mapped) {
        EXPECT_OK(hk_alloc(self->comm, ARENA_BYTES, &memory));
    } else {
        memory = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        EXPECT(memory != MAP_FAILED);
    }
    self->arena.memory = memory;
}

/* The same on all ranks, though their links may differ; one rank alone has none. */
static size_t find_eager(hk_comm *comm)
{
    uint64_t eager = hk_comm_size(comm) > 1 ? comm->context->eager : 8192;
    EXPECT_OK(hk_allreduce(HK_IN_PLACE, &eager, 1, HK_UINT64, HK_MIN, comm));
    return eager;
}

/* cmocka's handlers would go on with the test in the rank's process. */
static void restore_signals(void)
{
    static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof caught / sizeof *caught && !RANKS_SANITIZED; i++)
        signal(caught[i], SIG_DFL);
}

static int run_rank(hk_comm *none, int rank, void *argument)
{
    const world_job *job = argument;
    world_rank self = {.way = job->way, .rank = rank, .ranks = job->ranks};
    (void)none;
    restore_signals();
    alarm(RANKS_SANITIZED || world_everything() || job->way->slow ? 600 : 110);
    choose_host(job->way, rank, job->ranks);
    hki_settings_reset();
    hk_options options = ranks_join(rank, job->ranks, job->store);
    options.timeout = 60;
    EXPECT_OK(hk_comm_create(&options, &self.comm));
    self.eager = find_eager(self.comm);
    self.levels = self.comm->cluster->levels;
    make_arena(&self);
    job->body(&self, job->argument);
    EXPECT_OK(hk_comm_free(self.comm));
    return 0;
}

int world_run(const world_way *way, int ranks, world_body *body, void *argument)
{
    world_job job = {.way = way, .ranks = ranks, .store = ranks_store_new(), .body = body, .argument = argument};
    ranks_options options = {.settings = way->settings, .no_context = true};
    int failed = ranks_run(ranks, &options, run_rank, &job);
    ranks_store_free(job.store);
    return failed;
}

void world_force(world_rank *self, hk_comm **comm, const hki_algorithm *algorithm, uint32_t segments)
{
    if (*comm)
        EXPECT_OK(hk_comm_free(*comm));
    hki_select_force(algorithm->collective, algorithm, segments);
    EXPECT_OK(hk_comm_dup(self->comm, comm));
}
