/* HOCKET_ALGORITHM among real ranks: what it names is used or refused with a reason, on every rank alike. */
#include "../support/ranks.h"

#include "base/settings.h"
#include "comm/comm.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 3 };

/* What ranks are told, and what creation must say. */
typedef struct wrong {
    const char *setting;    /* HOCKET_ALGORITHM, if it is NULL */
    const char *all, *last; /* its value for all ranks; for the last, if it differs */
    hk_status status;
    const char *says;
    hk_store *store;
} wrong;

static int create_with(hk_comm *none, int rank, void *argument)
{
    const wrong *given = argument;
    hk_comm *comm = NULL;
    (void)none;
    setenv(given->setting ? given->setting : "HOCKET_ALGORITHM",
           rank == RANKS - 1 && given->last ? given->last : given->all, 1);
    hki_settings_reset();
    hk_options options = ranks_join(rank, RANKS, given->store);
    options.timeout = 10;
    EXPECT_STATUS(hk_comm_create(&options, &comm), given->status);
    EXPECT(comm == NULL);
    EXPECT_ERROR_NAMES(given->says);
    return 0;
}

static void try_wrong(wrong given)
{
    ranks_options options = {.no_context = true};
    given.store = ranks_store_new();
    assert_int_equal(ranks_run(RANKS, &options, create_with, &given), 0);
    ranks_store_free(given.store);
}

static void names_that_do_not_exist_are_errors_at_creation(void **state)
{
    (void)state;
    try_wrong((wrong){.all = "allreduce:rings",
                      .status = HK_ERR_SETTING,
                      .says = "HOCKET_ALGORITHM: allreduce has no algorithm \"rings\"; it has ring, segmented_ring"});
    try_wrong((wrong){.all = "allreduce:^rings", .status = HK_ERR_SETTING, .says = "\"rings\""});
    try_wrong((wrong){.all = "allredoce:ring", .status = HK_ERR_SETTING, .says = "\"allredoce\""});
    try_wrong((wrong){.all = "ring", .status = HK_ERR_SETTING, .says = "collective:algorithm"});
    try_wrong((wrong){
        .all = "broadcast:flat,allreduce:ring,allreduce:flat", .status = HK_ERR_SETTING, .says = "both ring and flat"});
}

static void ranks_that_disagree_are_told(void **state)
{
    (void)state;
    try_wrong((wrong){.all = "allreduce:ring",
                      .last = "allreduce:flat",
                      .status = HK_ERR_SETTING,
                      .says = "allreduce:flat for rank 2 on"});
    /* A rank that runs a schedule in a straight line takes every message for one that comes at once. */
    try_wrong((wrong){
        .setting = "HOCKET_EAGER", .all = "0", .last = "1000", .status = HK_ERR_SETTING, .says = "1000 for rank 2 on"});
}

/* Associative, and different when the order is. */
static void first_of_both(const void *left, const void *right, void *out, uint64_t count, hk_type type, void *context)
{
    (void)right;
    (void)context;
    memmove(out, left, count * hk_type_size(type));
}

static const char *served_by(const hk_comm *comm)
{
    return comm->last_algorithm->name;
}

static int refuse_and_go_on(hk_comm *comm, int rank, void *argument)
{
    int32_t mine[RANKS] = {rank, rank + 1, rank + 2}, result[RANKS] = {-1, -1, -1};
    hk_op first;
    (void)argument;
    EXPECT_OK(hk_op_create(first_of_both, 0, NULL, &first));
    EXPECT_STATUS(hk_allreduce(mine, result, RANKS, HK_INT32, first, comm), HK_ERR_UNSUPPORTED);
    EXPECT_ERROR_NAMES("ring");
    EXPECT_ERROR_NAMES("rank order");
    EXPECT_STATUS(hk_allgather(mine, result, 1, HK_INT32, comm), HK_ERR_UNSUPPORTED);
    EXPECT_ERROR_NAMES("even number of ranks");
    EXPECT(result[0] == -1 && result[2] == -1);
    /* Nothing has been poisoned, and what can be served is. */
    EXPECT_OK(hk_allreduce(mine, result, RANKS, HK_INT32, HK_SUM, comm));
    EXPECT(result[0] == 3 && result[2] == 9);
    EXPECT(strcmp(served_by(comm), "ring") == 0);
    EXPECT_OK(hk_reduce(mine, result, RANKS, HK_INT32, first, 0, comm));
    EXPECT(rank != 0 || (result[0] == 0 && result[2] == 2));
    EXPECT_OK(hk_op_free(first));
    return 0;
}

static void what_cannot_serve_is_an_error_that_says_why(void **state)
{
    (void)state;
    ranks_options options = {.settings = "HOCKET_ALGORITHM=allreduce:ring,allgather:neighbour_exchange", .timeout = 10};
    assert_int_equal(ranks_run(RANKS, &options, refuse_and_go_on, NULL), 0);
}

static int avoid_forbidden(hk_comm *comm, int rank, void *argument)
{
    int32_t mine = rank, sum = -1, all[RANKS] = {-1, -1, -1};
    (void)argument;
    EXPECT_OK(hk_allreduce(&mine, &sum, 1, HK_INT32, HK_SUM, comm));
    EXPECT(sum == RANKS);
    EXPECT(strcmp(served_by(comm), "flat") != 0 && strcmp(served_by(comm), "recursive_doubling") != 0);
    EXPECT_STATUS(hk_gatherv(&mine, 1, all, (const uint64_t[]){1, 1, 1}, NULL, HK_INT32, 0, comm), HK_ERR_UNSUPPORTED);
    EXPECT_ERROR_NAMES("forbids");
    return 0;
}

static void what_is_forbidden_is_not_chosen(void **state)
{
    (void)state;
    ranks_options options = {
        .settings = "HOCKET_ALGORITHM=allreduce:^flat,allreduce:^recursive_doubling,gatherv:^linear", .timeout = 10};
    assert_int_equal(ranks_run(RANKS, &options, avoid_forbidden, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_do_not_exist_are_errors_at_creation),
        cmocka_unit_test(ranks_that_disagree_are_told),
        cmocka_unit_test(what_cannot_serve_is_an_error_that_says_why),
        cmocka_unit_test(what_is_forbidden_is_not_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
