/* The shared-memory transport: its operations table, and the path of a frame. */
#include "shm.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

enum {
    ADDRESS_VERSION = 1,
    LOOK_CONNECTING = 32, /* polls between looks at the socket while a link connects; guesses: a look costs 0.3 µs */
    GET_BYTES_HUGE = 4 << 20, /* see huge_pages_by_default */
    LOOK_IDLE = 128           /* and otherwise, for knocks */
};

/* What `address` publishes. */
typedef struct hki_shm_address {
    uint32_t version, bytes;
    struct sockaddr_un name;
    uint16_t zero;
} hki_shm_address;
_Static_assert(sizeof(hki_shm_address) == 10 + sizeof(struct sockaddr_un), "a gap would tell others what it holds");

/* ---- ends of links ---- */

/* Returns false when the link had ended before: the first reason stays. */
static bool end_link(hk_link *link, hk_link_state state, const char *reason)
{
    hk_transport *transport = link->transport;
    if (link->state > HK_LINK_UP)
        return false;
    if (link->state == HK_LINK_CONNECTING) {
        transport->unsettled -= link->wanted;
        transport->settled += link->peer.context != transport->services->self->context;
    }
    snprintf(link->reason, sizeof link->reason, "%s", reason);
    link->state = state;
    link->out.limit = link->out.sent; /* send takes the slow path, and sees the state there */
    transport->starved -= link->starved;
    link->starved = false;
    link->news = true;
    transport->news++;
    transport->changed++;
    transport->services->log(transport->services->core, HK_LOG_DEBUG, "shm: %s", link->reason);
    return true;
}

void hki_shm_end(hk_link *link, hk_link_state state, const char *format, ...)
{
    char reason[HKI_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    if (end_link(link, state, reason) && link->readable)
        hki_slots_reclaim_all(link); /* nobody reads them any more */
}

void hki_shm_distrust(hk_link *link, const char *format, ...)
{
    char reason[HKI_REASON_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    (void)end_link(link, HK_LINK_LOST, reason);
    link->readable = false;
}

/* ---- sending ---- */

bool hki_shm_has_room(hk_link *link)
{
    if (link->out.sent == link->out.limit && !hki_outbox_refresh(&link->out)) {
        hki_shm_distrust(link, "rank %d gave back lines that it never had", (int)link->peer.rank);
        return false;
    }
    return link->out.sent != link->out.limit && (!link->starved_of_slot || hki_slots_available(link));
}

static hk_transport_result starve(hk_link *link, bool of_slot)
{
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    link->starved_of_slot = of_slot;
    if (!link->starved) {
        link->starved = true;
        link->transport->starved++;
    }
    return HK_TRANSPORT_AGAIN;
}

static void fed(hk_link *link)
{
    if (UNLIKELY(link->starved)) {
        link->starved = false;
        link->transport->starved--;
    }
}

static inline void publish(hk_link *link, hki_line *line, uint64_t call, uint64_t head)
{
    line->call = call;
    hki_outbox_publish(&link->out, line, head);
    if (UNLIKELY(hki_outbox_notify(&link->out)))
        hki_shm_wake(link);
}

static inline uint64_t call_word(const hk_frame *frame)
{
    return (uint64_t)frame->operation << 32 | frame->fingerprint;
}

/* A frame that does not fit a plain line: its ordinal or its payload is too large. There is room for a line. */
static hk_transport_result send_wide(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    hki_line *line = hki_outbox_line(&link->out);
    hki_slot_ref ref = {.wide = {.ordinal = frame->ordinal, .bytes = (uint32_t)bytes}};
    if (bytes <= HKI_WIDE_PAYLOAD) {
        memcpy(line->payload, &ref.wide, sizeof ref.wide);
        hki_copy_line(line->payload + sizeof ref.wide, payload, bytes);
        fed(link);
        publish(link, line, call_word(frame), hki_head(frame, 0, HKI_LENGTH_WIDE));
        return HK_TRANSPORT_OK;
    }
    if (bytes > HKI_SLOT_BYTES)
        return HK_TRANSPORT_REFUSED;
    if (!hki_slots_take(link, &ref.slot))
        return starve(link, true);
    memcpy(hki_segment_slot(&link->transport->segment, ref.slot), payload, bytes);
    memcpy(line->payload, &ref, sizeof ref);
    fed(link);
    publish(link, line, call_word(frame), hki_head(frame, 0, HKI_LENGTH_SLOT));
    link->transport->counts.slots++;
    link->transport->counts.slot_bytes += bytes;
    return HK_TRANSPORT_OK;
}

static inline hk_transport_result send_line(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    hki_line *line = hki_outbox_line(&link->out);
    hki_copy_line(line->payload, payload, bytes);
    publish(link, line, call_word(frame), hki_head(frame, frame->ordinal, (uint32_t)bytes));
    return HK_TRANSPORT_OK;
}

/* Not up, no credit left, or more than a line. */
static __attribute__((noinline)) hk_transport_result send_slowly(hk_link *link, const hk_frame *frame,
                                                                 const void *payload, size_t bytes)
{
    hk_transport *transport = link->transport;
    if (link->state == HK_LINK_CONNECTING) {
        hki_connect_need(link);
        if (++transport->polls >= LOOK_CONNECTING)
            hki_connect_progress(transport);
        if (link->state == HK_LINK_CONNECTING)
            return HK_TRANSPORT_AGAIN;
    }
    if (link->state != HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (link->out.sent == link->out.limit) {
        if (!hki_outbox_refresh(&link->out))
            hki_shm_distrust(link, "rank %d gave back lines that it never had", (int)link->peer.rank);
        if (link->out.sent == link->out.limit)
            return starve(link, false);
    }
    if (bytes > HKI_LINE_PAYLOAD || frame->ordinal >= HKI_ORDINAL_LIMIT)
        return send_wide(link, frame, payload, bytes);
    fed(link);
    return send_line(link, frame, payload, bytes);
}

static hk_transport_result shm_send(hk_link *link, const hk_frame *frame, const void *payload, size_t bytes)
{
    assert(frame->kind <= HKI_MASK_KIND);
    if (UNLIKELY(bytes > HKI_LINE_PAYLOAD || frame->ordinal >= HKI_ORDINAL_LIMIT || link->out.sent == link->out.limit))
        return send_slowly(link, frame, payload, bytes);
    return send_line(link, frame, payload, bytes);
}

/* ---- receiving ---- */

static hk_transport_result nothing(const hk_link *link)
{
    return link->state <= HK_LINK_UP ? HK_TRANSPORT_AGAIN : HK_TRANSPORT_LOST;
}

/* Heads other than plain lines. Everything is copied from the ring before it is looked at. */
static __attribute__((noinline)) hk_transport_result peek_wide(hk_link *link, hk_arrival *arrival, const hki_line *line,
                                                               uint32_t length)
{
    hki_slot_ref ref;
    memcpy(&ref, line->payload, sizeof ref);
    arrival->frame.ordinal = ref.wide.ordinal;
    arrival->bytes = ref.wide.bytes;
    if (length == HKI_LENGTH_WIDE && ref.wide.bytes <= HKI_WIDE_PAYLOAD) {
        arrival->data = line->payload + sizeof ref.wide;
        return HK_TRANSPORT_OK;
    }
    if (length == HKI_LENGTH_SLOT && ref.wide.bytes <= HKI_SLOT_BYTES && ref.slot < link->segment.layout.slots) {
        arrival->data = hki_segment_slot(&link->segment, ref.slot);
        link->head_is_slot = true;
        return HK_TRANSPORT_OK;
    }
    hki_shm_distrust(link, "rank %d sent a malformed line: length %u, %u bytes, slot %u", (int)link->peer.rank, length,
                     ref.wide.bytes, ref.slot);
    return HK_TRANSPORT_LOST;
}

/* Who looks for a frame needs the link: knocking now spares the sender the wait, and shows whether the peer lives. */
static __attribute__((noinline)) hk_transport_result peek_unready(hk_link *link)
{
    hki_connect_need(link);
    return nothing(link);
}

static hk_transport_result shm_peek(hk_link *link, hk_arrival *arrival)
{
    uint64_t head;
    if (UNLIKELY(!link->readable))
        return peek_unready(link);
    const hki_line *line = hki_inbox_head(&link->in, &head);
    if (line == NULL)
        return nothing(link);
    uint32_t length = hki_head_length(head);
    hki_frame_unpack(&arrival->frame, head, line->call);
    link->head_is_slot = false;
    if (UNLIKELY(length > HKI_LINE_PAYLOAD))
        return peek_wide(link, arrival, line, length);
    arrival->data = line->payload;
    arrival->bytes = length;
    return HK_TRANSPORT_OK;
}

static void shm_consume(hk_link *link)
{
    if (UNLIKELY(!link->readable))
        return;
    if (UNLIKELY(hki_inbox_consume(&link->in, link->head_is_slot)))
        hki_shm_wake(link);
    link->head_is_slot = false;
}

/* Whether the ring that a doorbell bit speaks of has something. An empty one keeps its bit for a while, since setting
 * it again costs the sender a cache line; then it is cleared, since scanning it costs this rank one. */
static bool rung(hk_link *link, _Atomic uint64_t *bell, uint64_t bit)
{
    uint64_t head;
    if (!link->readable)
        return false;
    if (hki_inbox_head(&link->in, &head) != NULL) {
        link->empty_polls = 0;
        return true;
    }
    if (hki_shm_departed(link) && hki_inbox_head(&link->in, &head) == NULL)
        hki_shm_end(link, HK_LINK_GOODBYE, "rank %d has left", (int)link->peer.rank);
    if (++link->empty_polls < link->transport->patience && link->state <= HK_LINK_UP)
        return false;
    link->empty_polls = 0;
    return !hki_bell_clear(bell, bit, &link->in);
}

static size_t report_news(hk_transport *transport, uint32_t *ranks, size_t count, size_t capacity)
{
    for (uint32_t i = 0; i < transport->local_ranks && transport->news > 0 && count < capacity; i++) {
        hk_link *link = transport->link[i];
        if (link == NULL || !link->news)
            continue;
        link->news = false;
        transport->news--;
        ranks[count++] = (uint32_t)link->peer.rank;
    }
    return count;
}

static size_t shm_poll(hk_transport *transport, uint32_t *ranks, size_t capacity)
{
    size_t count = 0;
    if (UNLIKELY(transport->look || ++transport->polls >= (transport->unsettled > 0 ? LOOK_CONNECTING : LOOK_IDLE)))
        hki_connect_progress(transport);
    _Atomic uint64_t *bells = hki_shm_bell(&transport->segment, 0);
    for (uint32_t base = 0; base < transport->local_ranks; base += 64) {
        uint64_t bits = atomic_load_explicit(&bells[base / 64], memory_order_acquire);
        for (; bits != 0 && count < capacity; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            hk_link *link = index < transport->local_ranks ? transport->link[index] : NULL;
            if (link == NULL || !link->readable)
                transport->look |= link != NULL && link->state == HK_LINK_CONNECTING; /* its hello is on the socket */
            else if (rung(link, &bells[base / 64], bits & -bits))
                ranks[count++] = (uint32_t)link->peer.rank;
        }
    }
    return transport->news > 0 ? report_news(transport, ranks, count, capacity) : count;
}

static size_t shm_check(hk_transport *transport)
{
    hki_connect_check(transport);
    size_t changed = transport->changed;
    transport->changed = 0;
    return changed;
}

/* ---- links ---- */

static hk_status shm_address(hk_transport *transport, void *address, size_t *bytes)
{
    const hk_transport_services *services = transport->services;
    hki_shm_address mine = {.version = ADDRESS_VERSION, .bytes = transport->address_bytes, .name = transport->address};
    if (*bytes < sizeof mine) {
        services->error(services->core, HK_ERR_INTERNAL, "shm address needs %zu bytes, not %zu", sizeof mine, *bytes);
        return HK_ERR_INTERNAL;
    }
    memcpy(address, &mine, sizeof mine);
    *bytes = sizeof mine;
    return HK_OK;
}

static hk_status unreachable(const hk_transport *transport, const hk_peer *peer, const char *why)
{
    const hk_transport_services *services = transport->services;
    services->error(services->core, HK_ERR_UNSUPPORTED, "shared memory does not reach rank %d: %s", (int)peer->rank,
                    why);
    return HK_ERR_UNSUPPORTED;
}

static hk_status shm_connect(hk_transport *transport, const hk_peer *peer, const void *address, size_t bytes,
                             hk_link **result)
{
    const hk_transport_services *services = transport->services;
    hki_shm_address theirs;
    if (peer->host != services->self->host)
        return unreachable(transport, peer, "it is on another host");
    if (bytes != sizeof theirs || peer->local_index < 0 || (uint32_t)peer->local_index >= transport->local_ranks)
        return unreachable(transport, peer, "its address or its place on the host is malformed");
    memcpy(&theirs, address, sizeof theirs);
    if (theirs.version != ADDRESS_VERSION || theirs.bytes > sizeof theirs.name || theirs.name.sun_family != AF_UNIX ||
        transport->link[peer->local_index] != NULL)
        return unreachable(transport, peer, "its address is of another version, or another rank has its place");
    hk_link *link = aligned_alloc(alignof(hk_link), sizeof *link);
    if (link == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "link to rank %d", (int)peer->rank);
        return HK_ERR_NO_MEMORY;
    }
    memset(link, 0, sizeof *link);
    link->transport = transport;
    link->peer = *peer;
    link->address = theirs.name;
    link->address_bytes = theirs.bytes;
    link->segment.fd = -1;
    transport->link[peer->local_index] = link;
    hki_connect_adopt(link);
    *result = link;
    return HK_OK;
}

static hk_link_state shm_link_state(hk_link *link, const char **reason)
{
    if (reason != NULL)
        *reason = link->reason;
    return link->state;
}

/* ---- the instance ---- */

/* Whether malloc gives huge pages by itself. On 4 KiB pages slots beat process_vm_readv at every size (1 MiB: 75 µs
 * against 94–172); on huge pages it wins from 4 MiB (64 MiB: 5,800 against 7,600). Measured on one EPYC. */
static bool huge_pages_by_default(void)
{
    char text[64] = "";
    FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    if (file == NULL)
        return false;
    bool always = fgets(text, sizeof text, file) != NULL && strstr(text, "[always]") != NULL;
    fclose(file);
    return always;
}

/* HOCKET_PROTOCOL. */
static bool choose_protocols(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const char *protocol = services->setting(services->core, "PROTOCOL");
    transport->get_bytes = SIZE_MAX;
    if (strcmp(protocol, "") == 0 || strcmp(protocol, "auto") == 0) {
        transport->protocols = HK_TRANSPORT_MAP | HK_TRANSPORT_GET;
        if (huge_pages_by_default())
            transport->get_bytes = GET_BYTES_HUGE;
    } else if (strcmp(protocol, "map") == 0)
        transport->protocols = HK_TRANSPORT_MAP;
    else if (strcmp(protocol, "stream") == 0)
        transport->protocols = 0;
    else if (strcmp(protocol, "get") == 0) {
        transport->protocols = HK_TRANSPORT_GET;
        transport->get_bytes = 0;
    } else {
        services->error(services->core, HK_ERR_SETTING, "HOCKET_PROTOCOL is \"%s\": not auto, stream, get or map",
                        protocol);
        return false;
    }
    return true;
}

static void release(hk_transport *transport)
{
    for (uint32_t i = 0; transport->link != NULL && i < transport->local_ranks; i++) {
        hk_link *link = transport->link[i];
        if (transport->watch != NULL && transport->watch[i].fd >= 0)
            close(transport->watch[i].fd);
        if (link == NULL)
            continue;
        hki_memory_release_link(link);
        hki_segment_release(&link->segment);
        free(link);
    }
    hki_region_release_all(transport);
    hki_segment_release(&transport->segment);
    if (transport->socket >= 0)
        close(transport->socket);
    free(transport->link);
    free(transport->knock);
    free(transport->watch);
    free(transport->free_slot);
    free(transport);
}

/* Tables, segment, socket; 0 or an errno. What was made is released by the caller on failure. */
static int prepare(hk_transport *transport)
{
    uint32_t ranks = transport->local_ranks;
    transport->link = calloc(ranks, sizeof(hk_link *));
    transport->knock = calloc(ranks, sizeof *transport->knock);
    transport->watch = calloc(ranks, sizeof *transport->watch);
    if (transport->link == NULL || transport->knock == NULL || transport->watch == NULL)
        return ENOMEM;
    for (uint32_t i = 0; i < ranks; i++)
        transport->watch[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    int error = hki_segment_create(&transport->segment, ranks);
    if (error != 0)
        return error;
    if (hki_slots_open(transport) != 0)
        return ENOMEM;
    if (getrandom(&transport->nonce, sizeof transport->nonce, 0) != (ssize_t)sizeof transport->nonce)
        return errno;
    hki_control *control = hki_segment_control(&transport->segment);
    control->nonce = transport->nonce;
    control->nonce_address = (uintptr_t)&transport->nonce;
    return hki_connect_open(transport);
}

static hk_status open_failed(hk_transport *transport, hk_status status)
{
    release(transport);
    return status;
}

static hk_status shm_open_instance(const hk_transport_services *services, hk_transport **result,
                                   hk_transport_limits *limits)
{
    const hk_peer *self = services->self;
    if (self->local_ranks < 1 || self->local_ranks > HKI_LOCAL_RANKS_MAX || self->local_index < 0 ||
        self->local_index >= self->local_ranks) {
        services->error(services->core, HK_ERR_UNSUPPORTED, "shared memory: rank %d is number %d of %d on its host",
                        (int)self->rank, (int)self->local_index, (int)self->local_ranks);
        return HK_ERR_UNSUPPORTED;
    }
    hk_transport *transport = calloc(1, sizeof *transport);
    if (transport == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY, "shared memory transport");
        return HK_ERR_NO_MEMORY;
    }
    transport->services = services;
    transport->socket = transport->segment.fd = -1;
    transport->local_ranks = (uint32_t)self->local_ranks;
    transport->local_index = (uint32_t)self->local_index;
    transport->pid = getpid();
    transport->patience = transport->local_ranks <= 16 ? 64 : 8; /* guesses */
    if (!choose_protocols(transport))
        return open_failed(transport, HK_ERR_SETTING);
    int error = prepare(transport);
    if (error != 0) {
        services->error(services->core, HK_ERR_SYSTEM, "shared memory for %u local ranks: %s", transport->local_ranks,
                        strerror(error));
        return open_failed(transport, HK_ERR_SYSTEM);
    }
    *limits = (hk_transport_limits){.capabilities =
                                        HK_TRANSPORT_MAP | HK_TRANSPORT_GET | HK_TRANSPORT_SLEEP | HK_TRANSPORT_LOCAL,
                                    .inline_bytes = HKI_LINE_PAYLOAD,
                                    .eager_bytes = HKI_SLOT_BYTES,
                                    .piece_bytes = HKI_SLOT_BYTES,
                                    .get_bytes = transport->get_bytes,
                                    .alpha_ns = 250, /* measured: 0.2–0.35 µs one way between two cores of an EPYC */
                                    .beta_ns = 0.08}; /* measured: 64 KiB … 1 MiB through slots, both ways at once */
    *result = transport;
    return HK_OK;
}

/* All that was sent lies in the peers' rings, and stays readable there: nothing needs to be waited for. */
static void shm_close(hk_transport *transport, double timeout)
{
    (void)timeout;
    if (getpid() != transport->pid)
        return; /* a forked child: the parent's links are not its own to end */
    atomic_store_explicit(&hki_segment_control(&transport->segment)->departed, 1, memory_order_release);
    for (uint32_t i = 0; i < transport->local_ranks; i++) {
        hk_link *link = transport->link[i];
        if (link == NULL || link->state != HK_LINK_UP)
            continue;
        if (hki_outbox_notify(&link->out))
            hki_shm_wake(link);
    }
    release(transport);
}

static size_t shm_counters(hk_transport *transport, const char **names, uint64_t *values, size_t capacity)
{
    const hki_shm_counts *counts = &transport->counts;
    uint64_t frames = 0;
    for (uint32_t i = 0; i < transport->local_ranks; i++)
        frames += transport->link[i] != NULL ? transport->link[i]->out.sent : 0;
    const struct {
        const char *name;
        uint64_t value;
    } table[] = {{"lines", frames},
                 {"slots", counts->slots},
                 {"slot_bytes", counts->slot_bytes},
                 {"maps", counts->maps},
                 {"map_bytes", counts->map_bytes},
                 {"gets", counts->gets},
                 {"get_bytes", counts->get_bytes},
                 {"hellos", counts->hellos},
                 {"sleeps", counts->sleeps},
                 {"wakes", counts->wakes}};
    size_t count = sizeof table / sizeof table[0];
    for (size_t i = 0; i < count && i < capacity; i++) {
        names[i] = table[i].name;
        values[i] = table[i].value;
    }
    return count;
}

const hk_transport_ops hk_transport_shm = {.size = sizeof(hk_transport_ops),
                                           .abi = HK_TRANSPORT_ABI,
                                           .name = "shm",
                                           .open = shm_open_instance,
                                           .close = shm_close,
                                           .address = shm_address,
                                           .connect = shm_connect,
                                           .link_state = shm_link_state,
                                           .send = shm_send,
                                           .peek = shm_peek,
                                           .consume = shm_consume,
                                           .describe = hki_shm_describe,
                                           .map = hki_shm_map,
                                           .get = hki_shm_get,
                                           .poll = shm_poll,
                                           .check = shm_check,
                                           .arm = hki_shm_arm,
                                           .disarm = hki_shm_disarm,
                                           .event_fd = hki_shm_event_fd,
                                           .sleep = hki_shm_sleep,
                                           .alloc = hki_shm_alloc,
                                           .free = hki_shm_free,
                                           .counters = shm_counters};
