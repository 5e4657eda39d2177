/*
 * A frame on the wire: 24 bytes of header, the payload, and zeros up to a multiple of 8, so that payloads that are
 * handed over where they lie are aligned. The payload of a large frame may come over a lane instead (lanes.c): then
 * only the header is here.
 */
#ifndef HKI_TCP_FRAME_H
#define HKI_TCP_FRAME_H

#include "net/wire.h"

#include <hocket/transport.h>

#include <stdbool.h>

enum {
    HKI_TCP_HEADER = 24,
    HKI_TCP_LONGEST = 16 << 20, /* payload of a frame; a longer one is a broken stream */
    HKI_TCP_LANES = 8,          /* connections by which payloads may come from one peer, the link's own included */
    HKI_TCP_FRAME = 0x48,       /* types */
    HKI_TCP_GOODBYE = 0x47
};

typedef struct hki_tcp_header {
    hk_frame frame;
    uint32_t bytes;
    uint32_t lane; /* over which the payload comes; 0: it follows */
    bool goodbye;
} hki_tcp_header;

static inline size_t hki_tcp_padding(size_t bytes)
{
    return -bytes & 7;
}

static inline void hki_tcp_write_header(unsigned char *at, const hk_frame *frame, uint32_t bytes, uint32_t lane)
{
    hki_wire_put32(at, bytes);
    hki_wire_put32(at + 4, HKI_TCP_FRAME | frame->kind << 8 | lane << 16);
    hki_wire_put32(at + 8, frame->communicator);
    hki_wire_put32(at + 12, frame->operation);
    hki_wire_put32(at + 16, frame->fingerprint);
    hki_wire_put32(at + 20, frame->ordinal);
}

static inline void hki_tcp_write_goodbye(unsigned char *at)
{
    memset(at, 0, HKI_TCP_HEADER);
    hki_wire_put32(at + 4, HKI_TCP_GOODBYE);
}

/* False when these bytes are no header. */
static inline bool hki_tcp_read_header(const unsigned char *at, hki_tcp_header *header)
{
    uint32_t word = hki_wire_get32(at + 4);
    header->bytes = hki_wire_get32(at);
    header->goodbye = word == HKI_TCP_GOODBYE;
    header->lane = word >> 16;
    header->frame = (hk_frame){.kind = (word >> 8) & 0xff,
                               .communicator = hki_wire_get32(at + 8),
                               .operation = hki_wire_get32(at + 12),
                               .fingerprint = hki_wire_get32(at + 16),
                               .ordinal = hki_wire_get32(at + 20)};
    if (header->goodbye)
        return header->bytes == 0;
    return (word & 0xff) == HKI_TCP_FRAME && header->frame.kind < 16 && header->bytes <= HKI_TCP_LONGEST &&
           (header->lane == 0 || (header->lane < HKI_TCP_LANES && header->bytes > HK_TRANSPORT_WHOLE));
}

#endif
