#include "echo_transport.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMES = 8, FRAME_BYTES = 4096 - 64 };

typedef struct frame { /* 4 KiB, so that a frame is found by a shift */
    hk_frame header;
    size_t bytes;
    unsigned char data[FRAME_BYTES];
} __attribute__((aligned(64))) frame;

_Static_assert(sizeof(frame) == 4096, "padding");

struct hk_link {
    uint32_t sent, taken;
    frame frames[FRAMES];
};

struct hk_transport {
    hk_link *links[16];
    uint32_t count;
};

static hk_status echo_open(const hk_transport_services *services, hk_transport **transport, hk_transport_limits *limits)
{
    (void)services;
    *transport = calloc(1, sizeof **transport);
    *limits = (hk_transport_limits){
        .inline_bytes = 48, .eager_bytes = FRAME_BYTES, .piece_bytes = 4096, .get_bytes = SIZE_MAX};
    return *transport ? HK_OK : HK_ERR_NO_MEMORY;
}

static void echo_close(hk_transport *transport, double timeout)
{
    (void)timeout;
    for (uint32_t i = 0; i < transport->count; i++)
        free(transport->links[i]);
    free(transport);
}

static hk_status echo_address(hk_transport *transport, void *address, size_t *bytes)
{
    (void)transport;
    memcpy(address, "echo", 4);
    *bytes = 4;
    return HK_OK;
}

static hk_status echo_connect(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes,
                              hk_link **link)
{
    (void)peer, (void)address, (void)bytes;
    *link = aligned_alloc(64, sizeof **link);
    if (!*link)
        return HK_ERR_NO_MEMORY;
    memset(*link, 0, sizeof **link);
    transport->links[transport->count++] = *link;
    return HK_OK;
}

static hk_link_state echo_state(hk_link *link, const char **reason)
{
    (void)link, (void)reason;
    return HK_LINK_UP;
}

static hk_transport_result echo_send(hk_link *link, const hk_frame *header, const void *payload, size_t bytes)
{
    if (link->sent - link->taken == FRAMES)
        return HK_TRANSPORT_AGAIN;
    frame *slot = &link->frames[link->sent++ % FRAMES];
    slot->header = *header;
    slot->bytes = bytes;
    if (bytes == sizeof(uint64_t))
        memcpy(slot->data, payload, sizeof(uint64_t)); /* without a call */
    else if (bytes)
        memcpy(slot->data, payload, bytes);
    return HK_TRANSPORT_OK;
}

static hk_transport_result echo_peek(hk_link *link, hk_arrival *arrival)
{
    if (link->sent == link->taken)
        return HK_TRANSPORT_AGAIN;
    const frame *slot = &link->frames[link->taken % FRAMES];
    *arrival = (hk_arrival){.frame = slot->header, .data = slot->data, .bytes = slot->bytes};
    return HK_TRANSPORT_OK;
}

static void echo_consume(hk_link *link)
{
    link->taken++;
}

static size_t echo_poll(hk_transport *transport, uint32_t *ranks, size_t capacity)
{
    (void)transport, (void)ranks, (void)capacity;
    return 0;
}

static size_t echo_check(hk_transport *transport)
{
    (void)transport;
    return 0;
}

static bool echo_arm(hk_transport *transport)
{
    (void)transport;
    return false;
}

static void echo_disarm(hk_transport *transport)
{
    (void)transport;
}

static int echo_event_fd(hk_transport *transport)
{
    (void)transport;
    return -1;
}

static size_t echo_counters(hk_transport *transport, const char **names, uint64_t *values, size_t capacity)
{
    (void)transport, (void)names, (void)values, (void)capacity;
    return 0;
}

const hk_transport_ops hk_transport_echo = {.size = sizeof(hk_transport_ops),
                                            .abi = HK_TRANSPORT_ABI,
                                            .name = "echo",
                                            .open = echo_open,
                                            .close = echo_close,
                                            .address = echo_address,
                                            .connect = echo_connect,
                                            .link_state = echo_state,
                                            .send = echo_send,
                                            .peek = echo_peek,
                                            .consume = echo_consume,
                                            .poll = echo_poll,
                                            .check = echo_check,
                                            .arm = echo_arm,
                                            .disarm = echo_disarm,
                                            .event_fd = echo_event_fd,
                                            .counters = echo_counters};
