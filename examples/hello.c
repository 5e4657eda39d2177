/*
 * The smallest program: every rank brings a number, every rank gets the sum.
 *
 *   hello                    one process is rank 0 of 1
 *   hocket run -n 4 hello    four of them
 */
#include "check.h"

int main(void)
{
    hk_comm *comm;
    check(hk_init(&comm));
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);

    double mine = rank + 1, sum = 0;
    check(hk_allreduce(&mine, &sum, 1, HK_FLOAT64, HK_SUM, comm));
    printf("rank %d of %d: the sum is %g\n", rank, size, sum);
    expect(sum == size * (size + 1) / 2.0, "the sum");

    check(hk_comm_free(comm));
    return 0;
}
