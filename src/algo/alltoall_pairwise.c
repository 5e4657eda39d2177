/*
 * Pairwise all-to-all: everybody meets everybody, one exchange at a time. P-1 rounds; every rank sends all blocks but
 * its own once. In a round ranks exchange with each other (P a power of two: rank xor round), or send as far ahead as
 * they receive from behind. Per-pair counts may differ or be zero. The same in place. R. Thakur, R. Rabenseifner, W.
 * Gropp, 2005.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_alltoall_exchange(builder, call, 1);
}

static double rounds(const hki_call *call)
{
    return call->ranks - 1;
}

const hki_algorithm hki_algorithm_alltoall_pairwise = {
    .name = "pairwise",
    .summary = "one exchange at a time with every rank",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "P-1",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none (2 blocks in place)",
    .alike = hki_all_alike,
};
