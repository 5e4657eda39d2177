/* Values of options that several subcommands take. Each function says on standard error what is wrong, as
 * "hocket sim: --bytes takes a size like 64K or 1G, not "1X"", and then returns false. */
#ifndef HKI_TOOLS_OPTIONS_H
#define HKI_TOOLS_OPTIONS_H

#include "cost/figures.h"
#include "sched/ir.h"

#include <stdbool.h>

typedef struct hki_option {
    const char *command, *name, *text; /* "hocket sim", "bytes", "1X" */
} hki_option;

bool hki_option_wrong(const hki_option *option, const char *wanted);
bool hki_option_number(const hki_option *option, uint32_t least, uint32_t most, uint32_t *number);
/* Up to HKI_PRICE_BYTES_MOST: of more, times are not worked out. */
bool hki_option_bytes(const hki_option *option, uint64_t *bytes);
bool hki_option_type(const hki_option *option, hk_type *type);
bool hki_option_op(const hki_option *option, hk_op *op);
/* "built-in"; "textbook:A/B/G": A µs a message, B and G ns a byte, nothing shared; or a file of hocket tune. */
bool hki_option_figures(const hki_option *option, hki_figures *figures);

/* Whether elements of a type can be reduced by an operator; of collectives that reduce nothing, always. */
bool hki_option_reduction(const char *command, hki_collective collective, hk_type type, hk_op op);

/* The one collective that is named behind the options, from optind on. */
bool hki_option_collective(const char *command, int argc, char **argv, hki_collective *collective);

#endif
