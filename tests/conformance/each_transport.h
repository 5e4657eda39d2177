/*
 * The transports that the conformance tests of transports run over: those of this tree, a line of `built_in` each, or
 * the one that CONFORMANCE_PLUGIN names, looked for as HOCKET_TRANSPORT_PATH says, with the settings of
 * CONFORMANCE_SETTINGS ("NAME=value NAME=value").
 */
#ifndef HKI_TESTS_EACH_TRANSPORT_H
#define HKI_TESTS_EACH_TRANSPORT_H

#include "pair.h"

#include "comm/plugin.h"

#include <setjmp.h>
#include <stddef.h>

#include <cmocka.h>

extern const hk_transport_ops hk_transport_shm, hk_transport_tcp;
static const pair_transport built_in[] = {
    {"shm", &hk_transport_shm, NULL, false},
    {"tcp over IPv4", &hk_transport_tcp, "INTERFACE=127.0.0.0/8", false},
    {"tcp over IPv6", &hk_transport_tcp, "INTERFACE=::1", false},
    {"tcp with small buffers", &hk_transport_tcp, "INTERFACE=127.0.0.1 SOCKET_BUFFER=64K", .narrow = true},
    {"tcp with four streams", &hk_transport_tcp, "INTERFACE=127.0.0.1 STREAMS=4", false},
    {"tcp with four streams and small buffers", &hk_transport_tcp, "INTERFACE=::1 SOCKET_BUFFER=64K STREAMS=4",
     .narrow = true},
#ifdef HKI_HAVE_OPENSSL
    {"tcp with TLS and two streams", &hk_transport_tcp, "INTERFACE=127.0.0.1 TLS=required STREAMS=2", false},
    {"tcp with TLS", &hk_transport_tcp, "INTERFACE=127.0.0.1 TLS=required", false},
    {"tcp with TLS and small buffers", &hk_transport_tcp, "INTERFACE=::1 SOCKET_BUFFER=64K TLS=required",
     .narrow = true},
#endif
};

static pair_transport plugin; /* in their place */
static const pair_transport *transports = built_in;
static size_t transport_count = sizeof built_in / sizeof built_in[0];

enum { NEEDS_ROOM = 1u << 30 /* besides capabilities: a sender gets far without being read */ };

/* Runs a body over each transport that has what it needs (capabilities, NEEDS_ROOM), between two processes and, if
 * threads may, between two threads. */
static void both_ways(pair_body *body, const char *protocol, uint32_t needs, bool threads)
{
    for (size_t i = 0; i < transport_count; i++)
        for (int processes = threads ? 0 : 1; processes < 2; processes++) {
            if ((needs & NEEDS_ROOM) && transports[i].narrow)
                continue;
            pair_end probe = {.settings = transports[i].settings};
            assert_true(pair_open(&probe, transports[i].ops, 0, 2, protocol));
            bool able = (probe.limits.capabilities & needs) == (needs & ~(uint32_t)NEEDS_ROOM);
            transports[i].ops->close(probe.transport, 0);
            if (able && !pair_run(&transports[i], body, protocol, processes != 0))
                fail_msg("%s between two %s", transports[i].name, processes != 0 ? "processes" : "threads");
        }
}

/* False when there is no such plug-in. */
static bool choose_transports(void)
{
    plugin.name = getenv("CONFORMANCE_PLUGIN");
    plugin.settings = getenv("CONFORMANCE_SETTINGS");
    if (plugin.name == NULL)
        return true;
    if (hki_plugin_load(plugin.name, &plugin.ops) != HK_OK) {
        fprintf(stderr, "%s\n", hk_last_error());
        return false;
    }
    transports = &plugin;
    transport_count = 1;
    return true;
}

/* Bytes that tell one payload from another. */
static void fill(unsigned char *payload, size_t bytes, uint64_t n)
{
    for (size_t i = 0; i < bytes; i++)
        payload[i] = (unsigned char)(n * 31 + i * 7);
}

static bool filled(const unsigned char *payload, size_t bytes, uint64_t n)
{
    for (size_t i = 0; i < bytes; i++)
        if (payload[i] != (unsigned char)(n * 31 + i * 7))
            return false;
    return true;
}

#endif
