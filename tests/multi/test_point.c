/* Messages between two ranks: matching by source and tag, order, lengths, probes, and what nobody has asked for yet. */
#include "../support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const char *const protocols[] = {"HOCKET_PROTOCOL=auto", "HOCKET_PROTOCOL=get", "HOCKET_PROTOCOL=stream",
                                        "HOCKET_EAGER=64"};
enum { PROTOCOLS = sizeof protocols / sizeof *protocols };

/* Runs a body under each protocol. */
static void run_each(int ranks, ranks_body *body)
{
    for (int i = 0; i < PROTOCOLS; i++) {
        ranks_options options = {.settings = protocols[i], .timeout = 20};
        assert_int_equal(ranks_run(ranks, &options, body, NULL), 0);
    }
}

static unsigned char byte_at(uint64_t i, unsigned seed)
{
    return (unsigned char)((i * 131 + seed * 17) ^ i >> 9);
}

static void fill(void *memory, uint64_t bytes, unsigned seed)
{
    for (uint64_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = byte_at(i, seed);
}

static bool holds(const void *memory, uint64_t bytes, unsigned seed)
{
    for (uint64_t i = 0; i < bytes; i++) {
        if (((const unsigned char *)memory)[i] != byte_at(i, seed))
            return false;
    }
    return true;
}

/* --- order -----------------------------------------------------------------------------------------------------------
 */

static const uint64_t lengths[] = {8, 0, 3000, 200000, 16, 1 << 20, 48, 70000, 1, 9000};
enum { LENGTHS = sizeof lengths / sizeof *lengths, ROUNDS = 6, LONGEST = 1 << 20 };

/* Small and large messages of one tag arrive in the order in which they were sent. */
static int ordered(hk_comm *comm, int rank, void *argument)
{
    enum { MESSAGES = LENGTHS * ROUNDS };
    static hk_request *requests[MESSAGES];
    static unsigned char *memory[MESSAGES];
    (void)argument;
    for (unsigned i = 0; i < MESSAGES; i++) {
        uint64_t bytes = lengths[(i * 7) % LENGTHS];
        EXPECT((memory[i] = malloc(bytes + 1)) != NULL);
        if (rank == 0) {
            fill(memory[i], bytes, i);
            EXPECT_OK(hk_isend(memory[i], bytes, HK_BYTE, 1, 5, comm, &requests[i]));
        }
    }
    if (rank == 0)
        EXPECT_OK(hk_wait_all(MESSAGES, requests));
    for (unsigned i = 0; i < MESSAGES && rank == 1; i++) {
        hk_message message;
        unsigned char *got = malloc(LONGEST);
        EXPECT(got);
        EXPECT_OK(hk_recv(got, LONGEST, HK_BYTE, i % 3 ? 0 : HK_ANY_SOURCE, i % 2 ? 5 : HK_ANY_TAG, comm, &message));
        EXPECT(message.source == 0 && message.tag == 5 && message.bytes == lengths[(i * 7) % LENGTHS]);
        EXPECT(holds(got, message.bytes, i));
        free(got);
    }
    for (unsigned i = 0; i < MESSAGES; i++)
        free(memory[i]);
    return 0;
}

static void test_messages_do_not_overtake(void **state)
{
    (void)state;
    run_each(2, ordered);
}

/* Receives posted first, for different tags, in another order than the messages come. */
static int posted_first(hk_comm *comm, int rank, void *argument)
{
    static unsigned char memory[LENGTHS][LONGEST];
    hk_request *requests[LENGTHS];
    (void)argument;
    for (int i = LENGTHS - 1; i >= 0 && rank == 1; i--)
        EXPECT_OK(hk_irecv(memory[i], LONGEST, HK_BYTE, 0, i, comm, &requests[i]));
    EXPECT_OK(hk_barrier(comm));
    for (int i = 0; i < LENGTHS && rank == 0; i++) {
        fill(memory[i], lengths[i], (unsigned)i);
        EXPECT_OK(hk_isend(memory[i], lengths[i], HK_BYTE, 1, i, comm, &requests[i]));
    }
    for (int i = 0; i < LENGTHS && rank < 2; i++) {
        hk_message message = {.source = -5};
        EXPECT_OK(hk_wait_message(&requests[i], &message));
        if (rank == 1)
            EXPECT(message.source == 0 && message.tag == i && message.bytes == lengths[i] &&
                   holds(memory[i], lengths[i], (unsigned)i));
    }
    return 0;
}

static void test_receives_may_be_posted_first_and_in_any_order(void **state)
{
    (void)state;
    run_each(2, posted_first);
}

/* --- any source, any tag, probe --------------------------------------------------------------------------------------
 */

static int from_anybody(hk_comm *comm, int rank, void *argument)
{
    enum { EACH = 50 };
    int size = hk_comm_size(comm), seen[8] = {0};
    static unsigned char memory[200000];
    (void)argument;
    for (int i = 0; i < EACH && rank != 0; i++) {
        uint64_t bytes = i % 10 == 9 ? 150000 : (uint64_t)(i * rank);
        fill(memory, bytes, (unsigned)(rank * 100 + i));
        EXPECT_OK(hk_send(memory, bytes, HK_BYTE, 0, rank * 1000 + i, comm));
    }
    for (int i = 0; i < EACH * (size - 1) && rank == 0; i++) {
        hk_message probed = {0}, got = {0};
        int found = 0;
        if (i % 2)
            EXPECT_OK(hk_probe(HK_ANY_SOURCE, HK_ANY_TAG, comm, &probed));
        else
            while (!found)
                EXPECT_OK(hk_iprobe(HK_ANY_SOURCE, HK_ANY_TAG, comm, &found, &probed));
        EXPECT(probed.source > 0 && probed.source < size && probed.bytes <= sizeof memory);
        EXPECT_OK(hk_recv(memory, probed.bytes, HK_BYTE, probed.source, probed.tag, comm, &got));
        EXPECT(got.source == probed.source && got.tag == probed.tag && got.bytes == probed.bytes);
        EXPECT(got.tag == got.source * 1000 + seen[got.source]);
        EXPECT(holds(memory, got.bytes, (unsigned)(got.source * 100 + seen[got.source])));
        seen[got.source]++;
    }
    EXPECT_OK(hk_barrier(comm));
    if (rank == 0) {
        int found = 1;
        EXPECT_OK(hk_iprobe(HK_ANY_SOURCE, HK_ANY_TAG, comm, &found, NULL));
        EXPECT(found == 0);
    }
    return 0;
}

static void test_any_source_any_tag_and_probe(void **state)
{
    (void)state;
    run_each(4, from_anybody);
}

/* A receive for a tag leaves messages of other tags where they are. */
static int tags_apart(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    int64_t words[3] = {10, 20, 30}, got = 0;
    for (int tag = 0; tag < 3 && rank == 0; tag++)
        EXPECT_OK(hk_send(&words[tag], 1, HK_INT64, 1, tag == 2 ? 0x7fffffff : tag, comm));
    if (rank == 1) {
        EXPECT_OK(hk_recv(&got, 1, HK_INT64, 0, 0x7fffffff, comm, NULL));
        EXPECT(got == 30);
        EXPECT_OK(hk_recv(&got, 1, HK_INT64, HK_ANY_SOURCE, 1, comm, NULL));
        EXPECT(got == 20);
        EXPECT_OK(hk_recv(&got, 1, HK_INT64, 0, HK_ANY_TAG, comm, NULL));
        EXPECT(got == 10);
    }
    return 0;
}

static void test_tags_are_kept_apart(void **state)
{
    (void)state;
    run_each(2, tags_apart);
}

/* --- truncation ------------------------------------------------------------------------------------------------------
 */

static int truncated(hk_comm *comm, int rank, void *argument)
{
    static const uint64_t sent[] = {64, 5000, 100000, 1 << 20};
    static unsigned char memory[1 << 20];
    (void)argument;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t bytes = sent[i / 2], room = i / 2 == 0 ? 10 : bytes - 37;
        hk_request *early = NULL;
        hk_message message;
        if (rank == 1 && i % 2)
            EXPECT_OK(hk_irecv(memory, room, HK_BYTE, 0, 1, comm, &early));
        EXPECT_OK(hk_barrier(comm));
        if (rank == 0) {
            fill(memory, bytes, i);
            EXPECT_OK(hk_send(memory, bytes, HK_BYTE, 1, 1, comm));
        } else if (rank == 1) {
            hk_status status =
                early ? hk_wait_message(&early, &message) : hk_recv(memory, room, HK_BYTE, 0, 1, comm, &message);
            EXPECT(status == HK_ERR_TRUNCATED);
            EXPECT_ERROR_NAMES("longer than the buffer");
            EXPECT(message.bytes == bytes && holds(memory, room, i));
        }
        if (rank == 1)
            memset(memory, 0xee, sizeof memory);
    }
    EXPECT_OK(hk_barrier(comm));
    return 0;
}

/* The bytes behind the buffer are not touched: it ends at the end of an allocation, for the address sanitizer. */
static int truncated_tightly(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    for (uint64_t bytes = 8; bytes <= 8 << 16; bytes *= 16) {
        unsigned char *tight = malloc(bytes - 3), *whole = malloc(bytes + 1);
        EXPECT(tight && whole);
        fill(whole, bytes, 1);
        if (rank == 0)
            EXPECT_OK(hk_send(whole, bytes, HK_BYTE, 1, 0, comm));
        else if (rank == 1)
            EXPECT_STATUS(hk_recv(tight, bytes - 3, HK_BYTE, 0, 0, comm, NULL), HK_ERR_TRUNCATED);
        if (rank == 1)
            EXPECT(holds(tight, bytes - 3, 1));
        free(tight);
        free(whole);
    }
    return 0;
}

static void test_a_message_longer_than_the_buffer_is_truncated(void **state)
{
    (void)state;
    run_each(2, truncated);
    run_each(2, truncated_tightly);
}

/* --- to oneself ------------------------------------------------------------------------------------------------------
 */

static int to_oneself(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    for (unsigned i = 0; i < LENGTHS; i++) {
        unsigned char *out = malloc(lengths[i] + 1), *in = malloc(lengths[i] + 1);
        hk_request *request, *second;
        hk_message message;
        EXPECT(out && in);
        fill(out, lengths[i], i);
        EXPECT_OK(hk_isend(out, lengths[i], HK_BYTE, rank, 4, comm, &request)); /* before the receive */
        int found = 0;
        EXPECT_OK(hk_iprobe(rank, 4, comm, &found, &message));
        EXPECT(found && message.bytes == lengths[i] && message.source == rank);
        EXPECT_OK(hk_recv(in, lengths[i], HK_BYTE, i % 2 ? rank : HK_ANY_SOURCE, 4, comm, &message));
        EXPECT(message.source == rank && message.bytes == lengths[i] && holds(in, lengths[i], i));
        EXPECT_OK(hk_wait(&request));
        EXPECT_OK(hk_irecv(in, lengths[i], HK_BYTE, i % 2 ? HK_ANY_SOURCE : rank, 4, comm, &second)); /* after */
        memset(in, 0, lengths[i]);
        EXPECT_OK(hk_send(out, lengths[i], HK_BYTE, rank, 4, comm));
        EXPECT_OK(hk_wait(&second));
        EXPECT(holds(in, lengths[i], i));
        memset(in, 0, lengths[i]);
        EXPECT_OK(hk_sendrecv(out, lengths[i], rank, 1, in, lengths[i], rank, 1, HK_BYTE, comm, &message));
        EXPECT(holds(in, lengths[i], i));
        free(out);
        free(in);
    }
    return 0;
}

static void test_a_rank_may_send_to_itself(void **state)
{
    (void)state;
    assert_int_equal(ranks_run(1, NULL, to_oneself, NULL), 0);
    run_each(3, to_oneself);
}

/* A large send to oneself that nobody takes, and a receive that nothing comes for, are freed with the communicator. */
static int left_over(hk_comm *comm, int rank, void *argument)
{
    hk_comm *other;
    hk_request *request;
    (void)argument;
    char *memory = malloc(1 << 20);
    EXPECT(memory);
    memset(memory, 1, 1 << 20);
    EXPECT_OK(hk_comm_dup(comm, &other));
    EXPECT_OK(hk_isend(memory, 1 << 20, HK_BYTE, rank, 0, other, &request));
    EXPECT_OK(hk_comm_abort(other, "the test ends it"));
    EXPECT_STATUS(hk_wait(&request), HK_ERR_ABORTED);
    memset(memory, 2, 1 << 20);
    free(memory);
    EXPECT_OK(hk_comm_free(other));
    EXPECT_OK(hk_barrier(comm));
    return 0;
}

static void test_sends_that_nobody_takes_end_with_the_communicator(void **state)
{
    (void)state;
    run_each(2, left_over);
}

/* --- rings and many --------------------------------------------------------------------------------------------------
 */

static int ring(hk_comm *comm, int rank, void *argument)
{
    int size = hk_comm_size(comm), next = (rank + 1) % size, previous = (rank + size - 1) % size;
    (void)argument;
    for (unsigned i = 0; i < LENGTHS; i++) {
        unsigned char *out = malloc(lengths[i] + 1), *in = malloc(lengths[i] + 1);
        hk_message message;
        EXPECT(out && in);
        fill(out, lengths[i], (unsigned)rank + i);
        EXPECT_OK(hk_sendrecv(out, lengths[i], next, 1, in, lengths[i], previous, 1, HK_BYTE, comm, &message));
        EXPECT(message.source == previous && message.bytes == lengths[i]);
        EXPECT(holds(in, lengths[i], (unsigned)previous + i));
        free(out);
        free(in);
    }
    return 0;
}

static void test_rings_turn(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 5; ranks++)
        assert_int_equal(ranks_run(ranks, NULL, ring, NULL), 0);
    run_each(3, ring);
}

enum { STORM = RANKS_SANITIZED ? 200 : 1500 };

/* Everyone sends to everyone, receives posted and waited for out of order, tested and waited for in turn. */
static int storm(hk_comm *comm, int rank, void *argument)
{
    int size = hk_comm_size(comm);
    size_t all = (size_t)size * STORM;
    hk_request **sends = calloc(all, sizeof *sends), **receives = calloc(all, sizeof *receives);
    uint64_t(*out)[64] = calloc(all, sizeof *out), (*in)[64] = calloc(all, sizeof *in);
    (void)argument;
    EXPECT(sends && receives && out && in);
    for (size_t i = 0; i < all; i++) {
        int peer = (int)(i % (size_t)size), index = (int)(i / (size_t)size);
        out[i][0] = (uint64_t)rank << 32 | (unsigned)index;
        uint64_t words = (uint64_t)(1 + (index * 5 + peer + rank) % 64);
        for (uint64_t k = 1; k < words; k++)
            out[i][k] = out[i][0] + k;
        EXPECT_OK(hk_isend(out[i], words, HK_UINT64, peer, index % 7, comm, &sends[i]));
    }
    for (size_t i = 0; i < all; i++) {
        int peer = (int)(i % (size_t)size), index = (int)(i / (size_t)size);
        EXPECT_OK(hk_irecv(in[i], 64, HK_UINT64, peer, index % 7, comm, &receives[i]));
    }
    for (size_t i = all; i-- > 0;) {
        int peer = (int)(i % (size_t)size), done = 0;
        unsigned index = (unsigned)(i / (size_t)size);
        if (i % 2)
            EXPECT_OK(hk_wait(&receives[i]));
        while (!(i % 2) && !done)
            EXPECT_OK(hk_test(&receives[i], &done));
        EXPECT(in[i][0] == ((uint64_t)peer << 32 | index));
        uint64_t words = 1 + (index * 5 + (unsigned)peer + (unsigned)rank) % 64;
        EXPECT(words == 1 || in[i][words - 1] == in[i][0] + words - 1);
    }
    EXPECT_OK(hk_wait_all(all, sends));
    free(sends);
    free(receives);
    free(out);
    free(in);
    return 0;
}

static void test_storms_of_messages_arrive(void **state)
{
    (void)state;
    run_each(3, storm);
}

/* Messages for a communicator that the receiver has yet to make, and for one that it has freed. */
static int early_and_late(hk_comm *comm, int rank, void *argument)
{
    (void)argument;
    for (int turn = 0; turn < 50; turn++) {
        hk_comm *other;
        uint64_t word = (uint64_t)turn, got = 0;
        if (rank == 1 && turn % 10 == 0)
            ranks_nap(0.002); /* the message comes before the communicator is there */
        EXPECT_OK(hk_comm_dup(comm, &other));
        if (rank == 0) {
            EXPECT_OK(hk_send(&word, 1, HK_UINT64, 1, 0, other));
            EXPECT_OK(hk_send(&word, 1, HK_UINT64, 1, 7, other)); /* never taken */
        } else if (rank == 1) {
            EXPECT_OK(hk_recv(&got, 1, HK_UINT64, 0, 0, other, NULL));
            EXPECT(got == (uint64_t)turn);
        }
        EXPECT_OK(hk_comm_free(other));
    }
    EXPECT_OK(hk_barrier(comm));
    return 0;
}

static void test_messages_may_come_before_and_after_their_communicator(void **state)
{
    (void)state;
    run_each(2, early_and_late);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_do_not_overtake),
        cmocka_unit_test(test_receives_may_be_posted_first_and_in_any_order),
        cmocka_unit_test(test_any_source_any_tag_and_probe),
        cmocka_unit_test(test_tags_are_kept_apart),
        cmocka_unit_test(test_a_message_longer_than_the_buffer_is_truncated),
        cmocka_unit_test(test_a_rank_may_send_to_itself),
        cmocka_unit_test(test_sends_that_nobody_takes_end_with_the_communicator),
        cmocka_unit_test(test_rings_turn),
        cmocka_unit_test(test_storms_of_messages_arrive),
        cmocka_unit_test(test_messages_may_come_before_and_after_their_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
