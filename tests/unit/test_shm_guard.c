/*
 * Shared memory under bad company: garbage in rings and credits, strangers on the socket, refusal of process_vm_readv,
 * readers that do not read, crowds, forks. Several contexts live in this one process, and one thread drives them.
 */
#include "tests/conformance/pair.h"
#include "transports/shm/shm.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cmocka.h>

extern const hk_transport_ops hk_transport_shm;
static const hk_transport_ops *const ops = &hk_transport_shm;

enum { CROWD = 24 };

typedef struct crowd {
    pair_end end[CROWD];
    hk_link *link[CROWD][CROWD];
    int size;
} crowd;

static void poll_all(crowd *all)
{
    uint32_t ranks[CROWD];
    for (int i = 0; i < all->size; i++)
        (void)ops->poll(all->end[i].transport, ranks, CROWD);
}

static crowd *gather(int size, const char *protocol, bool connected)
{
    crowd *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->size = size;
    for (int i = 0; i < size; i++)
        assert_true(pair_open(&all->end[i], ops, i, size, protocol));
    for (int i = 0; connected && i < size; i++)
        for (int j = 0; j < size; j++)
            if (i != j)
                assert_int_equal(ops->connect(all->end[i].transport, &all->end[j].self, all->end[j].address,
                                              all->end[j].address_bytes, &all->link[i][j]),
                                 HK_OK);
    return all;
}

static void part(crowd *all)
{
    for (int i = 0; i < all->size; i++)
        if (all->end[i].transport != NULL)
            ops->close(all->end[i].transport, 0);
    free(all);
}

static hk_transport_result send_patiently(crowd *all, int from, int to, const void *payload, size_t bytes)
{
    const hk_frame frame = {.kind = 1, .ordinal = (uint32_t)bytes};
    hk_transport_result result = HK_TRANSPORT_AGAIN;
    for (int i = 0; i < 10000 && result == HK_TRANSPORT_AGAIN; i++) {
        result = ops->send(all->link[from][to], &frame, payload, bytes);
        if (result == HK_TRANSPORT_AGAIN)
            poll_all(all);
    }
    return result;
}

static hk_transport_result peek_patiently(crowd *all, int at, int from, hk_arrival *arrival)
{
    hk_transport_result result = HK_TRANSPORT_AGAIN;
    for (int i = 0; i < 10000 && result == HK_TRANSPORT_AGAIN; i++) {
        result = ops->peek(all->link[at][from], arrival);
        if (result == HK_TRANSPORT_AGAIN)
            poll_all(all);
    }
    return result;
}

/* Two contexts, links up; nothing lies in a ring. */
static crowd *couple(void)
{
    hk_arrival arrival;
    crowd *all = gather(2, "auto", true);
    for (int from = 0; from < 2; from++) {
        assert_int_equal(send_patiently(all, from, 1 - from, "x", 1), HK_TRANSPORT_OK);
        assert_int_equal(peek_patiently(all, 1 - from, from, &arrival), HK_TRANSPORT_OK);
        ops->consume(all->link[1 - from][from]);
    }
    return all;
}

/* ---- garbage ---- */

static void malformed_lines_end_the_link_with_a_reason(void **state)
{
    (void)state;
    const struct {
        uint32_t length, bytes, slot;
    } bad[] = {{49, 0, 0},
               {60, 0, 0},
               {62, 0, 0},
               {HKI_LENGTH_WIDE, HKI_WIDE_PAYLOAD + 1, 0},
               {HKI_LENGTH_SLOT, HKI_SLOT_BYTES + 1, 0},
               {HKI_LENGTH_SLOT, 8, 2 + HKI_SPARE_SLOTS},
               {HKI_LENGTH_SLOT, UINT32_MAX, UINT32_MAX}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        crowd *all = couple();
        hk_link *liar = all->link[0][1], *victim = all->link[1][0];
        hk_frame frame = {.kind = 1};
        hki_slot_ref ref = {.wide = {.bytes = bad[i].bytes}, .slot = bad[i].slot};
        hk_arrival arrival;
        const char *reason = NULL;
        memcpy(hki_outbox_line(&liar->out)->payload, &ref, sizeof ref);
        hki_outbox_publish(&liar->out, hki_outbox_line(&liar->out), hki_head(&frame, 0, bad[i].length));
        assert_int_equal(ops->peek(victim, &arrival), HK_TRANSPORT_LOST);
        assert_int_equal(ops->link_state(victim, &reason), HK_LINK_LOST);
        assert_non_null(strstr(reason, "malformed"));
        assert_int_equal(ops->send(victim, &frame, NULL, 0), HK_TRANSPORT_LOST);
        assert_int_equal(ops->peek(victim, &arrival), HK_TRANSPORT_LOST);
        part(all);
    }
}

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33 ^ *state;
}

/* A peer that writes anything at all into what it may write to. Nothing is asserted but that the victim survives it,
 * and reads inside what it may read: the sanitizers judge. */
static void noise_in_ring_and_credit_does_no_harm(void **state)
{
    (void)state;
    uint64_t random = 2024;
    int lost = 0;
    for (int round = 0; round < 300; round++) {
        crowd *all = couple();
        hk_link *liar = all->link[0][1], *victim = all->link[1][0];
        uint32_t ranks[CROWD];
        for (int step = 0; step < 40; step++) {
            uint64_t what = next_random(&random);
            hki_line *line = hki_outbox_line(&liar->out);
            hk_arrival arrival = {.data = NULL};
            for (size_t i = 0; i + 8 <= sizeof line->payload; i += 8) {
                uint64_t word = next_random(&random) >> (what & 63);
                memcpy(line->payload + i, &word, sizeof word);
            }
            hki_outbox_publish(&liar->out, line, next_random(&random) & ~(uint64_t)HKI_MASK_SEQUENCE);
            if (what % 13 == 0)
                atomic_store(&liar->in.credit->lines, (uint32_t)next_random(&random) >> (what & 31));
            if (what % 17 == 0)
                atomic_store(&liar->in.credit->slots, (uint32_t)next_random(&random) >> (what & 31));
            unsigned char sum = 0;
            while (ops->peek(victim, &arrival) == HK_TRANSPORT_OK) {
                for (size_t i = 0; i < arrival.bytes; i++)
                    sum ^= ((const unsigned char *)arrival.data)[i];
                ops->consume(victim);
            }
            (void)ops->send(victim, &(hk_frame){.kind = sum % 16}, line, sizeof *line);
            (void)ops->poll(all->end[1].transport, ranks, CROWD);
            if (ops->arm(all->end[1].transport))
                ops->disarm(all->end[1].transport);
        }
        lost += ops->link_state(victim, NULL) == HK_LINK_LOST;
        part(all);
    }
    assert_true(lost > 250); /* most noise is noticed */
}

static void credit_that_was_never_owed_ends_the_link(void **state)
{
    (void)state;
    for (int slots = 0; slots < 2; slots++) {
        crowd *all = couple();
        static unsigned char payload[HKI_SLOT_BYTES];
        hk_link *liar = all->link[1][0], *victim = all->link[0][1];
        assert_int_equal(send_patiently(all, 0, 1, payload, sizeof payload), HK_TRANSPORT_OK);
        if (slots)
            atomic_store(&liar->in.credit->slots, 50);
        else
            atomic_store(&liar->in.credit->lines, 5000);
        hk_transport_result result = HK_TRANSPORT_OK;
        for (int i = 0; i < 2 * HKI_RING_LINES && result == HK_TRANSPORT_OK; i++)
            result = send_patiently(all, 0, 1, payload, slots ? sizeof payload : 1);
        assert_int_equal(result, HK_TRANSPORT_LOST);
        assert_int_equal(ops->link_state(victim, NULL), HK_LINK_LOST);
        part(all);
    }
}

static void doorbells_of_nobody_are_ignored(void **state)
{
    (void)state;
    crowd *all = couple();
    uint32_t ranks[CROWD];
    atomic_fetch_or(hki_shm_bell(&all->end[0].transport->segment, 0), UINT64_C(0xffff0000fffffffd));
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ops->poll(all->end[0].transport, ranks, CROWD), 0);
    part(all);
}

static void memory_outside_of_what_is_shared_is_not_mapped(void **state)
{
    (void)state;
    crowd *all = couple();
    hk_remote remote;
    uint32_t protocols;
    const void *mapped;
    unsigned char *memory = ops->alloc(all->end[0].transport, 100000);
    assert_int_equal(ops->describe(all->link[0][1], memory, 100000, &remote, &protocols), HK_TRANSPORT_OK);
    assert_int_equal(ops->map(all->link[1][0], &remote, 100000, &mapped), HK_TRANSPORT_OK);
    assert_true(mapped != memory && *(const unsigned char *)mapped == 0);
    remote.word[1] = SIZE_MAX - 10;
    assert_int_equal(ops->map(all->link[1][0], &remote, 100000, &mapped), HK_TRANSPORT_LOST);
    part(all);
}

static void unsealed_and_short_segments_are_not_mapped(void **state)
{
    (void)state;
    size_t bytes = hki_layout_of(4).bytes;
    hki_segment segment;
    int unsealed = memfd_create("unsealed", MFD_ALLOW_SEALING), little = hki_memfd_create("short", bytes - 4096),
        sound = hki_memfd_create("sound", bytes);
    assert_int_equal(ftruncate(unsealed, (off_t)bytes), 0);
    assert_int_equal(hki_segment_attach(&segment, unsealed, 4), EBADMSG);
    assert_int_equal(hki_segment_attach(&segment, little, 4), EBADMSG);
    assert_int_equal(hki_segment_attach(&segment, STDIN_FILENO, 4), EBADMSG);
    assert_int_equal(hki_segment_attach(&segment, sound, 4), 0);
    hki_segment_release(&segment);
    assert_int_not_equal(ftruncate(sound, 4096), 0); /* not even by its owner */
    close(unsealed);
    close(little);
    close(sound);
}

/* ---- strangers ---- */

static void datagrams_of_strangers_change_nothing(void **state)
{
    (void)state;
    crowd *all = gather(2, "auto", true);
    const hk_transport *target = all->end[0].transport;
    int stranger = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned char noise[400];
    uint32_t ranks[4];
    for (unsigned round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof noise; i++)
            noise[i] = (unsigned char)(round * 167 + i * i);
        (void)sendto(stranger, noise, 1 + round * 2, MSG_DONTWAIT, (const struct sockaddr *)&target->address,
                     target->address_bytes);
        (void)ops->poll(all->end[0].transport, ranks, 4);
    }
    assert_int_equal(ops->link_state(all->link[0][1], NULL), HK_LINK_CONNECTING);
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_OK);
    close(stranger);
    part(all);
}

static void a_rank_with_another_token_does_not_connect(void **state)
{
    (void)state;
    crowd *all = gather(2, "auto", true);
    all->end[1].token[31] ^= 1;
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_AGAIN);
    assert_int_equal(ops->link_state(all->link[0][1], NULL), HK_LINK_CONNECTING);
    assert_int_equal(ops->link_state(all->link[1][0], NULL), HK_LINK_CONNECTING);
    part(all);
}

static void a_rank_of_another_host_is_not_reached(void **state)
{
    (void)state;
    crowd *all = gather(2, "auto", false);
    hk_peer away = all->end[1].self;
    hk_link *link = NULL;
    away.host++;
    assert_int_equal(ops->connect(all->end[0].transport, &away, all->end[1].address, all->end[1].address_bytes, &link),
                     HK_ERR_UNSUPPORTED);
    assert_null(link);
    assert_int_equal(all->end[0].status, HK_ERR_UNSUPPORTED);
    assert_non_null(strstr(all->end[0].error, "rank 1"));
    part(all);
}

/* ---- refusal ---- */

static bool refuse_copies(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* Only end 1, the child process, is refused: end 0 can still copy from it. */
static bool refusal_body(pair_end *end)
{
    unsigned char memory[5000];
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    hk_remote mine, theirs;
    uint32_t protocols, ranks[4];
    memset(memory, end->index + 1, sizeof memory);
    CHECK(end->index == 0 || refuse_copies());
    while (ops->describe(end->link, memory, sizeof memory, &mine, &protocols) == HK_TRANSPORT_AGAIN)
        (void)ops->poll(end->transport, ranks, 4);
    CHECK(pair_send(end, &frame, &mine, sizeof mine) == HK_TRANSPORT_OK);
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    CHECK(pair_take(end, &arrival, (unsigned char *)&theirs));
    unsigned char copy[5000] = {0};
    hk_transport_result result = ops->get(end->link, &theirs, 0, copy, sizeof copy);
    CHECK(result == (end->index == 0 ? HK_TRANSPORT_OK : HK_TRANSPORT_REFUSED));
    CHECK(copy[4999] == (end->index == 0 ? 2 : 0));
    CHECK(pair_meet(end));
    result = ops->describe(end->link, memory, sizeof memory, &mine, &protocols);
    CHECK(result == (end->index == 0 ? HK_TRANSPORT_REFUSED : HK_TRANSPORT_OK)); /* not offered any more */
    return pair_meet(end);
}

static void a_refused_copy_is_refused_for_good_and_one_sided(void **state)
{
    (void)state;
    const pair_transport shm = {.name = "shm", .ops = ops};
    assert_true(pair_run(&shm, refusal_body, "get", true));
}

/* The address is right, the process is not: as after the peer's end, when its number is given to another. */
static void a_process_that_is_not_the_peer_is_not_read(void **state)
{
    (void)state;
    unsigned char memory[64] = {7}, copy[64] = {0};
    crowd *all = gather(2, "get", true);
    hk_arrival arrival;
    hk_remote remote;
    uint32_t protocols;
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_OK);
    assert_int_equal(peek_patiently(all, 1, 0, &arrival), HK_TRANSPORT_OK);
    assert_int_equal(ops->describe(all->link[0][1], memory, 64, &remote, &protocols), HK_TRANSPORT_OK);
    all->end[0].transport->nonce ^= 1;
    assert_int_equal(ops->get(all->link[1][0], &remote, 0, copy, 64), HK_TRANSPORT_REFUSED);
    assert_int_equal(copy[0], 0);
    part(all);
}

/* ---- crowds ---- */

static void a_rank_that_does_not_read_holds_up_nobody_else(void **state)
{
    (void)state;
    static unsigned char payload[HKI_SLOT_BYTES];
    crowd *all = gather(5, "auto", true);
    hk_arrival arrival;
    for (int to = 1; to < 5; to++)
        assert_int_equal(send_patiently(all, 0, to, payload, sizeof payload), HK_TRANSPORT_OK);
    for (int to = 1; to < 4; to++) /* three take all the slots that they can get */
        while (ops->send(all->link[0][to], &(hk_frame){.kind = 1}, payload, sizeof payload) == HK_TRANSPORT_OK)
            ;
    for (int i = 0; i < 100; i++) { /* the fourth reads, and is served */
        assert_int_equal(peek_patiently(all, 4, 0, &arrival), HK_TRANSPORT_OK);
        ops->consume(all->link[4][0]);
        assert_int_equal(send_patiently(all, 0, 4, payload, sizeof payload), HK_TRANSPORT_OK);
    }
    part(all);
}

static void all_pairs_of_a_crowd_exchange_lines_and_slots(void **state)
{
    (void)state;
    static unsigned char payload[3000];
    crowd *all = gather(CROWD, "auto", true);
    for (size_t bytes = 5; bytes <= sizeof payload; bytes += sizeof payload - 5) {
        for (int i = 0; i < CROWD; i++) /* the first to send knocks on all doors at once */
            for (int j = 0; j < CROWD; j++) {
                if (i == j)
                    continue;
                memset(payload, i * CROWD + j, sizeof payload);
                assert_int_equal(send_patiently(all, i, j, payload, bytes), HK_TRANSPORT_OK);
            }
        for (int i = 0; i < CROWD; i++)
            for (int j = 0; j < CROWD; j++) {
                hk_arrival arrival;
                if (i == j)
                    continue;
                assert_int_equal(peek_patiently(all, j, i, &arrival), HK_TRANSPORT_OK);
                assert_int_equal(arrival.bytes, bytes);
                assert_int_equal(((const unsigned char *)arrival.data)[bytes - 1], (i * CROWD + j) & 255);
                ops->consume(all->link[j][i]);
            }
    }
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(pair_counter(&all->end[i], "hellos"), CROWD - 1); /* each pair has connected once */
        assert_int_equal(pair_counter(&all->end[i], "lines"), 2 * (CROWD - 1));
        assert_int_equal(pair_counter(&all->end[i], "slots"), CROWD - 1);
    }
    part(all);
}

static void a_knock_may_come_before_connect(void **state)
{
    (void)state;
    crowd *all = gather(2, "auto", false);
    hk_arrival arrival;
    pair_end *end = all->end;
    assert_int_equal(
        ops->connect(end[0].transport, &end[1].self, end[1].address, end[1].address_bytes, &all->link[0][1]), HK_OK);
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_AGAIN);
    assert_int_equal(
        ops->connect(end[1].transport, &end[0].self, end[0].address, end[0].address_bytes, &all->link[1][0]), HK_OK);
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_OK);
    assert_int_equal(peek_patiently(all, 1, 0, &arrival), HK_TRANSPORT_OK);
    part(all);
}

static void a_forked_child_leaves_its_parents_links_alone(void **state)
{
    (void)state;
    crowd *all = couple();
    int status;
    pid_t child = fork();
    if (child == 0) {
        ops->close(all->end[0].transport, 0);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    (void)ops->check(all->end[1].transport);
    assert_int_equal(ops->link_state(all->link[1][0], NULL), HK_LINK_UP);
    assert_int_equal(send_patiently(all, 0, 1, "x", 1), HK_TRANSPORT_OK);
    part(all);
}

/* Ranks leave in order when they have nothing more to do; one that was never needed must harm nobody by it. */
static void the_end_of_a_rank_that_was_never_needed_is_no_loss(void **state)
{
    (void)state;
    crowd *all = gather(2, "auto", false);
    hk_peer gone = all->end[1].self;
    gone.pid = fork();
    if (gone.pid == 0)
        _exit(0);
    assert_int_equal(
        ops->connect(all->end[0].transport, &gone, all->end[1].address, all->end[1].address_bytes, &all->link[0][1]),
        HK_OK);
    usleep(50000);
    for (int i = 0; i < 40; i++) /* a zombie: seen by a thorough check, one in 20 */
        (void)ops->check(all->end[0].transport);
    assert_int_equal(ops->link_state(all->link[0][1], NULL), HK_LINK_GOODBYE);
    waitpid(gone.pid, NULL, 0);
    part(all);
}

/* Gives a piece of end 0's to end 1; returns where end 1 sees it. */
static const unsigned char *share(crowd *all, const void *memory, size_t bytes)
{
    hk_remote remote;
    uint32_t protocols;
    const void *mapped;
    assert_int_equal(ops->describe(all->link[0][1], memory, bytes, &remote, &protocols), HK_TRANSPORT_OK);
    assert_int_equal(ops->map(all->link[1][0], &remote, bytes, &mapped), HK_TRANSPORT_OK);
    return mapped;
}

static void freed_memory_is_unmapped_by_its_readers(void **state)
{
    (void)state;
    enum { BYTES = 3 << 20 };
    crowd *all = couple();
    for (int i = 0; i < 20; i++) {
        unsigned char *memory = ops->alloc(all->end[0].transport, BYTES);
        memory[BYTES - 1] = (unsigned char)i;
        assert_int_equal(share(all, memory, BYTES)[BYTES - 1], i);
        assert_non_null(all->link[1][0]->mappings);
        assert_true(ops->free(all->end[0].transport, memory));
        (void)ops->check(all->end[1].transport);
        assert_null(all->link[1][0]->mappings);
    }
    part(all);
}

static void small_pieces_share_one_mapping_and_are_zero_when_given(void **state)
{
    (void)state;
    enum { PIECES = 300 };
    crowd *all = couple();
    hk_transport *owner = all->end[0].transport;
    unsigned char *piece[PIECES];
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < PIECES; i++) {
            size_t bytes = 1 + i * 53;
            piece[i] = ops->alloc(owner, bytes);
            assert_true(piece[i] != NULL && (uintptr_t)piece[i] % 4096 == 0);
            for (size_t k = 0; k < bytes; k++)
                assert_int_equal(piece[i][k], 0);
            memset(piece[i], (int)i, bytes);
        }
        for (size_t i = 0; i < PIECES; i++) {
            const unsigned char *seen = share(all, piece[i], 1 + i * 53);
            assert_true(seen[0] == (unsigned char)i && seen[i * 53] == (unsigned char)i);
            assert_int_equal(piece[i][i * 53], (unsigned char)i); /* no neighbour has written here */
        }
        assert_null(all->link[1][0]->mappings->next);
        assert_false(ops->free(owner, piece[200] + 4096)); /* inside of a piece */
        assert_false(ops->free(owner, piece[200] + 1));
        for (size_t i = 0; i < PIECES; i++)
            assert_true(ops->free(owner, piece[i * 7 % PIECES]));
        assert_false(ops->free(owner, piece[0])); /* twice */
    }
    part(all);
}

/* ---- threads of one rank ---- */

typedef struct sleeper {
    hk_transport *transport;
    pthread_mutex_t lock; /* as the core's: held but while sleeping */
    bool armed;
} sleeper;

static void *sleep_once(void *argument)
{
    sleeper *s = argument;
    pthread_mutex_lock(&s->lock);
    s->armed = ops->arm(s->transport);
    pthread_mutex_unlock(&s->lock);
    if (s->armed)
        ops->sleep(s->transport, 50000);
    pthread_mutex_lock(&s->lock);
    if (s->armed)
        ops->disarm(s->transport);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* A thread that disarms takes the announcement away; a second one that sleeps must not sleep on unannounced. */
static void who_disarms_rouses_the_other_threads_of_its_rank(void **state)
{
    (void)state;
    enum { NAPS = 30 };
    for (int by_futex = 0; by_futex < 2; by_futex++) {
        crowd *all = by_futex ? couple() : gather(3, "auto", true); /* nobody is connected there */
        sleeper s = {.transport = all->end[0].transport, .lock = PTHREAD_MUTEX_INITIALIZER};
        uint64_t start = pair_now(NULL);
        for (int i = 0; i < NAPS; i++) {
            pthread_t thread;
            assert_int_equal(pthread_create(&thread, NULL, sleep_once, &s), 0);
            while (atomic_load(&s.transport->sleepers) == 0)
                sched_yield();
            pthread_mutex_lock(&s.lock);
            assert_int_equal(atomic_load(&s.transport->by_futex), by_futex);
            ops->disarm(s.transport);
            pthread_mutex_unlock(&s.lock);
            pthread_join(thread, NULL);
            assert_true(s.armed);
        }
        assert_true(pair_now(NULL) - start < UINT64_C(50000000) * NAPS / 2);
        part(all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_lines_end_the_link_with_a_reason),
        cmocka_unit_test(noise_in_ring_and_credit_does_no_harm),
        cmocka_unit_test(credit_that_was_never_owed_ends_the_link),
        cmocka_unit_test(doorbells_of_nobody_are_ignored),
        cmocka_unit_test(memory_outside_of_what_is_shared_is_not_mapped),
        cmocka_unit_test(unsealed_and_short_segments_are_not_mapped),
        cmocka_unit_test(datagrams_of_strangers_change_nothing),
        cmocka_unit_test(a_rank_with_another_token_does_not_connect),
        cmocka_unit_test(a_refused_copy_is_refused_for_good_and_one_sided),
        cmocka_unit_test(a_process_that_is_not_the_peer_is_not_read),
        cmocka_unit_test(a_rank_that_does_not_read_holds_up_nobody_else),
        cmocka_unit_test(all_pairs_of_a_crowd_exchange_lines_and_slots),
        cmocka_unit_test(a_knock_may_come_before_connect),
        cmocka_unit_test(a_forked_child_leaves_its_parents_links_alone),
        cmocka_unit_test(the_end_of_a_rank_that_was_never_needed_is_no_loss),
        cmocka_unit_test(who_disarms_rouses_the_other_threads_of_its_rank),
        cmocka_unit_test(small_pieces_share_one_mapping_and_are_zero_when_given),
        cmocka_unit_test(freed_memory_is_unmapped_by_its_readers),
        cmocka_unit_test(a_rank_of_another_host_is_not_reached),
    };
    return cmocka_run_group_tests_name("shm guard", tests, NULL, NULL);
}
