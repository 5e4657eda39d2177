/*
 * Communicators whose identifiers in messages would be the same. Members agree on another, also when the one that they
 * would take first is in use at a single rank; when none is left they fail, all of them, and alike.
 */
#include "../support/ranks.h"

#include "comm/comm.h"
#include "comm/wires.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 3, SQUATTER = 1, CANDIDATES = 8 };

typedef enum way { DUP, SPLIT, GROUP, SHRINK, WAYS } way;

static const int list[RANKS] = {2, 0, 1};

static uint64_t next_id(const hk_comm *comm, way how)
{
    uint64_t ranks = hki_mix('g', 5);
    for (int i = 0; i < RANKS; i++)
        ranks = hki_mix(ranks, (uint64_t)list[i]);
    switch (how) {
    case DUP:
        return hki_id_of_dup(comm->id, comm->operations);
    case SPLIT:
        return hki_id_of_split(comm->id, comm->operations, 4);
    case GROUP:
        return hki_id_of_group(comm->id, ranks, comm->group_count ? comm->groups[0].made : 0);
    default:
        return hki_id_of_shrink(comm->id, comm->shrinks);
    }
}

static hk_status make(hk_comm *comm, way how, hk_comm **made)
{
    switch (how) {
    case DUP:
        return hk_comm_dup(comm, made);
    case SPLIT:
        return hk_comm_split(comm, 4, 0, made);
    case GROUP:
        return hk_comm_create_group(comm, list, RANKS, 5, made);
    default:
        return hk_comm_shrink(comm, made);
    }
}

/* Takes the first `count` candidates of an id, by communicators of this rank alone. */
static void squat(hk_comm *comm, uint64_t id, uint32_t count, hk_comm **taken)
{
    for (uint32_t n = 0; n < count; n++) {
        uint32_t *world = malloc(sizeof *world);
        EXPECT(world);
        *world = comm->context->rank;
        hki_comm_name name = {.id = n, .wire = hki_wire_candidate(id, n)};
        EXPECT_OK(hki_comm_new(comm->context, name, 0, 1, world, &taken[n]));
    }
}

static void check_works(hk_comm *comm)
{
    int32_t one = 1, sum = 0;
    EXPECT_OK(hk_allreduce(&one, &sum, 1, HK_INT32, HK_SUM, comm));
    EXPECT(sum == RANKS);
}

/* One rank has so many of the next communicator's candidates in use. */
static void make_beside(hk_comm *comm, way how, uint32_t used)
{
    hk_comm *taken[CANDIDATES], *made = NULL;
    uint64_t id = next_id(comm, how);
    bool squats = hk_comm_world_rank(comm) == SQUATTER;
    if (squats)
        squat(comm, id, used, taken);
    hk_status status = make(comm, how, &made);
    if (used < CANDIDATES) {
        EXPECT(status == HK_OK);
        EXPECT(made->id == id && made->wire == hki_wire_candidate(id, used));
        check_works(made);
        EXPECT_OK(hk_comm_free(made));
    } else {
        EXPECT(status == HK_ERR_INTERNAL && made == NULL);
        EXPECT_ERROR_NAMES("identifier");
    }
    for (uint32_t n = 0; n < used && squats; n++)
        EXPECT_OK(hk_comm_free(taken[n]));
}

static int collide(hk_comm *comm, int rank, void *argument)
{
    static const uint32_t used[] = {0, 1, 3, CANDIDATES, CANDIDATES - 1};
    (void)rank;
    (void)argument;
    for (way how = 0; how < SHRINK; how++) {
        for (size_t i = 0; i < sizeof used / sizeof *used; i++)
            make_beside(comm, how, used[i]);
        check_works(comm);
    }
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_comm_abort(comm, "to be shrunk"));
    for (size_t i = 0; i < sizeof used / sizeof *used; i++)
        make_beside(comm, SHRINK, used[i]);
    return 0;
}

static void test_all_ranks_take_the_same_free_identifier(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 10};
    assert_int_equal(ranks_run(RANKS, &options, collide, NULL), 0);
}

static int remake(hk_comm *comm, int rank, void *argument)
{
    (void)rank;
    (void)argument;
    uint64_t id = next_id(comm, DUP);
    hk_comm *made, *again;
    EXPECT_OK(hk_comm_dup(comm, &made));
    EXPECT_OK(hk_comm_free(made));
    comm->operations--; /* the next has the id of the one that is gone, to which late messages may still come */
    EXPECT_OK(hk_comm_dup(comm, &again));
    EXPECT(again->id == id && again->wire == hki_wire_candidate(id, 1));
    check_works(again);
    EXPECT_OK(hk_comm_free(again));
    return 0;
}

static void test_identifiers_rest_after_their_communicator_is_freed(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 10};
    assert_int_equal(ranks_run(RANKS, &options, remake, NULL), 0);
}

/* The messages by which members of a list agree are nobody's to receive. */
static int receive_meanwhile(hk_comm *comm, int rank, void *argument)
{
    int32_t word = 40 + rank;
    hk_request *request = NULL;
    hk_message message = {0};
    hk_comm *made;
    (void)argument;
    if (rank == 0)
        EXPECT_OK(hk_irecv(&word, 1, HK_INT32, HK_ANY_SOURCE, HK_ANY_TAG, comm, &request));
    EXPECT_OK(hk_barrier(comm));
    EXPECT_OK(hk_comm_create_group(comm, list, RANKS, 5, &made));
    check_works(made);
    if (rank == 2)
        EXPECT_OK(hk_send(&word, 1, HK_INT32, 0, 9, comm));
    if (rank == 0) {
        EXPECT_OK(hk_wait_message(&request, &message));
        EXPECT(word == 42 && message.source == 2 && message.tag == 9);
    }
    EXPECT_OK(hk_comm_free(made));
    return 0;
}

static void test_agreement_is_not_received_by_the_program(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 10};
    assert_int_equal(ranks_run(RANKS, &options, receive_meanwhile, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_take_the_same_free_identifier),
        cmocka_unit_test(test_identifiers_rest_after_their_communicator_is_freed),
        cmocka_unit_test(test_agreement_is_not_received_by_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
