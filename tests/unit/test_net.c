/* Addresses, interfaces, and the handshake with honest and dishonest others. */
#include "net/address.h"
#include "net/handshake.h"
#include "net/interfaces.h"
#include "net/refusals.h"
#include "net/socket.h"
#include "net/wire.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- addresses ---- */

static hki_address parsed(const char *text)
{
    hki_address address;
    assert_true(hki_address_parse(text, &address));
    return address;
}

static void an_address_is_what_its_text_says(void **state)
{
    (void)state;
    static const char *const texts[] = {"127.0.0.1", "10.1.2.3", "::1", "fd00::2", "fe80::1%lo", "2001:db8::1:2"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[HKI_ADDRESS_TEXT];
        hki_address address = parsed(texts[i]);
        hki_address_text(&address, text);
        assert_string_equal(text, texts[i]);
    }
    hki_address six = parsed("fe80::1%lo");
    char text[HKI_ADDRESS_TEXT];
    assert_true(six.scope != 0);
    six.port = 4000;
    hki_address_text(&six, text);
    assert_string_equal(text, "[fe80::1%lo]:4000");
}

static void what_is_no_address_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",    "1.2.3",      "1.2.3.4.5", "eth0", "fe80::1%nosuchinterface",
                                        ":::", "10.0.0.1/8", "256.0.0.1"};
    hki_address address;
    unsigned prefix;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(hki_address_parse(texts[i], &address));
    assert_false(hki_address_parse_network("10.0.0.0/33", &address, &prefix));
    assert_false(hki_address_parse_network("10.0.0.0/", &address, &prefix));
    assert_false(hki_address_parse_network("10.0.0.0/8x", &address, &prefix));
    assert_false(hki_address_parse_network("::/129", &address, &prefix));
}

static void a_network_holds_its_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *network, *address;
        bool within;
    } cases[] = {{"10.0.0.0/8", "10.255.0.1", true},      {"10.0.0.0/8", "11.0.0.1", false},
                 {"192.0.2.128/25", "192.0.2.200", true}, {"192.0.2.128/25", "192.0.2.100", false},
                 {"0.0.0.0/0", "9.9.9.9", true},          {"0.0.0.0/0", "::1", false},
                 {"fd00::/7", "fc12::1", true},           {"fd00::/64", "fd00::1:0:0:0:1", false},
                 {"192.0.2.2", "192.0.2.2", true},        {"192.0.2.2", "192.0.2.3", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_address network, address = parsed(cases[i].address);
        unsigned prefix;
        assert_true(hki_address_parse_network(cases[i].network, &network, &prefix));
        assert_int_equal(hki_address_within(&address, &network, prefix), cases[i].within);
    }
}

static void an_address_travels(void **state)
{
    (void)state;
    unsigned char wire[HKI_ADDRESS_WIRE];
    struct sockaddr_storage socket_form;
    hki_address four = parsed("10.1.2.3"), six = parsed("fd00::2"), back;
    four.port = 65535;
    hki_address_to_wire(&four, wire);
    assert_true(hki_address_from_wire(wire, &back));
    assert_memory_equal(&back, &four, sizeof four);
    six.port = 1;
    hki_address_to_wire(&six, wire);
    assert_true(hki_address_from_wire(wire, &back));
    assert_memory_equal(&back, &six, sizeof six);
    hki_address_to_socket(&six, &socket_form);
    assert_true(hki_address_from_socket((const struct sockaddr *)&socket_form, &back));
    assert_memory_equal(&back, &six, sizeof six);
    wire[0] = 5;
    assert_false(hki_address_from_wire(wire, &back));
}

/* ---- interfaces ---- */

static int sample(hki_interface list[5])
{
    static const struct {
        const char *name, *address;
        uint8_t prefix;
    } all[] = {{"lo", "127.0.0.1", 8},
               {"eth0", "10.0.0.2", 24},
               {"docker0", "172.17.0.1", 16},
               {"eth1", "192.0.2.7", 24},
               {"eth0", "fd00::2", 64}};
    for (int i = 0; i < 5; i++) {
        memset(&list[i], 0, sizeof list[i]);
        snprintf(list[i].name, sizeof list[i].name, "%s", all[i].name);
        list[i].loopback = i == 0;
        list[i].up = true;
        list[i].prefix = all[i].prefix;
        list[i].address = parsed(all[i].address);
    }
    return 5;
}

static void interfaces_are_chosen_by_name_and_network(void **state)
{
    (void)state;
    static const struct {
        const char *choice, *addresses;
    } cases[] = {{"", "10.0.0.2 172.17.0.1 192.0.2.7 fd00::2 "},
                 {"eth0", "10.0.0.2 fd00::2 "},
                 {"eth1,eth0", "192.0.2.7 10.0.0.2 fd00::2 "},
                 {"eth*", "10.0.0.2 192.0.2.7 fd00::2 "},
                 {"^lo,docker0", "10.0.0.2 192.0.2.7 fd00::2 "},
                 {"^eth*", "127.0.0.1 172.17.0.1 "},
                 {"fd00::/8,192.0.2.0/24", "fd00::2 192.0.2.7 "},
                 {"127.0.0.0/8", "127.0.0.1 "},
                 {"ib*,eth1", "192.0.2.7 "},
                 {"^eth7,lo,docker0", "10.0.0.2 192.0.2.7 fd00::2 "},
                 {"eth1,eth7", ""}, /* one of them is a mistake */
                 {"eth7", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_interface list[5];
        char reason[HKI_INTERFACES_REASON], got[200] = "";
        int count = hki_interfaces_choose(cases[i].choice, list, sample(list), reason);
        assert_true(count >= 0);
        for (int k = 0; k < count; k++) {
            char text[HKI_ADDRESS_TEXT];
            hki_address_text(&list[k].address, text);
            strcat(strcat(got, text), " ");
        }
        assert_string_equal(got, cases[i].addresses);
        assert_true(reason[0] != '\0');
    }
}

static void a_choice_that_leaves_nothing_says_what_there_is(void **state)
{
    (void)state;
    hki_interface list[5];
    char reason[HKI_INTERFACES_REASON];
    assert_int_equal(hki_interfaces_choose("eth7", list, sample(list), reason), 0);
    assert_non_null(strstr(reason, "docker0 172.17.0.1"));
    static const char *const malformed[] = {"10.0.0.0/99", "eth0,,eth1", ",", "^", "1.2.3.4/x"};
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++)
        assert_int_equal(hki_interfaces_choose(malformed[i], list, sample(list), reason), -1);
}

static void each_address_is_used_or_skipped_for_a_reason(void **state)
{
    (void)state;
    static const struct {
        int which;
        const char *choice;
        bool wide;
        const char *verdict;
    } cases[] = {{0, "", true, "used for ranks of this machine"},
                 {1, "", true, "used: a default route leaves there"},
                 {2, "", true, "skipped: it is down"},
                 {3, "", true, "used: ranks of its network (/24)"},
                 {3, "", false, "skipped: without a job key"},
                 {1, "eth0", true, "used: HOCKET_INTERFACE"},
                 {3, "eth0", true, "skipped: HOCKET_INTERFACE"},
                 {1, "^lo,eth1", true, "used: HOCKET_INTERFACE"},
                 {3, "^lo,eth1", true, "skipped: HOCKET_INTERFACE"},
                 {3, "10.0.0.0/8,192.0.2.0/24", true, "used: HOCKET_INTERFACE"},
                 {4, "10.0.0.0/8", true, "skipped: HOCKET_INTERFACE"}};
    hki_interface list[5];
    sample(list);
    list[1].outward = true;
    list[2].up = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char verdict[HKI_INTERFACE_VERDICT];
        hki_interface_verdict(&list[cases[i].which], cases[i].choice, true, cases[i].wide, verdict);
        if (strncmp(verdict, cases[i].verdict, strlen(cases[i].verdict)) != 0)
            fail_msg("%s: %s: %s", list[cases[i].which].name, cases[i].choice, verdict);
    }
}

static void this_machine_has_a_loopback(void **state)
{
    (void)state;
    hki_interface list[HKI_INTERFACES_MOST];
    bool found = false;
    int count = hki_interfaces_list(list, HKI_INTERFACES_MOST);
    for (int i = 0; i < count; i++)
        found |= list[i].loopback && list[i].index != 0 && hki_address_is_loopback(&list[i].address) &&
                 (list[i].prefix == 8 || list[i].prefix == 128);
    assert_true(found);
}

/* ---- the handshake ---- */

static const uint8_t good_key[HKI_HANDSHAKE_KEY] = "thirty-two bytes of a good key..",
                     bad_key[HKI_HANDSHAKE_KEY] = "bad";
static const hki_parties parties = {.client_rank = 3, .server_rank = 5, .client_id = 33, .server_id = 55};

typedef struct meeting {
    int fd[2]; /* client's, server's */
    hki_stream ends[2];
    hki_handshake client, server;
    hki_verdict_code verdict;
    int asked;
    hki_parties seen;
} meeting;

static hki_verdict_code admit(void *context, const hki_parties *who)
{
    meeting *both = context;
    both->asked++;
    both->seen = *who;
    return both->verdict;
}

static void meet(meeting *both, const uint8_t *client_key, const uint8_t *server_key)
{
    memset(both, 0, sizeof *both);
    both->verdict = HKI_ACCEPT;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both->fd), 0);
    for (int i = 0; i < 2; i++)
        both->ends[i] = (hki_stream){.fd = both->fd[i]};
    assert_true(hki_handshake_client(&both->client, &both->ends[0], HKI_PURPOSE_LINK, &parties, client_key));
    assert_true(hki_handshake_server(&both->server, &both->ends[1], HKI_PURPOSE_LINK, 5, 55, server_key, admit, both));
}

static void part(meeting *both)
{
    close(both->fd[0]);
    if (both->fd[1] >= 0)
        close(both->fd[1]);
}

/* Steps both until neither moves; a server that fails hangs up, as its owner would. */
static void run(meeting *both, hki_shake *client, hki_shake *server)
{
    *client = *server = HKI_SHAKE_AGAIN;
    for (int i = 0; i < 10; i++) {
        if (*client == HKI_SHAKE_AGAIN)
            *client = hki_handshake_step(&both->client);
        if (*server == HKI_SHAKE_AGAIN)
            *server = hki_handshake_step(&both->server);
        if (*server == HKI_SHAKE_FAILED && both->fd[1] >= 0) {
            close(both->fd[1]);
            both->fd[1] = -1;
        }
    }
}

static void who_knows_the_key_gets_in(void **state)
{
    (void)state;
    meeting both;
    hki_shake client, server;
    char byte = 'x';
    meet(&both, good_key, good_key);
    run(&both, &client, &server);
    assert_int_equal(client, HKI_SHAKE_DONE);
    assert_int_equal(server, HKI_SHAKE_DONE);
    assert_int_equal(both.asked, 1);
    assert_memory_equal(&both.seen, &parties, sizeof parties);
    /* What follows is the connection's: not a byte too many was read. */
    assert_int_equal(send(both.fd[0], &byte, 1, 0), 1);
    byte = 0;
    assert_int_equal(recv(both.fd[1], &byte, 1, 0), 1);
    assert_int_equal(byte, 'x');
    part(&both);
}

static void who_does_not_is_not_asked_about(void **state)
{
    (void)state;
    meeting both;
    hki_shake client, server;
    meet(&both, bad_key, good_key);
    run(&both, &client, &server);
    assert_int_equal(server, HKI_SHAKE_FAILED);
    assert_int_equal(client, HKI_SHAKE_FAILED);
    assert_int_equal(both.asked, 0);
    assert_false(both.server.hung_up);
    assert_non_null(strstr(both.server.reason, "key"));
    part(&both);
}

static void the_server_may_put_off_and_refuse(void **state)
{
    (void)state;
    meeting both;
    hki_shake client, server;
    meet(&both, good_key, good_key);
    both.verdict = HKI_LATER;
    run(&both, &client, &server);
    assert_int_equal(client, HKI_SHAKE_LATER);
    assert_int_equal(server, HKI_SHAKE_LATER);
    part(&both);
    meet(&both, good_key, good_key);
    both.verdict = HKI_REFUSE;
    run(&both, &client, &server);
    assert_int_equal(client, HKI_SHAKE_FAILED);
    assert_int_equal(server, HKI_SHAKE_FAILED);
    part(&both);
}

/* Moves what one end has written to the other, byte by byte altered by `change` at `where` of the stream. */
typedef struct wire_tap {
    uint8_t bytes[512];
    size_t count;
} wire_tap;

static void take_from(int fd, wire_tap *tap)
{
    ssize_t got = recv(fd, tap->bytes + tap->count, sizeof tap->bytes - tap->count, 0);
    if (got > 0)
        tap->count += (size_t)got;
}

/* A client's end whose peer is this test: hello goes into tap. */
static void a_changed_bit_anywhere_is_noticed(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < HKI_HELLO_BYTES * 8; bit += 5) {
        meeting both;
        int middle[2];
        wire_tap tap = {.count = 0};
        hki_shake client = HKI_SHAKE_AGAIN, server = HKI_SHAKE_AGAIN;
        meet(&both, good_key, good_key);
        /* The server speaks with the middle, and so does the client. */
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, middle), 0);
        both.ends[1].fd = middle[1];
        assert_int_equal(hki_handshake_step(&both.client), HKI_SHAKE_AGAIN);
        take_from(both.fd[1], &tap);
        assert_int_equal(tap.count, HKI_HELLO_BYTES);
        tap.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(send(middle[0], tap.bytes, tap.count, 0), HKI_HELLO_BYTES);
        for (int turn = 0; turn < 4; turn++) { /* what follows passes unchanged */
            if (server == HKI_SHAKE_AGAIN)
                server = hki_handshake_step(&both.server);
            tap.count = 0;
            take_from(middle[0], &tap);
            (void)!send(both.fd[1], tap.bytes, tap.count, MSG_NOSIGNAL);
            if (client == HKI_SHAKE_AGAIN)
                client = hki_handshake_step(&both.client);
            tap.count = 0;
            take_from(both.fd[1], &tap);
            (void)!send(middle[0], tap.bytes, tap.count, MSG_NOSIGNAL);
        }
        assert_int_equal(server, HKI_SHAKE_FAILED);
        assert_int_equal(both.asked, 0);
        assert_true(client != HKI_SHAKE_DONE);
        close(middle[0]);
        close(middle[1]);
        part(&both);
    }
}

/* Everything that a client once said, said again to a new server. */
static void a_replay_is_refused(void **state)
{
    (void)state;
    meeting first, second;
    hki_shake server = HKI_SHAKE_AGAIN;
    uint8_t said[HKI_HELLO_BYTES + HKI_PROOF_BYTES + HKI_CONFIRM_BYTES];
    hki_shake client_end, server_end;
    meet(&first, good_key, good_key);
    run(&first, &client_end, &server_end);
    memcpy(said, first.client.hello, HKI_HELLO_BYTES);
    memcpy(said + HKI_HELLO_BYTES, first.client.proof, HKI_PROOF_BYTES);
    memcpy(said + HKI_HELLO_BYTES + HKI_PROOF_BYTES, first.client.confirm, HKI_CONFIRM_BYTES);
    part(&first);
    meet(&second, good_key, good_key);
    assert_int_equal(send(second.fd[0], said, sizeof said, 0), (int)sizeof said);
    for (int i = 0; i < 4 && server == HKI_SHAKE_AGAIN; i++)
        server = hki_handshake_step(&second.server);
    assert_int_equal(server, HKI_SHAKE_FAILED);
    assert_int_equal(second.asked, 0);
    part(&second);
}

/* An impostor answers a client's words with the client's own. */
static void a_reflection_is_refused(void **state)
{
    (void)state;
    meeting both;
    wire_tap tap = {.count = 0};
    hki_shake client = HKI_SHAKE_AGAIN;
    meet(&both, good_key, good_key);
    assert_int_equal(hki_handshake_step(&both.client), HKI_SHAKE_AGAIN);
    take_from(both.fd[1], &tap);
    assert_int_equal(send(both.fd[1], tap.bytes, HKI_CHALLENGE_BYTES, 0), HKI_CHALLENGE_BYTES); /* its hello */
    client = hki_handshake_step(&both.client);
    assert_int_equal(client, HKI_SHAKE_AGAIN);
    tap.count = 0;
    take_from(both.fd[1], &tap);
    assert_int_equal(tap.count, HKI_PROOF_BYTES);
    uint8_t verdict[HKI_VERDICT_BYTES] = {0};
    hki_wire_put32(verdict, HKI_ACCEPT);
    memcpy(verdict + 8, tap.bytes, HKI_PROOF_BYTES); /* its proof */
    assert_int_equal(send(both.fd[1], verdict, sizeof verdict, 0), HKI_VERDICT_BYTES);
    client = hki_handshake_step(&both.client);
    assert_int_equal(client, HKI_SHAKE_FAILED);
    assert_non_null(strstr(both.client.reason, "key"));
    part(&both);
}

static const char *server_says(const uint8_t *hello, size_t bytes)
{
    static meeting both;
    meet(&both, good_key, good_key);
    assert_int_equal(send(both.fd[0], hello, bytes, 0), (int)bytes);
    assert_int_equal(hki_handshake_step(&both.server), HKI_SHAKE_FAILED);
    assert_int_equal(both.asked, 0);
    part(&both);
    return both.server.reason;
}

static void versions_byte_orders_and_purposes_are_told_apart(void **state)
{
    (void)state;
    meeting both;
    uint8_t hello[HKI_HELLO_BYTES];
    meet(&both, good_key, good_key);
    memcpy(hello, both.client.hello, sizeof hello);
    part(&both);
    hello[7]++;
    assert_non_null(strstr(server_says(hello, sizeof hello), "version"));
    hello[7]--;
    for (int i = 0; i < 2; i++) {
        uint8_t swapped = hello[8 + i];
        hello[8 + i] = hello[11 - i];
        hello[11 - i] = swapped;
    }
    assert_non_null(strstr(server_says(hello, sizeof hello), "byte order"));
    memcpy(hello, both.client.hello, sizeof hello);
    hello[12] = HKI_PURPOSE_STORE;
    assert_non_null(strstr(server_says(hello, sizeof hello), "purpose"));
    memcpy(hello, both.client.hello, sizeof hello);
    hello[20]++;
    assert_non_null(strstr(server_says(hello, sizeof hello), "another rank"));
    memcpy(hello, "GET / HTTP/1.1\r\n", 16);
    assert_non_null(strstr(server_says(hello, sizeof hello), "does not speak"));
}

static void a_hang_up_at_any_byte_ends_it(void **state)
{
    (void)state;
    for (size_t bytes = 0; bytes < HKI_HELLO_BYTES; bytes += 7) {
        meeting both;
        meet(&both, good_key, good_key);
        (void)!send(both.fd[0], both.client.hello, bytes, 0);
        assert_int_equal(hki_handshake_step(&both.server), HKI_SHAKE_AGAIN);
        shutdown(both.fd[0], SHUT_WR);
        assert_int_equal(hki_handshake_step(&both.server), HKI_SHAKE_FAILED);
        assert_true(both.server.hung_up); /* who leaves is not refused */
        assert_int_equal(hki_handshake_step(&both.server), HKI_SHAKE_FAILED);
        part(&both);
    }
}

/* ---- sockets ---- */

static void a_listener_is_reached_and_knows_by_whom(void **state)
{
    (void)state;
    static const char *const where[] = {"127.0.0.1", "::1"};
    for (int i = 0; i < 2; i++) {
        hki_address address = parsed(where[i]), from;
        int listener = hki_socket_listen(&address, 1 << 16), fd;
        assert_true(listener >= 0 && address.port != 0);
        assert_int_equal(hki_socket_accept(listener, &from), -EAGAIN);
        int client = hki_socket_connect(&address, 0);
        assert_true(client >= 0);
        struct pollfd ready = {.fd = client, .events = POLLOUT};
        assert_int_equal(poll(&ready, 1, 5000), 1);
        assert_int_equal(hki_socket_error(client), 0);
        ready = (struct pollfd){.fd = listener, .events = POLLIN};
        assert_int_equal(poll(&ready, 1, 5000), 1);
        fd = hki_socket_accept(listener, &from);
        assert_true(fd >= 0 && hki_address_same_host(&from, &address));
        close(fd);
        close(client);
        close(listener);
    }
}

/* Connections that the server ends first stay at its port for a minute. */
static void a_port_serves_again_at_once_but_not_twice(void **state)
{
    (void)state;
    hki_address address = parsed("127.0.0.1"), from;
    close(hki_socket_listen(&address, 0)); /* a free port, from now on asked for */
    int listener = hki_socket_listen(&address, 0), client = hki_socket_connect(&address, 0);
    assert_true(listener >= 0 && client >= 0);
    struct pollfd ready = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    close(hki_socket_accept(listener, &from));
    ready = (struct pollfd){.fd = client, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 5000), 1);
    close(client);
    close(listener);
    listener = hki_socket_listen(&address, 0);
    assert_true(listener >= 0);
    assert_int_equal(hki_socket_listen(&address, 0), -EADDRINUSE);
    close(listener);
}

/* ---- refusals ---- */

static void refusals_are_said_once_and_at_a_rate(void **state)
{
    (void)state;
    const uint64_t hour = UINT64_C(3600) * 1000000000, start = 5;
    hki_refusals refusals = {0};
    hki_address here, there;
    const char *ending = "";
    assert_true(hki_address_parse("10.0.0.1", &here) && hki_address_parse("10.0.0.2", &there));
    assert_true(hki_refusals_add(&refusals, &here, "no key", start, &ending));
    here.port = 99; /* the same host */
    assert_false(hki_refusals_add(&refusals, &here, "no key", start, &ending));
    assert_true(hki_refusals_add(&refusals, &here, "garbage", start, &ending));
    assert_true(hki_refusals_add(&refusals, &there, "garbage", start, &ending));
    assert_string_equal(ending, "");
    int said = 3;
    for (int i = 0; i < 100; i++)
        said += hki_refusals_add(&refusals, i % 2 ? &here : &there, "silence", start + (uint64_t)i, &ending);
    assert_int_equal(said, HKI_REFUSALS_SAID);
    assert_non_null(strstr(ending, "last"));
    assert_false(hki_refusals_add(&refusals, &there, "late", start + hour - 1, &ending));
    assert_true(hki_refusals_add(&refusals, &there, "late", start + hour, &ending));
    assert_string_equal(ending, "");
    assert_false(hki_refusals_add(&refusals, &there, "late", start + hour, &ending));
    for (said = 1; said < 100 &&
                   hki_refusals_add(&refusals, said % 2 ? &here : &there, "silence", start + 2 * hour - 1, &ending);)
        said++;
    assert_int_equal(said, HKI_REFUSALS_SAID);
}

static void refusals_are_counted_and_the_last_is_kept(void **state)
{
    (void)state;
    hki_refusals refusals = {0};
    hki_address here;
    char text[HKI_REFUSALS_TEXT] = "something";
    const char *ending;
    assert_true(hki_address_parse("10.0.0.1", &here));
    hki_refusals_text(&refusals, text, sizeof text);
    assert_string_equal(text, "");
    hki_refusals_add(&refusals, &here, "no key", 0, &ending);
    hki_refusals_text(&refusals, text, sizeof text);
    assert_string_equal(text, "a connection from 10.0.0.1 was turned away: no key");
    for (int i = 0; i < 40; i++)
        hki_refusals_add(&refusals, &here, i < 39 ? "no key" : "silence", 0, &ending);
    hki_refusals_text(&refusals, text, sizeof text);
    assert_string_equal(text, "41 connections were turned away, the last from 10.0.0.1: silence");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_is_what_its_text_says),
        cmocka_unit_test(what_is_no_address_is_refused),
        cmocka_unit_test(a_network_holds_its_addresses),
        cmocka_unit_test(an_address_travels),
        cmocka_unit_test(interfaces_are_chosen_by_name_and_network),
        cmocka_unit_test(each_address_is_used_or_skipped_for_a_reason),
        cmocka_unit_test(a_choice_that_leaves_nothing_says_what_there_is),
        cmocka_unit_test(this_machine_has_a_loopback),
        cmocka_unit_test(who_knows_the_key_gets_in),
        cmocka_unit_test(who_does_not_is_not_asked_about),
        cmocka_unit_test(the_server_may_put_off_and_refuse),
        cmocka_unit_test(a_changed_bit_anywhere_is_noticed),
        cmocka_unit_test(a_replay_is_refused),
        cmocka_unit_test(a_reflection_is_refused),
        cmocka_unit_test(versions_byte_orders_and_purposes_are_told_apart),
        cmocka_unit_test(a_hang_up_at_any_byte_ends_it),
        cmocka_unit_test(a_listener_is_reached_and_knows_by_whom),
        cmocka_unit_test(a_port_serves_again_at_once_but_not_twice),
        cmocka_unit_test(refusals_are_said_once_and_at_a_rate),
        cmocka_unit_test(refusals_are_counted_and_the_last_is_kept),
    };
    return cmocka_run_group_tests_name("net", tests, NULL, NULL);
}
