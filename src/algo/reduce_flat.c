/*
 * Flat reduce: everyone sends its vector to the root, which reduces all in rank order and one pass. One round of P-1
 * messages to the root; serves non-commutative operators.
 */
#include "algo/generators.h"

static void generate(hki_builder *builder, const hki_call *call)
{
    hki_group everyone = hki_everyone(call);
    hki_region input = hki_whole(builder, HKI_INPUT, 1);
    if (call->rank != call->root) {
        hki_send(builder, &everyone, call->root, hki_all(&input));
        return;
    }
    hki_region output = hki_whole(builder, HKI_OUTPUT, 1);
    hki_reduce_from_all(builder, &everyone, hki_all(&input), false, hki_all(&output), true);
}

const hki_algorithm hki_algorithm_reduce_flat = {
    .name = "flat",
    .summary = "everyone sends to the root, which reduces in one pass",
    .source = "folklore",
    .keeps_order = true,
    .sprawls = true,
    .cut = hki_cut_whole,
    .generate = generate,
    .rounds = hki_form_one,
    .sent = hki_form_one,
    .rounds_text = "1",
    .sent_text = "n",
    .scratch_text = "(P-1) n at the root",
};
