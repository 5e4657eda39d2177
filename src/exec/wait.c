/*
 * Progress and waiting. A wait polls for about twice the time that a message takes, yields a few times, then sleeps; no
 * clock is read before the first yield.
 */
#include "exec/internal.h"

#include "base/clock.h"
#include "base/pause.h"
#include "base/settings.h"
#include "topo/topology.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* With more ranks than cores any spinning delays the rank that everybody waits for. Yields measured with 4 and 8 ranks
 * on 2 cores, which other programs used as well: between 1 and 10 there is nothing to choose over shared memory (8
 * bytes to 1 MiB). A rank that yields loses its core to the others, and one that sleeps gets it back when its message
 * comes: over TCP 256 KiB among 4 ranks took 214 us with 2 yields, 250 with 5, 357 with 10. The spins are guessed, at
 * about twice the time that a message takes. */
enum {
    SPINS_ALONE = 2000,
    YIELDS_ALONE = 20,
    SPINS_SHARED = 1,
    YIELDS_SHARED = 2,
    SPINS_WITHOUT_PAUSE = 64,
    CLOCK_YIELDS = 8, /* the clock is read at every so many yields: most waits end before the first time */
    SLEEP_MICROSECONDS = 50000,
    SLOW_NANOSECONDS = 20000000,
    LOOKS_SHARE = 20 /* looks at what is in flight take at most one part in so many of a wait; guessed */
};

uint32_t hki_quota_cpus(void)
{
    uint32_t quota = hki_topology_quota();
    return quota > 0 ? quota / 1000 + (quota % 1000 > 0) : UINT32_MAX;
}

void hki_engine_open(hki_engine *engine, hki_endpoint *endpoint, uint32_t local_ranks, uint32_t usable_cpus)
{
    memset(engine, 0, sizeof *engine);
    engine->endpoint = endpoint;
    hki_list_init(&engine->lines);
    hki_list_init(&engine->graphs);
    hki_list_init(&engine->runnable);
    bool alone = local_ranks <= usable_cpus;
    int64_t spins = hki_setting_integer(HKI_SET_SPIN);
    int64_t yields = hki_setting_integer(HKI_SET_YIELD);
    engine->patience.spins = spins >= 0 ? (uint32_t)spins : alone ? SPINS_ALONE : SPINS_SHARED;
    engine->patience.yields = yields >= 0 ? (uint32_t)yields : alone ? YIELDS_ALONE : YIELDS_SHARED;
}

bool hki_engine_progress(hki_engine *engine)
{
    bool any = false;
    hki_list_each_safe (node, following, &engine->lines)
        any |= hki_linear_run(hki_list_entry(node, hki_task, node));
    while (!hki_list_empty(&engine->runnable)) {
        hki_task *task = hki_list_entry(engine->runnable.next, hki_task, node);
        hki_task_enlist(task, &engine->graphs);
        any |= hki_graph_run(task);
    }
    any |= hki_msg_progress(engine->endpoint);
    if (engine->attention) {
        engine->attention = false;
        engine->attend(engine->context);
    }
    return any;
}

static bool arm_all(hki_endpoint *endpoint)
{
    for (uint32_t i = 0; i < endpoint->transport_count; i++) {
        if (endpoint->transports[i]->arm(endpoint->instances[i]))
            continue;
        while (i-- > 0)
            endpoint->transports[i]->disarm(endpoint->instances[i]);
        return false;
    }
    return true;
}

static void sleep_armed(hki_endpoint *endpoint)
{
    const hk_transport_ops *only = endpoint->transports[0];
    if (endpoint->transport_count == 1 && only->sleep) {
        only->sleep(endpoint->instances[0], SLEEP_MICROSECONDS);
    } else {
        struct pollfd set[4];
        for (uint32_t i = 0; i < endpoint->transport_count; i++)
            set[i] = (struct pollfd){.fd = endpoint->transports[i]->event_fd(endpoint->instances[i]), .events = POLLIN};
        poll(set, endpoint->transport_count, SLEEP_MICROSECONDS / 1000);
    }
}

/* Sleeps until something arrives, unless something is there already. */
static void sleep_a_while(hki_engine *engine)
{
    hki_endpoint *endpoint = engine->endpoint;
    hki_msg_announce_all(endpoint);
    bool armed = !endpoint->pulling && arm_all(endpoint);
    if (!armed)
        return;
    engine->sleeps++;
    if (engine->unlock)
        engine->unlock(engine->context);
    if (endpoint->transport_count == 0)
        usleep(1000); /* alone in the world: only another thread can help */
    else
        sleep_armed(endpoint);
    if (engine->lock)
        engine->lock(engine->context);
    for (uint32_t i = 0; i < endpoint->transport_count; i++)
        endpoint->transports[i]->disarm(endpoint->instances[i]);
}

static void yield(hki_engine *engine)
{
    if (engine->unlock)
        engine->unlock(engine->context);
    sched_yield();
    if (engine->lock)
        engine->lock(engine->context);
}

/* A look takes the longer the more is in flight: it must leave most of the time to what it looks at. */
static void look_around(hki_engine *engine)
{
    uint64_t now = hki_now();
    if (now < engine->next_look)
        return;
    engine->slow(engine->context, now);
    uint64_t end = hki_now(), pause = (end - now) * LOOKS_SHARE;
    engine->next_look = end + (pause > SLOW_NANOSECONDS ? pause : SLOW_NANOSECONDS);
}

/* What a wait does when the spins are used up; returns the yields done since something last moved. */
static uint32_t be_patient(hki_engine *engine, uint32_t yields)
{
    if (yields < engine->patience.yields)
        yield(engine);
    else
        sleep_a_while(engine);
    if (yields < engine->patience.yields && yields % CLOCK_YIELDS != CLOCK_YIELDS - 1)
        return yields + 1;
    look_around(engine);
    return yields + 1;
}

bool hki_engine_polls_system(const hki_engine *engine)
{
    const hki_endpoint *endpoint = engine->endpoint;
    return endpoint->transport_count != 1 || !endpoint->transports[0]->sleep;
}

void hki_engine_wait(hki_engine *engine, const bool *ended)
{
    uint32_t spins = 0, yields = 0;
    while (!*ended) {
        if (hki_engine_progress(engine)) {
            spins = yields = 0;
            continue;
        }
        if (*ended)
            break;
        if (spins < engine->patience.spins) {
            if (spins++ >= SPINS_WITHOUT_PAUSE)
                hki_pause();
            /* Another thread may be waiting to make the very call that this one waits for. And polls that are system
             * calls take a millisecond in all: a rank of another container may share this core, unknown to us. 8 bytes
             * among 4 ranks in two network namespaces on 2 cores took 4 ms without this. */
            if (spins % SPINS_WITHOUT_PAUSE == 0 && (engine->unlock || hki_engine_polls_system(engine)))
                yield(engine);
            continue;
        }
        yields = be_patient(engine, yields);
    }
}

void hki_engine_pause(hki_engine *engine)
{
    yield(engine);
    sleep_a_while(engine);
}
