/*
 * What tcp costs here, as far as one host can tell: how long its stack takes for a small message, by a connection of
 * this process to itself, and what the interfaces carry. What the network adds nobody knows without the other end.
 */
#include "tcp.h"

#include "base/clock.h"
#include "net/socket.h"

#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 8, WAIT_MS = 20 };

/* One byte there; its time, or UINT64_MAX. */
static uint64_t send_byte(int from, int to)
{
    char byte = 1;
    uint64_t begin = hki_now();
    if (send(from, &byte, 1, MSG_NOSIGNAL) != 1)
        return UINT64_MAX;
    while (recv(to, &byte, 1, MSG_DONTWAIT) != 1)
        if (hki_now() - begin > WAIT_MS * UINT64_C(1000000))
            return UINT64_MAX;
    return hki_now() - begin;
}

/* A connection of this process to itself: its two ends, or false. */
static bool connect_both(int ends[2])
{
    hki_address address = {.family = AF_INET, .bytes = {127, 0, 0, 1}}, from;
    int listener = hki_socket_listen(&address, 0);
    ends[0] = listener >= 0 ? hki_socket_connect(&address, 0) : -1;
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    ends[1] = ends[0] >= 0 && poll(&ready, 1, WAIT_MS) == 1 ? hki_socket_accept(listener, &from) : -1;
    if (listener >= 0)
        close(listener);
    if (ends[1] >= 0)
        return true;
    if (ends[0] >= 0)
        close(ends[0]);
    return false;
}

/* The best of a few, ns; 0: there is no loopback. */
static double stack_latency(void)
{
    uint64_t best = UINT64_MAX;
    int ends[2];
    if (!connect_both(ends))
        return 0;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t taken = send_byte(ends[round % 2], ends[1 - round % 2]);
        best = taken < best ? taken : best;
    }
    close(ends[0]);
    close(ends[1]);
    return best == UINT64_MAX ? 0 : (double)best;
}

/* Bytes a second: of the preferred interface, or of all where large messages go over all; 0: not known. */
static uint64_t find_rate(const hk_transport *transport)
{
    uint64_t rate = 0;
    int count = transport->striped ? transport->chosen_count : transport->chosen_count > 0;
    for (int i = 0; i < count; i++) {
        bool again = false;
        for (int before = 0; before < i; before++)
            again |= strcmp(transport->chosen[before].name, transport->chosen[i].name) == 0;
        rate += again ? 0 : hki_interface_rate(transport->chosen[i].name);
    }
    return rate;
}

void hki_tcp_measure(hk_transport *transport, hk_transport_limits *limits)
{
    const hk_transport_services *services = transport->services;
    uint64_t rate = find_rate(transport);
    limits->capabilities |= HK_TRANSPORT_COSTED;
    limits->alpha_ns = stack_latency();
    limits->beta_ns = rate > 0 ? 1e9 / (double)rate : 0;
    services->log(services->core, HK_LOG_DEBUG, "tcp: rank %d on %s: %.1f us through this host's stack, %s%.4g Gbit/s",
                  (int)services->self->rank, services->self->host_name, limits->alpha_ns / 1000,
                  rate > 0 ? "interface " : "interface unknown, ", (double)rate * 8e-9);
}
