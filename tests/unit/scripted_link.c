#include "tests/unit/scripted_link.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static hk_link_state link_state(hk_link *link, const char **reason)
{
    (void)link, (void)reason;
    return HK_LINK_UP;
}

static hk_transport_result note(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    assert_true(link->count < SCRIPT_SENT);
    unsigned i = link->count++;
    link->sent[i].frame = *frame;
    link->sent[i].bytes = bytes;
    link->sent[i].at = payload;
    if (bytes > 0)
        memcpy(link->sent[i].payload, payload, bytes < HK_TRANSPORT_WHOLE ? bytes : HK_TRANSPORT_WHOLE);
    return HK_TRANSPORT_OK;
}

static hk_transport_result peek(hk_link *link, hk_arrival *arrival)
{
    if (link->first == link->end)
        return HK_TRANSPORT_AGAIN;
    size_t bytes = link->arrivals[link->first].bytes;
    *arrival = (hk_arrival){.frame = link->arrivals[link->first].frame,
                            .data = bytes <= HK_TRANSPORT_WHOLE ? link->arrivals[link->first].payload : NULL,
                            .bytes = bytes - link->arrivals[link->first].taken};
    return HK_TRANSPORT_OK;
}

static hk_transport_result read_some(hk_link *link, void *destination, size_t bytes, size_t *moved)
{
    size_t there = link->arrivals[link->first].here - link->arrivals[link->first].taken;
    *moved = there < bytes ? there : bytes;
    memcpy(destination, link->arrivals[link->first].payload + link->arrivals[link->first].taken, *moved);
    link->arrivals[link->first].taken += *moved;
    return *moved > 0 ? HK_TRANSPORT_OK : HK_TRANSPORT_AGAIN;
}

static void consume(hk_link *link)
{
    link->first++;
}

const hk_transport_ops hk_transport_scripted = {.size = sizeof hk_transport_scripted,
                                                .abi = HK_TRANSPORT_ABI,
                                                .name = "scripted",
                                                .link_state = link_state,
                                                .send = note,
                                                .peek = peek,
                                                .read = read_some,
                                                .consume = consume};

void script_arrival(hk_link *link, hk_frame frame, const void *payload, size_t bytes, size_t here)
{
    if (link->first == link->end)
        link->first = link->end = 0;
    assert_true(link->end < SCRIPT_ARRIVALS);
    unsigned i = link->end++;
    link->arrivals[i].frame = frame;
    link->arrivals[i].payload = payload;
    link->arrivals[i].bytes = bytes;
    link->arrivals[i].here = here;
    link->arrivals[i].taken = 0;
}

void script_rest(hk_link *link)
{
    link->arrivals[link->end - 1].here = link->arrivals[link->end - 1].bytes;
}
