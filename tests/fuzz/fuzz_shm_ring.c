/*
 * What a peer of the same host writes to memory that both see, and to the socket: lines, credit, notes, descriptors.
 * The input is a script that one of two contexts of this process plays against the other, which only takes, sends and
 * looks as an endpoint does. Nothing outside what the peer may show it is ever handed over, and its bytes can be read.
 *
 * A step is one byte and what it takes: a line (64 bytes; the sequence is made right if bit 7 is set), credit (8
 * bytes), a note (its length, then bytes; bits 6 and 7: with which descriptor), or nothing.
 */
#include "transports/shm/shm.h"

#include "fuzz_services.h"

#include <stdlib.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern const hk_transport_ops hk_transport_shm;

enum { STEPS_MOST = 4096, NOTE_MOST = 255, MEET_ROUNDS = 1000 };
enum step { STEP_LINE, STEP_CREDIT, STEP_NOTE, STEP_TAKE, STEP_SEND, STEP_LOOK, STEP_MAP, STEPS };

typedef struct side {
    hk_peer self;
    hk_transport_services services;
    hk_transport *transport;
    hk_link *link; /* to the other */
    unsigned char address[512];
    size_t address_bytes;
} side;

typedef struct script {
    const uint8_t *at, *end;
} script;

static bool next(script *s, void *to, size_t bytes)
{
    if ((size_t)(s->end - s->at) < bytes)
        return false;
    memcpy(to, s->at, bytes);
    s->at += bytes;
    return true;
}

/* ---- two contexts ---- */

static void open_side(side *s, int rank)
{
    hk_transport_limits limits;
    s->self = fuzz_peer(rank);
    s->services = fuzz_services(&s->self);
    s->address_bytes = sizeof s->address;
    if (hk_transport_shm.open(&s->services, &s->transport, &limits) != HK_OK ||
        hk_transport_shm.address(s->transport, s->address, &s->address_bytes) != HK_OK)
        abort();
}

/* Connected if the first byte of the input wants it; the script may do without. */
static void meet(side s[2], bool connected)
{
    uint32_t ranks[2];
    for (int i = 0; i < 2; i++) {
        if (hk_transport_shm.connect(s[i].transport, &s[1 - i].self, s[1 - i].address, s[1 - i].address_bytes,
                                     &s[i].link) != HK_OK)
            abort();
    }
    for (int round = 0; connected && round < MEET_ROUNDS; round++) {
        hk_arrival arrival;
        if (s[0].link->state == HK_LINK_UP && s[1].link->state == HK_LINK_UP)
            return;
        for (int i = 0; i < 2; i++) {
            (void)hk_transport_shm.peek(s[i].link, &arrival);
            (void)hk_transport_shm.poll(s[i].transport, ranks, 2);
        }
    }
    if (connected)
        abort();
}

/* ---- what the peer does ---- */

static void write_line(side *peer, uint8_t step, script *s)
{
    hki_outbox *out = &peer->link->out;
    uint64_t head;
    unsigned char rest[sizeof(hki_line) - sizeof head];
    if (!next(s, &head, sizeof head) || !next(s, rest, sizeof rest) || !peer->link->readable)
        return;
    hki_line *line = hki_outbox_line(out);
    memcpy(&line->call, rest, sizeof rest);
    if (step & 0x80)
        hki_outbox_publish(out, line, head & ~(uint64_t)HKI_MASK_SEQUENCE);
    else
        atomic_store(&line->head, head);
    (void)hki_outbox_notify(out);
}

static void write_credit(side *peer, script *s)
{
    uint32_t words[2];
    if (!next(s, words, sizeof words) || !peer->link->readable)
        return;
    atomic_store(&peer->link->in.credit->lines, words[0]);
    atomic_store(&peer->link->in.credit->slots, words[1]);
}

static int descriptor(uint8_t step)
{
    if ((step & 0xc0) == 0x40)
        return hki_memfd_create("fuzz", HKI_PAGE * 4);
    if ((step & 0xc0) == 0x80)
        return memfd_create("unsealed", MFD_CLOEXEC);
    return (step & 0xc0) == 0 ? -1 : dup(0);
}

static void send_note(side *peer, uint8_t step, script *s)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    uint8_t length, bytes[NOTE_MOST];
    if (!next(s, &length, 1) || !next(s, bytes, length))
        return;
    int fd = descriptor(step);
    struct iovec data = {bytes, length};
    struct msghdr message = {
        .msg_name = &peer->link->address, .msg_namelen = peer->link->address_bytes, .msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    (void)!sendmsg(peer->transport->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (fd >= 0)
        close(fd);
}

/* ---- what this end does ---- */

static bool lies_within(const void *data, size_t bytes, const void *base, size_t length)
{
    uintptr_t at = (uintptr_t)data, from = (uintptr_t)base;
    return at >= from && bytes <= length && at - from <= length - bytes;
}

/* A frame lies in the ring or in one of the peer's slots. */
static void take(const side *own)
{
    hk_arrival arrival;
    volatile unsigned char sum = 0;
    if (hk_transport_shm.peek(own->link, &arrival) != HK_TRANSPORT_OK)
        return;
    const hki_segment *theirs = &own->link->segment;
    size_t pool = theirs->layout.slot_pool;
    if (arrival.frame.kind > HKI_MASK_KIND || arrival.bytes > HKI_SLOT_BYTES || arrival.data == NULL ||
        (!lies_within(arrival.data, arrival.bytes, own->link->in.lines, sizeof(hki_ring)) &&
         !lies_within(arrival.data, arrival.bytes, theirs->base + pool, theirs->layout.bytes - pool)))
        abort();
    for (size_t i = 0; i < arrival.bytes; i++)
        sum = (unsigned char)(sum + ((const unsigned char *)arrival.data)[i]);
    hk_transport_shm.consume(own->link);
}

static void send_some(const side *own, script *s)
{
    static const unsigned char payload[HKI_SLOT_BYTES];
    uint16_t bytes = 0;
    hk_frame frame = {.kind = 1, .ordinal = 5};
    if (!next(s, &bytes, sizeof bytes))
        return;
    (void)hk_transport_shm.send(own->link, &frame, payload, bytes % (HKI_SLOT_BYTES + 1));
}

/* The peer says that its memory lies there. */
static void map_some(const side *own, script *s)
{
    hk_remote remote;
    const void *memory = NULL;
    uint16_t bytes;
    if (!next(s, &remote, sizeof remote) || !next(s, &bytes, sizeof bytes))
        return;
    if (hk_transport_shm.map(own->link, &remote, bytes, &memory) == HK_TRANSPORT_OK && bytes > 0) {
        volatile unsigned char first = *(const unsigned char *)memory;
        (void)first;
    }
}

static void play(side s[2], uint8_t step, script *rest)
{
    uint32_t ranks[2];
    switch ((enum step)((step & 0x3f) % STEPS)) {
    case STEP_LINE:
        write_line(&s[1], step, rest);
        break;
    case STEP_CREDIT:
        write_credit(&s[1], rest);
        break;
    case STEP_NOTE:
        send_note(&s[1], step, rest);
        break;
    case STEP_TAKE:
        take(&s[0]);
        break;
    case STEP_SEND:
        send_some(&s[0], rest);
        break;
    case STEP_LOOK:
        (void)hk_transport_shm.poll(s[0].transport, ranks, 2);
        (void)hk_transport_shm.check(s[0].transport);
        break;
    case STEP_MAP:
        map_some(&s[0], rest);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    side s[2] = {0};
    script rest = {data, data + size};
    uint8_t step;
    if (size == 0 || size > STEPS_MOST)
        return 0;
    open_side(&s[0], 0);
    open_side(&s[1], 1);
    (void)next(&rest, &step, 1);
    meet(s, step & 1);
    while (next(&rest, &step, 1))
        play(s, step, &rest);
    hk_transport_shm.close(s[1].transport, 0);
    hk_transport_shm.close(s[0].transport, 0);
    return 0;
}
