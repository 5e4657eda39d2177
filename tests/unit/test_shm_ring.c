/*
 * Rings, credit, doorbells and the sleep word, with two threads on one mapping: what ThreadSanitizer can see. The same
 * file, built with HKI_WEAKEN_RELEASE, is what test_shm_race expects to be reported.
 */
#include "transports/shm/segment.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef RING_MESSAGES
#define RING_MESSAGES 100000
#endif

typedef struct pair {
    hki_ring ring;
    hki_credit credit;
    alignas(128) _Atomic uint64_t bell;
    alignas(128) _Atomic uint32_t writer_sleep, reader_sleep;
    unsigned char slot[HKI_RING_LINES][256];
    _Atomic uint64_t naps, lost;
} pair;

static void open_ends(pair *shared, hki_outbox *out, hki_inbox *in)
{
    *out = (hki_outbox){.lines = shared->ring.line,
                        .limit = HKI_RING_LINES,
                        .credit = &shared->credit,
                        .bell = &shared->bell,
                        .bell_bit = 2,
                        .sleep = &shared->reader_sleep};
    *in = (hki_inbox){.lines = shared->ring.line, .credit = &shared->credit, .sleep = &shared->writer_sleep};
}

static pair *new_pair(void)
{
    pair *shared = aligned_alloc(4096, (sizeof(pair) + 4095) / 4096 * 4096);
    assert_non_null(shared);
    memset(shared, 0, sizeof *shared);
    return shared;
}

/* Stands in for the futex: waits until the word is AWAKE. Returns false when nobody wakes it for long. */
static bool nap(pair *shared, _Atomic uint32_t *word)
{
    shared->naps++;
    for (long turns = 0; turns < 20000000; turns++) {
        if (atomic_load_explicit(word, memory_order_acquire) == HKI_AWAKE)
            return true;
        sched_yield();
    }
    shared->lost++;
    return false;
}

static void wake(_Atomic uint32_t *word)
{
    hki_sleep_end(word);
}

/* ---- two threads ---- */

static size_t payload_of(uint64_t n)
{
    return (size_t)(n * 7 % (HKI_LINE_PAYLOAD + 1));
}

static void *writer(void *argument)
{
    pair *shared = argument;
    hki_outbox out;
    hki_inbox in;
    open_ends(shared, &out, &in);
    for (uint64_t n = 0; n < RING_MESSAGES; n++) {
        while (out.sent == out.limit) {
            if (!hki_outbox_refresh(&out))
                return NULL;
            if (out.sent != out.limit)
                break;
            hki_sleep_announce(&shared->writer_sleep, HKI_ASLEEP_FUTEX);
            if (hki_outbox_refresh(&out) && out.sent != out.limit)
                wake(&shared->writer_sleep);
            else if (!nap(shared, &shared->writer_sleep))
                return NULL;
        }
        bool in_slot = n % 5 == 0;
        unsigned char bytes[HKI_LINE_PAYLOAD];
        size_t length = payload_of(n);
        for (size_t i = 0; i < length; i++)
            bytes[i] = (unsigned char)(n + i);
        if (in_slot)
            memset(shared->slot[out.sent % HKI_RING_LINES], (int)(n & 255), sizeof shared->slot[0]);
        else
            hki_copy_line(hki_outbox_line(&out)->payload, bytes, length);
        hk_frame frame = {.communicator = (uint32_t)n, .kind = (uint32_t)n % 16};
        hki_outbox_line(&out)->call = n << 32 | (uint32_t)~n;
        hki_outbox_publish(
            &out, hki_outbox_line(&out),
            hki_head(&frame, (uint32_t)n % HKI_ORDINAL_LIMIT, in_slot ? (uint32_t)HKI_LENGTH_SLOT : (uint32_t)length));
        if (hki_outbox_notify(&out))
            wake(&shared->reader_sleep);
    }
    return shared;
}

static bool right(const pair *shared, const hki_line *line, uint64_t head, uint64_t n)
{
    hk_frame frame;
    hki_frame_unpack(&frame, head, line->call);
    bool ok = frame.communicator == (uint32_t)n && frame.operation == (uint32_t)n &&
              frame.fingerprint == (uint32_t)~n && frame.kind == (uint32_t)n % 16 &&
              frame.ordinal == (uint32_t)n % HKI_ORDINAL_LIMIT;
    if (hki_head_length(head) == HKI_LENGTH_SLOT) {
        const unsigned char *slot = shared->slot[n % HKI_RING_LINES];
        return ok && n % 5 == 0 && slot[0] == (n & 255) && slot[255] == (n & 255);
    }
    ok = ok && hki_head_length(head) == payload_of(n);
    for (size_t i = 0; ok && i < payload_of(n); i++)
        ok = line->payload[i] == (unsigned char)(n + i);
    return ok;
}

/* Sleeps when the ring is empty, having cleared the doorbell. It may be woken early, by the writer of a line that has
 * been taken already; but a line that lies there now rings, at once or soon. */
static bool wait_for_line(pair *shared, hki_inbox *in, uint64_t n)
{
    uint64_t head;
    if (n % 3 == 0 && !hki_bell_clear(&shared->bell, 2, in))
        return true;
    hki_sleep_announce(&shared->reader_sleep, HKI_ASLEEP_FUTEX);
    if (hki_inbox_head(in, &head) != NULL) {
        wake(&shared->reader_sleep);
        return true;
    }
    if (!nap(shared, &shared->reader_sleep))
        return false;
    for (long turns = 0; hki_inbox_head(in, &head) != NULL && (atomic_load(&shared->bell) & 2) == 0; turns++) {
        if (turns == 20000000)
            return false;
        sched_yield();
    }
    return true;
}

static void lines_cross_whole_and_no_wakeup_is_lost(void **state)
{
    (void)state;
    pair *shared = new_pair();
    pthread_t thread;
    hki_outbox out;
    hki_inbox in;
    open_ends(shared, &out, &in);
    assert_int_equal(pthread_create(&thread, NULL, writer, shared), 0);
    uint64_t n = 0, head;
    bool ok = true;
    while (ok && n < RING_MESSAGES) {
        const hki_line *line = hki_inbox_head(&in, &head);
        if (line == NULL) {
            ok = wait_for_line(shared, &in, n);
            continue;
        }
        ok = right(shared, line, head, n);
        if (hki_inbox_consume(&in, hki_head_length(head) == HKI_LENGTH_SLOT))
            wake(&shared->writer_sleep);
        n++;
    }
    void *finished;
    if (!ok) /* or the writer would wait for credit for ever */
        atomic_store(&shared->credit.lines, UINT32_MAX / 2);
    wake(&shared->writer_sleep);
    pthread_join(thread, &finished);
    assert_int_equal(n, RING_MESSAGES);
    assert_true(ok);
    assert_ptr_equal(finished, shared);
    assert_int_equal(shared->lost, 0);
    assert_true(shared->naps > 0);
    assert_int_equal(atomic_load(&shared->credit.slots), (RING_MESSAGES + 4) / 5);
    free(shared);
}

/* ---- one thread ---- */

static void every_length_is_copied_exactly(void **state)
{
    (void)state;
    unsigned char from[HKI_LINE_PAYLOAD], to[HKI_LINE_PAYLOAD + 2];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i + 1);
    for (size_t bytes = 0; bytes <= sizeof from; bytes++) {
        memset(to, 0xee, sizeof to);
        hki_copy_line(to + 1, from, bytes);
        assert_memory_equal(to + 1, from, bytes);
        assert_int_equal(to[0], 0xee);
        assert_int_equal(to[bytes + 1], 0xee);
    }
}

static void headers_survive_packing(void **state)
{
    (void)state;
    hk_frame frame = {UINT32_MAX, 0x80000001, 0xfffffffe, HKI_ORDINAL_LIMIT - 1, 15}, back;
    uint64_t head = hki_head(&frame, frame.ordinal, HKI_LINE_PAYLOAD) | HKI_MASK_SEQUENCE;
    hki_frame_unpack(&back, head, (uint64_t)frame.operation << 32 | frame.fingerprint);
    assert_int_equal(back.communicator, frame.communicator);
    assert_int_equal(back.operation, frame.operation);
    assert_int_equal(back.fingerprint, frame.fingerprint);
    assert_int_equal(back.ordinal, frame.ordinal);
    assert_int_equal(back.kind, frame.kind);
    assert_int_equal(hki_head_length(head), HKI_LINE_PAYLOAD);
}

/* Around the ring's end, the sequence number's (2,048 lines) and the counters' (2^32). */
static void a_full_ring_takes_no_line_until_credit_comes(void **state)
{
    (void)state;
    static const uint32_t starts[] = {0, 2048 - 10, UINT32_MAX - 100};
    pair *shared = new_pair();
    hki_outbox out;
    hki_inbox in;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        memset(shared, 0, sizeof *shared);
        open_ends(shared, &out, &in);
        out.sent = in.taken = starts[i] / HKI_RING_LINES * HKI_RING_LINES;
        out.limit = out.sent + HKI_RING_LINES;
        atomic_store(&shared->credit.lines, out.sent);
        for (int round = 0; round < 300; round++) {
            uint64_t head;
            hk_frame frame = {.communicator = (uint32_t)round};
            int written = 0, taken = 0;
            while (hki_outbox_refresh(&out) && out.sent != out.limit) {
                hki_outbox_publish(&out, hki_outbox_line(&out), hki_head(&frame, 0, 0));
                written++;
            }
            assert_int_equal(written, round == 0 ? HKI_RING_LINES : HKI_RING_LINES);
            while (hki_inbox_head(&in, &head) != NULL) {
                assert_int_equal((uint32_t)(head >> HKI_SHIFT_COMMUNICATOR), (uint32_t)round);
                hki_inbox_consume(&in, false);
                taken++;
            }
            assert_int_equal(taken, written);
        }
    }
    free(shared);
}

static void credit_that_cannot_be_is_noticed(void **state)
{
    (void)state;
    pair *shared = new_pair();
    hki_outbox out;
    hki_inbox in;
    open_ends(shared, &out, &in);
    atomic_store(&shared->credit.lines, 1);
    assert_false(hki_outbox_refresh(&out)); /* more than was sent */
    out.sent = 1000;
    atomic_store(&shared->credit.lines, 1000 - HKI_RING_LINES - 1);
    assert_false(hki_outbox_refresh(&out)); /* more in flight than the ring holds */
    free(shared);
}

static void segments_of_256_ranks_stay_small(void **state)
{
    (void)state;
    hki_layout layout = hki_layout_of(256);
    assert_true(layout.bytes <= (size_t)11 << 20);
    assert_int_equal(layout.rings % HKI_PAGE, 0);
    assert_int_equal(layout.slot_pool % HKI_PAGE, 0);
    assert_true(layout.slots > 256);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_is_copied_exactly),
        cmocka_unit_test(headers_survive_packing),
        cmocka_unit_test(a_full_ring_takes_no_line_until_credit_comes),
        cmocka_unit_test(credit_that_cannot_be_is_noticed),
        cmocka_unit_test(segments_of_256_ranks_stay_small),
        cmocka_unit_test(lines_cross_whole_and_no_wakeup_is_lost),
    };
    return cmocka_run_group_tests_name("shm ring", tests, NULL, NULL);
}
