/*
 * Operators of one's own: where is the largest value? The element is a struct that Hocket moves without knowing it,
 * and reduces with a function of the program's.
 */
#include "check.h"

typedef struct peak {
    double value;
    int64_t rank;
} peak;

/* out[i] = the larger of left[i] and right[i]; of equal ones the left, which comes from the lower rank. */
static void larger(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    const peak *a = left, *b = right;
    peak *result = out;
    (void)type;
    (void)context;
    for (uint64_t i = 0; i < count; i++)
        result[i] = b[i].value > a[i].value ? b[i] : a[i];
}

int main(void)
{
    hk_comm *comm;
    hk_op op, scaled;
    check(hk_init(&comm));
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);

    check(hk_op_create(larger, 1, NULL, &op));
    peak mine = {.value = (rank * 7) % 5, .rank = rank}, highest;
    check(hk_allreduce(&mine, &highest, 1, HK_OPAQUE(sizeof(peak)), op, comm));
    check(hk_op_free(op));
    for (int other = 0; other < size; other++)
        expect((other * 7) % 5 <= highest.value, "the largest value");
    expect((highest.rank * 7) % 5 == highest.value, "the rank of the largest value");

    /* Each rank's share counts with a weight of its own. */
    float weight = 1.0f / (float)size, one = 1.0f, mean = 0.0f;
    check(hk_op_create_premul_sum(&weight, HK_FLOAT32, &scaled));
    check(hk_allreduce(&one, &mean, 1, HK_FLOAT32, scaled, comm));
    check(hk_op_free(scaled));
    expect(mean > 0.999f && mean < 1.001f, "the weighted sum");

    if (rank == 0)
        printf("rank %lld has the largest value, %g\n", (long long)highest.rank, highest.value);
    check(hk_comm_free(comm));
    return 0;
}
