/*
 * The figures of the cost model: α and β per link class and protocol range, γ per type and operator class, what shared
 * resources carry. All are integers (picoseconds, picoseconds per KiB, bytes a second), so that every rank that holds
 * the same table computes the same prices. A plain value: rank 0's goes to all ranks as it is.
 *
 * Hockney's model, refined as every measurement of it is: a message of n bytes takes α + nβ with the figures of the
 * range that n falls into (R. Hockney, 1994). Of α, `overhead_ps` is time during which an end can do nothing else
 * (the o of LogP; D. Culler et al., 1993): with overhead_ps = α the textbook's prices come out. `core_ps` tells what
 * the textbook leaves out: shared memory and sockets are moved by the cores of both ends, so that an exchange takes
 * longer than a message one way; with core_ps = 0 both ways are free of each other.
 */
#ifndef HKI_COST_FIGURES_H
#define HKI_COST_FIGURES_H

#include <hocket/hocket.h>

#include "topo/cluster.h"

enum { HKI_FIGURE_RANGES = 6, HKI_FIGURE_SOURCE = 96 };

/* Messages of up to `upto` bytes, down to the range before. */
typedef struct hki_range_figures {
    uint64_t upto;        /* bytes; UINT64_MAX in the last range that is used */
    uint64_t alpha_ps;    /* latency */
    uint64_t beta_ps;     /* per KiB */
    uint64_t overhead_ps; /* of α: each end's way is occupied */
    uint64_t core_ps;     /* per KiB: each end's core is occupied by moving them */
    bool rendezvous;      /* moves only once the receiver has asked for it */
} hki_range_figures;

/* What a byte takes beyond that in calls in which ranks that share a cache have so much data (hki_bulk_data of each)
 * that it does not hold them: nothing up to `from` bytes, all from `full` on, a part in between. full = 0: nothing.
 * Sockets are in it, too: what the system does for them is left to threads of its own once there is too much of it. */
typedef struct hki_bulk_figures {
    uint64_t from, full;       /* bytes */
    uint64_t beta_ps, core_ps; /* per KiB, added to those of every range */
} hki_bulk_figures;

/* With what is copied to, this fills the second cache of current cores. */
enum { HKI_COPY_NEAR = 512 << 10 };

/* Where a group of figures comes from. */
typedef enum hki_origin { HKI_BUILT_IN, HKI_TUNED, HKI_CALIBRATED, HKI_GIVEN, HKI_REPORTED } hki_origin;

typedef struct hki_link_figures {
    hki_range_figures range[HKI_FIGURE_RANGES];
    uint32_t ranges; /* at least 1 */
    hki_origin origin;
    hki_bulk_figures bulk;
} hki_link_figures;

/* Operators that cost alike: one table of γ for each. */
typedef enum hki_op_class {
    HKI_OPS_ADD,     /* sum, product, average, bitwise ones: one instruction a vector */
    HKI_OPS_COMPARE, /* minimum and maximum, which look for NaN and signed zeros; logical ones */
    HKI_OPS_OTHER,   /* a program's own */
    HKI_OP_CLASSES
} hki_op_class;

typedef struct hki_figures {
    hki_link_figures link[HKI_LINK_CLASSES];
    uint64_t gamma_ps[HK_TYPE_COUNT][HKI_OP_CLASSES]; /* per KiB of one operand reduced into another */
    uint64_t copy_ps;                                 /* per KiB copied within a rank, of up to … */
    uint64_t copy_far_ps;  /* … HKI_COPY_NEAR bytes; of more, which leave the caches of a core */
    uint64_t copy_bulk_ps; /* and what that takes more in bulk */
    uint64_t step_ps;      /* of a rank's time, for every step that it makes */
    uint64_t counts_ps;    /* of a call with a count for each rank, before its first step: it is put together anew */
    uint64_t switch_ps;    /* one rank giving way to another on the same core */
    uint64_t memory_rate;  /* bytes a second that all ranks of a NUMA node share; 0: never in the way */
    uint64_t nic_rate;     /* bytes a second of a host's network, each way; 0: what one link carries, 1/β */
    hki_origin reduce_origin, host_origin; /* of γ and copy_ps; of the rest */
    char source[HKI_FIGURE_SOURCE];        /* file, date and machine, for explanations; "" when built in */
} hki_figures;

/* The figures that are built in. Where they were measured is said there. */
extern const hki_figures hki_figures_built_in;

/* Which class an operator is of; handles of a program's own are "other". */
hki_op_class hki_op_class_of(hk_op op);
const char *hki_op_class_name(hki_op_class operators); /* "add" */
const char *hki_origin_name(hki_origin origin);        /* "built in" */

/* Where figures come from: "l3 calibrated, tcp tuned, others built in; reductions tuned; host built in"; where all
 * links are, "links built in; …". Returns text. */
enum { HKI_ORIGINS_TEXT = 320 };
const char *hki_figures_origins(const hki_figures *figures, char *text, size_t room);

/* The range that a message of so many bytes falls into. */
static inline const hki_range_figures *hki_figures_range(const hki_link_figures *link, uint64_t bytes)
{
    uint32_t i = 0;
    while (i + 1 < link->ranges && bytes > link->range[i].upto)
        i++;
    return &link->range[i];
}

/* The least of each figure of all ranges: no message of any size is quicker. */
hki_range_figures hki_figures_least(const hki_link_figures *link);

/* bytes × picoseconds per KiB, rounded down; saturates. */
static inline uint64_t hki_bytes_ps(uint64_t bytes, uint64_t per_kib)
{
    unsigned __int128 product = (unsigned __int128)bytes * per_kib / 1024;
    return product > UINT64_MAX / 4 ? UINT64_MAX / 4 : (uint64_t)product;
}

/* What a copy within a rank takes. */
static inline uint64_t hki_copy_time(const hki_figures *figures, uint64_t bytes)
{
    return hki_bytes_ps(bytes, bytes > HKI_COPY_NEAR ? figures->copy_far_ps : figures->copy_ps);
}

/* Bytes a second as picoseconds per KiB; 0 stays 0. */
uint64_t hki_rate_ps(uint64_t rate);

#endif
