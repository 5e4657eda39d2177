/*
 * The figures that are built in. Measured on a virtual machine of two cores (one L3, Linux 6, AVX-512), medians of
 * malloc'ed buffers rewritten before each call: shared memory and tcp on loopback by ping-pong and exchanges of 8 B to
 * 16 MiB, reductions within all-reduces, switches by one-round barriers of 8 ranks, calls with
 * counts against those without. What bulk takes is a machine's own: none is built in. Everything else is guessed, and
 * says so: `hocket tune` measures it.
 */
#include "cost/figures.h"

#include <stdio.h>

#define NS(n) (UINT64_C(n) * 1000)
#define US(n) NS(n##000)
/* Picoseconds a byte, as the table holds it. */
#define PER_BYTE(n) (UINT64_C(n) * 1024)
#define REST UINT64_MAX

/* Shared memory: the line, one slot, a few slots, and streams that the receiver has asked for. What lies between L3 and
 * further parts of a host is guessed from the ratio of hand-over times of other machines: `far` percent of the latency,
 * `wide` of the time a byte. */
#define SHARED(far, wide)                                                                                              \
    {                                                                                                                  \
        .ranges = 4, .range = {                                                                                        \
            {48, NS(70) * (far) / 100, PER_BYTE(20) * (wide) / 100, NS(25), PER_BYTE(10), false},                      \
            {4096, NS(110) * (far) / 100, PER_BYTE(50) * (wide) / 100, NS(40), PER_BYTE(23), false},                   \
            {32768, NS(200) * (far) / 100, PER_BYTE(43) * (wide) / 100, NS(100), PER_BYTE(23), false},                 \
            {REST, NS(700) * (far) / 100, PER_BYTE(32) * (wide) / 100, NS(350), PER_BYTE(23), true}                    \
        }                                                                                                              \
    }

#define GAMMA(add, compare, other)                                                                                     \
    {                                                                                                                  \
        PER_BYTE(add), PER_BYTE(compare), PER_BYTE(other)                                                              \
    }

const hki_figures hki_figures_built_in =
    {
        .link =
            {
                [HKI_LINK_CORE] = SHARED(100, 100),
                [HKI_LINK_L2] = SHARED(100, 100),
                [HKI_LINK_L3] = SHARED(100, 100),
                [HKI_LINK_NUMA] = SHARED(150, 110),    /* guessed */
                [HKI_LINK_PACKAGE] = SHARED(180, 120), /* guessed */
                [HKI_LINK_HOST] = SHARED(250, 150),    /* guessed */
                [HKI_LINK_LOOPBACK] =
                    {
                        .ranges = 3,
                        .range = {{16384, NS(5000), PER_BYTE(70), NS(2000), PER_BYTE(60), false},
                                  {65536, NS(5500), PER_BYTE(110), NS(2500), PER_BYTE(70), false},
                                  {REST, NS(9200), PER_BYTE(87), NS(3300), PER_BYTE(58), true}},
                    },
                /* Guessed: 10 Gbit/s Ethernet through one switch. */
                [HKI_LINK_TCP] = {.ranges = 2,
                                  .range = {{65536, US(25), PER_BYTE(850), US(3), PER_BYTE(70), false},
                                            {REST, US(50), PER_BYTE(850), US(5), PER_BYTE(73), true}}},
                /* Guessed: 100 Gbit/s RDMA through one switch. */
                [HKI_LINK_VERBS] = {.ranges = 2,
                                    .range = {{8192, NS(2000), PER_BYTE(90), NS(300), PER_BYTE(20), false},
                                              {REST, NS(5000), PER_BYTE(85), NS(500), 0, true}}},
            },
        /* float32 sums within all-reduces, where the copy that a receive would make is saved; others in proportion to
         * the kernels alone (`hocket bench kernels`), a program's own operator guessed at one element a nanosecond. */
        .gamma_ps =
            {
                [HK_INT8] = GAMMA(7, 7, 1000),
                [HK_UINT8] = GAMMA(7, 7, 1000),
                [HK_INT16] = GAMMA(7, 7, 500),
                [HK_UINT16] = GAMMA(7, 7, 500),
                [HK_INT32] = GAMMA(7, 7, 250),
                [HK_UINT32] = GAMMA(7, 7, 250),
                [HK_INT64] = GAMMA(7, 7, 125),
                [HK_UINT64] = GAMMA(7, 7, 125),
                [HK_FLOAT16] = GAMMA(25, 35, 500),
                [HK_BFLOAT16] = GAMMA(25, 35, 500),
                [HK_FLOAT32] = GAMMA(7, 10, 250),
                [HK_FLOAT64] = GAMMA(7, 10, 125),
            },
        .copy_ps = PER_BYTE(20),
        .copy_far_ps = PER_BYTE(20),
        .copy_bulk_ps = PER_BYTE(20),
        .step_ps = NS(3),
        .counts_ps = NS(300),
        .switch_ps = NS(2600),
        .memory_rate = UINT64_C(100000000000), /* guessed */
        .nic_rate = 0,
};

hki_op_class hki_op_class_of(hk_op op)
{
    switch (op) {
    case HK_SUM:
    case HK_PROD:
    case HK_AVG:
    case HK_BAND:
    case HK_BOR:
    case HK_BXOR:
        return HKI_OPS_ADD;
    case HK_MIN:
    case HK_MAX:
    case HK_LAND:
    case HK_LOR:
    case HK_LXOR:
        return HKI_OPS_COMPARE;
    default:
        return HKI_OPS_OTHER;
    }
}

const char *hki_op_class_name(hki_op_class operators)
{
    static const char *const names[HKI_OP_CLASSES] = {"add", "compare", "other"};
    return operators < HKI_OP_CLASSES ? names[operators] : "?";
}

const char *hki_origin_name(hki_origin origin)
{
    static const char *const names[] = {"built in", "tuned", "calibrated", "given", "reported by the ports"};
    return (unsigned)origin < sizeof names / sizeof *names ? names[origin] : "?";
}

const char *hki_figures_origins(const hki_figures *figures, char *text, size_t room)
{
    size_t used = 0;
    text[0] = '\0';
    for (int link = 0; link < HKI_LINK_CLASSES && used < room; link++)
        if (figures->link[link].origin != HKI_BUILT_IN)
            used += (size_t)snprintf(text + used, room - used, "%s %s, ", hki_link_class_name((hki_link_class)link),
                                     hki_origin_name(figures->link[link].origin));
    const char *rest = used ? "others" : "links";
    if (used < room)
        snprintf(text + used, room - used, "%s built in; reductions %s; host %s", rest,
                 hki_origin_name(figures->reduce_origin), hki_origin_name(figures->host_origin));
    return text;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

hki_range_figures hki_figures_least(const hki_link_figures *link)
{
    hki_range_figures all = link->range[0];
    for (uint32_t i = 1; i < link->ranges; i++) {
        const hki_range_figures *range = &link->range[i];
        all.alpha_ps = least(all.alpha_ps, range->alpha_ps);
        all.beta_ps = least(all.beta_ps, range->beta_ps);
        all.overhead_ps = least(all.overhead_ps, range->overhead_ps);
        all.core_ps = least(all.core_ps, range->core_ps);
    }
    return all;
}

uint64_t hki_rate_ps(uint64_t rate)
{
    return rate ? UINT64_C(1024000000000000) / rate : 0;
}
