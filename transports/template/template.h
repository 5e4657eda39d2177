/* What the two files of the template share: connect.c makes connections and ends them, template.c moves frames. */
#ifndef TEMPLATE_H
#define TEMPLATE_H

#include <hocket/transport.h>

#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

enum {
    VERSION = 1,
    EAGER_BYTES = 16 << 10, /* guessed */
    PIECE_BYTES = 32 << 10, /* Linux takes so much whole or not at all; more is cut, and may wait in link->out */
    TOKEN_BYTES = 32,
    VISITORS = 64,   /* accepted, but unknown: more wait in the kernel */
    EVENTS = 32,     /* taken from epoll at once */
    GOODBYE = 0x474f /* kind of the last frame; the core's kinds are 0 … 15 */
};

/* What is counted; the names are those of `template.frames_out` and so on. */
enum { FRAMES_OUT, BYTES_OUT, FRAMES_IN, BYTES_IN, READS, PARTIAL, CONNECTIONS, COUNTS };

/* What an instance publishes. */
typedef struct address {
    uint32_t version;
    socklen_t bytes;
    struct sockaddr_un name;
} address;

/* The first thing on a connection, in both directions. */
typedef struct hello {
    int64_t rank;
    uint64_t from, to; /* contexts */
    uint8_t token[TOKEN_BYTES];
} hello;

/* Then frames: a header, and its payload. Both ends are of one machine: integers as they are. */
typedef struct header {
    uint32_t bytes, kind, communicator, operation, fingerprint, ordinal;
} header;

struct hk_link {
    hk_transport *transport;
    hk_peer peer;
    address address;
    hk_link_state state;
    bool wanted;  /* this rank has tried to send or to look */
    bool news;    /* it has ended, and poll has not said so */
    bool ready;   /* the socket had something when progress looked */
    bool starved; /* a send found no room: epoll watches for some */
    int fd;       /* -1: no connection */
    char reason[128];
    /* the head of the FIFO: its header, then its payload if that is handed over whole */
    unsigned char head[sizeof(header) + HK_TRANSPORT_WHOLE];
    size_t have; /* bytes of `head` that are here */
    size_t left; /* of a larger payload: what has not been read */
    size_t skip; /* what is left of a frame that was dropped */
    /* what the kernel has not taken of a frame; there is room for a frame and a goodbye */
    unsigned char out[sizeof(header) + PIECE_BYTES + sizeof(header) + TOKEN_BYTES];
    size_t out_start, out_end;
    /* after the peer hung up: all that was left in the socket */
    unsigned char *rest;
    size_t rest_start, rest_end;
};

struct hk_transport {
    const hk_transport_services *services;
    pid_t pid;
    int listener, epoll;
    address address; /* of the listener */
    int visitors[VISITORS];
    uint32_t visitor_count;
    hk_link **links;    /* by rank; NULL where there is none */
    uint32_t undialled; /* links that are wanted and have no connection yet */
    size_t changed;     /* links that ended since the last check */
    bool relieved;      /* a starved link has room, and arm has not said so */
    uint64_t counts[COUNTS];
};

/* Nobody else sees these names, nor do others' of the same name take their place. */
#pragma GCC visibility push(hidden)

/* Ends a link once. */
void end_link(hk_link *link, hk_link_state state, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends a link that the peer has closed; what it sent before can still be fetched from `rest`. */
void hung_up(hk_link *link);

/* Has epoll watch a descriptor (EPOLL_CTL_ADD) or changes what for (EPOLL_CTL_MOD). link NULL: a visitor's. */
void watch(const hk_transport *transport, int how, int fd, uint32_t events, hk_link *link);
bool start_listening(hk_transport *transport);
/* Connects to the peer, or ends the link when it is not there any more. */
void dial(hk_link *link);
/* The connection that this rank has made has something to say. */
void answered(hk_link *link);
/* Accepts connections, and finds out whose they are. */
void receive_visitors(hk_transport *transport);

#pragma GCC visibility pop
#endif
