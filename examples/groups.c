/*
 * Groups: ranks as a grid of rows and columns, each with a communicator of its own, as programs that combine data and
 * tensor parallelism use them. Also a duplicate, whose operations never meet the original's.
 */
#include "check.h"

int main(void)
{
    hk_comm *world, *row, *column, *library, *first_half = NULL;
    check(hk_init(&world));
    int rank = hk_comm_rank(world), size = hk_comm_size(world);
    int width = size % 2 == 0 ? 2 : 1;

    check(hk_comm_split(world, rank / width, rank % width, &row));
    check(hk_comm_split(world, rank % width, rank / width, &column));
    expect(hk_comm_size(row) == width && hk_comm_size(column) == size / width, "the size of a row or column");

    int64_t mine = rank, row_sum = 0, total = 0;
    check(hk_allreduce(&mine, &row_sum, 1, HK_INT64, HK_SUM, row));
    check(hk_allreduce(&row_sum, &total, 1, HK_INT64, HK_SUM, column));
    expect(total == (int64_t)size * (size - 1) / 2, "the sum over rows, then columns");

    check(hk_comm_dup(world, &library));
    check(hk_barrier(library));
    check(hk_comm_free(library));

    /* Only the ranks in the list call this. */
    int members[64], count = (size + 1) / 2 < 64 ? (size + 1) / 2 : 64;
    for (int i = 0; i < count; i++)
        members[i] = i;
    if (rank < count) {
        check(hk_comm_create_group(world, members, count, 7, &first_half));
        expect(hk_comm_world_rank(first_half) == rank, "the rank in the job");
        check(hk_barrier(first_half));
        check(hk_comm_free(first_half));
    }
    if (rank == 0)
        printf("%d ranks as %d rows of %d\n", size, size / width, width);
    check(hk_comm_free(row));
    check(hk_comm_free(column));
    check(hk_comm_free(world));
    return 0;
}
