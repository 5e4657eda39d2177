/* Messages: every SEND meets its RECV, numbered alike and equally long. */
#include <inttypes.h>
#include <stdlib.h>

#include "sched/verify_internal.h"

typedef struct message {
    uint32_t peer, ordinal, step;
} message;

/* The messages of all ranks in one direction, those of a rank sorted by peer and ordinal. */
typedef struct messages {
    message *items;
    size_t *base; /* items[base[rank] …] are the rank's */
} messages;

static int compare_messages(const void *a, const void *b)
{
    const message *left = a, *right = b;
    if (left->peer != right->peer)
        return left->peer < right->peer ? -1 : 1;
    return left->ordinal < right->ordinal ? -1 : left->ordinal > right->ordinal;
}

/* Messages to (or from) one peer must be numbered from 0 in the order of their steps. */
static hk_status check_numbers(hki_verifier *verifier, uint32_t rank, const message *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bool follows = i > 0 && items[i - 1].peer == items[i].peer;
        uint32_t expected = follows ? items[i - 1].ordinal + 1 : 0;
        if (items[i].ordinal != expected || (follows && items[i].step < items[i - 1].step))
            return hki_verify_fail(verifier, HKI_FAULT_UNMATCHED, rank, items[i].step, HKI_NOWHERE,
                                   "messages between two ranks are numbered in order from 0; here #%" PRIu32
                                   " should be #%" PRIu32,
                                   items[i].ordinal, expected);
    }
    return HK_OK;
}

static hk_status collect(hki_verifier *verifier, bool sends, messages *all)
{
    size_t used = 0;
    all->items = malloc((verifier->base[verifier->ranks] + 1) * sizeof *all->items);
    all->base = malloc(((size_t)verifier->ranks + 1) * sizeof *all->base);
    if (!all->items || !all->base)
        return hki_verify_no_memory(verifier);
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        const hki_schedule *schedule = verifier->schedules[rank];
        all->base[rank] = used;
        for (uint32_t i = 0; i < schedule->step_count; i++) {
            const hki_step *step = &schedule->steps[i];
            if (hki_is_message(step) && (step->verb == HKI_VERB_SEND) == sends)
                all->items[used++] = (message){step->peer, step->ordinal, i};
        }
        size_t count = used - all->base[rank];
        qsort(all->items + all->base[rank], count, sizeof *all->items, compare_messages);
        hk_status status = check_numbers(verifier, rank, all->items + all->base[rank], count);
        if (status != HK_OK)
            return status;
    }
    all->base[verifier->ranks] = used;
    return HK_OK;
}

/* A rank's message with this peer and ordinal; NULL if there is none. */
static const message *find(const messages *all, uint32_t rank, uint32_t peer, uint32_t ordinal)
{
    message key = {.peer = peer, .ordinal = ordinal};
    size_t count = all->base[rank + 1] - all->base[rank];
    return count ? bsearch(&key, all->items + all->base[rank], count, sizeof key, compare_messages) : NULL;
}

/* The same blocks in the same order, as far as their lengths can tell. */
static hk_status compare_lengths(hki_verifier *verifier, uint32_t from, const hki_step *send, uint32_t to,
                                 uint32_t recv_index)
{
    const hki_schedule *sender = verifier->schedules[from], *receiver = verifier->schedules[to];
    const hki_step *recv = &receiver->steps[recv_index];
    if (send->source.blocks.count != recv->destination.blocks.count)
        return hki_verify_fail(verifier, HKI_FAULT_LENGTH, to, recv_index, HKI_NOWHERE,
                               "rank %" PRIu32 " sends %" PRIu32 " blocks, %" PRIu32 " are received", from,
                               send->source.blocks.count, recv->destination.blocks.count);
    hki_walk out = hki_walk_begin(&send->source.blocks), in = hki_walk_begin(&recv->destination.blocks);
    for (uint32_t a, b; hki_walk_next(&out, &a) && hki_walk_next(&in, &b);)
        if (hki_block_length_class(sender, send->source.of, a) !=
            hki_block_length_class(receiver, recv->destination.of, b))
            return hki_verify_fail(verifier, HKI_FAULT_LENGTH, to, recv_index, b,
                                   "rank %" PRIu32 " sends block %" PRIu32 " into it, which is not sure to be as long",
                                   from, a);
    return HK_OK;
}

static hk_status match_rank(hki_verifier *verifier, const messages *sends, const messages *recvs, uint32_t rank)
{
    const hki_schedule *schedule = verifier->schedules[rank];
    for (size_t i = sends->base[rank]; i < sends->base[rank + 1]; i++) {
        const message *send = &sends->items[i];
        const message *recv = find(recvs, send->peer, rank, send->ordinal);
        if (!recv)
            return hki_verify_fail(verifier, HKI_FAULT_UNMATCHED, rank, send->step, HKI_NOWHERE,
                                   "rank %" PRIu32 " does not receive it", send->peer);
        verifier->partner[verifier->base[rank] + send->step] = recv->step;
        verifier->partner[verifier->base[send->peer] + recv->step] = send->step;
        hk_status status = compare_lengths(verifier, rank, &schedule->steps[send->step], send->peer, recv->step);
        if (status != HK_OK)
            return status;
    }
    return HK_OK;
}

static hk_status find_unsent(hki_verifier *verifier, const messages *recvs)
{
    for (uint32_t rank = 0; rank < verifier->ranks; rank++)
        for (size_t i = recvs->base[rank]; i < recvs->base[rank + 1]; i++)
            if (verifier->partner[verifier->base[rank] + recvs->items[i].step] == HKI_NOWHERE)
                return hki_verify_fail(verifier, HKI_FAULT_UNMATCHED, rank, recvs->items[i].step, HKI_NOWHERE,
                                       "rank %" PRIu32 " does not send it", recvs->items[i].peer);
    return HK_OK;
}

static double span_fraction(const hki_schedule *schedule, const hki_span *span)
{
    if (span->blocks.count == 0)
        return 0;
    if (schedule->grid[span->of].cut != HKI_CUT_FRACTION)
        return span->blocks.count * hki_block_fraction(schedule, span->of, 0);
    double sum = 0;
    hki_walk walk = hki_walk_begin(&span->blocks);
    for (uint32_t block; hki_walk_next(&walk, &block);)
        sum += hki_block_fraction(schedule, span->of, block);
    return sum;
}

static void count_sent(hki_verifier *verifier, const messages *sends)
{
    hki_verify_report *report = verifier->report;
    report->messages = sends->base[verifier->ranks];
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        const hki_schedule *schedule = verifier->schedules[rank];
        uint64_t count = sends->base[rank + 1] - sends->base[rank];
        double sent = 0;
        for (size_t i = sends->base[rank]; i < sends->base[rank + 1]; i++)
            sent += span_fraction(schedule, &schedule->steps[sends->items[i].step].source);
        if (report->rank_messages < count)
            report->rank_messages = count;
        if (report->sent < sent)
            report->sent = sent;
    }
}

hk_status hki_verify_messages(hki_verifier *verifier)
{
    messages sends = {0}, recvs = {0};
    for (size_t i = 0; i < verifier->base[verifier->ranks]; i++)
        verifier->partner[i] = HKI_NOWHERE;
    hk_status status = collect(verifier, true, &sends);
    if (status == HK_OK)
        status = collect(verifier, false, &recvs);
    for (uint32_t rank = 0; rank < verifier->ranks && status == HK_OK; rank++)
        status = match_rank(verifier, &sends, &recvs, rank);
    if (status == HK_OK)
        status = find_unsent(verifier, &recvs);
    if (status == HK_OK)
        count_sent(verifier, &sends);
    free(sends.items);
    free(sends.base);
    free(recvs.items);
    free(recvs.base);
    return status;
}
