/*
 * Bits: after an all-reduce every rank holds the same, whatever its processor's kernels; and the same algorithm on the
 * same number of ranks gives the same on every run, transport and protocol. Inputs are such that the order of reduction
 * shows: rounding, overflow, denormals, both zeros, infinities, and NaNs with payloads.
 *
 * A normal run has every algorithm, type, operator and way on 2, 4 and 7 ranks: powers of two, and what does not fit
 * into one; with a large count, and one of two small ones by turns. CONFORMANCE_ALL=1 runs more numbers of ranks, all
 * counts.
 */
#include "collective_world.h"

#include "cost/select.h"
#include "dtype/dtype.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/mman.h>

#include <cmocka.h>

enum {
    SLOTS = 8192, /* results of a job, at most */
    VARIANTS = 16,
    MOST_COUNT = 700
};

/* --- inputs ----------------------------------------------------------------------------------------------------------
 */

/* How the bits of a floating-point type divide; no exponent: it is none. */
typedef struct float_format {
    unsigned mantissa, exponent;
} float_format;

static float_format format_of(hk_type type)
{
    switch (type) {
    case HK_FLOAT16:
        return (float_format){10, 5};
    case HK_BFLOAT16:
        return (float_format){7, 8};
    case HK_FLOAT32:
        return (float_format){23, 8};
    case HK_FLOAT64:
        return (float_format){52, 11};
    default:
        return (float_format){0, 0};
    }
}

static uint64_t ones(unsigned bits)
{
    return (UINT64_C(1) << bits) - 1;
}

/* A number of every sort there is, most of them such that sums round. */
static uint64_t float_bits(float_format f, uint64_t noise)
{
    uint64_t sign = (noise >> 63) << (f.mantissa + f.exponent), mantissa = noise & ones(f.mantissa);
    uint64_t top = ones(f.exponent), middle = top / 2, exponent;
    switch (noise >> 52 & 31) {
    case 0: /* NaN, quiet or signalling, with a payload */
        exponent = top;
        mantissa |= 1;
        break;
    case 1: /* infinity */
        exponent = top;
        mantissa = 0;
        break;
    case 2:
    case 3: /* zero */
        exponent = mantissa = 0;
        break;
    case 4:
    case 5: /* denormal */
        exponent = 0;
        break;
    case 6: /* as large as can be: sums overflow */
        exponent = top - 1;
        break;
    case 7: /* as small as a normal number can be */
        exponent = 1;
        break;
    default:
        exponent = middle - 3 + (noise >> 57 & 7) % 6;
    }
    return sign | exponent << f.mantissa | mantissa;
}

static void fill(hk_type type, uint64_t seed, int rank, uint64_t count, void *out)
{
    float_format format = format_of(type);
    size_t size = hk_type_size(type);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = values_noise(seed, (uint64_t)rank, i);
        if (format.exponent)
            bits = float_bits(format, bits);
        memcpy((char *)out + i * size, &bits, size);
    }
}

/* --- what can be said of results without knowing the order
 * ------------------------------------------------------------
 */

static uint64_t bits_at(hk_type type, const void *data, uint64_t index)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)data + index * hk_type_size(type), hk_type_size(type));
    return bits;
}

/* Orders numbers as min and max must: −0 before +0. */
static int64_t place_in_order(float_format f, uint64_t bits)
{
    uint64_t magnitude = bits & ones(f.mantissa + f.exponent);
    bool negative = bits >> (f.mantissa + f.exponent);
    return negative ? -(int64_t)magnitude - 1 : (int64_t)magnitude;
}

static bool is_nan(float_format f, uint64_t bits)
{
    return (bits & ones(f.mantissa + f.exponent)) > ones(f.exponent) << f.mantissa;
}

/* NaN anywhere gives the canonical NaN; the least and the greatest are what they are. */
static void check_rules(hk_type type, int op, uint64_t seed, int ranks, uint64_t count, const void *result)
{
    static _Thread_local unsigned char inputs[CALL_RANKS][MOST_COUNT * 8];
    float_format f = format_of(type);
    if (!f.exponent || ranks == 1)
        return;
    uint64_t canonical = ones(f.exponent) << f.mantissa | UINT64_C(1) << (f.mantissa - 1);
    for (int rank = 0; rank < ranks; rank++)
        fill(type, seed, rank, count, inputs[rank]);
    for (uint64_t i = 0; i < count; i++) {
        bool nan = false;
        uint64_t got = bits_at(type, result, i), best = bits_at(type, inputs[0], i);
        for (int rank = 0; rank < ranks; rank++) {
            uint64_t one = bits_at(type, inputs[rank], i);
            bool before = place_in_order(f, one) < place_in_order(f, best);
            nan |= is_nan(f, one);
            best = before == (op == HK_MIN) ? one : best;
        }
        EXPECT(!nan || got == canonical);
        EXPECT(!is_nan(f, got) || got == canonical);
        EXPECT(nan || (op != HK_MIN && op != HK_MAX) || got == best);
    }
}

static uint64_t hash_of(const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t hash = bytes;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3) + (hash >> 47);
    return hash;
}

/* --- a job: every algorithm, type and operator; a hash of each result
 * --------------------------------------------------
 */

typedef struct result {
    uint64_t hash;
    bool everywhere; /* an all-reduce: all ranks must have it */
    bool by_place;   /* the order of reduction follows from which ranks share a host */
    uint64_t seed;   /* of the inputs: equal for the same type, operator and count */
    char what[88];
} result;

typedef struct results {
    size_t count[CALL_RANKS];
    result of[CALL_RANKS][SLOTS];
} results;

/* How the ranks of a job differ from the plainest. */
typedef struct variant {
    const char *name;
    const world_way *way;
    bool kernels_differ;
} variant;

typedef struct bits_job {
    const variant *as;
    results *out;
} bits_job;

static bool is_wanted(hki_collective collective)
{
    return collective == HKI_COLL_ALLREDUCE || collective == HKI_COLL_REDUCE || collective == HKI_COLL_SCAN ||
           collective == HKI_COLL_REDUCE_SCATTER || collective == HKI_COLL_EXSCAN;
}

static hk_status call(hki_collective collective, const void *send, void *recv, uint64_t count, hk_type type, hk_op op,
                      hk_comm *comm)
{
    switch (collective) {
    case HKI_COLL_ALLREDUCE:
        return hk_allreduce(send, recv, count, type, op, comm);
    case HKI_COLL_REDUCE:
        return hk_reduce(send, recv, count, type, op, hk_comm_size(comm) - 1, comm);
    case HKI_COLL_REDUCE_SCATTER:
        return hk_reduce_scatter(send, recv, count / (uint64_t)hk_comm_size(comm), type, op, comm);
    case HKI_COLL_SCAN:
        return hk_scan(send, recv, count, type, op, comm);
    default:
        return hk_exscan(send, recv, count, type, op, comm);
    }
}

/* The scalar is neither exact in its products nor the same on all ranks. */
static hk_status make_op(int op, hk_type type, int rank, hk_op *made)
{
    static const uint64_t scalars[HK_TYPE_COUNT] = {
        [HK_FLOAT16] = 0x3d33, [HK_BFLOAT16] = 0x3fa6, [HK_FLOAT32] = 0x3fa66666, [HK_FLOAT64] = 0x3ff4cccccccccccd};
    uint64_t scalar = type < HK_FLOAT16 ? 3 : scalars[type];
    scalar += (uint64_t)rank;
    *made = (hk_op)op;
    return op == VALUES_PREMUL ? hk_op_create_premul_sum(&scalar, type, made) : HK_OK;
}

static void reduce_and_hash(world_rank *self, hk_comm *comm, const hki_algorithm *algorithm, hk_type type, int op,
                            uint64_t count, results *out)
{
    unsigned char *send = self->arena.memory, *recv = send + MOST_COUNT * 8;
    size_t slot = out->count[self->rank]++;
    uint64_t seed = values_noise(world_seed(), 20 + count, (uint64_t)type << 8 | (uint64_t)op);
    hk_op made;
    EXPECT(slot < SLOTS);
    fill(type, seed, self->rank, count, send);
    memset(recv, 0, MOST_COUNT * 8);
    EXPECT_OK(make_op(op, type, self->rank, &made));
    EXPECT_OK(call(algorithm->collective, send, recv, count, type, made, comm));
    values_op_free(made);
    result *mine = &out->of[self->rank][slot];
    mine->hash = hash_of(recv, count * hk_type_size(type));
    mine->everywhere = algorithm->collective == HKI_COLL_ALLREDUCE;
    mine->by_place = algorithm->hierarchical;
    mine->seed = seed;
    snprintf(mine->what, sizeof mine->what, "%s:%s, %llu %s, %s", hki_collective_name(algorithm->collective),
             algorithm->name, (unsigned long long)count, hk_type_name(type), values_op_name(op));
    if (mine->everywhere && op != VALUES_PREMUL && self->rank == 0) /* all ranks have the same, as is seen later */
        check_rules(type, op, seed, self->ranks, count, recv);
}

static void try_algorithm(world_rank *self, hk_comm *comm, const hki_algorithm *algorithm, results *out)
{
    static const uint64_t counts[] = {1, 37, MOST_COUNT};
    enum { LARGE = 2 };
    bool prefix = algorithm->collective == HKI_COLL_SCAN || algorithm->collective == HKI_COLL_EXSCAN;
    for (hk_type type = 0; type < HK_TYPE_COUNT; type++) {
        bool floating = format_of(type).exponent != 0;
        for (int op = 0; op <= VALUES_PREMUL; op++) {
            bool skipped = !floating && op != HK_SUM && op != HK_AVG; /* the order of others never shows */
            if (!values_op_fits(op, type) || skipped || (prefix && op == HK_AVG))
                continue;
            size_t small = ((size_t)type + (size_t)op) % LARGE;
            for (size_t i = 0; i <= LARGE; i++) {
                if (i == LARGE || (floating && (i == small || world_everything())))
                    reduce_and_hash(self, comm, algorithm, type, op, counts[i], out);
            }
        }
    }
}

static void try_all(world_rank *self, void *argument)
{
    static const char *const kernels[] = {"avx512", "reference", "avx2", "neon"};
    const bits_job *job = argument;
    size_t count;
    hk_comm *comm = NULL;
    const hki_algorithm *all = hki_algorithms(&count);
    bool chosen = !job->as->kernels_differ;
    for (int i = 0; i < 4 && !chosen; i++)
        chosen = hki_kernels_choose(kernels[(self->rank + i) % 4]);
    EXPECT(chosen);
    for (size_t i = 0; i < count; i++) {
        if (!is_wanted(all[i].collective))
            continue;
        world_force(self, &comm, &all[i], all[i].segmented ? 4 : 1);
        try_algorithm(self, comm, &all[i], job->out);
        hki_select_force(all[i].collective, NULL, 0);
    }
    EXPECT_OK(hk_comm_free(comm));
}

/* --- the test
 * ----------------------------------------------------------------------------------------------------------
 */

static size_t list_variants(variant *all)
{
    size_t count = 0;
    for (size_t i = 0; i < world_way_count && count + 3 <= VARIANTS; i++) {
        if (!world_way_wanted(&world_ways[i]) || world_ways[i].only > 0)
            continue;
        all[count++] = (variant){.name = world_ways[i].name, .way = &world_ways[i]};
        if (count > 1)
            continue;
        all[count++] = (variant){.name = "the first once more", .way = &world_ways[i]};
        all[count++] = (variant){.name = "different kernels", .way = &world_ways[i], .kernels_differ = true};
    }
    return count;
}

/* How many results differ; the first few are shown. elsewhere: ranks were on other hosts the first time. */
static size_t compare(int ranks, const results *first, const results *second, const char *name, bool elsewhere)
{
    size_t different = 0;
    for (int rank = 0; rank < ranks; rank++) {
        for (size_t slot = 0; slot < second->count[rank]; slot++) {
            const result *a = &first->of[rank][slot], *b = &second->of[rank][slot], *lowest = &second->of[0][slot];
            if (a->hash != b->hash && !(elsewhere && b->by_place) && different++ < 5)
                fprintf(stderr, "%s: %s: rank %d of %d has other bits than before\n", name, b->what, rank, ranks);
            if (b->everywhere && b->hash != lowest->hash && different++ < 5)
                fprintf(stderr, "%s: %s: rank %d of %d has other bits than rank 0\n", name, b->what, rank, ranks);
        }
    }
    return different;
}

/* Whether two algorithms gave different bits for the same inputs: else nothing would have been tested. */
static bool order_shows(const results *seen)
{
    for (size_t i = 1; i < seen->count[0]; i++) {
        const result *a = &seen->of[0][0], *b = &seen->of[0][i];
        for (size_t k = 0; k < i && b->everywhere; k++, a++) {
            if (a->everywhere && a->seed == b->seed && a->hash != b->hash)
                return true;
        }
    }
    return false;
}

static void bits_depend_on_nothing_else(void **state)
{
    static variant variants[VARIANTS];
    const int ranks = *(const int *)*state;
    size_t count = list_variants(variants);
    results *first = ranks_shared(sizeof *first);
    for (size_t i = 0; i < count; i++) {
        results *now = i == 0 ? first : ranks_shared(sizeof *now);
        bits_job job = {.as = &variants[i], .out = now};
        assert_int_equal(world_run(variants[i].way, ranks, try_all, &job), 0);
        assert_true(now->count[0] > 500);
        for (int rank = 0; rank < ranks; rank++)
            assert_int_equal(now->count[rank], first->count[0]);
        bool elsewhere = variants[i].way->hosts != variants[0].way->hosts;
        assert_int_equal(compare(ranks, first, now, variants[i].name, elsewhere), 0);
        if (now != first)
            munmap(now, sizeof *now);
    }
    assert_true(ranks < 3 || order_shows(first));
    printf("  %d ranks: %zu results each, %zu times\n", ranks, first->count[0], count);
    munmap(first, sizeof *first);
}

int main(void)
{
    static int ranks[] = {2, 4, 7, 1, 3, 5, 6, 8, 9, 16};
    size_t count = world_everything() ? sizeof ranks / sizeof *ranks : 3;
    static struct CMUnitTest tests[sizeof ranks / sizeof *ranks];
    static char names[sizeof ranks / sizeof *ranks][64];
    variant some[VARIANTS];
    if (list_variants(some) == 0)
        return 77;
    for (size_t i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "%d ranks: the same bits everywhere and every time", ranks[i]);
        tests[i] =
            (struct CMUnitTest){.name = names[i], .test_func = bits_depend_on_nothing_else, .initial_state = &ranks[i]};
    }
    return _cmocka_run_group_tests("bits", tests, count, NULL, NULL);
}
