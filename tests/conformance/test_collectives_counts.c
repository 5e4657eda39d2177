/*
 * Counts and displacements beyond 32 bits. A normal run moves little data between far-apart places, and looks at where
 * each algorithm would read and write for counts up to 2^40; CONFORMANCE_ALL=1 also moves more than 2^31 elements and
 * more than 4 GiB, which takes 9 GiB of memory.
 */
#include "collective_draw.h"
#include "collective_world.h"

#include "cost/select.h"
#include "sched/bind.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

enum { PAGE = 4096 };

static size_t upward(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* --- blocks that lie far apart
 * -----------------------------------------------------------------------------------------
 */

enum { FAR_RANKS = 4, BLOCK_MOST = 90000 };

/* Between two blocks there is more than any 32-bit number of elements; only the pages of blocks can be touched. */
#define FAR ((UINT64_C(1) << 32) + 3 * PAGE + 1)

typedef struct far_side {
    unsigned char *memory;
    uint64_t counts[FAR_RANKS], displacements[FAR_RANKS];
    size_t size, reserved;
} far_side;

static uint64_t far_count(int from, int to)
{
    return (uint64_t)(from * 40000 + to * 777) % BLOCK_MOST;
}

static void open_pages(const far_side *side, int block)
{
    uintptr_t begin = (uintptr_t)side->memory + side->displacements[block] * side->size;
    uintptr_t end = begin + side->counts[block] * side->size;
    uintptr_t first = begin / PAGE * PAGE;
    EXPECT(mprotect((void *)first, upward(end + 1 - first, PAGE), PROT_READ | PROT_WRITE) == 0);
}

/* The blocks of a rank's side, the last first. */
static void make_far(far_side *side, int rank, int ranks, bool sends, size_t size)
{
    side->size = size;
    side->reserved = upward((size_t)(FAR * (unsigned)(ranks + 1)) * size, PAGE);
    void *memory = mmap(NULL, side->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(memory != MAP_FAILED);
    side->memory = memory;
    for (int block = 0; block < ranks; block++) {
        side->counts[block] = sends ? far_count(rank, block) : far_count(block, rank);
        side->displacements[block] = FAR * (unsigned)(ranks - 1 - block) + 5;
        open_pages(side, block);
    }
}

static unsigned char *far_block(const far_side *side, int block)
{
    return side->memory + side->displacements[block] * side->size;
}

static void expect_block(const values_of *values, const far_side *side, int from, int to)
{
    static unsigned char wanted[BLOCK_MOST * 4];
    uint64_t count = far_count(from, to);
    values_input(values, from, to, count, wanted);
    EXPECT(memcmp(far_block(side, from), wanted, count * side->size) == 0);
}

/* Each rank's own block is that for its neighbour above, wherever a collective has one block of each rank. */
static void call_far(world_rank *self, hk_comm *comm, hki_collective collective, const values_of *values)
{
    int rank = self->rank, ranks = self->ranks, root = ranks - 1;
    far_side send, recv;
    hk_type type = values->type;
    unsigned char *own = self->arena.memory;
    make_far(&send, rank, ranks, true, hk_type_size(type));
    make_far(&recv, rank, ranks, false, hk_type_size(type));
    for (int to = 0; to < ranks; to++)
        values_input(values, rank, to, send.counts[to], far_block(&send, to));
    bool gathers = collective == HKI_COLL_GATHERV || collective == HKI_COLL_ALLGATHERV;
    for (int from = 0; from < ranks && gathers; from++)
        recv.counts[from] = far_count(from, 0);
    if (collective == HKI_COLL_ALLTOALLV) {
        EXPECT_OK(hk_alltoallv(send.memory, send.counts, send.displacements, recv.memory, recv.counts,
                               recv.displacements, type, comm));
    } else if (collective == HKI_COLL_ALLGATHERV) {
        for (int from = 0; from < ranks; from++)
            open_pages(&recv, from);
        EXPECT_OK(hk_allgatherv(far_block(&send, 0), send.counts[0], recv.memory, recv.counts, recv.displacements, type,
                                comm));
    } else if (collective == HKI_COLL_GATHERV) {
        for (int from = 0; from < ranks; from++)
            open_pages(&recv, from);
        EXPECT_OK(hk_gatherv(far_block(&send, 0), send.counts[0], recv.memory, recv.counts, recv.displacements, type,
                             root, comm));
    } else {
        EXPECT_OK(
            hk_scatterv(send.memory, send.counts, send.displacements, own, far_count(root, rank), type, root, comm));
        static unsigned char wanted[BLOCK_MOST * 4];
        values_input(values, root, rank, far_count(root, rank), wanted);
        EXPECT(memcmp(own, wanted, far_count(root, rank) * hk_type_size(type)) == 0);
    }
    bool receives = collective == HKI_COLL_GATHERV ? rank == root : collective != HKI_COLL_SCATTERV;
    for (int from = 0; from < ranks && receives; from++)
        expect_block(values, &recv, from, gathers ? 0 : rank);
    EXPECT(munmap(send.memory, send.reserved) == 0 && munmap(recv.memory, recv.reserved) == 0);
}

static bool has_displacements(hki_collective collective)
{
    return collective == HKI_COLL_ALLGATHERV || collective == HKI_COLL_GATHERV || collective == HKI_COLL_SCATTERV ||
           collective == HKI_COLL_ALLTOALLV;
}

static void try_far(world_rank *self, void *argument)
{
    size_t count;
    hk_comm *comm = NULL;
    const hki_algorithm *all = hki_algorithms(&count);
    (void)argument;
    for (size_t i = 0; i < count; i++) {
        if (!has_displacements(all[i].collective) || !draw_serves(&all[i], self->ranks, self->levels, HK_SUM))
            continue;
        world_force(self, &comm, &all[i], 1);
        for (hk_type type = HK_UINT8; type <= HK_UINT32; type = type == HK_UINT8 ? HK_UINT32 : HK_TYPE_COUNT) {
            values_of values = {.seed = world_seed() + i, .type = type, .ranks = self->ranks};
            call_far(self, comm, all[i].collective, &values);
        }
    }
    EXPECT_OK(hk_comm_free(comm));
}

static void displacements_have_64_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < world_way_count; i++) {
        if (!world_way_wanted(&world_ways[i]) || world_ways[i].only > 0)
            continue;
        assert_int_equal(world_run(&world_ways[i], FAR_RANKS, try_far, NULL), 0);
    }
}

/* --- where algorithms would read and write
 * ------------------------------------------------------------------------------
 */

enum { BIND_RANKS = 8 };

typedef struct bound_job {
    hki_call call[BIND_RANKS];
    hki_schedule *schedule[BIND_RANKS];
    hki_bound *program[BIND_RANKS];
    uint64_t extent[BIND_RANKS][2]; /* bytes of INPUT and OUTPUT */
} bound_job;

/* What a buffer's grid spans, said by its kind of cut alone. */
static uint64_t extent_of(const hki_grid *grid, uint64_t count, const uint64_t *counts)
{
    uint64_t total = 0;
    switch (grid->cut) {
    case HKI_CUT_NONE:
        return 0;
    case HKI_CUT_EVEN:
    case HKI_CUT_FRACTION:
        return count;
    case HKI_CUT_ONE:
        return counts ? counts[grid->own] : count;
    default:
        for (uint32_t part = 0; part < grid->parts; part++)
            total += counts ? counts[part] : count;
        return total;
    }
}

static void bind_rank(bound_job *job, const hki_algorithm *algorithm, uint32_t ranks, uint32_t rank, uint64_t count)
{
    uint64_t counts[2][BIND_RANKS];
    bool varies = call_varies(algorithm->collective);
    bool pairs = algorithm->collective == HKI_COLL_ALLTOALLV;
    for (uint32_t i = 0; i < ranks; i++)
        counts[0][i] = counts[1][i] = count + (pairs ? i + rank : 3 * i);
    job->call[rank] = (hki_call){.collective = algorithm->collective,
                                 .ranks = ranks,
                                 .rank = rank,
                                 .root = call_is_rooted(algorithm->collective) ? ranks - 1 : 0,
                                 .segments = 1,
                                 .commutative = true};
    hki_sizes sizes = {.count = varies ? counts[0][rank] : count, .element_bytes = 4};
    assert_int_equal(hki_algorithm_schedule(algorithm, &job->call[rank], &job->schedule[rank]), HK_OK);
    for (int side = 0; side < 2 && varies; side++) {
        if (job->schedule[rank]->grid[side].cut == HKI_CUT_COUNTS)
            sizes.counts[side] = counts[side];
    }
    assert_int_equal(hki_bind(job->schedule[rank], &sizes, &job->program[rank]), HK_OK);
    for (int side = 0; side < 2; side++)
        job->extent[rank][side] =
            4 * extent_of(&job->schedule[rank]->grid[side], sizes.count, varies ? counts[side] : NULL);
}

/* Bytes that `from` sends to `to`, or that `to` takes from it. */
static uint64_t bytes_between(const bound_job *job, uint32_t from, uint32_t to, bool sent)
{
    uint64_t total = 0;
    const hki_bound *program = job->program[sent ? from : to];
    for (uint32_t i = 0; i < program->step_count; i++) {
        const hki_bound_step *step = &program->steps[i];
        bool sends = step->verb == HKI_VERB_SEND,
             takes = step->verb == HKI_VERB_RECV || step->verb == HKI_VERB_RECV_REDUCE;
        if ((sent ? sends : takes) && step->peer == (sent ? to : from))
            total += step->bytes;
    }
    return total;
}

static void check_bound(const bound_job *job, const hki_algorithm *algorithm, uint32_t ranks, uint64_t count)
{
    uint64_t busiest = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        const hki_bound *program = job->program[rank];
        uint64_t sent = 0;
        for (uint32_t i = 0; i < program->piece_count; i++) {
            const hki_piece *piece = &program->pieces[i];
            uint64_t limit = piece->base == HKI_SCRATCH ? program->scratch_bytes : job->extent[rank][piece->base];
            assert_true(piece->bytes <= limit && piece->offset <= limit - piece->bytes);
        }
        for (uint32_t other = 0; other < ranks; other++) {
            sent += bytes_between(job, rank, other, true);
            assert_int_equal(bytes_between(job, rank, other, true), bytes_between(job, rank, other, false));
        }
        busiest = sent > busiest ? sent : busiest;
    }
    double vector = 4 * (double)count *
                    (algorithm->collective == HKI_COLL_BROADCAST || algorithm->collective == HKI_COLL_REDUCE ||
                             algorithm->collective == HKI_COLL_ALLREDUCE || algorithm->collective == HKI_COLL_SCAN ||
                             algorithm->collective == HKI_COLL_EXSCAN
                         ? 1
                         : ranks);
    double form = algorithm->sent ? algorithm->sent(&job->call[0]) : NAN;
    if (algorithm->collective != HKI_COLL_BARRIER && !isnan(form))
        assert_true(fabs((double)busiest / vector - form) < 1e-5);
}

static void every_algorithm_reaches_all_of_large_buffers(void **state)
{
    static const uint64_t counts[] = {(UINT64_C(1) << 31) + 5, (UINT64_C(1) << 32) + 3, (UINT64_C(1) << 40) + 11};
    static const uint32_t ranks[] = {2, 3, 5, 8};
    size_t count;
    const hki_algorithm *all = hki_algorithms(&count);
    (void)state;
    for (size_t i = 0; i < count * 12; i++) {
        bound_job job = {0};
        const hki_algorithm *algorithm = &all[i / 12];
        uint32_t p = ranks[i % 4];
        if (!draw_serves(algorithm, (int)p, NULL, HK_SUM))
            continue;
        for (uint32_t rank = 0; rank < p; rank++)
            bind_rank(&job, algorithm, p, rank, counts[i / 4 % 3]);
        check_bound(&job, algorithm, p, counts[i / 4 % 3]);
        for (uint32_t rank = 0; rank < p; rank++) {
            hki_bound_free(job.program[rank]);
            hki_schedule_free(job.schedule[rank]);
        }
    }
}

/* --- really moved ----------------------------------------------------------------------------------------------------
 */

static void *huge(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT(memory != MAP_FAILED);
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

/* 2^31 + 5 elements of one byte, summed in place. */
static void sum_many_elements(world_rank *self, void *argument)
{
    const uint64_t count = (UINT64_C(1) << 31) + 5;
    values_of values = {.seed = world_seed(), .type = HK_UINT8, .op = HK_SUM, .reduces = true, .ranks = self->ranks};
    unsigned char *data = huge(count + 64), *piece = self->arena.memory;
    (void)argument;
    values_input(&values, self->rank, 0, count, data);
    memset(data + count, 7, 64);
    EXPECT_OK(hk_allreduce(HK_IN_PLACE, data, count, HK_UINT8, HK_SUM, self->comm));
    /* What repeats needs to be computed once: a multiple of its period at a time. */
    const size_t step = 4099 * 1024;
    values_reduced(&values, 0, self->ranks - 1, 0, step, piece);
    for (uint64_t at = 0; at < count; at += step)
        EXPECT(memcmp(data + at, piece, count - at < step ? count - at : step) == 0);
    for (int i = 0; i < 64; i++)
        EXPECT(data[count + (unsigned)i] == 7);
}

/* 4 GiB and 24 bytes, broadcast from the last rank. */
static void broadcast_many_bytes(world_rank *self, void *argument)
{
    const uint64_t count = (UINT64_C(1) << 29) + 3;
    values_of values = {.seed = world_seed() + 1, .type = HK_FLOAT64, .ranks = self->ranks};
    double *data = huge(count * 8 + 64);
    unsigned char *piece = self->arena.memory;
    int root = self->ranks - 1;
    (void)argument;
    if (self->rank == root)
        values_input(&values, root, 0, count, data);
    memset(data + count, 7, 64);
    EXPECT_OK(hk_broadcast(data, count, HK_FLOAT64, root, self->comm));
    const size_t step = 4099 * 128;
    values_input(&values, root, 0, step, piece);
    for (uint64_t at = 0; at < count; at += step)
        EXPECT(memcmp(data + at, piece, (count - at < step ? count - at : step) * 8) == 0);
    for (int i = 0; i < 64; i++)
        EXPECT(((unsigned char *)(data + count))[i] == 7);
}

static long available_mib(void)
{
    char line[128];
    long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file) && sscanf(line, "MemAvailable: %ld", &kib) != 1)
        ;
    if (file)
        fclose(file);
    return kib / 1024;
}

/* Tests of this size are left out where they are not asked for, or do not fit; which is said. */
static void move_much(world_body *body, long mib)
{
    if (!world_everything() || available_mib() < mib + 1024) {
        print_message("left out: %s\n", world_everything() ? "too little memory" : "CONFORMANCE_ALL is not set");
        skip();
    }
    for (size_t i = 0; i < world_way_count; i++) {
        if (world_ways[i].whole && world_way_wanted(&world_ways[i]))
            assert_int_equal(world_run(&world_ways[i], 2, body, NULL), 0);
    }
}

static void more_than_2_31_elements_are_summed(void **state)
{
    (void)state;
    move_much(sum_many_elements, 6 << 10);
}

static void more_than_4_gib_are_broadcast(void **state)
{
    (void)state;
    move_much(broadcast_many_bytes, 9 << 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(displacements_have_64_bits),
        cmocka_unit_test(every_algorithm_reaches_all_of_large_buffers),
        cmocka_unit_test(more_than_2_31_elements_are_summed),
        cmocka_unit_test(more_than_4_gib_are_broadcast),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
