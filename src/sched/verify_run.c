/*
 * The symbolic run. Steps start when their dependencies are complete; a SEND and its RECV happen together, once both
 * may start, and complete together (so nothing is ever buffered). Since races were excluded before, every order that
 * respects the dependencies moves the same values, and one order stands for all.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sched/dump.h"
#include "sched/verify_memory.h"

typedef struct symbolic_run {
    hki_verifier *verifier;
    hki_values values;
    hki_rank_memory *memory; /* per rank */
    uint32_t *waits;         /* per step: dependencies not yet complete; WAITING or DONE */
    uint32_t *depth;         /* per step: longest chain of messages up to it */
    uint32_t *known;         /* per step, barriers only: ranks known to have entered */
    uint32_t *next;          /* successors: of the step, next[first[step]] … next[first[step + 1] - 1] */
    size_t *first;           /* per step */
    uint64_t *ready;         /* stack of rank << 32 | step */
    size_t ready_count;
} symbolic_run;

#define DONE UINT32_MAX
#define STARTED (UINT32_MAX - 1) /* a message step that waits for its counterpart */

/* ---- what steps do ---- */

static bool is_finished(const symbolic_run *run, uint32_t value)
{
    return run->values.items[value].kind == HKI_VALUE_FINISHED;
}

/* *left = *left op right. */
static hk_status combine(symbolic_run *run, const hki_operand *at, hki_value_kind kind, hki_cell *left,
                         const hki_cell *right)
{
    uint32_t block = hki_range_index(&at->span->blocks, at->walk.i);
    if (left->block != right->block)
        return hki_verify_fail(run->verifier, HKI_FAULT_MIXED, at->rank, at->step, block,
                               "the operands are parts %" PRIu32 " and %" PRIu32 " of the data", left->block,
                               right->block);
    if (is_finished(run, left->value) || is_finished(run, right->value))
        return hki_verify_fail(run->verifier, HKI_FAULT_DOUBLE_FINISH, at->rank, at->step, block,
                               "an operand is finished already");
    uint32_t value = hki_values_make(&run->values, kind, left->value, right->value);
    if (value == HKI_NO_VALUE) {
        if (run->values.no_memory)
            return hki_verify_no_memory(run->verifier);
        char ours[100], theirs[100];
        hki_value_text(&run->values, left->value, ours, sizeof ours);
        hki_value_text(&run->values, right->value, theirs, sizeof theirs);
        return hki_verify_fail(run->verifier, HKI_FAULT_DOUBLE, at->rank, at->step, block,
                               "the operands hold contributions of ranks %s and of ranks %s", ours, theirs);
    }
    left->value = value;
    return HK_OK;
}

static hk_status finish(symbolic_run *run, const hki_operand *at, hki_cell *content)
{
    if (!run->verifier->promise->finishes)
        return HK_OK;
    if (is_finished(run, content->value))
        return hki_verify_fail(run->verifier, HKI_FAULT_DOUBLE_FINISH, at->rank, at->step,
                               hki_range_index(&at->span->blocks, at->walk.i), "it is finished already");
    content->value = hki_values_make(&run->values, HKI_VALUE_FINISHED, content->value, 0);
    return content->value == HKI_NO_VALUE ? hki_verify_no_memory(run->verifier) : HK_OK;
}

/* Writes one block of a step's result, finished where the step says so. */
static hk_status conclude(symbolic_run *run, hki_operand *to, hki_cell content)
{
    hk_status status = HK_OK;
    if (to->schedule->steps[to->step].flags & HKI_FINISH)
        status = finish(run, to, &content);
    return status == HK_OK ? hki_operand_write(to, content) : status;
}

/* COPY and REDUCE, block by block. */
static hk_status do_local(symbolic_run *run, uint32_t rank, uint32_t index)
{
    const hki_schedule *schedule = run->verifier->schedules[rank];
    const hki_step *step = &schedule->steps[index];
    uint32_t sources = hki_source_count(step);
    hki_operand to = hki_operand_begin(run->verifier, run->memory, rank, index, &step->destination);
    hki_operand *from = malloc(sources * sizeof *from);
    if (!from)
        return hki_verify_no_memory(run->verifier);
    for (uint32_t k = 0; k < sources; k++)
        from[k] = hki_operand_begin(run->verifier, run->memory, rank, index, hki_source(schedule, step, k));
    hki_value_kind kind = sources > 2 ? HKI_VALUE_FUSED : HKI_VALUE_REDUCED;
    hk_status status = HK_OK;
    for (uint32_t i = 0; i < step->destination.blocks.count && status == HK_OK; i++) {
        hki_cell result, next;
        bool more;
        status = hki_operand_read(&from[0], &result, &more);
        for (uint32_t k = 1; k < sources && status == HK_OK; k++) {
            status = hki_operand_read(&from[k], &next, &more);
            if (status == HK_OK)
                status = combine(run, &to, kind, &result, &next);
        }
        if (status == HK_OK)
            status = conclude(run, &to, result);
    }
    free(from);
    return status;
}

/* A message: from the sender's source into the receiver's destination. */
static hk_status do_message(symbolic_run *run, uint32_t sender, uint32_t send, uint32_t receiver, uint32_t recv)
{
    const hki_step *out = &run->verifier->schedules[sender]->steps[send];
    const hki_step *in = &run->verifier->schedules[receiver]->steps[recv];
    hki_operand from = hki_operand_begin(run->verifier, run->memory, sender, send, &out->source),
                to = hki_operand_begin(run->verifier, run->memory, receiver, recv, &in->destination);
    hki_operand local = hki_operand_begin(run->verifier, run->memory, receiver, recv, &in->source);
    for (;;) {
        hki_cell incoming, own;
        bool more;
        HK_TRY(hki_operand_read(&from, &incoming, &more));
        if (!more)
            return HK_OK;
        if (in->verb == HKI_VERB_RECV_REDUCE) {
            HK_TRY(hki_operand_read(&local, &own, &more));
            bool left = in->flags & HKI_INCOMING_LEFT;
            hki_cell result = left ? incoming : own;
            HK_TRY(combine(run, &to, HKI_VALUE_REDUCED, &result, left ? &own : &incoming));
            incoming = result;
        }
        HK_TRY(conclude(run, &to, incoming));
    }
}

/* ---- order ---- */

static size_t number_of(const symbolic_run *run, uint32_t rank, uint32_t step)
{
    return run->verifier->base[rank] + step;
}

static void push(symbolic_run *run, uint32_t rank, uint32_t step)
{
    run->ready[run->ready_count++] = (uint64_t)rank << 32 | step;
}

/* Barriers: *known also covers what `more` covers. */
static hk_status learn(symbolic_run *run, uint32_t *known, uint32_t more)
{
    *known = hki_values_make(&run->values, HKI_VALUE_UNION, *known, more);
    return *known == HKI_NO_VALUE ? hki_verify_no_memory(run->verifier) : HK_OK;
}

/* Marks a step complete and releases those that wait for it. */
static hk_status complete(symbolic_run *run, uint32_t rank, uint32_t step)
{
    size_t number = number_of(run, rank, step);
    run->waits[number] = DONE;
    for (size_t i = run->first[number]; i < run->first[number + 1]; i++) {
        size_t other = number_of(run, rank, run->next[i]);
        if (run->depth[other] < run->depth[number])
            run->depth[other] = run->depth[number];
        if (run->known)
            HK_TRY(learn(run, &run->known[other], run->known[number]));
        if (--run->waits[other] == 0)
            push(run, rank, run->next[i]);
    }
    return HK_OK;
}

/* Both sides of a message are ready. */
static hk_status exchange(symbolic_run *run, uint32_t sender, uint32_t send, uint32_t receiver, uint32_t recv)
{
    size_t out = number_of(run, sender, send), in = number_of(run, receiver, recv);
    HK_TRY(do_message(run, sender, send, receiver, recv));
    uint32_t depth = (run->depth[out] > run->depth[in] ? run->depth[out] : run->depth[in]) + 1;
    run->depth[out] = run->depth[in] = depth;
    if (run->verifier->report->rounds < depth)
        run->verifier->report->rounds = depth;
    if (run->known)
        HK_TRY(learn(run, &run->known[in], run->known[out]));
    HK_TRY(complete(run, sender, send));
    return complete(run, receiver, recv);
}

static hk_status start(symbolic_run *run, uint32_t rank, uint32_t index)
{
    const hki_step *step = &run->verifier->schedules[rank]->steps[index];
    if (!hki_is_message(step)) {
        HK_TRY(do_local(run, rank, index));
        return complete(run, rank, index);
    }
    uint32_t partner = run->verifier->partner[number_of(run, rank, index)];
    if (run->waits[number_of(run, step->peer, partner)] != STARTED) {
        run->waits[number_of(run, rank, index)] = STARTED;
        return HK_OK;
    }
    return step->verb == HKI_VERB_SEND ? exchange(run, rank, index, step->peer, partner)
                                       : exchange(run, step->peer, partner, rank, index);
}

/* After the run: a step that is not done, if there is one, is part of a deadlock. */
static hk_status check_all_done(symbolic_run *run)
{
    hki_verifier *verifier = run->verifier;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++)
        for (uint32_t i = 0; i < verifier->schedules[rank]->step_count; i++) {
            if (run->waits[number_of(run, rank, i)] != STARTED)
                continue;
            const hki_step *step = &verifier->schedules[rank]->steps[i];
            uint32_t partner = verifier->partner[number_of(run, rank, i)];
            char text[280];
            hki_step_text(verifier->schedules[step->peer], partner, text, sizeof text);
            return hki_verify_fail(verifier, HKI_FAULT_DEADLOCK, rank, i, HKI_NOWHERE,
                                   "rank %" PRIu32 " never gets to its step {%s} when sends wait for their receives",
                                   step->peer, text);
        }
    return HK_OK;
}

static hk_status run_all(symbolic_run *run)
{
    hki_verifier *verifier = run->verifier;
    for (uint32_t rank = verifier->ranks; rank-- > 0;) /* a stack: the lowest rank's first step comes first */
        for (uint32_t step = verifier->schedules[rank]->step_count; step-- > 0;)
            if (run->waits[number_of(run, rank, step)] == 0)
                push(run, rank, step);
    while (run->ready_count) {
        uint64_t item = run->ready[--run->ready_count];
        HK_TRY(start(run, (uint32_t)(item >> 32), (uint32_t)item));
    }
    return check_all_done(run);
}

/* ---- the promise ---- */

static hk_status check_block(symbolic_run *run, uint32_t rank, uint32_t block, uint32_t *same)
{
    hki_verifier *verifier = run->verifier;
    const hki_schedule *schedule = verifier->schedules[rank];
    const hki_cell *content = &run->memory[rank].output[block];
    if (content->value == HKI_NO_VALUE)
        return hki_verify_fail(verifier, HKI_FAULT_LOST, rank, HKI_NOWHERE, block, "no step writes to it");
    if (content->block != (uint32_t)hki_block_identity(schedule, HKI_OUTPUT, block))
        return hki_verify_fail(verifier, HKI_FAULT_WRONG_BLOCK, rank, HKI_NOWHERE, block,
                               "it holds part %" PRIu32 " of the data instead of part %" PRIu32, content->block,
                               (uint32_t)hki_block_identity(schedule, HKI_OUTPUT, block));
    uint32_t first, last;
    hki_block_contributors(schedule, block, &first, &last);
    if (!hki_value_is_exactly(&run->values, content->value, first, last)) {
        char text[200];
        hki_value_text(&run->values, content->value, text, sizeof text);
        return hki_verify_fail(verifier, HKI_FAULT_WRONG_CONTRIBUTIONS, rank, HKI_NOWHERE, block,
                               "it holds those of ranks %s instead of ranks %" PRIu32 "..%" PRIu32, text, first, last);
    }
    if (verifier->promise->finishes && verifier->ranks > 1 && !is_finished(run, content->value))
        return hki_verify_fail(verifier, HKI_FAULT_MISSING_FINISH, rank, HKI_NOWHERE, block,
                               "the step that completes it must finish it");
    if (!hki_value_in_order(&run->values, content->value))
        verifier->report->keeps_order = false;
    if (same && *same == HKI_NO_VALUE)
        *same = content->value;
    if (same && *same != content->value)
        return hki_verify_fail(verifier, HKI_FAULT_ASSOCIATION, rank, HKI_NOWHERE, block,
                               "its operands are reduced in another order than on rank 0, so the bits may differ");
    return HK_OK;
}

static hk_status check_barrier(symbolic_run *run)
{
    hki_verifier *verifier = run->verifier;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        uint32_t known = rank;
        for (size_t i = verifier->base[rank]; i < verifier->base[rank + 1]; i++)
            HK_TRY(learn(run, &known, run->known[i]));
        char text[200];
        hki_value_text(&run->values, known, text, sizeof text);
        if (!hki_value_is_exactly(&run->values, known, 0, verifier->ranks - 1))
            return hki_verify_fail(verifier, HKI_FAULT_BARRIER, rank, HKI_NOWHERE, HKI_NOWHERE,
                                   "it is sure only of ranks %s", text);
    }
    return HK_OK;
}

static hk_status check_promise(symbolic_run *run)
{
    hki_verifier *verifier = run->verifier;
    verifier->report->keeps_order = true;
    if (run->known)
        return check_barrier(run);
    uint32_t *same = NULL, blocks = hki_output_blocks(verifier->schedules[0]);
    if (verifier->promise->same_bits) {
        same = malloc(((size_t)blocks + 1) * sizeof *same);
        if (!same)
            return hki_verify_no_memory(verifier);
        memset(same, 0xff, ((size_t)blocks + 1) * sizeof *same);
    }
    hk_status status = HK_OK;
    for (uint32_t rank = 0; rank < verifier->ranks && status == HK_OK; rank++)
        if (hki_significant(verifier->schedules[rank], HKI_OUTPUT))
            for (uint32_t block = 0; block < hki_output_blocks(verifier->schedules[rank]) && status == HK_OK; block++)
                status = check_block(run, rank, block, same ? &same[block] : NULL);
    free(same);
    return status;
}

/* ---- the whole ---- */

/* Turns each rank's dependencies round. */
static void link_successors(symbolic_run *run)
{
    const hki_verifier *verifier = run->verifier;
    size_t total = 0;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        const hki_schedule *schedule = verifier->schedules[rank];
        size_t *first = run->first + verifier->base[rank];
        for (uint32_t i = 0; i < schedule->step_count; i++) {
            run->waits[verifier->base[rank] + i] = schedule->steps[i].dep_count;
            for (uint32_t k = 0; k < schedule->steps[i].dep_count; k++)
                first[schedule->deps[schedule->steps[i].first_dep + k]]++;
        }
        for (uint32_t i = 0; i < schedule->step_count; i++) {
            total += first[i];
            first[i] = total;
        }
        for (uint32_t i = schedule->step_count; i-- > 0;)
            for (uint32_t k = 0; k < schedule->steps[i].dep_count; k++)
                run->next[--first[schedule->deps[schedule->steps[i].first_dep + k]]] = i;
    }
    run->first[verifier->base[verifier->ranks]] = total;
}

static hk_status allocate(symbolic_run *run)
{
    const hki_verifier *verifier = run->verifier;
    size_t steps = verifier->base[verifier->ranks] + 1, deps = 1;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++)
        for (uint32_t i = 0; i < verifier->schedules[rank]->step_count; i++)
            deps += verifier->schedules[rank]->steps[i].dep_count;
    run->memory = calloc(verifier->ranks, sizeof *run->memory);
    run->waits = malloc(steps * sizeof *run->waits);
    run->depth = calloc(steps, sizeof *run->depth);
    run->first = calloc(steps, sizeof *run->first);
    run->next = malloc(deps * sizeof *run->next);
    run->ready = malloc(steps * sizeof *run->ready);
    bool barrier = verifier->schedules[0]->collective == HKI_COLL_BARRIER;
    run->known = barrier ? malloc(steps * sizeof *run->known) : NULL;
    if (!run->memory || !run->waits || !run->depth || !run->first || !run->next || !run->ready ||
        (barrier && !run->known) || !hki_values_init(&run->values, verifier->ranks))
        return hki_verify_no_memory(run->verifier);
    for (uint32_t rank = 0; barrier && rank < verifier->ranks; rank++)
        for (size_t i = verifier->base[rank]; i < verifier->base[rank + 1]; i++)
            run->known[i] = rank;
    uint64_t cells = 0;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++)
        HK_TRY(hki_memory_init(run->verifier, rank, &run->memory[rank], &cells));
    return HK_OK;
}

static void release(symbolic_run *run)
{
    for (uint32_t rank = 0; run->memory && rank < run->verifier->ranks; rank++)
        hki_memory_free(&run->memory[rank]);
    free(run->memory);
    free(run->waits);
    free(run->depth);
    free(run->known);
    free(run->next);
    free(run->first);
    free(run->ready);
    hki_values_free(&run->values);
}

hk_status hki_verify_run(hki_verifier *verifier)
{
    symbolic_run run = {.verifier = verifier};
    hk_status status = allocate(&run);
    if (status == HK_OK) {
        link_successors(&run);
        status = run_all(&run);
    }
    if (status == HK_OK)
        status = check_promise(&run);
    release(&run);
    return status;
}
