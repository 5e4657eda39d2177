/*
 * Linear all-to-all: everyone sends to everyone, at most a window of messages each way at a time. Every rank sends all
 * blocks but its own once. Per-pair counts may differ or be zero. The same in place.
 */
#include "algo/generators.h"

enum { WINDOW = 16 }; /* messages in flight each way: a guess that bounds memory at P in the hundreds */

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_alltoall_exchange(builder, call, WINDOW);
}

static double rounds(const hki_call *call)
{
    return (call->ranks - 1 + WINDOW - 1) / WINDOW;
}

const hki_algorithm hki_algorithm_alltoall_linear = {
    .name = "linear",
    .summary = "everyone to everyone, a window at a time",
    .source = "folklore",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "(P-1)/16",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none (17 blocks in place)",
    .alike = hki_all_alike,
};
