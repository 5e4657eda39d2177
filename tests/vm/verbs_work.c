/*
 * What messages cost on a real verbs device, by the transport's counters and by the device's own: a small one is one
 * inline work request, a large one is written from where it lies.
 */
#include "comm/inspect.h"

#include "../support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* What rank 0 sends in turns with rank 1, or to it. */
typedef struct traffic {
    size_t bytes;
    int messages;
    bool mapped; /* memory from hk_alloc */
    int *place;  /* where the ranks meet without the library */
} traffic;

/* This rank's counters, and the packets that the device has sent for both ranks. */
typedef struct work {
    uint64_t frames, requests, in_line, written, copied; /* requests: but for those that return credit, or probe */
    uint64_t packets;
} work;

static uint64_t device_counter(const char *name)
{
    char path[128];
    unsigned long long value = 0;
    snprintf(path, sizeof path, "/sys/class/infiniband/rxe0/ports/1/hw_counters/%s", name);
    FILE *file = fopen(path, "re");
    EXPECT(file && fscanf(file, "%llu", &value) == 1);
    fclose(file);
    return value;
}

static uint64_t counter(const hk_comm *comm, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "verbs.%s", name);
    uint64_t value = hki_comm_counter(comm, full);
    EXPECT(value != UINT64_MAX);
    return value;
}

static work work_so_far(const hk_comm *comm)
{
    ranks_nap(0.05); /* the kernel reads a device's counters anew after 10 ms ("lifespan") */
    return (work){.frames = counter(comm, "frames_sent"),
                  .requests = counter(comm, "work_requests") - counter(comm, "credits") - counter(comm, "probes"),
                  .in_line = counter(comm, "inline_sends"),
                  .written = counter(comm, "bytes_written"),
                  .copied = counter(comm, "bytes_copied"),
                  .packets = device_counter("sent_pkts")};
}

static work work_since(const hk_comm *comm, const work *before)
{
    work now = work_so_far(comm);
    return (work){.frames = now.frames - before->frames,
                  .requests = now.requests - before->requests,
                  .in_line = now.in_line - before->in_line,
                  .written = now.written - before->written,
                  .copied = now.copied - before->copied,
                  .packets = now.packets - before->packets};
}

static void exchange(const traffic *what, hk_comm *comm, int rank, unsigned char *memory)
{
    for (int i = 0; i < what->messages; i++) {
        memset(memory, rank == 0 ? i + 1 : 0, what->bytes);
        if (rank == 0)
            EXPECT_OK(hk_send(memory, what->bytes, HK_UINT8, 1, 0, comm));
        EXPECT_OK(hk_recv(memory, what->bytes, HK_UINT8, 1 - rank, 0, comm, NULL));
        EXPECT(memory[0] == (unsigned char)(i + 1) && memory[what->bytes - 1] == (unsigned char)(i + 1));
        if (rank == 1)
            EXPECT_OK(hk_send(memory, what->bytes, HK_UINT8, 0, 0, comm));
    }
}

static void show(const traffic *what, const work *took)
{
    printf(
        "  %d of %zu B: %llu frames, %llu work requests, %llu inline, %llu B written, %llu B copied, %llu packets both "
        "ways\n",
        what->messages, what->bytes, (unsigned long long)took->frames, (unsigned long long)took->requests,
        (unsigned long long)took->in_line, (unsigned long long)took->written, (unsigned long long)took->copied,
        (unsigned long long)took->packets);
    fflush(stdout); /* the rank may end by _exit */
}

/* What `messages` of them took; all ranks are quiet before and after. */
static work measure(const traffic *what, hk_comm *comm, int rank)
{
    void *memory = malloc(what->bytes);
    if (what->mapped) {
        free(memory);
        EXPECT_OK(hk_alloc(comm, what->bytes, &memory));
    }
    exchange(&(traffic){.bytes = what->bytes, .messages = 2}, comm, rank, memory); /* connects */
    ranks_meet(what->place, 2);
    work before = work_so_far(comm);
    ranks_meet(what->place, 2);
    exchange(what, comm, rank, memory);
    ranks_meet(what->place, 2);
    work took = work_since(comm, &before);
    if (what->mapped)
        EXPECT_OK(hk_free(comm, memory));
    else
        free(memory);
    if (rank == 0)
        show(what, &took);
    return took;
}

static int sends_small(hk_comm *comm, int rank, void *argument)
{
    const traffic *what = argument;
    uint64_t messages = (uint64_t)what->messages;
    work took = measure(what, comm, rank);
    EXPECT(took.frames == messages && took.requests == messages && took.in_line == messages);
    EXPECT(took.copied == 0);
    /* One packet and its acknowledgement each, both ways, and as many again at most for credit and what is
     * repeated. */
    EXPECT(took.packets >= 2 * messages && took.packets <= 8 * messages);
    return 0;
}

static void a_small_message_is_one_inline_work_request(void **state)
{
    static const size_t sizes[] = {1, 8, 64, 200};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        traffic what = {.bytes = sizes[i], .messages = 100, .place = ranks_shared(sizeof(int))};
        assert_int_equal(ranks_run(2, NULL, sends_small, &what), 0);
    }
}

static int sends_eager(hk_comm *comm, int rank, void *argument)
{
    const traffic *what = argument;
    uint64_t messages = (uint64_t)what->messages;
    work took = measure(what, comm, rank);
    /* The core gives back credit for what came unasked, by frames of its own, which are small. */
    EXPECT(took.requests == took.frames && took.frames - took.in_line == messages && took.in_line <= messages / 8);
    EXPECT(took.copied == messages * what->bytes);
    return 0;
}

static void a_message_that_is_too_long_for_that_is_one_work_request_and_one_copy(void **state)
{
    traffic what = {.bytes = 4096, .messages = 50, .place = ranks_shared(sizeof(int))};
    (void)state;
    assert_int_equal(ranks_run(2, NULL, sends_eager, &what), 0);
}

static int sends_large(hk_comm *comm, int rank, void *argument)
{
    const traffic *what = argument;
    enum { AROUND = 1024 }; /* announcements and grants of a message */
    uint64_t bytes = (uint64_t)what->messages * what->bytes;
    work took = measure(what, comm, rank);
    EXPECT(took.written >= bytes && took.written <= bytes + (uint64_t)what->messages * AROUND);
    EXPECT(took.copied <= (uint64_t)what->messages * AROUND);
    EXPECT(took.packets * 4096 >= 2 * bytes); /* the longest payload of a packet */
    return 0;
}

static void a_large_message_is_written_from_where_it_lies(void **state)
{
    (void)state;
    for (int mapped = 0; mapped < 2; mapped++) {
        traffic what = {.bytes = 1 << 20, .messages = 4, .mapped = mapped != 0, .place = ranks_shared(sizeof(int))};
        assert_int_equal(ranks_run(2, NULL, sends_large, &what), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_message_is_one_inline_work_request),
        cmocka_unit_test(a_message_that_is_too_long_for_that_is_one_work_request_and_one_copy),
        cmocka_unit_test(a_large_message_is_written_from_where_it_lies),
    };
    return cmocka_run_group_tests_name("work on a verbs device", tests, NULL, NULL);
}
