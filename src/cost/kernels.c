/*
 * What a rank does by itself: copying, and reducing with every type and class of operators. Each figure is the best of
 * several samples, since what disturbs one only ever slows it down.
 */
#include "cost/points.h"

#include "base/clock.h"
#include "base/error.h"
#include "dtype/dtype.h"

#include <stdlib.h>
#include <string.h>

/* Three buffers of this size stay in the second cache of current cores: what arrives has just been in a cache, too. */
enum { OPERAND = 64 << 10, LINE = 64, SAMPLES = 7, CALLS = 16 };
/* Of copies: in bulk, with the target more than the caches that a core has a share of; and of a MiB out of a few that
 * have just been written, which only the last cache holds. */
enum { BULK = 32 << 20, FAR = 1 << 20, FAR_SPAN = 4 << 20, BULK_SAMPLES = 9 };

typedef struct work {
    hki_reducer reducer; /* by it if `reduces`, else a copy */
    bool reduces;
    void *out, *in[2];
} work;

static void run_once(const work *w)
{
    if (w->reduces)
        hki_reduce_two(&w->reducer, w->out, w->in[0], w->in[1], OPERAND / w->reducer.element_bytes, false);
    else
        hki_copy_bytes(w->out, w->in[0], OPERAND, false);
    __asm__ __volatile__("" ::: "memory");
}

static double best_us(const work *w)
{
    double best = 1e30;
    for (int sample = 0; sample < SAMPLES; sample++) {
        uint64_t start = hki_now();
        for (int i = 0; i < CALLS; i++)
            run_once(w);
        double each = (double)(hki_now() - start) / CALLS / 1e3;
        best = each < best ? each : best;
    }
    return best;
}

static hk_status add_point(hki_tune_points *points, hki_tune_series series, hk_type type, hki_op_class operators,
                           double us)
{
    const hki_tune_point point = {
        .series = series, .bytes = OPERAND, .type = (uint32_t)type, .operators = operators, .us = us};
    return hki_tune_point_add(points, &point);
}

static hk_status measure_all(work *w, hki_tune_points *points)
{
    HK_TRY(add_point(points, HKI_TUNE_COPY, HK_UINT8, HKI_OPS_ADD, best_us(w)));
    w->reduces = true;
    for (hk_type type = 0; type < HK_TYPE_COUNT; type++)
        for (uint32_t operators = HKI_OPS_ADD; operators <= HKI_OPS_COMPARE; operators++) {
            HK_TRY(hki_reducer_find(type, operators == HKI_OPS_COMPARE ? HK_MAX : HK_SUM, &w->reducer));
            HK_TRY(add_point(points, HKI_TUNE_REDUCE, type, (hki_op_class)operators, best_us(w)));
        }
    return HK_OK;
}

hk_status hki_tune_kernels(hki_tune_points *points)
{
    unsigned char *operands = aligned_alloc(LINE, 3 * OPERAND);
    if (!operands)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for operands");
    memset(operands, 0, 3 * OPERAND); /* zeros are numbers in every type */
    work w = {.out = operands, .in = {operands + OPERAND, operands + 2 * OPERAND}};
    hk_status status = measure_all(&w, points);
    free(operands);
    return status;
}

/* The best of a few, each of other bytes than the one before, as far as there are any. */
static double best_copy_us(unsigned char *memory, size_t bytes, bool stream)
{
    double best = 1e30;
    size_t at = 0;
    for (int sample = 0; sample < BULK_SAMPLES; sample++) {
        uint64_t start = hki_now();
        hki_copy_bytes(memory + at, memory + BULK + at, bytes, stream);
        double us = (double)(hki_now() - start) / 1e3;
        best = us < best ? us : best;
        at = (at + bytes) % (FAR_SPAN > bytes ? FAR_SPAN : bytes);
    }
    return best;
}

hk_status hki_tune_copies_in_bulk(hki_tune_points *points)
{
    unsigned char *memory = aligned_alloc(LINE, (size_t)2 * BULK);
    if (!memory)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for operands");
    memset(memory, 0, (size_t)2 * BULK);            /* so that there are pages */
    double bulk = best_copy_us(memory, BULK, true); /* as the executor copies such a block */
    memset(memory, 0, FAR_SPAN);
    memset(memory + BULK, 0, FAR_SPAN);
    double far = best_copy_us(memory, FAR, false);
    free(memory);
    HK_TRY(hki_tune_point_add(points, &(hki_tune_point){.series = HKI_TUNE_COPY_FAR, .bytes = FAR, .us = far}));
    return hki_tune_point_add(points, &(hki_tune_point){.series = HKI_TUNE_COPY_BULK, .bytes = BULK, .us = bulk});
}
