/*
 * A topology as bytes, little-endian and without gaps:
 *
 *   header   magic "HKT1" (4) · source (1) · quota (4) · counts of PUs, packages, NUMA nodes, L3s, L2s, cores (2 each)
 *   PUs      os · package · numa · l3 · l2 · core (2 each) · usable (1: 0 or 1)
 *   NUMA     os (2) · bytes (8)
 *   L3, L2   bytes (8)
 */
#include "topo/topology.h"

#include "base/error.h"
#include "topo/found.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAGIC = 0x31544b48,
    HEADER_BYTES = 4 + 1 + 4 + 6 * 2,
    PU_BYTES = 6 * 2 + 1,
    NUMA_BYTES = 2 + 8,
    CACHE_BYTES = 8
};

static size_t packed_bytes(const hki_topology *topology)
{
    return HEADER_BYTES + (size_t)topology->pu_count * PU_BYTES + (size_t)topology->numa_count * NUMA_BYTES +
           ((size_t)topology->l3_count + topology->l2_count) * CACHE_BYTES;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Writing
 * ------------------------------------------------------------------------------------------------------------- */

static void put(unsigned char **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        *(*at)++ = (unsigned char)(value >> 8 * i);
}

static void put_pu(unsigned char **at, const hki_pu *pu)
{
    const uint16_t fields[] = {pu->os, pu->package, pu->numa, pu->l3, pu->l2, pu->core};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        put(at, fields[i], 2);
    put(at, pu->usable, 1);
}

hk_status hki_topology_pack(const hki_topology *topology, void **packed, size_t *bytes)
{
    size_t room = packed_bytes(topology);
    unsigned char *at = malloc(room);
    if (!at)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for %zu bytes of topology", room);
    *packed = at;
    *bytes = room;
    put(&at, MAGIC, 4);
    put(&at, topology->source, 1);
    put(&at, topology->quota, 4);
    const uint32_t counts[] = {topology->pu_count, topology->package_count, topology->numa_count,
                               topology->l3_count, topology->l2_count,      topology->core_count};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        put(&at, counts[i], 2);
    for (uint32_t i = 0; i < topology->pu_count; i++)
        put_pu(&at, &topology->pus[i]);
    for (uint32_t i = 0; i < topology->numa_count; i++) {
        put(&at, topology->numas[i].os, 2);
        put(&at, topology->numas[i].bytes, 8);
    }
    for (uint32_t i = 0; i < topology->l3_count; i++)
        put(&at, topology->l3_bytes[i], CACHE_BYTES);
    for (uint32_t i = 0; i < topology->l2_count; i++)
        put(&at, topology->l2_bytes[i], CACHE_BYTES);
    return HK_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Reading. The length is checked before anything behind the header is read, so nothing can run over the end.
 * ------------------------------------------------------------------------------------------------------------- */

static uint64_t take(const unsigned char **at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++)
        value |= (uint64_t) * (*at)++ << 8 * i;
    return value;
}

static hk_status damaged(const char *what)
{
    return hki_error(HK_ERR_ARGUMENT, "these bytes are no topology, or a damaged one: %s", what);
}

static hk_status take_header(const unsigned char **at, size_t bytes, hki_topology *counts)
{
    if (bytes < HEADER_BYTES)
        return damaged("too short");
    if (take(at, 4) != MAGIC)
        return damaged("they do not begin with HKT1");
    uint64_t source = take(at, 1);
    *counts = (hki_topology){.source = (hki_topology_source)source, .quota = (uint32_t)take(at, 4)};
    counts->pu_count = (uint32_t)take(at, 2);
    counts->package_count = (uint32_t)take(at, 2);
    counts->numa_count = (uint32_t)take(at, 2);
    counts->l3_count = (uint32_t)take(at, 2);
    counts->l2_count = (uint32_t)take(at, 2);
    counts->core_count = (uint32_t)take(at, 2);
    if (source >= HKI_TOPOLOGY_SOURCES)
        return damaged("of an unknown source");
    if (counts->pu_count == 0 || counts->pu_count > HKI_TOPOLOGY_PUS_MAX)
        return damaged("number of hardware threads");
    return packed_bytes(counts) == bytes ? HK_OK : damaged("length");
}

/* Numbers are given as things first appear: each is one met before, or the next. */
static bool follows(uint16_t number, uint32_t *next, bool may_lack)
{
    if (number == HKI_TOPOLOGY_NO_CACHE)
        return may_lack;
    if (number > *next)
        return false;
    *next += number == *next;
    return true;
}

/* The counts of *next are what has been met so far. */
static hk_status take_pu(const unsigned char **at, hki_cpus *met, hki_topology *next, hki_pu *pu)
{
    pu->os = (uint16_t)take(at, 2);
    pu->package = (uint16_t)take(at, 2);
    pu->numa = (uint16_t)take(at, 2);
    pu->l3 = (uint16_t)take(at, 2);
    pu->l2 = (uint16_t)take(at, 2);
    pu->core = (uint16_t)take(at, 2);
    uint64_t usable = take(at, 1);
    pu->usable = usable == 1;
    if (usable > 1)
        return damaged("usable is neither 0 nor 1");
    if (pu->os >= HKI_TOPOLOGY_PUS_MAX || hki_cpus_has(met, pu->os))
        return damaged("a hardware thread out of range, or twice");
    hki_cpus_add(met, pu->os);
    bool in_turn = follows(pu->package, &next->package_count, false) && follows(pu->numa, &next->numa_count, false) &&
                   follows(pu->l3, &next->l3_count, true) && follows(pu->l2, &next->l2_count, true) &&
                   follows(pu->core, &next->core_count, false);
    return in_turn ? HK_OK : damaged("a number out of turn");
}

static hk_status take_pus(const unsigned char **at, hki_topology *topology)
{
    hki_cpus met = {{0}};
    hki_topology next = {.pu_count = topology->pu_count};
    for (uint32_t i = 0; i < topology->pu_count; i++)
        HK_TRY(take_pu(at, &met, &next, &topology->pus[i]));
    bool all = next.package_count == topology->package_count && next.numa_count == topology->numa_count &&
               next.l3_count == topology->l3_count && next.l2_count == topology->l2_count &&
               next.core_count == topology->core_count;
    return all ? HK_OK : damaged("a count");
}

hk_status hki_topology_unpack(const void *packed, size_t bytes, hki_topology **topology)
{
    const unsigned char *at = packed;
    hki_topology counts;
    HK_TRY(take_header(&at, bytes, &counts));
    hki_topology *made = hki_topology_new(&counts);
    if (!made)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a topology of %u hardware threads", counts.pu_count);
    hk_status status = take_pus(&at, made);
    if (status != HK_OK) {
        hki_topology_free(made);
        return status;
    }
    for (uint32_t i = 0; i < made->numa_count; i++) {
        made->numas[i].os = (uint16_t)take(&at, 2);
        made->numas[i].bytes = take(&at, 8);
    }
    for (uint32_t i = 0; i < made->l3_count; i++)
        made->l3_bytes[i] = take(&at, CACHE_BYTES);
    for (uint32_t i = 0; i < made->l2_count; i++)
        made->l2_bytes[i] = take(&at, CACHE_BYTES);
    *topology = made;
    return HK_OK;
}
