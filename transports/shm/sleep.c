/*
 * Sleeping and waking. A rank that sleeps is announced as EVENT, and its socket becomes readable when it is woken; only
 * `sleep` may turn that into FUTEX, which costs a hop 2 µs less (3.7 against 5.6 between two processes on one core). A
 * knock on the socket does not end a futex's wait: so while knocks must be expected, because peers have lately
 * connected, the sleep is by event; later by futex in short spans; and by futex in long ones when all are connected.
 */
#include "shm.h"

#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LONGEST_SLEEP_US = 50000, /* then it is time to look whether peers live */
    RETRY_SLEEP_US = 1000,    /* while notes wait for room; a guess */
    KNOCK_SLEEP_US = 5000,    /* how long a knock may wait, once; a guess: 0.2 % of a CPU in waking for nothing */
    CALM_SLEEPS = 64          /* sleeps without a new link until no knock is expected; a guess */
};

void hki_shm_wake(hk_link *link)
{
    _Atomic uint32_t *word = link->out.sleep;
    uint32_t how = hki_sleep_end(word);
    if (how == HKI_AWAKE)
        return; /* another has woken it */
    link->transport->counts.wakes++;
    if (how == HKI_ASLEEP_FUTEX)
        syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
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

/* The longest span, µs, and whether by futex. Decided while armed, since other threads may use the transport (and even
 * arm and sleep as well) while this one sleeps. */
static void choose_sleep(hk_transport *transport)
{
    bool all_here = transport->settled + 1 >= transport->local_ranks;
    bool by_futex = all_here || ++transport->calm > CALM_SLEEPS;
    uint32_t longest = by_futex && !all_here ? KNOCK_SLEEP_US : LONGEST_SLEEP_US;
    if (hki_connect_unsent(transport))
        longest = RETRY_SLEEP_US;
    atomic_store_explicit(&transport->by_futex, by_futex, memory_order_relaxed);
    atomic_store_explicit(&transport->longest_sleep, longest, memory_order_relaxed);
}

bool hki_shm_arm(hk_transport *transport)
{
    _Atomic uint32_t *word = hki_shm_sleep_word(transport);
    hki_sleep_announce(word, HKI_ASLEEP_EVENT);
    /* Old nudges make the socket readable; a knock or a hello may have changed what there is to do. */
    bool heard = hki_connect_progress(transport);
    if (!heard && transport->news == 0 && !bell_pending(transport) && !room_pending(transport)) {
        choose_sleep(transport);
        transport->counts.sleeps++;
        return true;
    }
    hki_shm_disarm(transport);
    return false;
}

/* Other threads of this rank that sleep are not announced any more, and must look for themselves. */
static void rouse_others(hk_transport *transport, _Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    hki_connect_nudge_self(transport);
}

void hki_shm_disarm(hk_transport *transport)
{
    _Atomic uint32_t *word = hki_shm_sleep_word(transport);
    /* Who was woken by event has a nudge to take. */
    if (hki_sleep_end(word) == HKI_AWAKE || !atomic_load_explicit(&transport->by_futex, memory_order_relaxed))
        transport->look = true;
    if (atomic_load(&transport->sleepers) > 0)
        rouse_others(transport, word);
}

int hki_shm_event_fd(hk_transport *transport)
{
    return transport->socket;
}

void hki_shm_sleep(hk_transport *transport, uint32_t microseconds)
{
    _Atomic uint32_t *word = hki_shm_sleep_word(transport);
    uint32_t longest = atomic_load_explicit(&transport->longest_sleep, memory_order_relaxed);
    struct timespec span = {.tv_nsec = (long)(microseconds < longest ? microseconds : longest) * 1000};
    struct pollfd fd = {.fd = transport->socket, .events = POLLIN};
    uint32_t expected = HKI_ASLEEP_EVENT;
    atomic_fetch_add(&transport->sleepers, 1);
    if (!atomic_load_explicit(&transport->by_futex, memory_order_relaxed))
        (void)ppoll(&fd, 1, &span, NULL);
    else if (atomic_compare_exchange_strong(word, &expected, HKI_ASLEEP_FUTEX) || expected == HKI_ASLEEP_FUTEX)
        syscall(SYS_futex, word, FUTEX_WAIT, HKI_ASLEEP_FUTEX, &span, NULL, 0);
    atomic_fetch_sub(&transport->sleepers, 1);
}
