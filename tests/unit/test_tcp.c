/* What TCP does beyond what every transport must: simultaneous connections, strangers, no route, no key, forks. */
#include "net/handshake.h"
#include "net/interfaces.h"
#include "net/socket.h"
#include "net/wire.h"
#include "tests/conformance/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include <cmocka.h>

extern const hk_transport_ops hk_transport_tcp;
static const pair_transport plain = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1", false};
static const pair_transport plain_narrow = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1 SOCKET_BUFFER=64K", true};
static const pair_transport *local = &plain, *narrow = &plain_narrow; /* of the tests that run */

enum { ADDRESSES_AT = 16 }; /* in what a transport publishes */

static bool exchange(pair_end *end, uint32_t value)
{
    hk_frame frame = {.operation = value};
    hk_arrival arrival;
    CHECK(pair_send(end, &frame, &value, sizeof value) == HK_TRANSPORT_OK);
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
    uint32_t other;
    CHECK(arrival.bytes == sizeof other && pair_take(end, &arrival, (unsigned char *)&other) && other == value);
    return true;
}

/* ---- simultaneous connections ---- */

static bool dial_at_once(pair_end *end)
{
    CHECK(pair_meet(end));
    for (uint32_t i = 0; i < 10; i++)
        CHECK(exchange(end, i));
    CHECK(pair_counter(end, "connections") == 1);
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_UP);
    return pair_meet(end);
}

static void of_two_dials_at_once_one_connection_comes(void **state)
{
    (void)state;
    for (int i = 0; i < 60; i++)
        assert_true(pair_run(local, dial_at_once, "", i % 3 == 0));
}

/* One end waits before it even looks: the other's dial alone makes the connection, without its help. */
static bool dial_from_one_end(pair_end *end)
{
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    if (end->index == 0) {
        CHECK(pair_send(end, &frame, "x", 1) == HK_TRANSPORT_OK);
        CHECK(pair_meet(end));
        return pair_meet(end);
    }
    CHECK(pair_meet(end)); /* the frame has been sent by now */
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK && arrival.bytes == 1);
    return pair_meet(end);
}

static void a_rank_that_does_not_call_is_connected_to(void **state)
{
    (void)state;
    assert_true(pair_run(local, dial_from_one_end, "", false));
    assert_true(pair_run(local, dial_from_one_end, "", true));
}

/* ---- what was accepted leaves without the sender's help ---- */

static bool owe_body(pair_end *end)
{
    enum { BYTES = 60000 };
    static unsigned char payload[BYTES], taken[BYTES];
    hk_frame frame = {.kind = 1};
    hk_arrival arrival;
    uint32_t sent = 0, ranks[4];
    if (end->index == 0) {
        uint64_t deadline = pair_now(NULL) + UINT64_C(60000000000);
        while (pair_counter(end, "partial_sends") == 0 && pair_now(NULL) < deadline) {
            sent += end->ops->send(end->link, &frame, payload, BYTES) == HK_TRANSPORT_OK;
            (void)end->ops->poll(end->transport, ranks, 4);
        }
        CHECK(pair_counter(end, "partial_sends") > 0);
        CHECK(write(end->channel, &sent, sizeof sent) == sizeof sent);
        return pair_meet(end); /* and calls nothing until all has been read */
    }
    CHECK(read(end->channel, &sent, sizeof sent) == sizeof sent);
    for (uint32_t i = 0; i < sent; i++) {
        CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_OK);
        CHECK(pair_take(end, &arrival, taken));
    }
    return pair_meet(end);
}

static void what_was_accepted_leaves_by_itself(void **state)
{
    (void)state;
    assert_true(pair_run(narrow, owe_body, "", true));
}

/* ---- leaving a peer that reads no more ---- */

/* It would wait a minute, were it not for what the kernel tells of the connection. */
static bool leave_a_full_link(pair_end *end)
{
    enum { BYTES = 60000, PATIENCE = 60 };
    static unsigned char payload[BYTES];
    hk_frame frame = {.kind = 1};
    char word = 0;
    CHECK(exchange(end, 1));
    if (end->index == 1)
        return read(end->channel, &word, 1) == 1;
    while (pair_counter(end, "partial_sends") == 0)
        (void)end->ops->send(end->link, &frame, payload, BYTES);
    uint64_t begin = pair_now(NULL);
    end->ops->close(end->transport, PATIENCE);
    end->closed = true;
    CHECK(pair_now(NULL) - begin < UINT64_C(1000000000) * PATIENCE / 2);
    return write(end->channel, &word, 1) == 1;
}

static void a_peer_that_reads_no_more_is_left_before_the_time_is_up(void **state)
{
    (void)state;
    assert_true(pair_run(narrow, leave_a_full_link, "", true));
}

/* ---- strangers ---- */

static int call_on(const pair_end *end)
{
    hki_address address;
    if (!hki_address_from_wire(end->other_address + ADDRESSES_AT, &address))
        return -1;
    int fd = hki_socket_connect(&address, 0);
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    if (fd >= 0)
        (void)poll(&ready, 1, 5000);
    return fd;
}

/* Says something that is not a handshake, or part of one, or one without the key. Returns the socket. */
static int be_rude(pair_end *end, int how)
{
    hki_handshake shake;
    uint8_t wrong_key[HKI_HANDSHAKE_KEY] = {1}, noise[200];
    hki_parties parties = {.client_rank = (uint32_t)end->index,
                           .server_rank = (uint32_t)end->other.rank,
                           .client_id = end->self.context,
                           .server_id = end->other.context};
    int fd = call_on(end);
    hki_stream stream = {.fd = fd};
    memset(noise, 0xa5 + how, sizeof noise);
    if (fd < 0 || !hki_handshake_client(&shake, &stream, HKI_PURPOSE_LINK, &parties, wrong_key))
        return fd;
    if (how % 5 == 0)
        (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    else if (how % 5 == 1)
        (void)!send(fd, shake.hello, (size_t)how % HKI_HELLO_BYTES, MSG_NOSIGNAL);
    else if (how % 5 == 2)
        for (int i = 0; i < 50 && hki_handshake_step(&shake) == HKI_SHAKE_AGAIN; i++)
            usleep(100);
    else if (how % 5 == 3) {
        (void)!send(fd, shake.hello, sizeof shake.hello, MSG_NOSIGNAL);
        (void)!send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    }
    return fd;
}

static bool rude_body(pair_end *end)
{
    enum { STRANGERS = 1000, SILENT = 100 };
    int silent[SILENT] = {0};
    CHECK(exchange(end, 7));
    for (int i = 0; i < STRANGERS; i++) {
        if (end->index == 1) {
            int fd = be_rude(end, i);
            CHECK(fd >= 0);
            if (silent[i % SILENT] > 0)
                close(silent[i % SILENT]);
            silent[i % SILENT] = fd; /* some say nothing for a long time */
        }
        if (i % 10 == 0)
            CHECK(exchange(end, (uint32_t)i));
    }
    for (int i = 0; end->index == 1 && i < SILENT; i++)
        close(silent[i]);
    CHECK(end->ops->link_state(end->link, NULL) == HK_LINK_UP);
    CHECK(pair_counter(end, "connections") == 1);
    CHECK(end->index == 1 || pair_counter(end, "refused") > STRANGERS / 2);
    return pair_meet(end);
}

static void strangers_change_nothing(void **state)
{
    (void)state;
    assert_true(pair_run(local, rude_body, "", true));
}

/* The door is open to the peer although strangers hold it. */
static bool crowded_body(pair_end *end)
{
    enum { STRANGERS = 300 };
    int fd[STRANGERS];
    for (int i = 0; end->index == 1 && i < STRANGERS; i++)
        CHECK((fd[i] = call_on(end)) >= 0);
    CHECK(pair_meet(end));
    CHECK(exchange(end, 1));
    CHECK(end->index == 1 || pair_counter(end, "refused") > 0); /* some had to make room */
    for (int i = 0; end->index == 1 && i < STRANGERS; i++)
        close(fd[i]);
    return pair_meet(end);
}

static void silent_strangers_do_not_keep_the_peer_out(void **state)
{
    (void)state;
    assert_true(pair_run(local, crowded_body, "", true));
}

/* ---- no way ---- */

static size_t fabricate(unsigned char *address, const char *text, uint16_t port)
{
    hki_address one;
    memset(address, 0, 512);
    assert_true(hki_address_parse(text, &one));
    one.port = port;
    address[0] = address[1] = 1;
    hki_wire_put64(address + 8, 1); /* another machine */
    hki_address_to_wire(&one, address + ADDRESSES_AT);
    return ADDRESSES_AT + HKI_ADDRESS_WIRE;
}

/* Whoever calls this expects the end long before the 20 s after which it is a failure. */
static void wait_for_the_end(pair_end *end)
{
    hk_arrival arrival;
    uint32_t ranks[4];
    uint64_t deadline = pair_now(NULL) + UINT64_C(20000000000);
    assert_int_equal(end->ops->peek(end->link, &arrival), HK_TRANSPORT_AGAIN);
    while (end->ops->link_state(end->link, NULL) == HK_LINK_CONNECTING && pair_now(NULL) < deadline) {
        struct pollfd fd = {.fd = end->ops->event_fd(end->transport), .events = POLLIN};
        if (end->ops->arm(end->transport))
            assert_int_equal(poll(&fd, 1, 20000), 1); /* it wakes who sleeps */
        end->ops->disarm(end->transport);
        (void)end->ops->poll(end->transport, ranks, 4);
    }
    assert_int_equal(end->ops->link_state(end->link, NULL), HK_LINK_LOST);
    assert_int_equal(end->ops->peek(end->link, &arrival), HK_TRANSPORT_LOST);
}

static void no_route_is_an_error_that_names_both_ends(void **state)
{
    (void)state;
    pair_end end = {.settings = "CONNECT_TIMEOUT=0.7"};
    const char *reason = NULL;
    assert_true(pair_open(&end, &hk_transport_tcp, 0, 2, ""));
    hk_peer peer = pair_peer(1, 2, 1);
    strcpy(peer.host_name, "far-away");
    size_t bytes = fabricate(end.address, "192.0.2.233", 9);
    assert_int_equal(end.ops->connect(end.transport, &peer, end.address, bytes, &end.link), HK_OK);
    wait_for_the_end(&end);
    (void)end.ops->link_state(end.link, &reason);
    assert_non_null(strstr(reason, "rank 1 on far-away"));
    assert_non_null(strstr(reason, "rank 0 on here"));
    assert_non_null(strstr(reason, "192.0.2.233:9"));
    end.ops->close(end.transport, 0);
}

static void a_door_that_nobody_keeps_is_found_out_soon(void **state)
{
    (void)state;
    pair_end end = {.settings = "INTERFACE=127.0.0.1 CONNECT_TIMEOUT=600"}, gone = {.settings = "INTERFACE=127.0.0.1"};
    const char *reason = NULL;
    assert_true(pair_open(&end, &hk_transport_tcp, 0, 2, "") && pair_open(&gone, &hk_transport_tcp, 1, 2, ""));
    assert_int_equal(end.ops->connect(end.transport, &gone.self, gone.address, gone.address_bytes, &end.link), HK_OK);
    gone.ops->close(gone.transport, 0);
    wait_for_the_end(&end); /* not at the end of CONNECT_TIMEOUT */
    (void)end.ops->link_state(end.link, &reason);
    assert_non_null(strstr(reason, "efused"));
    end.ops->close(end.transport, 0);
}

/* ---- no key ---- */

static hk_status open_keyless(pair_end *end, const char *settings)
{
    memset(end, 0, sizeof *end);
    end->settings = settings;
    assert_true(pair_open(end, &hk_transport_tcp, 0, 2, ""));
    end->ops->close(end->transport, 0);
    memset(end->token, 0, sizeof end->token);
    return end->ops->open(&end->services, &end->transport, &end->limits);
}

static void without_a_key_only_loopback_is_used(void **state)
{
    (void)state;
    pair_end end;
    hki_address one;
    unsigned char elsewhere[512];
    assert_int_equal(open_keyless(&end, ""), HK_OK);
    end.address_bytes = sizeof end.address;
    assert_int_equal(end.ops->address(end.transport, end.address, &end.address_bytes), HK_OK);
    assert_true(end.address[1] >= 1);
    for (unsigned i = 0; i < end.address[1]; i++) {
        assert_true(hki_address_from_wire(end.address + ADDRESSES_AT + i * HKI_ADDRESS_WIRE, &one));
        assert_true(hki_address_is_loopback(&one));
    }
    hk_peer peer = pair_peer(1, 2, 1);
    size_t bytes = fabricate(elsewhere, "192.0.2.233", 9);
    assert_int_equal(end.ops->connect(end.transport, &peer, elsewhere, bytes, &end.link), HK_ERR_UNSUPPORTED);
    assert_non_null(strstr(end.error, "HOCKET_KEY_FILE"));
    end.ops->close(end.transport, 0);
}

static void without_a_key_wider_is_an_error_unless_wanted(void **state)
{
    (void)state;
    pair_end end;
    hki_interface list[HKI_INTERFACES_MOST];
    char settings[80], address[HKI_ADDRESS_TEXT] = "";
    int count = hki_interfaces_list(list, HKI_INTERFACES_MOST);
    for (int i = 0; i < count && address[0] == '\0'; i++)
        if (!list[i].loopback)
            hki_address_text(&list[i].address, address);
    if (address[0] == '\0')
        skip(); /* a machine with nothing but loopback */
    snprintf(settings, sizeof settings, "INTERFACE=%.60s", address);
    memset(&end, 0, sizeof end);
    assert_true(pair_open(&end, &hk_transport_tcp, 0, 2, ""));
    end.ops->close(end.transport, 0);
    memset(end.token, 0, sizeof end.token);
    end.settings = settings;
    assert_int_equal(end.ops->open(&end.services, &end.transport, &end.limits), HK_ERR_SETTING);
    assert_non_null(strstr(end.error, "HOCKET_KEY_FILE"));
    assert_non_null(strstr(end.error, address));
    assert_int_equal(open_keyless(&end, "KEY=none"), HK_OK);
    end.ops->close(end.transport, 0);
}

static void an_interface_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    pair_end end = {.settings = "INTERFACE=nosuch0"};
    assert_false(pair_open(&end, &hk_transport_tcp, 0, 2, ""));
    assert_int_equal(end.status, HK_ERR_SETTING);
    assert_non_null(strstr(end.error, "nosuch0"));
    assert_non_null(strstr(end.error, "lo 127.0.0.1"));
}

/* ---- congestion control ---- */

enum { DESCRIPTORS = 256 };
static char wanted_congestion[16];
static bool inherited[DESCRIPTORS];

static void note_descriptors(void)
{
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Looks at all connections that this test has made: one end dials, and nobody watches, so it is the link's. */
static bool congestion_body(pair_end *end)
{
    int connections = 0;
    CHECK(dial_from_one_end(end));
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        struct sockaddr_in peer;
        char name[16] = "";
        socklen_t peer_length = sizeof peer, length = sizeof name - 1;
        if (inherited[fd] || getpeername(fd, (struct sockaddr *)&peer, &peer_length) != 0 ||
            peer.sin_family != AF_INET || getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &length) != 0)
            continue;
        connections++;
        CHECK(strcmp(name, wanted_congestion) == 0);
    }
    CHECK(connections > 0);
    return pair_meet(end);
}

static void connections_within_a_machine_do_not_pace_themselves(void **state)
{
    static const pair_transport unwatched = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1 HEARTBEAT=0", false};
    (void)state;
    strcpy(wanted_congestion, "reno");
    note_descriptors();
    assert_true(pair_run(&unwatched, congestion_body, "", true));
}

/* One that this process may use, and that is not reno if there is another. */
static bool some_congestion(char name[16])
{
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "r");
    bool any = false;
    while (file != NULL && fscanf(file, "%15s", name) == 1 && (any = true) && strcmp(name, "reno") == 0)
        ;
    if (file != NULL)
        fclose(file);
    return any;
}

static void congestion_control_is_what_was_asked_for(void **state)
{
    (void)state;
    char settings[80];
    if (!some_congestion(wanted_congestion))
        skip();
    snprintf(settings, sizeof settings, "INTERFACE=127.0.0.1 HEARTBEAT=0 CONGESTION=%s", wanted_congestion);
    note_descriptors();
    pair_transport asked = {"tcp", &hk_transport_tcp, settings, false};
    assert_true(pair_run(&asked, congestion_body, "", true));
}

static void congestion_control_that_is_not_there_is_an_error(void **state)
{
    static const char *const names[] = {"nosuch", "a_name_that_no_kernel_would_take"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char settings[80];
        snprintf(settings, sizeof settings, "INTERFACE=127.0.0.1 CONGESTION=%s", names[i]);
        pair_end end = {.settings = settings};
        assert_false(pair_open(&end, &hk_transport_tcp, 0, 2, ""));
        assert_int_equal(end.status, HK_ERR_SETTING);
        assert_non_null(strstr(end.error, names[i]));
        assert_non_null(strstr(end.error, "reno"));
    }
}

/* ---- forks ---- */

static bool orphan_body(pair_end *end)
{
    hk_arrival arrival;
    CHECK(exchange(end, 1));
    CHECK(pair_meet(end));
    if (end->index == 1) {
        if (fork() == 0) { /* outlives its parent by far, and has inherited all it had open */
            close(end->channel);
            usleep(4000000);
            _exit(0);
        }
        raise(SIGKILL);
    }
    uint64_t begin = pair_now(NULL);
    CHECK(pair_peek(end, &arrival) == HK_TRANSPORT_LOST);
    CHECK(pair_now(NULL) - begin < UINT64_C(2000000000));
    return true;
}

static void a_child_does_not_keep_its_parents_connections(void **state)
{
    (void)state;
    assert_true(pair_run(local, orphan_body, "", true));
}

/* ---- TLS ---- */

/* All of this went over loopback, where a rank must not pay for loading it. */
static void openssl_has_not_been_loaded(void **state)
{
    (void)state;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps) != NULL)
        assert_null(strstr(line, "libcrypto"));
    fclose(maps);
}

#ifdef HKI_HAVE_OPENSSL

/* Dials an end whose HOCKET_TLS is another: the reason, which comes long before HOCKET_CONNECT_TIMEOUT. */
static void meet_another_kind(const char *own, const char *others, const char *wanted)
{
    pair_end end = {.settings = own}, other = {.settings = others};
    const char *reason = NULL;
    assert_true(pair_open(&end, &hk_transport_tcp, 0, 2, "") && pair_open(&other, &hk_transport_tcp, 1, 2, ""));
    strcpy(other.self.host_name, "there");
    assert_int_equal(end.ops->connect(end.transport, &other.self, other.address, other.address_bytes, &end.link),
                     HK_OK);
    assert_int_equal(other.ops->connect(other.transport, &end.self, end.address, end.address_bytes, &other.link),
                     HK_OK); /* so that it accepts */
    wait_for_the_end(&end);
    (void)end.ops->link_state(end.link, &reason);
    if (strstr(reason, wanted) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", reason, wanted);
    assert_non_null(strstr(reason, "rank 1 on there"));
    assert_non_null(strstr(reason, "rank 0 on here"));
    assert_true(pair_counter(&other, "refused") > 0);
    end.ops->close(end.transport, 0);
    other.ops->close(other.transport, 0);
}

static void ends_that_differ_in_tls_say_so(void **state)
{
    static const char off[] = "INTERFACE=127.0.0.1", on[] = "INTERFACE=127.0.0.1 TLS=required";
    (void)state;
    meet_another_kind(off, on, "HOCKET_TLS is off here and required there");
    meet_another_kind(on, off, "HOCKET_TLS is required here and off there");
}

static int run_with_tls(void)
{
    static const pair_transport secure = {"tcp", &hk_transport_tcp, "INTERFACE=127.0.0.1 TLS=required", false};
    static const pair_transport secure_narrow = {"tcp", &hk_transport_tcp,
                                                 "INTERFACE=127.0.0.1 TLS=required SOCKET_BUFFER=64K", true};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_dials_at_once_one_connection_comes),
        cmocka_unit_test(a_rank_that_does_not_call_is_connected_to),
        cmocka_unit_test(what_was_accepted_leaves_by_itself),
        cmocka_unit_test(a_peer_that_reads_no_more_is_left_before_the_time_is_up),
        cmocka_unit_test(strangers_change_nothing),
        cmocka_unit_test(silent_strangers_do_not_keep_the_peer_out),
        cmocka_unit_test(a_child_does_not_keep_its_parents_connections),
        cmocka_unit_test(ends_that_differ_in_tls_say_so),
    };
    local = &secure;
    narrow = &secure_narrow;
    return cmocka_run_group_tests_name("tcp with TLS", tests, NULL, NULL);
}

#else

static int run_with_tls(void)
{
    return 0;
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_dials_at_once_one_connection_comes),
        cmocka_unit_test(a_rank_that_does_not_call_is_connected_to),
        cmocka_unit_test(what_was_accepted_leaves_by_itself),
        cmocka_unit_test(strangers_change_nothing),
        cmocka_unit_test(silent_strangers_do_not_keep_the_peer_out),
        cmocka_unit_test(no_route_is_an_error_that_names_both_ends),
        cmocka_unit_test(a_door_that_nobody_keeps_is_found_out_soon),
        cmocka_unit_test(without_a_key_only_loopback_is_used),
        cmocka_unit_test(without_a_key_wider_is_an_error_unless_wanted),
        cmocka_unit_test(an_interface_that_is_not_there_is_an_error),
        cmocka_unit_test(connections_within_a_machine_do_not_pace_themselves),
        cmocka_unit_test(congestion_control_is_what_was_asked_for),
        cmocka_unit_test(congestion_control_that_is_not_there_is_an_error),
        cmocka_unit_test(a_child_does_not_keep_its_parents_connections),
        cmocka_unit_test(openssl_has_not_been_loaded),
    };
    return cmocka_run_group_tests_name("tcp", tests, NULL, NULL) + run_with_tls();
}
