/*
 * Pairwise all-to-all: everybody meets everybody, one exchange at a time. P-1 rounds (P when odd: one rank idles in
 * each); every rank sends all blocks but its own once. Per-pair counts may differ or be zero. The same in place. R.
 * Thakur, R. Rabenseifner, W. Gropp, 2005; pairings by the circle method.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_alltoall_exchange(builder, call, 1);
}

static double rounds(const hki_call *call)
{
    return call->ranks > 1 ? hki_pairing_rounds(call->ranks) : 0;
}

const hki_algorithm hki_algorithm_alltoall_pairwise = {
    .name = "pairwise",
    .summary = "one exchange at a time with every rank",
    .source = "Thakur, Rabenseifner, Gropp 2005",
    .cut = hki_cut_blocks,
    .generate = generate,
    .rounds = rounds,
    .sent = hki_form_all_but_one,
    .rounds_text = "P-1 (P when odd)",
    .sent_text = "(P-1)/P n",
    .scratch_text = "none (one block in place)",
    .alike = hki_all_alike,
};
