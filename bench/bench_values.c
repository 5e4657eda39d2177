#include "bench/bench_values.h"

#include <stdio.h>
#include <string.h>

/* Elements worked on at a time: the int64 values and their converted form stay in the L1 cache. */
enum { CHUNK = 512, POISON = 0xA5 };

/* ---- values ------------------------------------------------------------------------------------------------- */

/* Top bits of a multiplicative hash: neighbours, ranks and rounds all differ, and the compiler can vectorise it. */
static inline uint32_t mixed(uint64_t index, int rank, uint32_t seed)
{
    uint32_t low = (uint32_t)index, high = (uint32_t)(index >> 32);
    return low * UINT32_C(2654435761) + high * UINT32_C(0x27d4eb2f) + (uint32_t)rank * UINT32_C(0x85ebca6b) +
           seed * UINT32_C(0xc2b2ae35);
}

/* The largest P·|value| that stays exact (floating-point) or does not wrap (integers). */
static int64_t exact_limit(hk_type type)
{
    switch (type) {
    case HK_INT8:
        return 127;
    case HK_UINT8:
        return 255;
    case HK_BFLOAT16:
        return 256;
    case HK_FLOAT16:
        return 2048;
    default:
        return INT64_C(1) << 24;
    }
}

static bool is_unsigned(hk_type type)
{
    return type == HK_UINT8 || type == HK_UINT16 || type == HK_UINT32 || type == HK_UINT64;
}

typedef enum pattern { SPREAD, PRODUCT, BALANCED } pattern;

/* How the values of a cell are drawn: `height` bounds them; with more ranks than the type can sum exactly only every
 * `sparse`-th rank gives something other than zero. */
typedef struct drawing {
    pattern pattern;
    bool negative;
    int64_t height;
    uint32_t sparse;
    int ranks;
} drawing;

static drawing drawing_of(const hki_bench_cell *cell)
{
    int64_t limit = exact_limit(cell->type);
    bool reduces = hki_bench_traits_of(cell->kind)->reduces;
    drawing d = {SPREAD, !is_unsigned(cell->type), 7, 1, cell->ranks};
    if (!reduces)
        return d;
    d.pattern = cell->op == HK_PROD ? PRODUCT : cell->op == HK_AVG ? BALANCED : SPREAD;
    int64_t most = limit / cell->ranks - (cell->op == HK_AVG ? 1 : 0);
    d.height = most > 7 ? 7 : most < 1 ? 1 : most;
    if (limit < cell->ranks)
        d.sparse = (uint32_t)((cell->ranks + limit - 1) / limit);
    return d;
}

/* Values 0 … height, or −height … height. */
static inline int64_t spread(const drawing *d, uint32_t hash)
{
    uint64_t span = (uint64_t)(d->negative ? 2 * d->height + 1 : d->height + 1);
    int64_t value = (int64_t)((hash * span) >> 32);
    return d->negative ? value - d->height : value;
}

static void draw_products(const drawing *d, uint32_t seed, int rank, uint64_t first, int count, int64_t *out)
{
    /* One rank's factor is 1 … 4, the others' ±1: no product leaves the range of any type. */
    for (int i = 0; i < count; i++) {
        uint64_t index = first + (uint64_t)i;
        uint32_t hash = mixed(index, rank, seed);
        int64_t sign = d->negative && (hash >> 31) != 0 ? -1 : 1;
        bool owner = index % (uint64_t)d->ranks == (uint64_t)rank;
        out[i] = owner ? sign * (int64_t)(1 + (hash >> 29) % 4) : sign;
    }
}

static void draw_balanced(const drawing *d, uint32_t seed, int rank, uint64_t first, int count, int64_t *out)
{
    /* Ranks share a value and differ from it by +1 and −1 in pairs: the sum is a multiple of P, the average exact. */
    int64_t tilt = rank == d->ranks - 1 && d->ranks % 2 == 1 ? 0 : rank % 2 == 0 ? 1 : -1;
    for (int i = 0; i < count; i++) {
        int64_t base = spread(d, mixed(first + (uint64_t)i, 0, seed));
        out[i] = (d->negative || base > 0 ? base : 1) + tilt;
    }
}

/* Elements first … first+count of a rank's input. */
static void draw(const drawing *d, uint32_t seed, int rank, uint64_t first, int count, int64_t *out)
{
    if (d->pattern == PRODUCT) {
        draw_products(d, seed, rank, first, count, out);
        return;
    }
    if (d->pattern == BALANCED) {
        draw_balanced(d, seed, rank, first, count, out);
        return;
    }
    for (int i = 0; i < count; i++)
        out[i] = spread(d, mixed(first + (uint64_t)i, rank, seed));
    if (d->sparse > 1)
        for (int i = 0; i < count; i++)
            if ((first + (uint64_t)i + (uint64_t)rank) % d->sparse != 0)
                out[i] = 0;
}

/* ---- conversion --------------------------------------------------------------------------------------------- */

/* Integers of magnitude ≤ 2^8 are exact in bfloat16, and ≤ 2^11 in float16: no rounding is needed here. */
static uint16_t to_bfloat16(int64_t value)
{
    float wide = (float)value;
    uint32_t bits;
    memcpy(&bits, &wide, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static uint16_t to_float16(int64_t value)
{
    uint32_t sign = value < 0 ? 0x8000u : 0u, magnitude = (uint32_t)(value < 0 ? -value : value);
    if (magnitude == 0)
        return 0;
    uint32_t exponent = 31u - (uint32_t)__builtin_clz(magnitude);
    uint32_t fraction = exponent <= 10 ? magnitude << (10 - exponent) : magnitude >> (exponent - 10);
    return (uint16_t)(sign | ((exponent + 15) << 10) | (fraction & 0x3ffu));
}

#define STORE(storage, convert)                                                                                        \
    do {                                                                                                               \
        storage *to = (storage *)out;                                                                                  \
        for (int i = 0; i < count; i++)                                                                                \
            to[i] = convert(values[i]);                                                                                \
    } while (0)

static void store(hk_type type, const int64_t *values, int count, void *out)
{
    switch (type) {
    case HK_INT8:
    case HK_UINT8:
        STORE(uint8_t, (uint8_t));
        break;
    case HK_INT16:
    case HK_UINT16:
        STORE(uint16_t, (uint16_t));
        break;
    case HK_INT32:
    case HK_UINT32:
        STORE(uint32_t, (uint32_t));
        break;
    case HK_INT64:
    case HK_UINT64:
        STORE(int64_t, (int64_t));
        break;
    case HK_FLOAT16:
        STORE(uint16_t, to_float16);
        break;
    case HK_BFLOAT16:
        STORE(uint16_t, to_bfloat16);
        break;
    case HK_FLOAT32:
        STORE(float, (float));
        break;
    default:
        STORE(double, (double));
        break;
    }
}

static void describe(hk_type type, const void *element, char *text, size_t room)
{
    int64_t integer = 0;
    switch (type) {
    case HK_FLOAT32: {
        float value;
        memcpy(&value, element, sizeof value);
        snprintf(text, room, "%g", (double)value);
        return;
    }
    case HK_FLOAT64: {
        double value;
        memcpy(&value, element, sizeof value);
        snprintf(text, room, "%g", value);
        return;
    }
    case HK_INT8:
        integer = *(const int8_t *)element;
        break;
    case HK_UINT8:
        integer = *(const uint8_t *)element;
        break;
    case HK_INT16:
        integer = *(const int16_t *)element;
        break;
    case HK_INT32:
        integer = *(const int32_t *)element;
        break;
    case HK_UINT32:
        integer = *(const uint32_t *)element;
        break;
    case HK_INT64:
    case HK_UINT64:
        integer = *(const int64_t *)element;
        break;
    default: { /* 16 bits, as they are */
        uint16_t bits;
        memcpy(&bits, element, sizeof bits);
        snprintf(text, room, "0x%04x", bits);
        return;
    }
    }
    snprintf(text, room, "%lld", (long long)integer);
}

/* ---- reference ---------------------------------------------------------------------------------------------- */

static int64_t combine(hk_op op, int64_t left, int64_t right)
{
    switch (op) {
    case HK_PROD:
        return left * right;
    case HK_MIN:
        return left < right ? left : right;
    case HK_MAX:
        return left > right ? left : right;
    case HK_BAND:
        return left & right;
    case HK_BOR:
        return left | right;
    case HK_BXOR:
        return left ^ right;
    case HK_LAND:
        return left != 0 && right != 0;
    case HK_LOR:
        return left != 0 || right != 0;
    case HK_LXOR:
        return (left != 0) != (right != 0);
    default:
        return left + right;
    }
}

/* Reduces the ranks' inputs at first … first+count, ranks 0 … last. */
static void reduced(const hki_bench_cell *cell, const drawing *d, uint32_t seed, int last, uint64_t first, int count,
                    int64_t *out)
{
    int64_t next[CHUNK];
    draw(d, seed, 0, first, count, out);
    for (int r = 1; r <= last; r++) {
        draw(d, seed, r, first, count, next);
        if (cell->op == HK_SUM || cell->op == HK_AVG) {
            for (int i = 0; i < count; i++)
                out[i] += next[i];
        } else {
            for (int i = 0; i < count; i++)
                out[i] = combine(cell->op, out[i], next[i]);
        }
    }
    if (cell->op == HK_AVG)
        for (int i = 0; i < count; i++)
            out[i] /= last + 1;
}

/* A stretch of output that comes from one place: one rank's input, or the reduction over ranks 0 … `rank`. */
typedef struct stretch {
    bool reduced;
    int rank;
    uint64_t from;  /* where it begins in the inputs */
    uint64_t count; /* elements */
} stretch;

/* Share of rank r and where it begins in the whole. */
static uint64_t share(const hki_bench_cell *cell, int r, uint64_t *begin)
{
    *begin = cell->counts != NULL ? cell->displacements[r] : cell->count * (uint64_t)r;
    return cell->counts != NULL ? cell->counts[r] : cell->count;
}

static int stretches(const hki_bench_cell *cell)
{
    switch (cell->kind) {
    case HKI_BENCH_ALLGATHER:
    case HKI_BENCH_ALLGATHERV:
    case HKI_BENCH_GATHER:
    case HKI_BENCH_GATHERV:
    case HKI_BENCH_ALLTOALL:
    case HKI_BENCH_ALLTOALLV:
        return cell->ranks;
    default:
        return 1;
    }
}

/* The n-th stretch of this rank's output. */
static stretch stretch_of(const hki_bench_cell *cell, int n)
{
    stretch s = {false, 0, 0, cell->output};
    switch (cell->kind) {
    case HKI_BENCH_BROADCAST:
        s.rank = cell->root;
        break;
    case HKI_BENCH_REDUCE_SCATTER:
    case HKI_BENCH_REDUCE_SCATTERV:
        s.count = share(cell, cell->rank, &s.from);
        s.reduced = true;
        s.rank = cell->ranks - 1;
        break;
    case HKI_BENCH_ALLGATHER:
    case HKI_BENCH_ALLGATHERV:
    case HKI_BENCH_GATHER:
    case HKI_BENCH_GATHERV:
        s.rank = n;
        s.count = share(cell, n, &s.from);
        s.from = 0;
        break;
    case HKI_BENCH_SCATTER:
    case HKI_BENCH_SCATTERV:
        s.rank = cell->root;
        s.count = share(cell, cell->rank, &s.from);
        break;
    case HKI_BENCH_ALLTOALL:
    case HKI_BENCH_ALLTOALLV:
        s.rank = n;
        s.count = hki_bench_block(cell, n, cell->rank, &s.from);
        break;
    case HKI_BENCH_SENDRECV:
        s.rank = (cell->rank + cell->ranks - 1) % cell->ranks;
        break;
    case HKI_BENCH_PINGPONG:
        s.rank = 1 - cell->rank;
        break;
    case HKI_BENCH_STREAM:
        s.rank = 0;
        break;
    case HKI_BENCH_SCAN:
        s.reduced = true;
        s.rank = cell->rank;
        break;
    case HKI_BENCH_EXSCAN:
        s.reduced = true;
        s.rank = cell->rank - 1;
        break;
    default:
        s.reduced = true;
        s.rank = cell->ranks - 1;
        break;
    }
    return s;
}

static void mismatch(const hki_bench_cell *cell, const uint8_t *found, const uint8_t *expected, uint64_t first,
                     int count, hki_bench_wrong *wrong)
{
    for (int i = 0; i < count; i++) {
        size_t at = (size_t)i * cell->element;
        if (memcmp(found + at, expected + at, cell->element) == 0)
            continue;
        wrong->index = first + (uint64_t)i;
        describe(cell->type, found + at, wrong->found, sizeof wrong->found);
        describe(cell->type, expected + at, wrong->expected, sizeof wrong->expected);
        return;
    }
}

/* Compares elements at `output` with the stretch; `at` is the stretch's place in the output. */
static bool check_stretch(const hki_bench_cell *cell, const drawing *d, uint32_t seed, const stretch *s,
                          const uint8_t *output, uint64_t at, hki_bench_wrong *wrong)
{
    int64_t values[CHUNK];
    _Alignas(8) uint8_t expected[CHUNK * sizeof(int64_t)];
    for (uint64_t done = 0; done < s->count; done += CHUNK) {
        int count = s->count - done < CHUNK ? (int)(s->count - done) : CHUNK;
        if (s->reduced)
            reduced(cell, d, seed, s->rank, s->from + done, count, values);
        else
            draw(d, seed, s->rank, s->from + done, count, values);
        store(cell->type, values, count, expected);
        const uint8_t *found = output + (at + done) * cell->element;
        if (memcmp(found, expected, (size_t)count * cell->element) != 0) {
            mismatch(cell, found, expected, at + done, count, wrong);
            return false;
        }
    }
    return true;
}

static bool check_untouched(const hki_bench_cell *cell, const uint8_t *output, hki_bench_wrong *wrong)
{
    for (uint64_t i = 0; i < cell->output * cell->element; i++) {
        if (output[i] != POISON) {
            wrong->index = i / cell->element;
            describe(cell->type, output + wrong->index * cell->element, wrong->found, sizeof wrong->found);
            snprintf(wrong->expected, sizeof wrong->expected, "untouched");
            return false;
        }
    }
    return true;
}

bool hki_bench_check(const hki_bench_cell *cell, uint32_t seed, const void *input, const void *output,
                     hki_bench_wrong *wrong)
{
    drawing d = drawing_of(cell);
    memset(wrong, 0, sizeof *wrong);
    if (!cell->shared && cell->input > 0) {
        stretch own = {false, cell->rank, 0, cell->input};
        if (!check_stretch(cell, &d, seed, &own, (const uint8_t *)input, 0, wrong)) {
            wrong->in_input = true;
            return false;
        }
    }
    if (cell->output == 0)
        return true;
    const uint8_t *result = (const uint8_t *)output + cell->output_at * cell->element;
    if (cell->kind == HKI_BENCH_EXSCAN && cell->rank == 0)
        return check_untouched(cell, result, wrong);
    uint64_t at = 0;
    for (int n = 0; n < stretches(cell); n++) {
        stretch s = stretch_of(cell, n);
        if (!check_stretch(cell, &d, seed, &s, result, at, wrong))
            return false;
        at += s.count;
    }
    return true;
}

/* ---- buffers ------------------------------------------------------------------------------------------------ */

static void fill_elements(const hki_bench_cell *cell, uint32_t seed, uint64_t count, uint8_t *to)
{
    drawing d = drawing_of(cell);
    int64_t values[CHUNK];
    for (uint64_t done = 0; done < count; done += CHUNK) {
        int some = count - done < CHUNK ? (int)(count - done) : CHUNK;
        draw(&d, seed, cell->rank, done, some, values);
        store(cell->type, values, some, to + done * cell->element);
    }
}

void hki_bench_fill(const hki_bench_cell *cell, uint32_t seed, void *buffer)
{
    fill_elements(cell, seed, cell->input, (uint8_t *)buffer + cell->input_at * cell->element);
}

void hki_bench_rewrite(const hki_bench_cell *cell, uint32_t seed, void *buffer)
{
    uint8_t *to = (uint8_t *)buffer + cell->input_at * cell->element;
    uint64_t period = 4096 / cell->element, total = cell->input;
    uint64_t some = total < period ? total : period;
    fill_elements(cell, seed, some, to);
    for (uint64_t done = some; done < total; done += some) {
        uint64_t next = total - done < some ? total - done : some;
        memcpy(to + done * cell->element, to, next * cell->element);
    }
}

void hki_bench_poison(const hki_bench_cell *cell, void *output)
{
    if (cell->output > 0)
        memset(output, POISON, cell->output * cell->element);
}
