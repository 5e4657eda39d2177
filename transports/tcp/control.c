/*
 * The control thread: one a context, while there is a peer to talk to over TCP. It makes connections, so that a rank
 * which computes is reached all the same, and sends what the application's thread could not send whole. It sleeps in
 * epoll, takes no signals, and calls nothing of the core's but log and clock.
 */
#include "tcp.h"

#include "base/clock.h"
#include "net/socket.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

enum {
    EVENTS = 64,
    STACK_BYTES = 256 << 10,
    ACCEPTS_AT_ONCE = 64,
    NO_DESCRIPTORS_MS = 100, /* then accepting is tried again */
    OWED_FIRST_MS = 2,       /* a rank that is in a call pays sooner itself */
    OWED_LONGEST_MS = 32,
    OWED_ROUNDS = 8 /* to keep looking after nothing is owed any more; all guessed */
};

void hki_tcp_control_ring(hk_transport *transport)
{
    uint64_t one = 1;
    (void)!write(transport->control.event, &one, sizeof one);
}

void hki_tcp_offer(hk_link *link, hki_stream stream)
{
    hk_transport *transport = link->transport;
    uint64_t one = 1;
    link->offered = stream;
    hk_link *first = atomic_load(&transport->offers);
    do
        link->next_offer = first;
    while (!atomic_compare_exchange_weak(&transport->offers, &first, link));
    (void)!write(transport->event, &one, sizeof one);
}

/* ---- the thread ---- */

static void take_wishes(hk_transport *transport)
{
    for (hk_link *link = atomic_exchange(&transport->control.wanted, NULL); link != NULL;) {
        hk_link *following = link->next_wanted;
        hki_dial_want(link);
        link = following;
    }
}

static void watch_listeners(hk_transport *transport, bool on)
{
    for (uint32_t i = 0; i < transport->listener_count; i++) {
        struct epoll_event event = {.events = on ? EPOLLIN : 0, .data.ptr = &transport->listeners[i]};
        (void)epoll_ctl(transport->control.epoll, EPOLL_CTL_MOD, transport->listeners[i], &event);
    }
}

static void accept_all(hk_transport *transport, int listener)
{
    for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        hki_address from;
        int fd = hki_socket_accept(listener, &from);
        if (fd >= 0) {
            hki_attempt_accept(transport, fd, &from);
            continue;
        }
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
            transport->control.accept_from = hki_now() + NO_DESCRIPTORS_MS * MS;
            watch_listeners(transport, false);
        }
        if (fd != -ECONNABORTED && fd != -EINTR)
            return;
    }
}

static bool is_watch(const hk_transport *transport, const void *what)
{
    const hki_watch *first = transport->control.watches;
    return (uintptr_t)what >= (uintptr_t)first && (uintptr_t)what < (uintptr_t)(first + HKI_TCP_WATCHES);
}

static void handle(hk_transport *transport, const struct epoll_event *event)
{
    int *listener = event->data.ptr;
    uint64_t count;
    if (listener == NULL)
        (void)!read(transport->control.event, &count, sizeof count);
    else if (listener >= transport->listeners && listener < transport->listeners + HKI_TCP_LISTENERS)
        accept_all(transport, *listener);
    else if (is_watch(transport, event->data.ptr))
        hki_watch_event(transport, event->data.ptr, event->events);
    else
        hki_attempt_event(event->data.ptr);
}

/* Pays for links now and then while any owes; returns when to look again. */
static uint64_t see_to_owed(hk_transport *transport, uint64_t now)
{
    hki_tcp_control *control = &transport->control;
    if (!atomic_load(&control->watching))
        return UINT64_MAX;
    if (control->owing_rounds == 0) {
        control->owing_pause = OWED_FIRST_MS * MS;
        control->owing_at = now + control->owing_pause;
        control->owing_rounds = OWED_ROUNDS;
    }
    if (now < control->owing_at)
        return control->owing_at;
    hki_tcp_pay_all(transport);
    if (atomic_load(&transport->owing) > 0)
        control->owing_rounds = OWED_ROUNDS;
    else if (--control->owing_rounds == 0) {
        atomic_store(&control->watching, false);
        if (atomic_load(&transport->owing) == 0 || atomic_exchange(&control->watching, true))
            return UINT64_MAX; /* a sender that comes now rings */
        return now;
    }
    if (control->owing_pause < OWED_LONGEST_MS * MS)
        control->owing_pause *= 2;
    return control->owing_at = now + control->owing_pause;
}

static uint64_t accept_again(hk_transport *transport, uint64_t now)
{
    hki_tcp_control *control = &transport->control;
    if (control->accept_from == 0)
        return UINT64_MAX;
    if (now < control->accept_from)
        return control->accept_from;
    control->accept_from = 0;
    watch_listeners(transport, true);
    return UINT64_MAX;
}

static void free_over(hki_tcp_control *control)
{
    hki_list_each_safe (node, following, &control->over) {
        hki_list_remove(node);
        free(hki_list_entry(node, hki_attempt, node));
    }
}

/* Milliseconds until then, rounded up, for epoll_wait. */
static int until(uint64_t when, uint64_t now)
{
    if (when == UINT64_MAX)
        return -1;
    uint64_t left = when > now ? (when - now + MS - 1) / MS : 0;
    return left < 60000 ? (int)left : 60000;
}

static void *run(void *argument)
{
    hk_transport *transport = argument;
    hki_tcp_control *control = &transport->control;
    while (!atomic_load(&control->stop)) {
        struct epoll_event events[EVENTS];
        take_wishes(transport);
        if (atomic_exchange(&control->lanes_wanted, false))
            hki_lanes_dial(transport);
        uint64_t now = hki_now(), next = hki_dial_times(transport, now), other = see_to_owed(transport, now);
        next = other < next ? other : next;
        other = accept_again(transport, now);
        next = other < next ? other : next;
        other = hki_watch_times(transport, now);
        next = other < next ? other : next;
        free_over(control);
        int count = epoll_wait(control->epoll, events, EVENTS, until(next, now));
        for (int i = 0; i < count; i++)
            handle(transport, &events[i]);
    }
    return NULL;
}

/* ---- its beginning and its end ---- */

static int prepare(hk_transport *transport)
{
    hki_tcp_control *control = &transport->control;
    struct epoll_event bell = {.events = EPOLLIN};
    control->epoll = epoll_create1(EPOLL_CLOEXEC);
    control->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (control->epoll < 0 || control->event < 0 ||
        epoll_ctl(control->epoll, EPOLL_CTL_ADD, control->event, &bell) != 0)
        return errno;
    for (uint32_t i = 0; i < transport->listener_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &transport->listeners[i]};
        if (epoll_ctl(control->epoll, EPOLL_CTL_ADD, transport->listeners[i], &event) != 0)
            return errno;
    }
    return 0;
}

static int start_thread(hk_transport *transport)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    sigfillset(&all);
    int error = pthread_attr_init(&attributes);
    if (error != 0)
        return error;
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(&transport->control.thread, &attributes, run, transport);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0)
        (void)pthread_setname_np(transport->control.thread, "hocket-control");
    return error;
}

static void close_control(hki_tcp_control *control)
{
    if (control->epoll >= 0)
        close(control->epoll);
    if (control->event >= 0)
        close(control->event);
}

hk_status hki_tcp_control_start(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    hki_tcp_control *control = &transport->control;
    if (control->running)
        return HK_OK;
    int error = prepare(transport);
    if (error == 0)
        error = start_thread(transport);
    if (error != 0) {
        close_control(control);
        services->error(services->core, HK_ERR_SYSTEM, "tcp: the thread that makes connections does not start: %s",
                        strerror(error));
        return HK_ERR_SYSTEM;
    }
    control->running = true;
    return HK_OK;
}

/* The peer may count on a connection that is accepted and only lacks its confirmation: it is told goodbye like others.
 */
static void leave_half_made(hki_attempt *attempt)
{
    unsigned char text[HKI_TCP_HEADER];
    if (attempt->link == NULL || attempt->link->dial.half != attempt || attempt->shake.step != HKI_STEP_CONFIRM)
        return;
    hki_tcp_write_goodbye(text);
    (void)!hki_stream_send(&attempt->stream, text, sizeof text, false);
}

void hki_tcp_control_stop(hk_transport *transport)
{
    hki_tcp_control *control = &transport->control;
    if (!control->running)
        return;
    atomic_store(&control->stop, true);
    hki_tcp_control_ring(transport);
    pthread_join(control->thread, NULL);
    control->running = false;
    while (!hki_list_empty(&control->attempts)) {
        hki_attempt *attempt = hki_list_entry(control->attempts.next, hki_attempt, node);
        leave_half_made(attempt);
        hki_attempt_drop(attempt);
    }
    hki_watch_close(transport);
    free_over(control);
    close_control(control);
}
