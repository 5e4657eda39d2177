/*
 * Frames: each is one RDMA write with an immediate into the peer's ring, header and payload together. The immediate
 * says where it lies, and its completion that all of it is there (InfiniBand specification, 10.7.3: data of a write
 * with an immediate are visible before its completion). Room in the ring is the credit: the receiver gives it back in
 * the headers of its own frames, or by an immediate of its own when it has none to send.
 */
#include "verbs.h"

#include "net/wire.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COMPLETIONS = 32, FLAG_GOODBYE = 1, FLAG_PUT = 2, PUT_BYTES = 8, RECEIVES_AT_ONCE = 16 };
/* Immediates: the unit where a frame lies, or credit: units (bits 15 … 29) and frames (0 … 14) taken so far; or that
 * the sender's bulk queues are gone. */
#define IMMEDIATE_CREDIT 0x80000000u
#define IMMEDIATE_NO_BULK 0xc0000000u
enum { IMMEDIATE_BITS = 15, IMMEDIATE_MASK = (1 << IMMEDIATE_BITS) - 1 };

typedef struct header {
    hk_frame frame;
    uint8_t flags;
    uint16_t units, frames; /* of the receiver's frames, taken by the sender so far; low bits */
} header;

/* ---- the header: communicator, operation, fingerprint, ordinal, kind 8, flags 8, units 16, frames 16, zero 16 ---- */

static void write_header(unsigned char *at, const header *head)
{
    hki_wire_put32(at, head->frame.communicator);
    hki_wire_put32(at + 4, head->frame.operation);
    hki_wire_put32(at + 8, head->frame.fingerprint);
    hki_wire_put32(at + 12, head->frame.ordinal);
    at[16] = (uint8_t)head->frame.kind;
    at[17] = head->flags;
    hki_wire_put16(at + 18, head->units);
    hki_wire_put16(at + 20, head->frames);
    hki_wire_put16(at + 22, 0);
}

static header read_header(const unsigned char *at)
{
    return (header){.frame = {.communicator = hki_wire_get32(at),
                              .operation = hki_wire_get32(at + 4),
                              .fingerprint = hki_wire_get32(at + 8),
                              .ordinal = hki_wire_get32(at + 12),
                              .kind = at[16]},
                    .flags = at[17],
                    .units = hki_wire_get16(at + 18),
                    .frames = hki_wire_get16(at + 20)};
}

static uint32_t units_of(size_t bytes)
{
    return (uint32_t)((bytes + HKI_VERBS_UNIT - 1) / HKI_VERBS_UNIT);
}

/* ---- the end of a link ---- */

void hki_verbs_fail(hk_link *link, const char *format, ...)
{
    char why[HKI_VERBS_REASON / 2];
    const hki_port *port = link->lane[link->home].port;
    if (link->failing || link->state > HK_LINK_UP)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    snprintf(link->reason, sizeof link->reason, "rank %d on %.64s (device %.64s port %u) %s", (int)link->peer.rank,
             link->peer.host_name, port != NULL ? port->device : "?", port != NULL ? port->number : 0, why);
    link->failing = true;
}

static void end(hk_link *link, hk_link_state state)
{
    hk_transport *transport = link->transport;
    link->state = state;
    link->news = true;
    link->starved = false;
    transport->changed++;
    transport->services->log(transport->services->core, HK_LOG_DEBUG, "verbs: %s", link->reason);
}

/* What has come is kept; then no hardware touches memory for this link any more. A peer that has left in order may
 * still wait for an acknowledgement that the queues give, so those stay until close. */
static void finish(hk_link *link)
{
    if (link->goodbye) {
        if (link->puts_done < link->puts_taken) {
            hki_verbs_bulk_end(link); /* it does not wait for these; its own have been written */
            hki_verbs_bulk_drop(link);
        }
        snprintf(link->reason, sizeof link->reason, "rank %d on %.64s has left", (int)link->peer.rank,
                 link->peer.host_name);
        link->failing = false;
        end(link, HK_LINK_GOODBYE);
        return;
    }
    link->failing = false;
    hki_verbs_drop_queues(link);
    hki_verbs_bulk_drop(link);
    end(link, HK_LINK_LOST);
}

/* ---- sending ---- */

/* Posts one work request. False: the queue is full, or the link fails. */
static bool post(hk_link *link, struct ibv_send_wr *request, uint32_t kind, bool signal)
{
    struct ibv_send_wr *bad;
    hki_verbs_counts *counts = &link->transport->counts;
    signal |= link->posted + 1 - link->signalled >= HKI_VERBS_SIGNAL;
    request->wr_id = (uint64_t)kind << 32 | (uint32_t)(link->posted + 1);
    request->send_flags |= signal ? (unsigned)IBV_SEND_SIGNALED : 0;
    int error = ibv_post_send(link->frames, request, &bad);
    if (error != 0) {
        if (error != ENOMEM)
            hki_verbs_fail(link, "takes no work requests: %s", strerror(error));
        return false;
    }
    link->posted++;
    if (signal)
        link->signalled = link->posted;
    counts->work_requests++;
    return true;
}

static bool queue_full(const hk_link *link)
{
    return link->posted - link->completed >= HKI_VERBS_SENDS;
}

/* Units to be skipped so that a frame does not run over the ring's end. */
static uint32_t padding(const hk_link *link, uint32_t units)
{
    uint32_t at = (uint32_t)(link->head % link->far.ring_units);
    return at + units <= link->far.ring_units ? 0 : link->far.ring_units - at;
}

/* Besides what is kept for the frames of puts under way, a unit each. */
static bool fits(const hk_link *link, uint32_t units, uint64_t kept)
{
    uint64_t used = link->head - link->freed;
    return used + padding(link, units) + units + kept <= link->far.ring_units &&
           link->frames_out - link->frames_freed + kept < HKI_VERBS_FRAMES && !queue_full(link);
}

static uint64_t kept_for_puts(const hk_link *link)
{
    return link->bulk_broken ? 0 : link->puts_taken - link->puts_done;
}

bool hki_verbs_put_fits(const hk_link *link)
{
    return fits(link, 1, kept_for_puts(link));
}

static void told(hk_link *link)
{
    link->tail_told = link->tail;
    link->consumed_told = link->consumed;
    link->credit_due = false;
}

/* Writes a frame for which there is room. */
static bool write_frame(hk_link *link, const hk_frame *frame, uint8_t flags, const void *payload, size_t bytes)
{
    hki_verbs_counts *counts = &link->transport->counts;
    unsigned char text[HKI_VERBS_HEADER];
    size_t total = HKI_VERBS_HEADER + bytes;
    uint32_t units = units_of(total), pad = padding(link, units);
    size_t at = (size_t)((link->head + pad) % link->far.ring_units) * HKI_VERBS_UNIT;
    const header head = {*frame, flags, (uint16_t)link->tail, (uint16_t)link->consumed};
    struct ibv_sge pieces[2] = {{(uintptr_t)text, HKI_VERBS_HEADER, 0}, {(uintptr_t)payload, (uint32_t)bytes, 0}};
    struct ibv_send_wr request = {.sg_list = pieces,
                                  .num_sge = bytes > 0 ? 2 : 1,
                                  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                  .imm_data = htobe32((uint32_t)(at / HKI_VERBS_UNIT)),
                                  .wr.rdma = {.remote_addr = link->far.ring + at, .rkey = link->far.ring_key}};
    write_header(text, &head);
    bool in_line = total <= link->inline_bytes;
    if (in_line) {
        request.send_flags = IBV_SEND_INLINE;
    } else {
        unsigned char *stage = link->memory + link->memory_bytes / 2 + at;
        memcpy(stage, text, HKI_VERBS_HEADER);
        if (bytes > 0)
            memcpy(stage + HKI_VERBS_HEADER, payload, bytes);
        pieces[0] = (struct ibv_sge){(uintptr_t)stage, (uint32_t)total, link->region->lkey};
        request.num_sge = 1;
    }
    if (!post(link, &request, HKI_OF_FRAME, flags == FLAG_GOODBYE))
        return false;
    link->head += pad + units;
    link->frames_out++;
    counts->frames_out++;
    counts->inline_sends += in_line;
    counts->bytes_written += total;
    counts->bytes_copied += in_line ? 0 : bytes;
    told(link);
    return true;
}

hk_transport_result hki_verbs_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    uint32_t units = units_of(HKI_VERBS_HEADER + bytes);
    if (HKI_UNLIKELY(link->state != HK_LINK_UP)) {
        if (link->state == HK_LINK_CONNECTING)
            hki_verbs_need(link);
        if (link->state != HK_LINK_UP)
            return link->state == HK_LINK_CONNECTING ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    }
    if (units > link->far.ring_units / 4)
        return HK_TRANSPORT_REFUSED;
    if (HKI_UNLIKELY(!fits(link, units, kept_for_puts(link)))) {
        hki_verbs_progress(link);
        if (link->state != HK_LINK_UP)
            return HK_TRANSPORT_LOST;
    }
    if (fits(link, units, kept_for_puts(link)) && write_frame(link, frame, 0, payload, bytes))
        return HK_TRANSPORT_OK;
    if (link->failing)
        hki_verbs_progress(link);
    link->starved = link->state == HK_LINK_UP;
    link->transport->counts.room_waits++;
    return link->starved ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
}

bool hki_verbs_say_goodbye(hk_link *link)
{
    const hk_frame none = {0};
    return fits(link, 1, 0) && write_frame(link, &none, FLAG_GOODBYE, NULL, 0);
}

/* Payload: number of the put 32, lanes 32. */
bool hki_verbs_send_put_frame(hk_link *link, const hk_frame *frame, uint32_t number, uint32_t lanes)
{
    unsigned char text[PUT_BYTES];
    hki_wire_put32(text, number);
    hki_wire_put32(text + 4, lanes);
    return fits(link, 1, 0) && write_frame(link, frame, FLAG_PUT, text, sizeof text);
}

void hki_verbs_probe(hk_link *link)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE,
                                  .wr.rdma = {.remote_addr = link->far.ring, .rkey = link->far.ring_key}};
    if (link->probing || queue_full(link) || !post(link, &request, HKI_OF_PROBE, true))
        return;
    link->probing = true;
    link->transport->counts.probes++;
}

/* ---- credit ---- */

/* A message that is an immediate, and no data. */
static bool tell(hk_link *link, uint32_t immediate)
{
    struct ibv_send_wr request = {.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
                                  .imm_data = htobe32(immediate),
                                  .wr.rdma = {.remote_addr = link->far.ring, .rkey = link->far.ring_key}};
    return !queue_full(link) && post(link, &request, HKI_OF_FRAME, false);
}

static void tell_credit(hk_link *link)
{
    uint32_t units = (uint32_t)link->tail & IMMEDIATE_MASK, frames = link->consumed & IMMEDIATE_MASK;
    link->credit_due = !tell(link, IMMEDIATE_CREDIT | units << IMMEDIATE_BITS | frames);
    if (link->credit_due)
        return;
    link->transport->counts.credits++;
    told(link);
}

bool hki_verbs_tell_bulk_broken(hk_link *link)
{
    return tell(link, IMMEDIATE_NO_BULK);
}

/* The peer has taken so much: low bits of what it counts. False when it claims more than was sent. */
static bool take_credit(hk_link *link, uint32_t units, uint32_t frames, uint32_t mask)
{
    uint64_t freed = link->freed + ((units - (uint32_t)link->freed) & mask);
    uint32_t frames_freed = link->frames_freed + ((frames - link->frames_freed) & mask);
    if (freed > link->head || link->frames_out - frames_freed > link->frames_out - link->frames_freed)
        return false;
    if (link->starved && (freed != link->freed || frames_freed != link->frames_freed)) {
        link->starved = false;
        link->transport->relieved = true;
    }
    link->freed = freed;
    link->frames_freed = frames_freed;
    return true;
}

/* ---- completions ---- */

static void distrust(hk_link *link)
{
    hki_verbs_fail(link, "sent something that is no frame");
}

static void frame_came(hk_link *link, uint32_t unit, uint32_t bytes)
{
    uint64_t ring_bytes = link->memory_bytes / 2;
    if (bytes < HKI_VERBS_HEADER || (uint64_t)unit * HKI_VERBS_UNIT + bytes > ring_bytes ||
        link->arrived - link->consumed == HKI_VERBS_FRAMES) {
        distrust(link);
        return;
    }
    const header head = read_header(link->memory + (size_t)unit * HKI_VERBS_UNIT);
    if (!take_credit(link, head.units, head.frames, UINT16_MAX) || head.frame.kind > 15 || link->goodbye) {
        distrust(link);
        return;
    }
    if (head.flags == FLAG_GOODBYE) {
        hki_verbs_fail(link, "has left");
        link->goodbye = true;
        return;
    }
    link->slot[link->arrived++ % HKI_VERBS_FRAMES] = (hki_slot){unit, bytes};
}

static void post_receives(hk_link *link)
{
    struct ibv_recv_wr receive = {0}, *bad;
    for (; link->receives_due > 0; link->receives_due--) {
        int error = ibv_post_recv(link->frames, &receive, &bad);
        if (error != 0) {
            hki_verbs_fail(link, "takes no receives: %s", strerror(error));
            return;
        }
    }
}

static void received(hk_link *link, const struct ibv_wc *completion)
{
    uint32_t immediate = be32toh(completion->imm_data);
    link->heard = true;
    link->receives_due++;
    if (completion->opcode != IBV_WC_RECV_RDMA_WITH_IMM || !(completion->wc_flags & IBV_WC_WITH_IMM))
        distrust(link);
    else if (immediate == IMMEDIATE_NO_BULK)
        link->bulk_failing = !link->bulk_broken;
    else if (!(immediate & IMMEDIATE_CREDIT))
        frame_came(link, immediate, completion->byte_len);
    else if (!take_credit(link, immediate >> IMMEDIATE_BITS & IMMEDIATE_MASK, immediate & IMMEDIATE_MASK,
                          IMMEDIATE_MASK))
        distrust(link);
}

static void sent(hk_link *link, uint32_t kind, uint32_t number)
{
    link->heard = true;
    link->completed = number;
    if (kind == HKI_OF_PROBE)
        link->probing = false;
    if (link->starved) {
        link->starved = false;
        link->transport->relieved = true;
    }
}

static void broken(hk_link *link, const struct ibv_wc *completion)
{
    const char *what = link->transport->library->wc_status_str(completion->status);
    if (completion->status == IBV_WC_WR_FLUSH_ERR)
        hki_verbs_fail(link, "is cut off: the queue pair has failed");
    else if (completion->status == IBV_WC_RETRY_EXC_ERR)
        hki_verbs_fail(link, "does not answer any more: its process has ended, or the network is cut (%s)", what);
    else
        hki_verbs_fail(link, "is cut off: %s", what);
}

static void handle(hki_lane *lane, const struct ibv_wc *completion)
{
    hk_link *link = lane->link;
    uint32_t kind = (uint32_t)(completion->wr_id >> 32);
    if (kind >= HKI_OF_BULK_RECEIVE)
        hki_verbs_bulk_completed(lane, completion);
    else if (completion->status != IBV_WC_SUCCESS)
        broken(link, completion);
    else if (kind == HKI_OF_RECEIVE)
        received(link, completion);
    else
        sent(link, kind, (uint32_t)completion->wr_id);
}

void hki_verbs_take_completions(hki_lane *lane)
{
    struct ibv_wc completions[COMPLETIONS];
    int count = COMPLETIONS;
    while (count == COMPLETIONS && lane->cq != NULL) {
        count = ibv_poll_cq(lane->cq, COMPLETIONS, completions);
        if (count < 0)
            hki_verbs_fail(lane->link, "is cut off: its completion queue cannot be read");
        for (int i = 0; i < count; i++)
            handle(lane, &completions[i]);
    }
}

void hki_verbs_progress(hk_link *link)
{
    if (link->state != HK_LINK_UP)
        return;
    hki_verbs_take_completions(&link->lane[link->home]);
    for (uint32_t i = 0; i < link->lane_count && link->lane_count > 1; i++) {
        if (i != link->home)
            hki_verbs_take_completions(&link->lane[i]);
    }
    if (HKI_UNLIKELY(link->failing)) {
        finish(link);
        return;
    }
    if (link->receives_due >= RECEIVES_AT_ONCE)
        post_receives(link);
    if (HKI_UNLIKELY(link->credit_due))
        tell_credit(link);
    hki_verbs_bulk_progress(link);
    if (HKI_UNLIKELY(link->failing))
        finish(link);
}

/* ---- receiving ---- */

/* Whether the data that the frame speaks of are here: each lane's share says so by an immediate. */
static bool put_arrived(const hk_link *link, const unsigned char *text)
{
    uint32_t number = hki_wire_get32(text), lanes = hki_wire_get32(text + 4);
    for (uint32_t i = 0; i < link->lane_count; i++) {
        if ((lanes & 1u << i) && (int32_t)(link->lane[i].put_arrived - number) < 0)
            return false;
    }
    return true;
}

/* Looks at all lanes, also when the peer has left: its data were acknowledged before it said so, but the completion of
 * one lane may be seen after the goodbye that came by another. */
static void look_at_lanes(hk_link *link)
{
    hki_verbs_progress(link);
    for (uint32_t i = 0; i < link->lane_count && link->state == HK_LINK_GOODBYE; i++)
        hki_verbs_take_completions(&link->lane[i]);
}

/* The data come before their frame is sent, but their completion may be seen after it. */
static hk_transport_result await_put(hk_link *link, uint32_t bytes, const unsigned char *text)
{
    bool whole = bytes >= HKI_VERBS_HEADER + PUT_BYTES;
    if (whole && put_arrived(link, text))
        return HK_TRANSPORT_OK;
    look_at_lanes(link);
    if (whole && put_arrived(link, text))
        return HK_TRANSPORT_OK;
    bool may_come = link->state <= HK_LINK_GOODBYE && link->lane[link->home].bulk != NULL;
    if (whole && may_come && !link->bulk_broken)
        return HK_TRANSPORT_AGAIN;
    distrust(link);
    hki_verbs_progress(link);
    return HK_TRANSPORT_LOST;
}

hk_transport_result hki_verbs_peek(hk_link *link, hk_arrival *arrival)
{
    if (link->arrived == link->consumed) {
        if (HKI_UNLIKELY(link->state == HK_LINK_CONNECTING))
            hki_verbs_need(link);
        hki_verbs_progress(link);
        if (link->arrived == link->consumed)
            return link->state <= HK_LINK_UP ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
    }
    const hki_slot *slot = &link->slot[link->consumed % HKI_VERBS_FRAMES];
    const unsigned char *at = link->memory + (size_t)slot->unit * HKI_VERBS_UNIT;
    const header head = read_header(at);
    arrival->frame = head.frame;
    arrival->frame.kind &= 15; /* the peer may have changed it since it was checked */
    arrival->data = at + HKI_VERBS_HEADER;
    arrival->bytes = slot->bytes - HKI_VERBS_HEADER;
    if (head.flags != FLAG_PUT)
        return HK_TRANSPORT_OK;
    arrival->bytes = 0;
    return await_put(link, slot->bytes, at + HKI_VERBS_HEADER);
}

void hki_verbs_consume(hk_link *link)
{
    uint32_t ring = link->transport->ring_units;
    const hki_slot *slot = &link->slot[link->consumed % HKI_VERBS_FRAMES];
    uint32_t at = (uint32_t)(link->tail % ring);
    link->tail += (slot->unit >= at ? slot->unit - at : ring - at + slot->unit) + units_of(slot->bytes);
    link->consumed++;
    link->transport->counts.frames_in++;
    bool due = link->tail - link->tail_told >= ring / 4 || link->consumed - link->consumed_told >= HKI_VERBS_FRAMES / 4;
    if (!due || link->state != HK_LINK_UP)
        return;
    tell_credit(link);
    if (link->failing)
        hki_verbs_progress(link);
}
