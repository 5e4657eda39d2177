/* A transport whose peer is the test: it sees each frame that is sent, and says what has come, and how much of it. It
 * can but stream. */
#ifndef TESTS_UNIT_SCRIPTED_LINK_H
#define TESTS_UNIT_SCRIPTED_LINK_H

#include <hocket/transport.h>

#include <stdbool.h>

enum { SCRIPT_SENT = 64, SCRIPT_ARRIVALS = 8 };

struct hk_link {
    struct {
        hk_frame frame;
        size_t bytes;
        unsigned char payload[HK_TRANSPORT_WHOLE]; /* its beginning */
        const void *at;                            /* where it lay */
    } sent[SCRIPT_SENT];
    unsigned count; /* of those */
    struct {
        hk_frame frame;
        const unsigned char *payload; /* handed over where it lies when it is short, else to be read */
        size_t bytes, here, taken;    /* length, how much of it has come, and how much was read */
    } arrivals[SCRIPT_ARRIVALS];
    unsigned first, end; /* of those: not yet taken */
};

extern const hk_transport_ops hk_transport_scripted;

/* A frame comes, `here` bytes of it; the payload must stay. */
void script_arrival(hk_link *link, hk_frame frame, const void *payload, size_t bytes, size_t here);
/* The rest of the newest one comes. */
void script_rest(hk_link *link);

#endif
