/*
 * Two ends of a transport, in two processes or in two threads of one, driven through the plug-in interface alone. Each
 * end runs the same body with its own index; what it returns false for fails the test. Bodies speak to one another over
 * a socket pair of the harness's, besides the transport under test.
 */
#ifndef HKI_TESTS_PAIR_H
#define HKI_TESTS_PAIR_H

#include "../support/ranks.h"

#include <hocket/transport.h>

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A transport, and how it is set. */
typedef struct pair_transport {
    const char *name;
    const hk_transport_ops *ops;
    const char *settings; /* "NAME=value NAME=value", or NULL */
    bool narrow;          /* holds little that nobody reads */
} pair_transport;

/* Settings of end 1, where a test wants others there; or NULL. */
static const char *pair_second;

typedef struct pair_end {
    const hk_transport_ops *ops;
    hk_transport_services services;
    hk_peer self, other;
    hk_transport *transport;
    hk_transport_limits limits;
    hk_link *link;
    int index;            /* 0 or 1 */
    bool processes;       /* the ends are two processes */
    int channel;          /* to the other end */
    const char *protocol; /* HOCKET_PROTOCOL */
    const char *settings; /* other settings: "NAME=value NAME=value" */
    char value[512];      /* the one asked for last */
    uint8_t token[32];
    unsigned char address[512];
    size_t address_bytes;
    unsigned char other_address[512];
    bool closed;      /* by the body */
    hk_status status; /* the last error that the transport recorded, and its text */
    char error[256];
} pair_end;

typedef bool pair_body(pair_end *end);

/* Says where, and makes the body fail. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: end %d: failed: %s\n", __FILE__, __LINE__, end->index, #condition);                \
            return false;                                                                                              \
        }                                                                                                              \
    } while (0)

static uint64_t pair_now(void *core)
{
    (void)core;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* Nanoseconds of so many milliseconds; times CONFORMANCE_SLOWER, for machines that are that many times slower than any
 * real one. */
static uint64_t pair_span(uint64_t milliseconds)
{
    return milliseconds * UINT64_C(1000000) * (uint64_t)ranks_slower();
}

static void __attribute__((format(printf, 3, 4))) pair_log(void *core, hk_log_level level, const char *format, ...)
{
    (void)core;
    if (getenv("PAIR_LOG") == NULL || level > HK_LOG_DEBUG)
        return;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

/* Kept for bodies that expect it; PAIR_LOG prints it. */
static void __attribute__((format(printf, 3, 4))) pair_error(void *core, hk_status status, const char *format, ...)
{
    pair_end *end = core;
    end->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(end->error, sizeof end->error, format, arguments);
    va_end(arguments);
    pair_log(core, HK_LOG_ERROR, "%s", end->error);
}

static const char *pair_setting(void *core, const char *name)
{
    pair_end *end = core;
    if (strcmp(name, "PROTOCOL") == 0)
        return end->protocol;
    for (const char *at = end->settings; at != NULL && *at != '\0';) {
        size_t length = strcspn(at, " "), label = strcspn(at, "=");
        if (label == strlen(name) && memcmp(at, name, label) == 0) {
            snprintf(end->value, sizeof end->value, "%.*s", (int)(length - label - 1), at + label + 1);
            return end->value;
        }
        at += length + (at[length] == ' ');
    }
    return "";
}

/* The peers' place; several pairs of one process need different contexts. */
static hk_peer pair_peer(int rank, int ranks, int pid)
{
    hk_peer peer = {.host = 77, .context = 1000 + (uint64_t)rank, .pid = pid, .rank = rank, .local_index = rank};
    peer.local_ranks = ranks;
    strcpy(peer.host_name, "here");
    return peer;
}

/* Fills all but the link, opens the transport, and has it measure what it wants to. */
static bool pair_open(pair_end *end, const hk_transport_ops *ops, int rank, int ranks, const char *protocol)
{
    end->ops = ops;
    end->protocol = protocol;
    end->index = rank;
    end->self = pair_peer(rank, ranks, (int)getpid());
    for (size_t i = 0; i < sizeof end->token; i++)
        end->token[i] = (uint8_t)(i * 7 + 1);
    end->services = (hk_transport_services){.size = sizeof end->services,
                                            .abi = HK_TRANSPORT_ABI,
                                            .core = end,
                                            .log = pair_log,
                                            .setting = pair_setting,
                                            .now = pair_now,
                                            .error = pair_error,
                                            .self = &end->self,
                                            .ranks = (uint32_t)ranks,
                                            .token = end->token};
    end->address_bytes = sizeof end->address;
    if (ops->open(&end->services, &end->transport, &end->limits) != HK_OK)
        return false;
    if (ops->measure != NULL)
        ops->measure(end->transport, &end->limits);
    return ops->address(end->transport, end->address, &end->address_bytes) == HK_OK;
}

/* Both ends have come here. */
static bool pair_meet(pair_end *end)
{
    char byte = 'm';
    struct pollfd fd = {.fd = end->channel, .events = POLLIN};
    return write(end->channel, &byte, 1) == 1 && poll(&fd, 1, 20000) == 1 && read(end->channel, &byte, 1) == 1;
}

/* Exchanges place and address with the other end, and connects. */
static bool pair_connect(pair_end *end)
{
    struct {
        hk_peer peer;
        size_t bytes;
        unsigned char address[512];
    } mine = {.peer = end->self, .bytes = end->address_bytes}, theirs;
    memcpy(mine.address, end->address, sizeof mine.address);
    CHECK(send(end->channel, &mine, sizeof mine, 0) == sizeof mine);
    CHECK(recv(end->channel, &theirs, sizeof theirs, MSG_WAITALL) == sizeof theirs);
    end->other = theirs.peer;
    memcpy(end->other_address, theirs.address, sizeof end->other_address);
    return end->ops->connect(end->transport, &theirs.peer, theirs.address, theirs.bytes, &end->link) == HK_OK;
}

/* Sends, polling while the transport says AGAIN, for at most 20 s. */
static hk_transport_result pair_send(pair_end *end, const hk_frame *frame, const void *payload, size_t bytes)
{
    uint32_t ranks[4];
    uint64_t deadline = pair_now(end) + pair_span(20000);
    hk_transport_result result;
    while ((result = end->ops->send(end->link, frame, payload, bytes)) == HK_TRANSPORT_AGAIN) {
        (void)end->ops->poll(end->transport, ranks, 4);
        if (pair_now(end) > deadline)
            break;
    }
    return result;
}

static hk_transport_result pair_peek(pair_end *end, hk_arrival *arrival)
{
    uint32_t ranks[4];
    uint64_t deadline = pair_now(end) + pair_span(20000);
    hk_transport_result result;
    while ((result = end->ops->peek(end->link, arrival)) == HK_TRANSPORT_AGAIN) {
        (void)end->ops->poll(end->transport, ranks, 4);
        if (pair_now(end) > deadline)
            break;
    }
    return result;
}

/* Takes the payload of the head, wherever it is, and drops the head. False when the link ends before it is whole. */
static bool pair_take(pair_end *end, hk_arrival *arrival, unsigned char *payload)
{
    size_t done = 0;
    while (arrival->data == NULL && arrival->bytes > 0) {
        size_t moved = 0;
        if (end->ops->read(end->link, payload + done, arrival->bytes, &moved) == HK_TRANSPORT_LOST)
            return false;
        done += moved;
        if (pair_peek(end, arrival) != HK_TRANSPORT_OK)
            return false;
    }
    if (arrival->data != NULL)
        memcpy(payload + done, arrival->data, arrival->bytes);
    end->ops->consume(end->link);
    return true;
}

static inline uint64_t pair_counter(pair_end *end, const char *name)
{
    const char *names[64];
    uint64_t values[64];
    size_t count = end->ops->counters(end->transport, names, values, 64);
    for (size_t i = 0; i < count && i < 64; i++)
        if (strcmp(names[i], name) == 0)
            return values[i];
    return UINT64_MAX;
}

typedef struct pair_role {
    const pair_transport *transport;
    pair_body *body;
    const char *protocol;
    int index, channel;
    bool processes, ok;
} pair_role;

static void pair_play(pair_role *role)
{
    pair_end *end = calloc(1, sizeof *end);
    end->channel = role->channel;
    end->processes = role->processes;
    end->settings = role->index == 1 && pair_second != NULL ? pair_second : role->transport->settings;
    role->ok =
        pair_open(end, role->transport->ops, role->index, 2, role->protocol) && pair_connect(end) && role->body(end);
    if (!role->ok)
        fprintf(stderr, "end %d failed\n", role->index);
    if (end->transport != NULL && !end->closed)
        end->ops->close(end->transport, 1.0);
    close(role->channel);
    free(end);
}

static void *pair_thread(void *role)
{
    pair_play(role);
    return NULL;
}

static bool pair_run_threads(pair_role role[2])
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, pair_thread, &role[1]) != 0)
        return false;
    pair_play(&role[0]);
    pthread_join(thread, NULL);
    return role[0].ok && role[1].ok;
}

/* A child that dies by a signal is taken as meant: the body of the other end judges. */
static bool pair_run_processes(pair_role role[2])
{
    int status;
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child == 0) {
        close(role[0].channel);
        pair_play(&role[1]);
        _exit(role[1].ok ? 0 : 1);
    }
    close(role[1].channel);
    pair_play(&role[0]);
    if (waitpid(child, &status, 0) != child)
        return false;
    return role[0].ok && (WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
}

/* Runs the body at both ends; true when both return true. */
static bool pair_run(const pair_transport *transport, pair_body *body, const char *protocol, bool processes)
{
    int channel[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0)
        return false;
    pair_role role[2];
    for (int i = 0; i < 2; i++)
        role[i] = (pair_role){.transport = transport,
                              .body = body,
                              .protocol = protocol,
                              .index = i,
                              .channel = channel[i],
                              .processes = processes};
    return processes ? pair_run_processes(role) : pair_run_threads(role);
}

#endif
