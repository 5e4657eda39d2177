/*
 * From which size on registering memory for one message costs less than copying it, measured with the ports at hand.
 * Registering and letting go takes a + b·n, a line through two sizes: the kernel pins pages, and the adapter is told.
 * Copying takes c·n. Either end of a message pays one or the other, and the frame of a put waits for a round trip r, so
 * registering wins from (a + r) / (c − b) on. What frames cost besides their copies, a microsecond for each 32 KiB or
 * so, is left out: there it is too late, if anything.
 */
#include "verbs.h"

#include "base/clock.h"
#include "base/settings.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

enum {
    SMALL = 64 << 10,
    LARGE = 1 << 20,
    COPIED = 4 << 20, /* more than fits into the caches next to a core, as large messages are */
    TRIES = 3,        /* the best of which counts: whatever disturbs makes it slower */
    PAGE_BYTES = 4096,
    NOT_MEASURED_FROM = 256 << 10 /* guessed */
};

/* Nanoseconds of registering so many bytes at all ports and letting them go; UINT64_MAX: it is refused. */
static uint64_t time_registration(hk_transport *transport, char *memory, size_t bytes)
{
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        hki_region region = {.memory = memory, .bytes = bytes};
        uint64_t begin = hki_now();
        if (!hki_region_register(transport, &region))
            return UINT64_MAX;
        hki_region_deregister(transport, &region);
        uint64_t taken = hki_now() - begin;
        best = taken < best ? taken : best;
    }
    return best;
}

/* As a stream does: by frames, into a ring that is used over and over. */
static uint64_t time_copy(const char *from, char *ring, size_t ring_bytes)
{
    size_t piece = ring_bytes / 8;
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        uint64_t begin = hki_now();
        for (size_t done = 0; done + piece <= COPIED; done += piece) {
            memcpy(ring + done % ring_bytes, from + done, piece);
            __asm__ volatile("" : : "r"(ring) : "memory"); /* nobody reads it, and yet it is to be written */
        }
        uint64_t taken = hki_now() - begin;
        best = taken < best ? taken : best;
    }
    return best;
}

static void *map_pages(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return pages != MAP_FAILED ? pages : NULL;
}

/* Fills in the line and the copy; false: it cannot be measured. */
static bool measure(hk_transport *transport, hki_memory_cost *cost)
{
    size_t ring_bytes = (size_t)transport->ring_units * HKI_VERBS_UNIT;
    char *memory = map_pages(COPIED), *ring = map_pages(ring_bytes);
    uint64_t small = UINT64_MAX, large = UINT64_MAX;
    if (memory != NULL && ring != NULL) {
        large = time_registration(transport, memory, LARGE);
        small = time_registration(transport, memory, SMALL);
        cost->copy_ns = (double)time_copy(memory, ring, ring_bytes) / COPIED;
    }
    if (memory != NULL)
        munmap(memory, COPIED);
    if (ring != NULL)
        munmap(ring, ring_bytes);
    if (small == UINT64_MAX || large == UINT64_MAX)
        return false;
    cost->byte_ns = large > small ? (double)(large - small) / (LARGE - SMALL) : 0;
    cost->fixed_ns = (double)small - cost->byte_ns * SMALL;
    cost->fixed_ns = cost->fixed_ns > 0 ? cost->fixed_ns : 0;
    return true;
}

/* The first whole pages for which registering costs no more than copying. */
static uint64_t crossover(const hki_memory_cost *cost, double round_trip_ns)
{
    const double most = 1e15;
    double gain = cost->copy_ns - cost->byte_ns, fixed_ns = cost->fixed_ns + round_trip_ns;
    if (gain <= 0 || fixed_ns / gain > most)
        return UINT64_MAX;
    uint64_t pages = (uint64_t)(fixed_ns / gain / PAGE_BYTES) + 1;
    return pages * PAGE_BYTES;
}

static void say_measured(const hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const hki_memory_cost *cost = &transport->memory;
    char text[64] = "never";
    if (cost->from != UINT64_MAX)
        snprintf(text, sizeof text, "from %llu KiB on", (unsigned long long)cost->from / 1024);
    services->log(services->core, HK_LOG_INFO,
                  "verbs: rank %d on %s: memory is registered for one message %s (measured: registering takes %.1f us "
                  "and %.4f ns a byte, a round trip %.1f us, copying %.4f ns a byte)",
                  (int)services->self->rank, services->self->host_name, text, cost->fixed_ns / 1000, cost->byte_ns,
                  2 * transport->latency_ns / 1000, cost->copy_ns);
}

static void say_given(const hk_transport *transport, const char *why)
{
    const hk_transport_services *services = transport->services;
    services->log(services->core, HK_LOG_INFO,
                  "verbs: rank %d on %s: memory is registered for one message from %llu "
                  "bytes on (%s)",
                  (int)services->self->rank, services->self->host_name, (unsigned long long)transport->memory.from,
                  why);
}

void hki_verbs_set_memory(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    uint64_t given = 0;
    transport->memory = (hki_memory_cost){.from = NOT_MEASURED_FROM};
    if (!hki_parse_bytes(services->setting(services->core, "VERBS_REGISTER"), &given) || given == 0)
        return;
    transport->memory = (hki_memory_cost){.from = given, .given = true};
    say_given(transport, "HOCKET_VERBS_REGISTER");
}

void hki_verbs_measure(hk_transport *transport, hk_transport_limits *limits)
{
    hki_memory_cost cost = {0};
    (void)limits; /* latency and rate are known since open */
    if (transport->memory.given)
        return;
    if (!measure(transport, &cost)) {
        say_given(transport, "guessed: it could not be measured");
        return;
    }
    cost.from = crossover(&cost, 2 * transport->latency_ns);
    transport->memory = cost;
    say_measured(transport);
}
