/*
 * Neighbour exchange all-gather: ranks talk to their two neighbours in turn and pass on the two shares that they got
 * last. P/2 rounds, (P-1)/P of the result sent by each rank; P must be even.
 * J. Chen, L. Zhang, Y. Zhang, W. Yuan: Performance evaluation of allgather algorithms on terascale Linux cluster with
 * fast Ethernet, 2005.
 */
#include "algo/generators.h"

static const char *refuses(const hki_call *call)
{
    return call->ranks % 2 != 0 && call->ranks > 1 ? "neighbour exchange needs an even number of ranks" : NULL;
}

/* Ranks 2j and 2j+1 begin with pair j of shares. The even one turns to its left in odd rounds and gets pairs j-1, j+1,
 * j-2, j+2, …; the odd one the other way round. */
static uint32_t pair_received(const hki_call *call, uint32_t round)
{
    uint32_t pairs = call->ranks / 2, distance = (round + 1) / 2;
    bool behind = (call->rank % 2 == 0) == (round % 2 == 1);
    return behind ? hki_behind(pairs, call->rank / 2, distance) : hki_ahead(pairs, call->rank / 2, distance);
}

static void generate(hki_builder *builder, const hki_call *call)
{
    uint32_t ranks = call->ranks, rank = call->rank;
    hki_group everyone = hki_everyone(call);
    hki_region own = hki_whole(builder, HKI_INPUT, 1), output = hki_whole(builder, HKI_OUTPUT, ranks);
    hki_send(builder, &everyone, rank ^ 1u, hki_all(&own));
    hki_place(builder, hki_share(&output, rank), hki_all(&own), false);
    hki_recv(builder, &everyone, rank ^ 1u, hki_share(&output, rank ^ 1u));
    uint32_t last = rank / 2;
    for (uint32_t round = 1; round < ranks / 2; round++) {
        bool left = (rank % 2 == 0) == (round % 2 == 1);
        uint32_t neighbour = left ? hki_behind(ranks, rank, 1) : hki_ahead(ranks, rank, 1);
        hki_send(builder, &everyone, neighbour, hki_shares(&output, 2 * last, 2));
        last = pair_received(call, round);
        hki_recv(builder, &everyone, neighbour, hki_shares(&output, 2 * last, 2));
    }
}

static double rounds(const hki_call *call)
{
    return call->ranks / 2;
}

const hki_algorithm hki_algorithm_allgather_neighbour_exchange = {
    .name = "neighbour_exchange",
    .summary = "pairs of shares exchanged with either neighbour in turn",
    .source = "Chen et al. 2005",
    .constraint = "P even",
    .refuses = refuses,
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "P/2",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none",
    .alike = hki_all_alike,
};
