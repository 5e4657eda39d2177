/* Reducing with any operator: predefined ones by kernels, made ones by the program's function. */
#include "base/error.h"
#include "dtype/kernels.h"
#include "dtype/operators.h"

#include <string.h>

/* Bytes of the block in which a program's function folds many sources. A guess: fits the first cache beside them. */
#define FOLD_BYTES 4096u

static hk_status does_not_fit(hk_type type, hk_op op, const char *why)
{
    if (type < HK_TYPE_COUNT)
        return hki_error(HK_ERR_OPERATOR, "operator %s does not fit type %s: %s", hk_op_name(op), hk_type_name(type),
                         why);
    return hki_error(HK_ERR_OPERATOR, "operator %s does not fit type opaque of %zu bytes: %s", hk_op_name(op),
                     hk_type_size(type), why);
}

/* Fills the kernels of a predefined operator. */
static hk_status find_kernels(hk_type type, hk_op op, hki_reducer *reducer)
{
    const hki_kernel_set *set = NULL;
    HK_TRY(hki_kernels_current(&set));
    const hki_kernel_entry *entry = hki_kernels_entry(set, type, op);
    if (entry->two == NULL)
        return does_not_fit(type, op, "bitwise and logical operators take integers only");
    reducer->two = entry->two;
    reducer->two_stream = entry->two_stream;
    reducer->many = entry->many;
    return HK_OK;
}

static hk_status find_made(hk_type type, hk_op op, hki_reducer *reducer)
{
    hki_operator *made = hki_operator_acquire(op);
    if (made == NULL)
        return hki_error(HK_ERR_OPERATOR, "unknown operator 0x%x", op);
    reducer->user = made;
    reducer->commutative = made->commutative;
    if (made->function != NULL)
        return HK_OK;
    hk_status status = HK_OK;
    if (made->type == type)
        status = find_kernels(type, HK_SUM, reducer);
    else
        status = does_not_fit(type, op, "its scalar is of another type");
    reducer->scales_input = true;
    if (status != HK_OK)
        hki_operator_release(made);
    return status;
}

hk_status hki_reducer_find(hk_type type, hk_op op, hki_reducer *reducer)
{
    if (!hki_type_valid(type))
        return hki_error(HK_ERR_TYPE, "unknown data type 0x%x", type);
    hki_reducer found = {.op = op, .type = type, .element_bytes = (uint32_t)hk_type_size(type), .commutative = true};
    if (op >= HK_OP_COUNT)
        HK_TRY(find_made(type, op, &found));
    else if (type >= HK_TYPE_COUNT)
        return does_not_fit(type, op, "an opaque element needs an operator made by hk_op_create");
    else
        HK_TRY(find_kernels(type, op, &found));
    *reducer = found;
    return HK_OK;
}

void hki_reducer_release(hki_reducer *reducer)
{
    if (reducer->user != NULL)
        hki_operator_release(reducer->user);
    reducer->user = NULL;
}

static void call_function(const hki_reducer *reducer, void *out, const void *left, const void *right, uint64_t count)
{
    const hki_operator *made = reducer->user;
    made->function(left, right, out, count, reducer->type, made->context);
}

void hki_reduce_two(const hki_reducer *reducer, void *out, const void *left, const void *right, uint64_t count,
                    bool stream)
{
    if (reducer->two == NULL)
        call_function(reducer, out, left, right, count);
    else if (stream && reducer->two_stream != NULL)
        reducer->two_stream(out, left, right, count);
    else
        reducer->two(out, left, right, count);
}

/* Folds straight into out: only when out is none of sources[2] and later, which would be overwritten before use. */
static void fold_into_out(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                          uint64_t count)
{
    call_function(reducer, out, sources[0], sources[1], count);
    for (unsigned s = 2; s < source_count; s++)
        call_function(reducer, out, out, sources[s], count);
}

/* Folds block by block beside out, so that out may be any source. */
static void fold_by_blocks(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                           uint64_t count)
{
    _Alignas(64) char block[FOLD_BYTES];
    uint64_t bytes = reducer->element_bytes, step = FOLD_BYTES / bytes;
    for (uint64_t at = 0; at < count; at += step) {
        uint64_t length = count - at < step ? count - at : step, offset = at * bytes;
        call_function(reducer, block, (const char *)sources[0] + offset, (const char *)sources[1] + offset, length);
        for (unsigned s = 2; s < source_count; s++)
            call_function(reducer, block, block, (const char *)sources[s] + offset, length);
        memcpy((char *)out + offset, block, length * bytes);
    }
}

/* For elements larger than a block, with out the source `own`: folds to its right, then to its left. Keeps the order
 * of operands; groups them otherwise than the forms above, which an associative operator allows. */
static void fold_around(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                        uint64_t count, unsigned own)
{
    for (unsigned s = own + 1; s < source_count; s++)
        call_function(reducer, out, out, sources[s], count);
    for (unsigned s = own; s-- > 0;)
        call_function(reducer, out, sources[s], out, count);
}

static void fold_by_function(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                             uint64_t count)
{
    unsigned own = 0;
    for (unsigned s = 2; s < source_count; s++)
        if (sources[s] == out)
            own = s;
    if (source_count == 1)
        memmove(out, sources[0], count * reducer->element_bytes);
    else if (own == 0)
        fold_into_out(reducer, out, sources, source_count, count);
    else if (reducer->element_bytes <= FOLD_BYTES)
        fold_by_blocks(reducer, out, sources, source_count, count);
    else
        fold_around(reducer, out, sources, source_count, count, own);
}

void hki_reduce_many(const hki_reducer *reducer, void *out, const void *const *sources, unsigned source_count,
                     uint64_t count, uint32_t divisor)
{
    if (reducer->many == NULL)
        fold_by_function(reducer, out, sources, source_count, count);
    else
        reducer->many(out, sources, source_count, count, divisor);
}

void hki_reduce_finish(const hki_reducer *reducer, void *data, uint64_t count, uint32_t divisor)
{
    const void *source = data;
    if (reducer->op == HK_AVG && divisor > 1)
        reducer->many(data, &source, 1, count, divisor);
}

/* The prod kernels do the work, against a block of copies of the scalar. */
void hki_reducer_scale(const hki_reducer *reducer, void *out, const void *in, uint64_t count)
{
    const hki_operator *made = reducer->user;
    const hki_kernel_set *set = NULL;
    if (hki_kernels_current(&set) != HK_OK)
        set = &hki_kernels_reference; /* not reached: the reducer was found with a set */
    hki_kernel2 *prod = hki_kernels_entry(set, reducer->type, HK_PROD)->two;
    uint64_t bytes = reducer->element_bytes, step = HKI_SCALE_BYTES / bytes;
    for (uint64_t at = 0; at < count; at += step) {
        uint64_t length = count - at < step ? count - at : step;
        prod((char *)out + at * bytes, (const char *)in + at * bytes, made->scale, length);
    }
}

void hki_copy_bytes(void *out, const void *in, size_t bytes, bool stream)
{
    const hki_kernel_set *set = NULL;
    if (stream && hki_kernels_current(&set) == HK_OK && set->copy_stream != NULL)
        set->copy_stream(out, in, bytes);
    else if (bytes > 0)
        memcpy(out, in, bytes);
}
