/* The verifier: right schedules pass and are counted; each kind of broken schedule is rejected, and where is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/builder.h"
#include "sched/verify.h"

enum { MOST_RANKS = 16 };

/* The schedules of all ranks of one collective. */
typedef struct job {
    uint32_t ranks;
    hki_schedule *of[MOST_RANKS];
    hki_verify_report report;
} job;

typedef void write_rank(hki_builder *builder, const hki_group *group);

static job make(const hki_shape *shape, write_rank *write)
{
    job made = {.ranks = shape->ranks};
    for (uint32_t rank = 0; rank < shape->ranks; rank++) {
        hki_shape own = *shape;
        own.rank = rank;
        for (int i = 0; i < 2; i++)
            if (own.grid[i].cut == HKI_CUT_ONE)
                own.grid[i].own = rank;
        hki_group group = {.size = shape->ranks, .rank = rank, .stride = 1};
        hki_builder *builder = hki_builder_new(&own);
        write(builder, &group);
        hk_status status;
        made.of[rank] = hki_builder_finish(builder, &status);
        assert_int_equal(status, HK_OK);
    }
    return made;
}

static void discard(job *made)
{
    for (uint32_t rank = 0; rank < made->ranks; rank++)
        hki_schedule_free(made->of[rank]);
}

static hk_status verify(job *made)
{
    return hki_verify((const hki_schedule *const *)made->of, made->ranks, "test", &made->report);
}

/* Expects a pass, and discards. */
static void expect_pass(job made, uint32_t rounds, double sent, bool keeps_order)
{
    hk_status status = verify(&made);
    if (status != HK_OK)
        print_error("%s\n", hk_last_error());
    assert_int_equal(status, HK_OK);
    assert_int_equal(made.report.fault, HKI_FAULT_NONE);
    assert_int_equal(made.report.rounds, rounds);
    assert_true(made.report.sent > sent - 1e-9 && made.report.sent < sent + 1e-9);
    assert_int_equal(made.report.keeps_order, keeps_order);
    discard(&made);
}

/* Expects a failure at a place, with a text that names it; and discards. */
static void expect_fault(job made, hki_fault fault, uint32_t rank, uint32_t step, uint32_t block)
{
    hk_status status = verify(&made);
    if (made.report.fault != fault)
        print_error("expected %s, found %s: %s\n", hki_fault_name(fault), hki_fault_name(made.report.fault),
                    status == HK_OK ? "" : hk_last_error());
    assert_int_equal(status, HK_ERR_INTERNAL);
    assert_int_equal(made.report.fault, fault);
    assert_int_equal(made.report.rank, rank);
    assert_int_equal(made.report.step, step);
    assert_int_equal(made.report.block, block);
    char text[64];
    snprintf(text, sizeof text, "by test for %u ranks, rank %u", made.ranks, rank);
    assert_non_null(strstr(hk_last_error(), text));
    snprintf(text, sizeof text, ", step {%u: ", step);
    assert_true(step == HKI_NOWHERE || strstr(hk_last_error(), text));
    snprintf(text, sizeof text, ", block %u", block);
    assert_true(block == HKI_NOWHERE || strstr(hk_last_error(), text));
    discard(&made);
}

static uint32_t new_dep(hki_schedule *schedule, uint32_t step, uint32_t dep)
{
    hki_step *at = &schedule->steps[step];
    uint32_t *deps = realloc(schedule->deps, (schedule->dep_count + at->dep_count + 1) * sizeof *deps);
    schedule->deps = deps;
    uint32_t first = schedule->dep_count;
    for (uint32_t i = 0; i < at->dep_count; i++)
        deps[schedule->dep_count++] = deps[at->first_dep + i];
    deps[schedule->dep_count++] = dep;
    at->first_dep = first;
    return ++at->dep_count;
}

static void drop_deps(hki_schedule *schedule, uint32_t step)
{
    schedule->steps[step].dep_count = 0;
}

/* Leaves out the last step. */
static void drop_last(hki_schedule *schedule)
{
    schedule->step_count--;
}

/* ---- right schedules ---- */

static hki_shape vectors(hki_collective collective, uint32_t ranks, uint32_t parts)
{
    return (hki_shape){.collective = collective,
                       .ranks = ranks,
                       .segments = 1,
                       .grid = {{.cut = HKI_CUT_EVEN, .parts = parts, .segments = 1},
                                {.cut = HKI_CUT_EVEN, .parts = parts, .segments = 1}}};
}

static const hki_grid own_part = {.cut = HKI_CUT_ONE, .parts = 1, .segments = 1};

static hki_grid all_parts(uint32_t ranks)
{
    return (hki_grid){.cut = HKI_CUT_COUNTS, .parts = ranks, .segments = 1};
}

/* Ring all-reduce: reduce-scatter, then all-gather. */
static void ring(hki_builder *b, const hki_group *group)
{
    uint32_t n = group->size, r = group->rank, right = (r + 1) % n, left = (r + n - 1) % n;
    hki_region in = hki_whole(b, HKI_INPUT, n), out = hki_whole(b, HKI_OUTPUT, n);
    for (uint32_t s = 0; s + 1 < n; s++) {
        uint32_t give = (r + n - s) % n, take = (r + 2 * n - s - 1) % n;
        hki_send(b, group, right, hki_share(s ? &out : &in, give));
        hki_recv_reduce(b, group, left, hki_share(&out, take), hki_share(&in, take), true, s + 2 == n);
    }
    for (uint32_t s = 0; s + 1 < n; s++) {
        hki_send(b, group, right, hki_share(&out, (r + 1 + n - s) % n));
        hki_recv(b, group, left, hki_share(&out, (r + n - s) % n));
    }
}

static job ring_job(uint32_t ranks, bool in_place)
{
    hki_shape shape = vectors(HKI_COLL_ALLREDUCE, ranks, ranks);
    if (in_place)
        shape.alias.count = ranks;
    return make(&shape, ring);
}

/* Two ranks exchange everything; the lower rank's is the left operand. */
static void exchange(hki_builder *b, const hki_group *group)
{
    hki_region in = hki_whole(b, HKI_INPUT, 1), out = hki_whole(b, HKI_OUTPUT, 1);
    hki_send(b, group, 1 - group->rank, hki_all(&in));
    hki_recv_reduce(b, group, 1 - group->rank, hki_all(&out), hki_all(&in), group->rank == 1, true);
}

static job exchange_job(void)
{
    hki_shape shape = vectors(HKI_COLL_ALLREDUCE, 2, 1);
    return make(&shape, exchange);
}

/* Rank 0 sends each block to everyone. */
static void star(hki_builder *b, const hki_group *group)
{
    hki_region out = hki_whole(b, HKI_OUTPUT, 2);
    for (uint32_t block = 0; block < 2; block++)
        for (uint32_t peer = 1; peer < group->size; peer++) {
            if (group->rank == 0)
                hki_send(b, group, peer, hki_share(&out, block));
            if (group->rank == peer)
                hki_recv(b, group, 0, hki_share(&out, block));
        }
}

static job star_job(void)
{
    hki_shape shape = vectors(HKI_COLL_BROADCAST, 3, 2);
    shape.grid[HKI_INPUT].cut = HKI_CUT_NONE;
    return make(&shape, star);
}

/* Everyone sends to rank 0, which reduces in one pass, in rank order. */
static void flat_reduce(hki_builder *b, const hki_group *group)
{
    hki_region in = hki_whole(b, HKI_INPUT, 1);
    if (group->rank > 0) {
        hki_send(b, group, 0, hki_all(&in));
        return;
    }
    hki_region out = hki_whole(b, HKI_OUTPUT, 1);
    hki_span sources[MOST_RANKS] = {hki_all(&in)};
    for (uint32_t peer = 1; peer < group->size; peer++) {
        sources[peer] = hki_in_slot(hki_scratch_slot(b), hki_all(&in));
        hki_recv(b, group, peer, sources[peer]);
    }
    hki_reduce(b, hki_all(&out), sources, group->size, true);
}

static job reduce_job(void)
{
    hki_shape shape = vectors(HKI_COLL_REDUCE, 3, 1);
    return make(&shape, flat_reduce);
}

/* Gather along the chain 2 → 1 → 0, packed into one slot on the way. */
static void chain_gather(hki_builder *b, const hki_group *group)
{
    uint32_t n = group->size, r = group->rank;
    hki_region in = hki_whole(b, HKI_INPUT, 1), out = hki_whole(b, HKI_OUTPUT, n);
    if (r == 0) {
        hki_copy(b, hki_share(&out, 0), hki_all(&in), false);
        hki_recv(b, group, 1, hki_share(&out, 1));
        hki_recv(b, group, 1, hki_shares(&out, 2, n - 2));
        return;
    }
    hki_send(b, group, r - 1, hki_all(&in));
    if (r + 1 == n)
        return;
    uint32_t slot = hki_scratch_slot(b);
    hki_recv(b, group, r + 1, hki_in_slot(slot, hki_share(&out, r + 1)));
    hki_send(b, group, r - 1, hki_in_slot(slot, hki_share(&out, r + 1)));
}

static job gather_job(hki_collective collective)
{
    hki_shape shape = {.collective = collective, .ranks = 3, .segments = 1, .grid = {own_part, all_parts(3)}};
    return make(&shape, chain_gather);
}

static void dissemination(hki_builder *b, const hki_group *group)
{
    for (uint32_t distance = 1; distance < group->size; distance *= 2) {
        hki_fence(b);
        hki_send(b, group, (group->rank + distance) % group->size, (hki_span){0});
        hki_recv(b, group, (group->rank + group->size - distance) % group->size, (hki_span){0});
    }
}

static job barrier_job(uint32_t ranks)
{
    hki_shape shape = {.collective = HKI_COLL_BARRIER, .ranks = ranks};
    return make(&shape, dissemination);
}

static void right_schedules_pass_and_are_counted(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks++) {
        uint32_t logarithm = 0;
        while (1u << logarithm < ranks)
            logarithm++;
        expect_pass(ring_job(ranks, false), 2 * (ranks - 1), 2.0 * (ranks - 1) / ranks, false);
        expect_pass(ring_job(ranks, true), 2 * (ranks - 1), 2.0 * (ranks - 1) / ranks, false);
        expect_pass(barrier_job(ranks), logarithm, 0, true);
    }
    expect_pass(exchange_job(), 1, 1, true);
    expect_pass(star_job(), 1, 2, true);
    expect_pass(reduce_job(), 1, 1, true);
    expect_pass(gather_job(HKI_COLL_GATHER), 2, 2.0 / 3, true);
    expect_pass(gather_job(HKI_COLL_GATHERV), 2, 2.0 / 3, true);
}

/* ---- each kind of broken schedule ---- */

static void a_lost_block_is_found(void **state)
{
    (void)state;
    job made = star_job();
    drop_last(made.of[0]); /* block 1 to rank 2 */
    drop_last(made.of[2]);
    expect_fault(made, HKI_FAULT_LOST, 2, HKI_NOWHERE, 1);
}

static void missing_contributions_are_found(void **state)
{
    (void)state;
    job made = reduce_job();
    made.of[0]->steps[2].source_count = 2;
    expect_fault(made, HKI_FAULT_WRONG_CONTRIBUTIONS, 0, HKI_NOWHERE, 0);
}

static void a_double_contribution_is_found(void **state)
{
    (void)state;
    job made = reduce_job();
    made.of[0]->sources[2] = made.of[0]->sources[1];
    expect_fault(made, HKI_FAULT_DOUBLE, 0, 2, 0);
}

static void another_association_is_found(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[1]->steps[1].flags ^= HKI_INCOMING_LEFT;
    expect_fault(made, HKI_FAULT_ASSOCIATION, 1, HKI_NOWHERE, 0);
}

static void wrong_operand_order_is_reported(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[0]->steps[1].flags ^= HKI_INCOMING_LEFT;
    made.of[1]->steps[1].flags ^= HKI_INCOMING_LEFT;
    expect_pass(made, 1, 1, false);
    made = reduce_job();
    hki_span first = made.of[0]->sources[0];
    made.of[0]->sources[0] = made.of[0]->sources[2];
    made.of[0]->sources[2] = first;
    expect_pass(made, 1, 1, false);
}

static void blocks_in_the_wrong_place_are_found(void **state)
{
    (void)state;
    job made = gather_job(HKI_COLL_GATHER);
    made.of[0]->steps[1].destination.blocks.first = 2;
    made.of[0]->steps[2].destination.blocks.first = 1;
    expect_fault(made, HKI_FAULT_WRONG_BLOCK, 0, HKI_NOWHERE, 1);
}

/* The same mistake where the blocks need not be equally long. */
static void lengths_known_only_by_identity_are_compared(void **state)
{
    (void)state;
    job made = gather_job(HKI_COLL_GATHERV);
    made.of[0]->steps[1].destination.blocks.first = 2;
    made.of[0]->steps[2].destination.blocks.first = 1;
    expect_fault(made, HKI_FAULT_LENGTH, 0, 1, 2);
    made = gather_job(HKI_COLL_GATHERV);
    made.of[1]->steps[2].source.blocks.first = 0; /* read from the slot as another block than was put there */
    made.of[0]->steps[2].destination.blocks.first = 0;
    expect_fault(made, HKI_FAULT_RACE, 0, 2, 0);
    made = gather_job(HKI_COLL_GATHERV);
    made.of[1]->steps[2].source.blocks.first = 1;
    made.of[0]->steps[2].destination.blocks.first = 1;
    new_dep(made.of[0], 2, 1);
    expect_fault(made, HKI_FAULT_LENGTH, 1, 2, 1);
}

static void messages_in_the_wrong_order_are_found(void **state)
{
    (void)state;
    job made = star_job();
    made.of[1]->steps[0].ordinal = 1;
    made.of[1]->steps[1].ordinal = 0;
    expect_fault(made, HKI_FAULT_UNMATCHED, 1, 0, HKI_NOWHERE);
    made = star_job();
    made.of[1]->steps[0].destination.blocks.first = 1;
    made.of[1]->steps[1].destination.blocks.first = 0;
    expect_fault(made, HKI_FAULT_LENGTH, 1, 0, 1);
}

static void unmatched_messages_are_found(void **state)
{
    (void)state;
    job made = star_job();
    drop_last(made.of[2]);
    expect_fault(made, HKI_FAULT_UNMATCHED, 0, 3, HKI_NOWHERE);
    made = star_job();
    drop_last(made.of[0]);
    expect_fault(made, HKI_FAULT_UNMATCHED, 2, 1, HKI_NOWHERE);
    made = star_job();
    made.of[0]->steps[3].peer = 1;
    made.of[0]->steps[3].ordinal = 2;
    expect_fault(made, HKI_FAULT_UNMATCHED, 0, 3, HKI_NOWHERE);
    made = star_job();
    made.of[0]->steps[3].ordinal = 5;
    expect_fault(made, HKI_FAULT_UNMATCHED, 0, 3, HKI_NOWHERE);
}

static void different_lengths_are_found(void **state)
{
    (void)state;
    job made = star_job();
    made.of[0]->steps[2].source.blocks = (hki_range){.count = 2, .run = 2, .stride = 2, .wrap = 2};
    expect_fault(made, HKI_FAULT_LENGTH, 1, 1, HKI_NOWHERE);
    made = reduce_job();
    made.of[0]->sources[1].blocks.count = 0;
    expect_fault(made, HKI_FAULT_LENGTH, 0, 2, HKI_NOWHERE);
}

static void a_deadlock_of_rendezvous_is_found(void **state)
{
    (void)state;
    job made = exchange_job();
    new_dep(made.of[0], 1, 0);
    expect_pass(made, 2, 1, true); /* one of two may wait for its send: the other's receive is ready */
    made = exchange_job();
    new_dep(made.of[0], 1, 0);
    new_dep(made.of[1], 1, 0);
    expect_fault(made, HKI_FAULT_DEADLOCK, 0, 0, HKI_NOWHERE);
}

static void a_race_is_found(void **state)
{
    (void)state;
    job made = reduce_job();
    drop_deps(made.of[0], 2); /* reduces before the operands are there */
    expect_fault(made, HKI_FAULT_RACE, 0, 2, 0);
    made = star_job();
    made.of[1]->steps[1].destination.blocks.first = 0; /* two receives into one block */
    made.of[0]->steps[2].source.blocks.first = 0;
    expect_fault(made, HKI_FAULT_RACE, 1, 1, 0);
}

/* A rank must not write to what a peer may still be reading. */
static void a_race_with_a_peer_that_still_reads_is_found(void **state)
{
    (void)state;
    job made = ring_job(3, false);
    /* Rank 0 sends OUTPUT 2 in its second round, and receives the final block 2 in the last one. */
    assert_int_equal(made.of[0]->steps[2].verb, HKI_VERB_SEND);
    assert_int_equal(made.of[0]->steps[7].verb, HKI_VERB_RECV);
    assert_int_equal(made.of[0]->steps[2].source.blocks.first, made.of[0]->steps[7].destination.blocks.first);
    drop_deps(made.of[0], 7);
    expect_fault(made, HKI_FAULT_RACE, 0, 7, 2);
}

static void a_write_to_input_is_found(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[1]->steps[1].destination.buffer = made.of[1]->steps[1].destination.of = HKI_INPUT;
    expect_fault(made, HKI_FAULT_INPUT_WRITTEN, 1, 1, 0);
}

/* Rank 1 reads its INPUT after it has received into the same bytes. */
static void read_too_late(hki_builder *b, const hki_group *group)
{
    hki_region in = hki_whole(b, HKI_INPUT, 1), out = hki_whole(b, HKI_OUTPUT, 1);
    if (group->rank == 0) {
        hki_send(b, group, 1, hki_all(&in));
        return;
    }
    hki_recv(b, group, 0, hki_all(&out));
    hki_copy(b, hki_in_slot(hki_scratch_slot(b), hki_all(&in)), hki_all(&in), false);
}

static void reading_overwritten_input_is_found(void **state)
{
    (void)state;
    hki_shape shape = vectors(HKI_COLL_ALLREDUCE, 2, 1);
    shape.alias.count = 1;
    expect_fault(make(&shape, read_too_late), HKI_FAULT_INPUT_CLOBBERED, 1, 1, 0);
    job made = exchange_job();
    for (uint32_t rank = 0; rank < 2; rank++)
        made.of[rank]->alias.count = 1;
    expect_fault(made, HKI_FAULT_RACE, 0, 1, 0); /* the send may still read the input */
}

static void partly_overlapping_buffers_forbid_reads_beside_writes(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[0]->alias.whole = true;
    expect_fault(made, HKI_FAULT_RACE, 0, 1, HKI_NOWHERE);
}

static void a_missing_finish_is_found(void **state)
{
    (void)state;
    job made = ring_job(3, false);
    assert_int_equal(made.of[2]->steps[3].flags & HKI_FINISH, HKI_FINISH); /* completes block 0 */
    made.of[2]->steps[3].flags &= (uint8_t)~HKI_FINISH;
    expect_fault(made, HKI_FAULT_MISSING_FINISH, 0, HKI_NOWHERE, 0);
}

static void a_double_finish_is_found(void **state)
{
    (void)state;
    job made = ring_job(3, false);
    made.of[0]->steps[1].flags |= HKI_FINISH; /* a first partial sum of block 2, to which rank 1 adds */
    expect_fault(made, HKI_FAULT_DOUBLE_FINISH, 1, 3, 2);
}

static void output_where_it_is_not_significant_is_found(void **state)
{
    (void)state;
    job made = reduce_job();
    made.of[1]->steps[0].verb = HKI_VERB_COPY;
    made.of[1]->steps[0].destination = made.of[0]->steps[2].destination;
    made.of[0]->steps[0].verb = HKI_VERB_COPY;
    made.of[0]->steps[0].source = made.of[0]->sources[0];
    expect_fault(made, HKI_FAULT_OUTPUT_INSIGNIFICANT, 1, 0, 0);
}

/* Scatter in which rank 1 takes its part from its own INPUT, which only the root has. */
static void own_scatter(hki_builder *b, const hki_group *group)
{
    hki_region in = hki_whole(b, HKI_INPUT, group->size), out = hki_whole(b, HKI_OUTPUT, 1);
    hki_copy(b, hki_all(&out), hki_share(&in, group->rank), false);
}

static void input_where_it_is_not_significant_is_found(void **state)
{
    (void)state;
    hki_shape shape = {.collective = HKI_COLL_SCATTER, .ranks = 2, .segments = 1, .grid = {all_parts(2), own_part}};
    expect_fault(make(&shape, own_scatter), HKI_FAULT_INPUT_INSIGNIFICANT, 1, 0, 1);
}

static void reading_what_nobody_wrote_is_found(void **state)
{
    (void)state;
    job made = ring_job(3, false);
    made.of[0]->steps[1].source.buffer = made.of[0]->steps[1].source.of = HKI_OUTPUT;
    expect_fault(made, HKI_FAULT_UNDEFINED, 0, 1, 2);
}

/* All-to-all's parts are equally long, so that only their identity tells them apart. */
static void mixed_parts(hki_builder *b, const hki_group *group)
{
    hki_region in = hki_whole(b, HKI_INPUT, 2), out = hki_whole(b, HKI_OUTPUT, 1);
    hki_span sources[] = {hki_share(&in, 0), hki_share(&in, 1)};
    (void)group;
    hki_reduce(b, hki_all(&out), sources, 2, true);
}

static void reducing_different_blocks_is_found(void **state)
{
    (void)state;
    hki_shape shape = {
        .collective = HKI_COLL_REDUCE_SCATTER, .ranks = 2, .segments = 1, .grid = {all_parts(2), own_part}};
    expect_fault(make(&shape, mixed_parts), HKI_FAULT_MIXED, 0, 0, 0);
}

static void leaving_a_barrier_early_is_found(void **state)
{
    (void)state;
    job made = barrier_job(4);
    drop_deps(made.of[2], 2); /* does not wait for its first receive: rank 0 hears too little */
    expect_fault(made, HKI_FAULT_BARRIER, 0, HKI_NOWHERE, HKI_NOWHERE);
}

static void malformed_steps_are_found(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[1]->steps[1].destination.blocks.first = 0;
    made.of[1]->steps[1].destination.blocks.wrap = 2;
    expect_fault(made, HKI_FAULT_STRUCTURE, 1, 1, HKI_NOWHERE);
    made = exchange_job();
    new_dep(made.of[1], 0, 1); /* on a later step */
    expect_fault(made, HKI_FAULT_STRUCTURE, 1, HKI_NOWHERE, HKI_NOWHERE);
    made = exchange_job();
    made.of[0]->steps[0].peer = 0;
    expect_fault(made, HKI_FAULT_STRUCTURE, 0, HKI_NOWHERE, HKI_NOWHERE);
    made = exchange_job();
    made.of[0]->steps[0].peer = 2;
    expect_fault(made, HKI_FAULT_STRUCTURE, 0, HKI_NOWHERE, HKI_NOWHERE);
}

/* All-to-all in place that moves blocks within OUTPUT by `shift` blocks, in one step. */
static void move_blocks(hki_builder *b, const hki_group *group, uint32_t shift)
{
    hki_region out = hki_whole(b, HKI_OUTPUT, group->size);
    hki_copy(b, hki_shares(&out, shift, 2), hki_shares(&out, 0, 2), false);
}

static void copy_onto_itself(hki_builder *b, const hki_group *group)
{
    move_blocks(b, group, 0);
}

static void copy_shifted(hki_builder *b, const hki_group *group)
{
    move_blocks(b, group, 1);
}

/* A step may work in place, block for block, but not shifted. */
static void an_overlap_that_is_shifted_is_found(void **state)
{
    (void)state;
    hki_shape shape = {.collective = HKI_COLL_ALLTOALL, .ranks = 3, .segments = 1};
    shape.grid[0] = shape.grid[1] = all_parts(3);
    shape.alias.count = 3;
    expect_fault(make(&shape, copy_onto_itself), HKI_FAULT_WRONG_BLOCK, 0, HKI_NOWHERE, 1);
    expect_fault(make(&shape, copy_shifted), HKI_FAULT_STRUCTURE, 0, 0, 1);
}

static void ranks_that_cut_differently_are_found(void **state)
{
    (void)state;
    job made = exchange_job();
    made.of[1]->grid[HKI_OUTPUT].segments = 2;
    expect_fault(made, HKI_FAULT_GRID, 1, HKI_NOWHERE, HKI_NOWHERE);
    made = exchange_job();
    made.of[1]->grid[HKI_INPUT].parts = made.of[1]->grid[HKI_OUTPUT].parts = 3;
    expect_fault(made, HKI_FAULT_GRID, 1, HKI_NOWHERE, HKI_NOWHERE);
    made = exchange_job();
    made.of[1]->grid[HKI_INPUT].cut = HKI_CUT_COUNTS;
    expect_fault(made, HKI_FAULT_GRID, 1, HKI_NOWHERE, HKI_NOWHERE);
    made = exchange_job();
    made.of[1]->root = 1;
    expect_fault(made, HKI_FAULT_STRUCTURE, 1, HKI_NOWHERE, HKI_NOWHERE);
}

/* ---- whatever is changed ---- */

static bool path(const hki_schedule *schedule, uint32_t from, uint32_t to, uint32_t without)
{
    const hki_step *step = &schedule->steps[to];
    for (uint32_t i = 0; i < step->dep_count; i++) {
        uint32_t dep = schedule->deps[step->first_dep + i];
        if (i != without && dep >= from && (dep == from || path(schedule, from, dep, UINT32_MAX)))
            return true;
    }
    return false;
}

/* The builder derives no dependency in vain: without it the verifier must complain, unless others imply it. */
static void every_dependency_counts(void **state)
{
    (void)state;
    for (int in_place = 0; in_place < 2; in_place++) {
        job made = ring_job(5, in_place);
        for (uint32_t rank = 0; rank < made.ranks; rank++)
            for (uint32_t s = 0; s < made.of[rank]->step_count; s++) {
                hki_step *step = &made.of[rank]->steps[s];
                uint32_t *deps = made.of[rank]->deps + step->first_dep;
                for (uint32_t i = 0; i < step->dep_count; i++) {
                    uint32_t dropped = deps[i], last = --step->dep_count;
                    deps[i] = deps[last];
                    bool implied = path(made.of[rank], dropped, s, UINT32_MAX);
                    assert_int_equal(verify(&made), implied ? HK_OK : HK_ERR_INTERNAL);
                    deps[last] = deps[i];
                    deps[i] = dropped;
                    step->dep_count++;
                }
            }
        assert_int_equal(verify(&made), HK_OK);
        discard(&made);
    }
}

/* Random damage must be survived, and reported with its place. */
static void random_damage_is_survived(void **state)
{
    (void)state;
    uint32_t seed = 7, rejected = 0;
    for (int round = 0; round < 3000; round++) {
        job made = round & 1 ? ring_job(4, round & 2) : reduce_job();
        for (int k = 0; k < 2; k++) {
            seed = seed * 1664525u + 1013904223u;
            hki_schedule *schedule = made.of[(seed >> 8) % made.ranks];
            hki_step *step = &schedule->steps[(seed >> 12) % schedule->step_count];
            uint32_t value = seed >> 17 & 7, word = (seed >> 20) % (sizeof *step / sizeof value);
            memcpy((char *)step + word * sizeof value, &value, sizeof value);
        }
        hk_status status = verify(&made);
        assert_true(status == HK_OK || status == HK_ERR_INTERNAL);
        assert_int_equal(status == HK_OK, made.report.fault == HKI_FAULT_NONE);
        rejected += status != HK_OK;
        discard(&made);
    }
    assert_true(rejected > 1500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_schedules_pass_and_are_counted),
        cmocka_unit_test(a_lost_block_is_found),
        cmocka_unit_test(missing_contributions_are_found),
        cmocka_unit_test(a_double_contribution_is_found),
        cmocka_unit_test(another_association_is_found),
        cmocka_unit_test(wrong_operand_order_is_reported),
        cmocka_unit_test(blocks_in_the_wrong_place_are_found),
        cmocka_unit_test(lengths_known_only_by_identity_are_compared),
        cmocka_unit_test(messages_in_the_wrong_order_are_found),
        cmocka_unit_test(unmatched_messages_are_found),
        cmocka_unit_test(different_lengths_are_found),
        cmocka_unit_test(a_deadlock_of_rendezvous_is_found),
        cmocka_unit_test(a_race_is_found),
        cmocka_unit_test(a_race_with_a_peer_that_still_reads_is_found),
        cmocka_unit_test(a_write_to_input_is_found),
        cmocka_unit_test(reading_overwritten_input_is_found),
        cmocka_unit_test(partly_overlapping_buffers_forbid_reads_beside_writes),
        cmocka_unit_test(a_missing_finish_is_found),
        cmocka_unit_test(a_double_finish_is_found),
        cmocka_unit_test(output_where_it_is_not_significant_is_found),
        cmocka_unit_test(input_where_it_is_not_significant_is_found),
        cmocka_unit_test(reading_what_nobody_wrote_is_found),
        cmocka_unit_test(reducing_different_blocks_is_found),
        cmocka_unit_test(leaving_a_barrier_early_is_found),
        cmocka_unit_test(malformed_steps_are_found),
        cmocka_unit_test(an_overlap_that_is_shifted_is_found),
        cmocka_unit_test(ranks_that_cut_differently_are_found),
        cmocka_unit_test(every_dependency_counts),
        cmocka_unit_test(random_damage_is_survived),
    };
    return cmocka_run_group_tests_name("verifier", tests, NULL, NULL);
}
