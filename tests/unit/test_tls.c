/* TLS connections over a socket pair: who is let in, what arrives, and what can be read on the way. */
#include "net/tls.h"

#include "../support/certificates.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const uint8_t good_secret[HKI_TLS_SECRET] = "a secret that only ranks know";
static const uint8_t other_secret[HKI_TLS_SECRET] = "a secret of other ranks";
static const uint8_t no_secret[HKI_TLS_SECRET];
static const hki_tls_settings by_key = {.mode = "required", .certificate = "", .key = "", .authority = ""};
static char directory[] = "/tmp/hocket-tls-XXXXXX";

/* ---- two ends; what they say can be made to pass through the test, as a wire_tap ---- */

typedef struct pair {
    hki_tls_context *context[2];
    int fd[2];
    hki_tls *tls[2]; /* client, server */
    hki_tls_state state[2];
} pair;

static hki_tls_context *make(const hki_tls_settings *settings, const uint8_t *secret)
{
    char reason[HKI_TLS_REASON] = "";
    hki_tls_context *context;
    hki_tls_made made = hki_tls_context_make(settings, secret, &context, reason);
    if (made != HKI_TLS_MADE)
        fail_msg("no context: %s", reason);
    return context;
}

static void join(pair *both, hki_tls_context *client, hki_tls_context *server)
{
    int small = 8192;
    memset(both, 0, sizeof *both);
    both->context[0] = client;
    both->context[1] = server;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both->fd), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(setsockopt(both->fd[i], SOL_SOCKET, SO_SNDBUF, &small, sizeof small), 0);
        both->tls[i] = hki_tls_new(both->context[i], both->fd[i], i == 1);
        assert_non_null(both->tls[i]);
    }
}

static void shake(pair *both)
{
    both->state[0] = both->state[1] = HKI_TLS_AGAIN;
    for (int i = 0; i < 40; i++) {
        bool writing;
        if (both->state[i % 2] == HKI_TLS_AGAIN)
            both->state[i % 2] = hki_tls_step(both->tls[i % 2], &writing);
    }
}

static void part(pair *both)
{
    for (int i = 0; i < 2; i++) {
        hki_tls_free(both->tls[i]);
        if (both->fd[i] >= 0)
            close(both->fd[i]);
        hki_tls_context_free(both->context[i]);
    }
}

static void join_by_key(pair *both)
{
    join(both, make(&by_key, good_secret), make(&by_key, good_secret));
    shake(both);
    assert_int_equal(both->state[0], HKI_TLS_READY);
    assert_int_equal(both->state[1], HKI_TLS_READY);
}

static ssize_t say(pair *both, int end, const void *bytes, size_t count)
{
    return hki_tls_send(both->tls[end], &(struct iovec){(void *)(uintptr_t)bytes, count}, 1);
}

static ssize_t hear(pair *both, int end, void *to, size_t room)
{
    return hki_tls_receive(both->tls[end], &(struct iovec){to, room}, 1);
}

/* ---- what arrives ---- */

static uint8_t content(size_t at, int end)
{
    return (uint8_t)((at * 2654435761u) >> 11) ^ (uint8_t)(end * 0x55);
}

typedef struct flow {
    size_t sent, received;
    uint8_t *out; /* all that this end sends */
    unsigned random;
} flow;

static size_t draw(flow *one, size_t below)
{
    one->random = one->random * 1664525u + 1013904223u;
    return (one->random >> 8) % below;
}

/* Sends the next bytes in three pieces of random lengths; never others than those that are committed. */
static void push(pair *both, int end, flow *one, size_t total)
{
    size_t left = total - one->sent;
    struct iovec pieces[3];
    for (int i = 0; i < 3; i++) {
        size_t bytes = draw(one, i == 1 ? 70000 : 40);
        bytes = bytes < left ? bytes : left;
        pieces[i] = (struct iovec){one->out + (total - left), bytes};
        left -= bytes;
    }
    if (hki_tls_committed(both->tls[end])) /* at least what was offered before */
        pieces[0] = (struct iovec){one->out + one->sent, total - one->sent}, pieces[1].iov_len = pieces[2].iov_len = 0;
    ssize_t sent = hki_tls_send(both->tls[end], pieces, 3);
    assert_true(sent >= 0 || errno == EAGAIN);
    one->sent += sent > 0 ? (size_t)sent : 0;
}

static void pull(pair *both, int end, flow *one)
{
    static uint8_t room[50000];
    size_t first = 1 + draw(one, 100);
    struct iovec pieces[2] = {{room, first}, {room + first, 1 + draw(one, sizeof room - first)}};
    ssize_t got = hki_tls_receive(both->tls[end], pieces, 2);
    assert_true(got > 0 || (got < 0 && errno == EAGAIN));
    for (ssize_t i = 0; i < got; i++)
        assert_int_equal(room[i], content(one->received + (size_t)i, 1 - end));
    one->received += got > 0 ? (size_t)got : 0;
}

static void exchange(pair *both, size_t total)
{
    flow flows[2] = {{.random = 1}, {.random = 2}};
    for (int end = 0; end < 2; end++) {
        flows[end].out = malloc(total);
        for (size_t i = 0; i < total; i++)
            flows[end].out[i] = content(i, end);
    }
    while (flows[0].received < total || flows[1].received < total)
        for (int end = 0; end < 2; end++) {
            if (flows[end].sent < total)
                push(both, end, &flows[end], total);
            if (flows[end].received < total)
                pull(both, end, &flows[end]);
        }
    free(flows[0].out);
    free(flows[1].out);
}

static void bytes_arrive_through_a_narrow_socket(void **state)
{
    (void)state;
    pair both;
    join_by_key(&both);
    exchange(&both, 3000000);
    part(&both);
}

static void bytes_arrive_while_keys_are_renewed(void **state)
{
    (void)state;
    pair both;
    join_by_key(&both);
    hki_tls_set_records_per_key(both.tls[0], 3);
    hki_tls_set_records_per_key(both.tls[1], 1);
    exchange(&both, 1000000);
    part(&both);
}

typedef struct sender {
    pair *both;
    int end;
    size_t total;
} sender;

static void *send_all(void *argument)
{
    sender *self = argument;
    uint8_t *out = malloc(self->total);
    for (size_t i = 0; i < self->total; i++)
        out[i] = content(i, self->end);
    for (size_t sent = 0; sent < self->total;) {
        ssize_t part = say(self->both, self->end, out + sent, self->total - sent);
        sent += part > 0 ? (size_t)part : 0;
        if (part < 0)
            usleep(100);
    }
    free(out);
    return NULL;
}

/* As the control thread sends what is owed while the caller receives. */
static void one_thread_sends_while_another_receives(void **state)
{
    (void)state;
    pair both;
    join_by_key(&both);
    sender senders[2] = {{&both, 0, 500000}, {&both, 1, 500000}};
    pthread_t threads[2];
    flow flows[2] = {{.random = 3}, {.random = 4}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, send_all, &senders[i]), 0);
    while (flows[0].received < senders[1].total || flows[1].received < senders[0].total)
        for (int end = 0; end < 2; end++)
            if (flows[end].received < senders[1 - end].total)
                pull(&both, end, &flows[end]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    part(&both);
}

static void an_end_is_seen_after_all_that_came_before(void **state)
{
    (void)state;
    pair both;
    uint8_t room[16];
    join_by_key(&both);
    assert_int_equal(say(&both, 0, "last", 4), 4);
    hki_tls_free(both.tls[0]);
    close(both.fd[0]);
    both.tls[0] = NULL;
    both.fd[0] = -1;
    assert_true(say(&both, 1, "into the void", 13) < 0); /* and no SIGPIPE */
    assert_int_equal(errno, EPIPE);
    assert_int_equal(hear(&both, 1, room, sizeof room), 4);
    assert_memory_equal(room, "last", 4);
    assert_int_equal(hear(&both, 1, room, sizeof room), 0);
    part(&both);
}

/* ---- what lies on the wire ---- */

static void nothing_is_readable_on_the_way(void **state)
{
    (void)state;
    static const char words[] = "forty-two gradients, all of them secret";
    pair both;
    uint8_t wire[4096];
    join_by_key(&both);
    assert_int_equal(say(&both, 0, words, sizeof words), (int)sizeof words);
    ssize_t bytes = recv(both.fd[1], wire, sizeof wire, 0);
    assert_true(bytes > (ssize_t)sizeof words);
    assert_null(memmem(wire, (size_t)bytes, words, 9));
    part(&both);
}

static void what_is_changed_on_the_way_is_refused(void **state)
{
    (void)state;
    for (size_t at = 0; at < 40; at += 3) {
        pair both;
        uint8_t wire[4096], room[64];
        int middle[2];
        join_by_key(&both);
        assert_int_equal(say(&both, 0, "thirty bytes, one is falsified", 30), 30);
        ssize_t bytes = recv(both.fd[1], wire, sizeof wire, 0);
        assert_true(bytes > (ssize_t)at + 5);
        wire[5 + at] ^= 1; /* behind the record's header */
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, middle), 0);
        assert_int_equal(dup2(middle[0], both.fd[1]), both.fd[1]);
        assert_int_equal(send(middle[1], wire, (size_t)bytes, 0), bytes);
        assert_int_equal(hear(&both, 1, room, sizeof room), -1);
        assert_int_equal(errno, EPROTO);
        assert_int_equal(hear(&both, 1, room, sizeof room), -1); /* and stays so */
        assert_int_equal(errno, EPROTO);
        close(middle[0]);
        close(middle[1]);
        part(&both);
    }
}

/* ---- who is let in ---- */

static void another_key_is_refused(void **state)
{
    (void)state;
    pair both;
    join(&both, make(&by_key, other_secret), make(&by_key, good_secret));
    shake(&both);
    assert_int_equal(both.state[0], HKI_TLS_FAILED);
    assert_int_equal(both.state[1], HKI_TLS_FAILED);
    assert_non_null(strstr(hki_tls_reason(both.tls[0]), "another job key"));
    assert_non_null(strstr(hki_tls_reason(both.tls[1]), "another job key"));
    part(&both);
}

typedef struct paths {
    char certificate[64], key[64], authority[64];
    hki_tls_settings settings;
} paths;

static const hki_tls_settings *certified(paths *to, const char *name, const char *authority)
{
    snprintf(to->certificate, sizeof to->certificate, "%s/%s.pem", directory, name);
    snprintf(to->key, sizeof to->key, "%s/%s.key", directory, name);
    snprintf(to->authority, sizeof to->authority, "%s/%s.pem", directory, authority);
    to->settings = (hki_tls_settings){"required", to->certificate, to->key, to->authority};
    return &to->settings;
}

/* Whether both ends come to talk; why[] has what they say otherwise. */
static bool meet(const hki_tls_settings *client, const hki_tls_settings *server, char why[2][HKI_TLS_REASON])
{
    pair both;
    uint8_t room[8];
    join(&both, make(client, good_secret), make(server, good_secret));
    shake(&both);
    bool talk = both.state[1] == HKI_TLS_READY && say(&both, 1, "word", 4) == 4 && hear(&both, 0, room, 8) == 4;
    if (both.state[0] == HKI_TLS_READY && !talk)
        assert_true(hear(&both, 0, room, sizeof room) <= 0); /* a client learns of its refusal so */
    for (int i = 0; i < 2; i++)
        snprintf(why[i], HKI_TLS_REASON, "%s", hki_tls_reason(both.tls[i]));
    part(&both);
    return talk;
}

static void certificates_of_the_authority_are_let_in_and_no_others(void **state)
{
    (void)state;
    paths good, stranger, expired, elsewhere;
    char why[2][HKI_TLS_REASON];
    certified(&good, "good", "ca");
    certified(&stranger, "stranger", "ca");
    certified(&expired, "expired", "ca");
    certified(&elsewhere, "good", "other");
    assert_true(meet(&good.settings, &good.settings, why));
    assert_false(meet(&stranger.settings, &good.settings, why));
    assert_non_null(strstr(why[1], "issuer"));
    assert_false(meet(&good.settings, &stranger.settings, why));
    assert_non_null(strstr(why[0], "issuer"));
    assert_false(meet(&expired.settings, &good.settings, why));
    assert_non_null(strstr(why[1], "expired"));
    assert_false(meet(&good.settings, &expired.settings, why));
    assert_non_null(strstr(why[0], "expired"));
    assert_false(meet(&elsewhere.settings, &good.settings, why));
    assert_false(meet(&good.settings, &elsewhere.settings, why));
}

static void a_key_does_not_stand_for_a_certificate(void **state)
{
    (void)state;
    paths good;
    char why[2][HKI_TLS_REASON];
    certified(&good, "good", "ca");
    assert_false(meet(&by_key, &good.settings, why));
    assert_false(meet(&good.settings, &by_key, why));
}

/* ---- ends of other kinds ---- */

static void an_end_without_tls_is_told(void **state)
{
    (void)state;
    pair both;
    bool writing;
    uint8_t answer[16];
    join(&both, make(&by_key, good_secret), make(&by_key, good_secret));
    assert_int_equal(send(both.fd[0], "hocket", 6, 0), 6);
    assert_int_equal(hki_tls_step(both.tls[1], &writing), HKI_TLS_FAILED);
    assert_non_null(strstr(hki_tls_reason(both.tls[1]), "HOCKET_TLS"));
    assert_int_equal(recv(both.fd[0], answer, sizeof answer, 0), 7);
    assert_int_equal(answer[0], HKI_TLS_ALERT);
    part(&both);
    join(&both, make(&by_key, good_secret), make(&by_key, good_secret));
    assert_int_equal(hki_tls_step(both.tls[0], &writing), HKI_TLS_AGAIN);
    hki_tls_decline(both.fd[1]);
    assert_int_equal(hki_tls_step(both.tls[0], &writing), HKI_TLS_FAILED);
    assert_non_null(strstr(hki_tls_reason(both.tls[0]), "HOCKET_TLS"));
    part(&both);
}

static void versions_below_1_3_are_refused(void **state)
{
    (void)state;
    /* ClientHello of TLS 1.2: random, no session, one cipher suite, no compression, no extensions. */
    uint8_t hello[5 + 4 + 2 + 32 + 1 + 4 + 2] = {HKI_TLS_HANDSHAKE, 3, 1, 0, sizeof hello - 5, 1, 0, 0,
                                                 sizeof hello - 9,  3, 3};
    static const uint8_t ending[] = {0, 0, 2, 0xc0, 0x2f, 1, 0};
    uint8_t answer[16];
    pair both;
    bool writing;
    memcpy(hello + sizeof hello - sizeof ending, ending, sizeof ending);
    join(&both, make(&by_key, good_secret), make(&by_key, good_secret));
    assert_int_equal(send(both.fd[0], hello, sizeof hello, 0), (int)sizeof hello);
    assert_int_equal(hki_tls_step(both.tls[1], &writing), HKI_TLS_FAILED);
    assert_int_equal(recv(both.fd[0], answer, sizeof answer, 0), 7);
    assert_int_equal(answer[6], 70); /* protocol_version */
    part(&both);
}

static void garbage_and_silence_end_a_handshake(void **state)
{
    (void)state;
    for (unsigned how = 0; how < 64; how++) {
        pair both;
        bool writing;
        uint8_t garbage[300];
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = content(i, (int)how);
        garbage[0] = HKI_TLS_HANDSHAKE;
        join(&both, make(&by_key, good_secret), make(&by_key, good_secret));
        if (how % 2 == 0)
            assert_int_equal(send(both.fd[0], garbage, how * 4, 0), (int)how * 4);
        shutdown(both.fd[0], SHUT_WR);
        hki_tls_state end = hki_tls_step(both.tls[1], &writing);
        assert_true(end == HKI_TLS_FAILED || end == HKI_TLS_HUNG_UP);
        part(&both);
    }
}

/* ---- settings ---- */

static void expect_refusal(const hki_tls_settings *settings, const uint8_t *secret, const char *part)
{
    char reason[HKI_TLS_REASON] = "";
    hki_tls_context *context;
    assert_int_equal(hki_tls_context_make(settings, secret, &context, reason), HKI_TLS_SETTING);
    assert_null(context);
    if (strstr(reason, part) == NULL)
        fail_msg("\"%s\" does not name %s", reason, part);
}

static void settings_that_do_not_fit_are_named(void **state)
{
    (void)state;
    paths good, open, mixed;
    char reason[HKI_TLS_REASON], key[64];
    hki_tls_context *context;
    const hki_tls_settings off = {"off", "", "", ""}, odd = {"yes", "", "", ""};
    assert_int_equal(hki_tls_context_make(&off, good_secret, &context, reason), HKI_TLS_OFF);
    expect_refusal(&odd, good_secret, "HOCKET_TLS=yes");
    expect_refusal(&by_key, no_secret, "HOCKET_KEY_FILE");
    certified(&good, "good", "ca");
    good.settings.mode = "off";
    expect_refusal(&good.settings, good_secret, "HOCKET_TLS is off");
    good.settings = (hki_tls_settings){"required", good.certificate, good.key, ""};
    expect_refusal(&good.settings, good_secret, "HOCKET_TLS_CA");
    certified(&good, "none", "ca");
    expect_refusal(&good.settings, good_secret, "none.key");
    certified(&mixed, "good", "ca");
    snprintf(key, sizeof key, "%s/stranger.key", directory);
    mixed.settings.key = key;
    expect_refusal(&mixed.settings, good_secret, "HOCKET_TLS_KEY");
    certified(&open, "expired", "ca");
    assert_int_equal(chmod(open.key, 0644), 0);
    expect_refusal(&open.settings, good_secret, "chmod");
    assert_int_equal(chmod(open.key, 0600), 0);
}

static int make_files(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL && certificates_make(directory) ? 0 : -1;
}

static int remove_files(void **state)
{
    (void)state;
    return certificates_remove(directory) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_arrive_through_a_narrow_socket),
        cmocka_unit_test(bytes_arrive_while_keys_are_renewed),
        cmocka_unit_test(one_thread_sends_while_another_receives),
        cmocka_unit_test(an_end_is_seen_after_all_that_came_before),
        cmocka_unit_test(nothing_is_readable_on_the_way),
        cmocka_unit_test(what_is_changed_on_the_way_is_refused),
        cmocka_unit_test(another_key_is_refused),
        cmocka_unit_test(certificates_of_the_authority_are_let_in_and_no_others),
        cmocka_unit_test(a_key_does_not_stand_for_a_certificate),
        cmocka_unit_test(an_end_without_tls_is_told),
        cmocka_unit_test(versions_below_1_3_are_refused),
        cmocka_unit_test(garbage_and_silence_end_a_handshake),
        cmocka_unit_test(settings_that_do_not_fit_are_named),
    };
    char reason[HKI_TLS_REASON];
    hki_tls_context *context;
    if (hki_tls_context_make(&by_key, good_secret, &context, reason) != HKI_TLS_MADE) {
        fprintf(stderr, "%s\n", reason);
        return 77;
    }
    hki_tls_context_free(context);
    return cmocka_run_group_tests_name("tls", tests, make_files, remove_files);
}
