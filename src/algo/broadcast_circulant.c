/*
 * Circulant graph broadcast: in every round each rank sends one segment to the rank skip[k] ahead and receives one from
 * the rank skip[k] behind, the skips roughly halving P. S-1+ceil(log2 P) rounds for S segments and any P, which is
 * optimal when a rank sends and receives one segment at a time. Nobody sends more than about n(1 + log2 P / S).
 * J. L. Träff: Optimal broadcast schedules in logarithmic time with applications to broadcast, all-broadcast,
 * reduction and all-reduction, 2023.
 */
#include "algo/generators.h"

/* Block of a round of the pipeline; HKI_NOBODY when it is too early for one. The last round's blocks are all the last.
 */
static uint32_t segment_of(const hki_call *call, int32_t block, uint32_t phase, uint32_t rounds, uint32_t skipped)
{
    int64_t segment = block + (int64_t)phase * rounds - skipped;
    if (segment < 0)
        return HKI_NOBODY;
    return segment < call->segments ? (uint32_t)segment : call->segments - 1;
}

static void generate(hki_builder *builder, const hki_call *call)
{
    uint32_t distance = hki_behind(call->ranks, call->rank, call->root);
    hki_group everyone = hki_everyone(call);
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_circulant graph;
    hki_circulant_schedule(call->ranks, distance, &graph);
    /* The pipeline ends with a whole phase, so the first one may be cut short. */
    uint32_t skipped = (graph.rounds - (call->segments - 1) % graph.rounds) % graph.rounds;
    for (uint32_t i = skipped; i < call->segments - 1 + graph.rounds + skipped; i++) {
        uint32_t round = i % graph.rounds, phase = i / graph.rounds;
        uint32_t out = segment_of(call, graph.send[round], phase, graph.rounds, skipped);
        uint32_t in = segment_of(call, graph.receive[round], phase, graph.rounds, skipped);
        if (out != HKI_NOBODY && hki_ahead(call->ranks, distance, graph.skip[round]) != 0)
            hki_send(builder, &everyone, hki_ahead(call->ranks, call->rank, graph.skip[round]),
                     hki_share_segment(&output, 0, out, call->segments));
        if (in != HKI_NOBODY && distance != 0)
            hki_recv(builder, &everyone, hki_behind(call->ranks, call->rank, graph.skip[round]),
                     hki_share_segment(&output, 0, in, call->segments));
    }
}

static double rounds(const hki_call *call)
{
    return call->segments - 1.0 + hki_log2_ceil(call->ranks);
}

static double sent(const hki_call *call)
{
    return (call->segments - 1.0 + hki_log2_ceil(call->ranks)) / call->segments;
}

const hki_algorithm hki_algorithm_broadcast_circulant = {
    .name = "circulant",
    .summary = "segments round a circulant graph, optimal rounds for any P",
    .source = "Träff 2023",
    .segmented = true,
    .cut = hki_cut_whole_segments,
    .generate = generate,
    .rounds = rounds,
    .sent = sent,
    .rounds_text = "S-1 + ceil(log2 P)",
    .sent_text = "n (1 + log2 P / S)",
    .scratch_text = "none",
};
