/*
 * Sleeping and waking. A rank that sleeps is announced as EVENT, and its socket becomes readable when it is woken; only
 * `sleep` may turn that into FUTEX, which costs its waker less, and only when no knock can come any more.
 */
#include "shm.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LONGEST_SLEEP_US = 50000, /* then it is time to look whether peers live */
    RETRY_SLEEP_US = 1000     /* while notes wait for room; a guess */
};

void hki_shm_wake(hk_link *link)
{
    _Atomic uint32_t *word = link->out.sleep;
    uint32_t how = hki_sleep_end(word);
    if (how == HKI_AWAKE)
        return; /* another has woken it */
    link->transport->counts.wakes++;
    if (how == HKI_ASLEEP_FUTEX)
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    else
        hki_connect_nudge(link);
}

static bool ring_pending(const hk_link *link)
{
    uint64_t head;
    return link != NULL && link->readable &&
           (hki_inbox_head(&link->in, &head) != NULL || (link->state == HK_LINK_UP && hki_shm_departed(link)));
}

/* A ring whose doorbell bit is set has a line, or its rank has left. */
static bool bell_pending(const hk_transport *transport)
{
    const _Atomic uint64_t *bells = hki_shm_bell(&transport->segment, 0);
    for (uint32_t base = 0; base < transport->local_ranks; base += 64) {
        uint64_t bits = atomic_load_explicit(&bells[base / 64], memory_order_acquire);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t index = base + (uint32_t)__builtin_ctzll(bits);
            if (index < transport->local_ranks && ring_pending(transport->link[index]))
                return true;
        }
    }
    return false;
}

/* A send that found no room would find some now. */
static bool room_pending(const hk_transport *transport)
{
    for (uint32_t i = 0; transport->starved > 0 && i < transport->local_ranks; i++) {
        hk_link *link = transport->link[i];
        if (link != NULL && link->starved && hki_shm_has_room(link))
            return true;
    }
    return false;
}

bool hki_shm_arm(hk_transport *transport)
{
    _Atomic uint32_t *word = hki_shm_sleep_word(transport);
    hki_sleep_announce(word, HKI_ASLEEP_EVENT);
    /* Old nudges make the socket readable; a knock or a hello may have changed what there is to do. */
    bool heard = hki_connect_progress(transport);
    if (!heard && transport->news == 0 && !bell_pending(transport) && !room_pending(transport))
        return true;
    hki_sleep_end(word);
    return false;
}

void hki_shm_disarm(hk_transport *transport)
{
    if (hki_sleep_end(hki_shm_sleep_word(transport)) == HKI_AWAKE)
        transport->look = true; /* woken: there may be a nudge to take */
}

int hki_shm_event_fd(hk_transport *transport)
{
    return transport->socket;
}

void hki_shm_sleep(hk_transport *transport, uint32_t microseconds)
{
    _Atomic uint32_t *word = hki_shm_sleep_word(transport);
    uint32_t longest = hki_connect_unsent(transport) ? RETRY_SLEEP_US : LONGEST_SLEEP_US;
    uint32_t us = microseconds < longest ? microseconds : longest;
    struct timespec span = {.tv_sec = 0, .tv_nsec = (long)us * 1000};
    transport->counts.sleeps++;
    if (transport->settled + 1 >= transport->local_ranks) {
        uint32_t expected = HKI_ASLEEP_EVENT;
        if (atomic_compare_exchange_strong(word, &expected, HKI_ASLEEP_FUTEX))
            syscall(SYS_futex, word, FUTEX_WAIT, HKI_ASLEEP_FUTEX, &span, NULL, 0);
        return;
    }
    struct pollfd fd = {.fd = transport->socket, .events = POLLIN};
    (void)ppoll(&fd, 1, &span, NULL);
    transport->look = true;
}
