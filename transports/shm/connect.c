/*
 * Connections: one datagram socket of the UNIX domain per context, under a random abstract name that the bootstrap
 * hands to the peers. Notes on it:
 *
 *   knock   "I need you": who I am; no secret, since nothing is known yet of who holds the peer's name
 *   hello   answer to a knock or a hello whose sender the kernel vouches for (user, process, socket name): the job's
 *           token, and the descriptor of the own segment
 *   gift    descriptor of a region that the peer may map
 *   nudge   wakes a rank that sleeps on its socket
 *
 * A link is up when the peer's segment is mapped and the own hello is with the kernel. Nothing blocks: the kernel
 * queues ten datagrams a socket (max_dgram_qlen), and blocking writers can wait for one another in a circle; what does
 * not fit is sent later, from poll.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    NOTE_MAGIC = 0x484b5348,
    NOTE_VERSION = 1,
    NAME_BYTES = 39,
    NOTES_AT_ONCE = 64,
    THOROUGH_CHECKS = 20,
    WATCHED_AT_ONCE = 256
};
enum note_type { NOTE_KNOCK = 1, NOTE_HELLO, NOTE_GIFT, NOTE_NUDGE };

/* Both ends are processes of one kernel: native byte order, fixed-size fields. */
typedef struct hki_note {
    uint32_t magic;
    uint16_t version, type;
    uint64_t from, to; /* contexts */
    int32_t rank, local_index;
    uint32_t local_ranks, slot_bytes; /* hello: must agree */
    uint64_t region, bytes;           /* gift */
    uint8_t token[HKI_TOKEN_BYTES];   /* not in a knock */
} hki_note;

/* What the kernel says about a note. */
typedef struct hki_envelope {
    struct sockaddr_un from;
    socklen_t from_bytes;
    struct ucred credentials;
    int fd; /* -1: none came */
} hki_envelope;

/* ---- sending ---- */

/* True when the note is with the kernel; false with errno otherwise. */
static bool send_note(const hk_transport *transport, const struct sockaddr_un *to, socklen_t to_bytes,
                      const hki_note *note, int fd)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct iovec data = {(void *)(uintptr_t)note, sizeof *note};
    struct msghdr message = {
        .msg_name = (void *)(uintptr_t)to, .msg_namelen = to_bytes, .msg_iov = &data, .msg_iovlen = 1};
    if (fd >= 0) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof fd);
    }
    ssize_t sent;
    do
        sent = sendmsg(transport->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *note;
}

static hki_note note_for(const hk_link *link, enum note_type type)
{
    const hk_transport *transport = link->transport;
    hki_note note = {.magic = NOTE_MAGIC,
                     .version = NOTE_VERSION,
                     .type = (uint16_t)type,
                     .from = transport->services->self->context,
                     .to = link->peer.context,
                     .rank = transport->services->self->rank,
                     .local_index = (int32_t)transport->local_index,
                     .local_ranks = transport->local_ranks,
                     .slot_bytes = HKI_SLOT_BYTES};
    if (type == NOTE_HELLO || type == NOTE_GIFT)
        memcpy(note.token, transport->services->token, HKI_TOKEN_BYTES);
    return note;
}

static bool process_status(pid_t pid, char *state, uint64_t *start_time);
static bool process_gone(pid_t pid, uint64_t start_time);
static void listen_all(hk_transport *transport);

/* A peer that is gone may have said hello and all that it had to say just before: what lies on the socket is heard
 * before its link ends. True if it can be read after all. */
static bool heard_last_words(hk_link *link)
{
    if (!link->readable)
        listen_all(link->transport);
    return link->readable;
}

/* The peer's process has ended without a goodbye that could be read. To a rank that never needed it, that is as good as
 * one: it may well have left in order. */
static void end_gone(hk_link *link)
{
    if (!link->readable && heard_last_words(link))
        return; /* its ring and its goodbye are looked at by the next check */
    hk_link_state state = link->readable || link->needed ? HK_LINK_LOST : HK_LINK_GOODBYE;
    hki_shm_end(link, state, "process %d (rank %d) is gone", (int)link->peer.pid, (int)link->peer.rank);
}

/* A note could not be sent. Only a name that nobody holds is final; a full queue is not. */
static void send_failed(hk_link *link, int error)
{
    if (error != ECONNREFUSED)
        return;
    if (process_gone(link->peer.pid, link->start_time))
        end_gone(link);
    else if (!heard_last_words(link))
        hki_shm_end(link, HK_LINK_GOODBYE, "rank %d has closed its context", (int)link->peer.rank);
}

static bool send_to(hk_link *link, const hki_note *note, int fd)
{
    if (send_note(link->transport, &link->address, link->address_bytes, note, fd))
        return true;
    send_failed(link, errno);
    return false;
}

bool hki_connect_give(hk_link *link, const hki_region *region)
{
    hki_note note = note_for(link, NOTE_GIFT);
    note.region = region->id;
    note.bytes = region->bytes;
    return send_to(link, &note, region->fd);
}

void hki_connect_nudge(hk_link *link)
{
    hki_note note = note_for(link, NOTE_NUDGE);
    (void)send_note(link->transport, &link->address, link->address_bytes, &note, -1);
}

void hki_connect_nudge_self(hk_transport *transport)
{
    const hki_note note = {.magic = NOTE_MAGIC, .version = NOTE_VERSION, .type = NOTE_NUDGE};
    (void)send_note(transport, &transport->address, transport->address_bytes, &note, -1);
}

/* ---- the steps of one link ---- */

static void settle(hk_link *link)
{
    hk_transport *transport = link->transport;
    if (link->state != HK_LINK_CONNECTING || !link->readable || !link->hello_sent)
        return;
    link->state = HK_LINK_UP;
    link->out.limit = link->out.sent + HKI_RING_LINES;
    transport->unsettled--;
    if (link->peer.context != transport->services->self->context)
        transport->settled++;
}

static void send_hello(hk_link *link)
{
    hk_transport *transport = link->transport;
    uint32_t index = (uint32_t)link->peer.local_index;
    size_t ring = transport->segment.layout.rings + index * sizeof(hki_ring);
    int error = hki_segment_populate(&transport->segment, ring, sizeof(hki_ring));
    if (error != 0) {
        hki_shm_end(link, HK_LINK_LOST, "no memory for the ring from rank %d: %s", (int)link->peer.rank,
                    strerror(error));
        return;
    }
    hki_note note = note_for(link, NOTE_HELLO);
    if (!send_to(link, &note, transport->segment.fd))
        return;
    link->hello_sent = true;
    transport->counts.hellos++;
}

static void advance(hk_link *link)
{
    if (link->state != HK_LINK_CONNECTING || !link->wanted)
        return;
    if (link->hello_due && !link->hello_sent)
        send_hello(link);
    else if (!link->hello_due && !link->knocked) {
        hki_note note = note_for(link, NOTE_KNOCK);
        link->knocked = send_to(link, &note, -1);
    }
    settle(link);
}

static void want(hk_link *link)
{
    if (link->state != HK_LINK_CONNECTING || link->wanted)
        return;
    link->wanted = true;
    link->transport->unsettled++;
    link->transport->calm = 0;
    advance(link);
}

void hki_connect_need(hk_link *link)
{
    link->needed = true;
    want(link);
}

bool hki_connect_unsent(const hk_transport *transport)
{
    if (transport->gifts_due > 0)
        return true;
    for (uint32_t i = 0; transport->unsettled > 0 && i < transport->local_ranks; i++) {
        const hk_link *link = transport->link[i];
        if (link != NULL && link->state == HK_LINK_CONNECTING && link->wanted && !link->hello_sent &&
            (link->hello_due || !link->knocked))
            return true;
    }
    return false;
}

void hki_connect_adopt(hk_link *link)
{
    hki_knock *knock = &link->transport->knock[link->peer.local_index];
    if (knock->context != link->peer.context || knock->pid != link->peer.pid || knock->rank != link->peer.rank)
        return;
    link->hello_due = true;
    want(link);
}

/* ---- receiving ---- */

/* Returns false when nothing is there. Descriptors beyond one are closed. */
static bool receive_note(const hk_transport *transport, hki_note *note, hki_envelope *envelope)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(8 * sizeof(int))];
    } control;
    struct iovec data = {note, sizeof *note};
    struct msghdr message = {.msg_name = &envelope->from,
                             .msg_namelen = sizeof envelope->from,
                             .msg_iov = &data,
                             .msg_iovlen = 1,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got;
    memset(note, 0, sizeof *note);
    do
        got = recvmsg(transport->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return false;
    envelope->from_bytes = message.msg_namelen;
    envelope->credentials = (struct ucred){.pid = -1, .uid = (uid_t)-1, .gid = (gid_t)-1};
    envelope->fd = -1;
    for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header != NULL; header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET)
            continue;
        if (header->cmsg_type == SCM_CREDENTIALS)
            memcpy(&envelope->credentials, CMSG_DATA(header), sizeof envelope->credentials);
        for (size_t at = 0; header->cmsg_type == SCM_RIGHTS && at + sizeof(int) <= header->cmsg_len - CMSG_LEN(0);
             at += sizeof(int)) {
            int fd;
            memcpy(&fd, CMSG_DATA(header) + at, sizeof fd);
            if (envelope->fd < 0)
                envelope->fd = fd;
            else
                close(fd);
        }
    }
    if (got != (ssize_t)sizeof *note)
        note->magic = 0;
    return true;
}

/* Takes the same time wherever the first difference lies. */
static bool same_token(const uint8_t *left, const uint8_t *right)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < HKI_TOKEN_BYTES; i++)
        difference = (uint8_t)(difference | (left[i] ^ right[i]));
    return difference == 0;
}

/* From now on the end of the peer's process is seen. Without a pidfd (old kernel, too many open files) /proc is read.
 */
static void watch(hk_link *link)
{
    hk_transport *transport = link->transport;
    char state;
    if (link->peer.pid == transport->pid)
        return;
    int fd = (int)syscall(SYS_pidfd_open, link->peer.pid, 0);
    transport->watch[link->peer.local_index].fd = fd;
    if (fd < 0)
        (void)process_status(link->peer.pid, &state, &link->start_time);
}

static void attach(hk_link *link, int fd)
{
    hk_transport *transport = link->transport;
    uint32_t mine = transport->local_index, theirs = (uint32_t)link->peer.local_index;
    int error = hki_segment_attach(&link->segment, fd, transport->local_ranks);
    if (error != 0) {
        hki_shm_end(link, HK_LINK_LOST, "segment of rank %d cannot be mapped: %s", (int)link->peer.rank,
                    error == EBADMSG ? "not sealed, or too small" : strerror(error));
        return;
    }
    hki_control *control = hki_segment_control(&link->segment);
    link->out.lines = hki_segment_ring(&link->segment, mine);
    link->out.credit = hki_segment_credit(&link->segment, mine);
    link->out.bell = hki_shm_bell(&link->segment, mine);
    link->out.bell_bit = UINT64_C(1) << mine % 64;
    link->out.sleep = &control->sleep;
    link->in.lines = hki_segment_ring(&transport->segment, theirs);
    link->in.credit = hki_segment_credit(&transport->segment, theirs);
    link->in.sleep = &control->sleep;
    link->readable = true;
    watch(link);
}

static void hear_hello(hk_link *link, const hki_note *note, const hki_envelope *envelope)
{
    if (link->readable || link->state != HK_LINK_CONNECTING)
        return;
    if (note->version != NOTE_VERSION || note->local_ranks != link->transport->local_ranks ||
        note->slot_bytes != HKI_SLOT_BYTES) {
        hki_shm_end(link, HK_LINK_LOST, "rank %d speaks another version of shared memory (%u, %u local ranks)",
                    (int)link->peer.rank, (unsigned)note->version, (unsigned)note->local_ranks);
        return;
    }
    if (envelope->fd < 0) {
        hki_shm_end(link, HK_LINK_LOST,
                    "the descriptor of rank %d's segment was dropped: too many open files in this process?",
                    (int)link->peer.rank);
        return;
    }
    link->hello_due = true;
    want(link);
    attach(link, envelope->fd);
    advance(link);
}

/* The link whose peer sent the note, if kernel, bootstrap and note agree on who that is; else NULL. */
static hk_link *sender(const hk_transport *transport, const hki_note *note, const hki_envelope *envelope)
{
    if (note->local_index < 0 || (uint32_t)note->local_index >= transport->local_ranks)
        return NULL;
    hk_link *link = transport->link[note->local_index];
    if (link == NULL || link->peer.context != note->from || link->peer.rank != note->rank ||
        link->peer.pid != envelope->credentials.pid || link->address_bytes != envelope->from_bytes ||
        memcmp(&link->address, &envelope->from, envelope->from_bytes) != 0)
        return NULL;
    return link;
}

static void hear_knock(hk_transport *transport, const hki_note *note, const hki_envelope *envelope)
{
    if (note->local_index < 0 || (uint32_t)note->local_index >= transport->local_ranks)
        return;
    if (transport->link[note->local_index] == NULL) {
        transport->knock[note->local_index] =
            (hki_knock){.context = note->from, .rank = note->rank, .pid = envelope->credentials.pid};
        return;
    }
    hk_link *link = sender(transport, note, envelope);
    if (link == NULL)
        return;
    link->hello_due = true;
    want(link);
    advance(link);
}

/* One note. Strangers' notes are dropped, and say so in the log; they cannot end a link. */
static void hear(hk_transport *transport, const hki_note *note, hki_envelope *envelope)
{
    const hk_transport_services *services = transport->services;
    if (note->magic != NOTE_MAGIC || envelope->credentials.uid != getuid() || note->to != services->self->context) {
        services->log(services->core, HK_LOG_WARN, "shm: dropped a datagram from process %d, user %d, not of this job",
                      (int)envelope->credentials.pid, (int)envelope->credentials.uid);
        return;
    }
    if (note->type == NOTE_KNOCK) {
        hear_knock(transport, note, envelope);
        return;
    }
    hk_link *link = sender(transport, note, envelope);
    if (link == NULL || !same_token(note->token, services->token)) {
        services->log(services->core, HK_LOG_WARN, "shm: dropped a datagram that claims to come from rank %d",
                      (int)note->rank);
        return;
    }
    if (note->type == NOTE_HELLO) {
        hear_hello(link, note, envelope);
    } else if (note->type == NOTE_GIFT && envelope->fd >= 0) {
        hki_memory_received(link, note->region, note->bytes, envelope->fd);
        envelope->fd = -1;
    }
}

/* Hears at most so many notes; returns how many were more than nudges. */
static int listen_some(hk_transport *transport, int most)
{
    hki_note note;
    hki_envelope envelope;
    int heard = 0;
    for (int i = 0; i < most && receive_note(transport, &note, &envelope); i++) {
        if (note.type != NOTE_NUDGE) {
            hear(transport, &note, &envelope);
            heard++;
        }
        if (envelope.fd >= 0)
            close(envelope.fd);
    }
    return heard;
}

/* Hears what lies on the socket now; hearing may find another peer gone, which asks for this again. */
static void listen_all(hk_transport *transport)
{
    if (transport->listening)
        return;
    transport->listening = true;
    listen_some(transport, INT_MAX);
    transport->listening = false;
}

bool hki_connect_progress(hk_transport *transport)
{
    transport->polls = 0;
    transport->look = false;
    bool heard = listen_some(transport, NOTES_AT_ONCE) > 0;
    for (uint32_t i = 0; transport->unsettled > 0 && i < transport->local_ranks; i++)
        if (transport->link[i] != NULL)
            advance(transport->link[i]);
    if (transport->gifts_due > 0)
        hki_memory_progress(transport);
    return heard;
}

/* ---- are they alive? ---- */

/* State letter and start time (clock ticks since boot) of a process, from /proc; false when there is none. */
static bool process_status(pid_t pid, char *state, uint64_t *start_time)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno != ENOENT && errno != ESRCH; /* no /proc, or no descriptor: not known to be gone */
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    if (got <= 0)
        return errno != ESRCH;
    text[got] = '\0';
    char *at = strrchr(text, ')'); /* the name before it may hold anything */
    if (at == NULL || at[1] != ' ')
        return true;
    *state = at[2];
    for (int field = 2; field < 22 && at != NULL; field++)
        at = strchr(at + 1, ' ');
    if (at != NULL)
        *start_time = strtoull(at, NULL, 10);
    return true;
}

static bool process_gone(pid_t pid, uint64_t start_time)
{
    char state = 'R';
    uint64_t now = start_time;
    if (!process_status(pid, &state, &now))
        return true;
    return state == 'Z' || state == 'X' || (start_time != 0 && now != start_time);
}

/* After one poll of all pidfds. */
static bool peer_gone(const hk_link *link)
{
    const struct pollfd *watched = &link->transport->watch[link->peer.local_index];
    if (link->peer.pid == link->transport->pid)
        return false;
    return watched->fd >= 0 ? watched->revents != 0 : process_gone(link->peer.pid, link->start_time);
}

/* A peer to which there is no link yet. Asking the kernel is cheap, but takes a zombie for alive; /proc knows better,
 * and is asked now and then. */
static void check_stranger(hk_link *link)
{
    bool thorough = (link->transport->checks + (uint32_t)link->peer.local_index) % THOROUGH_CHECKS == 0;
    if (link->peer.pid == link->transport->pid)
        return;
    if ((kill(link->peer.pid, 0) != 0 && errno == ESRCH) || (thorough && process_gone(link->peer.pid, 0)))
        end_gone(link);
}

static void check_link(hk_link *link)
{
    if (link->state > HK_LINK_UP)
        return;
    if (!link->wanted) {
        check_stranger(link);
        return;
    }
    if (link->state == HK_LINK_CONNECTING) {
        hki_note note = note_for(link, NOTE_NUDGE); /* only to learn whether anybody holds the name */
        (void)send_to(link, &note, -1);
    }
    bool gone = peer_gone(link); /* looked at before the flag: a rank that leaves and ends has left */
    if (link->readable && hki_shm_departed(link))
        hki_shm_end(link, HK_LINK_GOODBYE, "rank %d has left", (int)link->peer.rank);
    else if (gone)
        end_gone(link);
}

void hki_connect_check(hk_transport *transport)
{
    transport->checks++;
    hki_connect_progress(transport);
    for (uint32_t at = 0; at < transport->local_ranks; at += WATCHED_AT_ONCE) {
        uint32_t left = transport->local_ranks - at;
        (void)poll(transport->watch + at, left < WATCHED_AT_ONCE ? left : WATCHED_AT_ONCE, 0);
    }
    for (uint32_t i = 0; i < transport->local_ranks; i++) {
        if (transport->link[i] == NULL)
            continue;
        check_link(transport->link[i]);
        hki_memory_sweep(transport->link[i]);
    }
}

/* ---- the socket ---- */

int hki_connect_open(hk_transport *transport)
{
    uint8_t random[16];
    int yes = 1;
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return errno;
    transport->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (transport->socket < 0)
        return errno;
    /* Abstract: a zero byte, then "hocket-" and 32 hexadecimal digits; nothing in the file system. */
    struct sockaddr_un *address = &transport->address;
    char name[NAME_BYTES + 1] = "hocket-";
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(name + 7 + 2 * i, 3, "%02x", random[i]);
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path + 1, name, NAME_BYTES);
    transport->address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + NAME_BYTES);
    if (setsockopt(transport->socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
        bind(transport->socket, (const struct sockaddr *)address, transport->address_bytes) != 0)
        return errno;
    return 0;
}
