#include "net/handshake.h"

#include "net/address.h"
#include "net/mac.h"
#include "net/wire.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

/* Version last; the byte order mark is written natively, and so tells one order from the other. */
static const uint8_t magic[8] = {'h', 'o', 'c', 'k', 'e', 't', 0, HKI_HANDSHAKE_VERSION};
static const uint8_t confirmation[HKI_CONFIRM_BYTES] = {'h', 'o', 'c', 'k', 'e', 't', 'O', 'K'};
static const uint32_t order_mark = 0x01020304;

enum { AT_ORDER = 8, AT_PURPOSE = 12, AT_CLIENT = 16, AT_SERVER = 20, AT_CLIENT_ID = 24, AT_SERVER_ID = 32 };
enum { AT_HELLO_NONCE = 40, AT_CHALLENGE_NONCE = 16, AT_VERDICT_MAC = 8 };

static bool fresh(uint8_t nonce[HKI_HANDSHAKE_NONCE])
{
    return getrandom(nonce, HKI_HANDSHAKE_NONCE, 0) == HKI_HANDSHAKE_NONCE;
}

static void start_text(uint8_t *text)
{
    memcpy(text, magic, sizeof magic);
    memcpy(text + AT_ORDER, &order_mark, sizeof order_mark);
}

/* Between hosts libcrypto proves the key, where it can be had; within one it is not worth loading. */
static void choose_mac(const hki_stream *stream)
{
    struct sockaddr_storage other = {0};
    socklen_t length = sizeof other;
    hki_address address;
    if (getpeername(stream->fd, (struct sockaddr *)&other, &length) == 0 &&
        hki_address_from_socket((struct sockaddr *)&other, &address) && !hki_address_is_loopback(&address))
        (void)hki_mac_use_library();
}

bool hki_handshake_client(hki_handshake *shake, hki_stream *stream, hki_purpose purpose, const hki_parties *parties,
                          const uint8_t key[HKI_HANDSHAKE_KEY])
{
    *shake = (hki_handshake){
        .stream = stream, .purpose = purpose, .parties = *parties, .writing = true, .reason = "no reason given"};
    memcpy(shake->key, key, sizeof shake->key);
    choose_mac(stream);
    start_text(shake->hello);
    hki_wire_put32(shake->hello + AT_PURPOSE, (uint32_t)purpose);
    hki_wire_put32(shake->hello + AT_CLIENT, parties->client_rank);
    hki_wire_put32(shake->hello + AT_SERVER, parties->server_rank);
    hki_wire_put64(shake->hello + AT_CLIENT_ID, parties->client_id);
    hki_wire_put64(shake->hello + AT_SERVER_ID, parties->server_id);
    memcpy(shake->confirm, confirmation, sizeof confirmation);
    return fresh(shake->hello + AT_HELLO_NONCE);
}

bool hki_handshake_server(hki_handshake *shake, hki_stream *stream, hki_purpose purpose, uint32_t rank, uint64_t id,
                          const uint8_t key[HKI_HANDSHAKE_KEY], hki_admit *admit, void *context)
{
    *shake = (hki_handshake){.stream = stream,
                             .server = true,
                             .purpose = purpose,
                             .parties = {.server_rank = rank, .server_id = id},
                             .admit = admit,
                             .context = context,
                             .reason = "no reason given"};
    memcpy(shake->key, key, sizeof shake->key);
    choose_mac(stream);
    start_text(shake->challenge);
    return fresh(shake->challenge + AT_CHALLENGE_NONCE);
}

/* ---- what is proved ---- */

static void prove(const hki_handshake *shake, bool by_server, uint8_t mac[HKI_MAC_BYTES])
{
    static const uint8_t roles[2][16] = {"hocket client", "hocket server"};
    uint8_t text[sizeof roles[0] + HKI_HELLO_BYTES + HKI_CHALLENGE_BYTES + 4];
    size_t at = sizeof roles[0];
    memcpy(text, roles[by_server], sizeof roles[0]);
    memcpy(text + at, shake->hello, HKI_HELLO_BYTES);
    at += HKI_HELLO_BYTES;
    memcpy(text + at, shake->challenge, HKI_CHALLENGE_BYTES);
    at += HKI_CHALLENGE_BYTES;
    if (by_server) {
        memcpy(text + at, shake->verdict, 4);
        at += 4;
    }
    hki_mac(shake->key, sizeof shake->key, text, at, mac);
}

static bool proved(const hki_handshake *shake, bool by_server, const uint8_t *mac)
{
    uint8_t wanted[HKI_MAC_BYTES];
    prove(shake, by_server, wanted);
    bool equal = hki_mac_equal(wanted, mac);
    explicit_bzero(wanted, sizeof wanted);
    return equal;
}

/* ---- what was heard: NULL, or what is wrong with it ---- */

static const char *check_start(const uint8_t *text)
{
    uint32_t mark;
    memcpy(&mark, text + AT_ORDER, sizeof mark);
    if (memcmp(text, magic, sizeof magic - 1) != 0)
        return "the other end does not speak this protocol";
    if (text[sizeof magic - 1] != magic[sizeof magic - 1])
        return "the other end speaks another version of this protocol";
    if (mark != order_mark)
        return "the other end is a machine of the other byte order";
    return NULL;
}

static const char *hear_hello(hki_handshake *shake)
{
    const uint8_t *hello = shake->hello;
    if (hello[0] == HKI_TLS_HANDSHAKE && shake->stream->tls == NULL) {
        hki_tls_decline(shake->stream->fd);
        shake->turned_down = true;
        return "the other end uses TLS: HOCKET_TLS is off here and required there";
    }
    const char *wrong = check_start(hello);
    if (wrong != NULL)
        return wrong;
    uint32_t purpose = hki_wire_get32(hello + AT_PURPOSE);
    bool beside = purpose == HKI_PURPOSE_WATCH || (purpose > HKI_PURPOSE_LANE && purpose <= HKI_PURPOSE_LAST_LANE);
    if (purpose != (uint32_t)shake->purpose && !(shake->purpose == HKI_PURPOSE_LINK && beside))
        return "the other end connects for another purpose";
    shake->purpose = (hki_purpose)purpose;
    if (hki_wire_get32(hello + AT_SERVER) != shake->parties.server_rank ||
        hki_wire_get64(hello + AT_SERVER_ID) != shake->parties.server_id)
        return "the other end looks for another rank or job";
    shake->parties.client_rank = hki_wire_get32(hello + AT_CLIENT);
    shake->parties.client_id = hki_wire_get64(hello + AT_CLIENT_ID);
    return NULL;
}

static const char *hear_proof(hki_handshake *shake)
{
    if (!proved(shake, false, shake->proof))
        return "the other end does not know the job's key";
    shake->proved = true;
    hki_verdict_code code = shake->admit(shake->context, &shake->parties);
    shake->later = code == HKI_LATER;
    shake->reason = "the other end is not expected";
    hki_wire_put32(shake->verdict, (uint32_t)code);
    prove(shake, true, shake->verdict + AT_VERDICT_MAC);
    return NULL;
}

static const char *hear_verdict(hki_handshake *shake)
{
    uint32_t code = hki_wire_get32(shake->verdict);
    if (!proved(shake, true, shake->verdict + AT_VERDICT_MAC))
        return "the other end does not know the job's key";
    shake->later = code == HKI_LATER;
    return code == HKI_ACCEPT || code == HKI_LATER ? NULL : "the other end does not expect this rank";
}

/* A server that wants TLS answers a plain client with an alert, which is shorter than a challenge. */
static bool met_alert(const hki_handshake *shake)
{
    return shake->step == HKI_STEP_CHALLENGE && !shake->server && shake->stream->tls == NULL && shake->moved > 0 &&
           shake->challenge[0] == HKI_TLS_ALERT;
}

static const char *hear(hki_handshake *shake)
{
    switch (shake->step) {
    case HKI_STEP_HELLO:
        return hear_hello(shake);
    case HKI_STEP_CHALLENGE:
        return check_start(shake->challenge);
    case HKI_STEP_PROOF:
        return hear_proof(shake);
    case HKI_STEP_VERDICT:
        return hear_verdict(shake);
    default:
        return memcmp(shake->confirm, confirmation, sizeof confirmation) == 0 ? NULL : "the handshake is malformed";
    }
}

/* ---- the steps ---- */

static uint8_t *text_of(hki_handshake *shake, size_t *bytes)
{
    static const size_t lengths[] = {HKI_HELLO_BYTES, HKI_CHALLENGE_BYTES, HKI_PROOF_BYTES, HKI_VERDICT_BYTES,
                                     HKI_CONFIRM_BYTES};
    uint8_t *texts[] = {shake->hello, shake->challenge, shake->proof, shake->verdict, shake->confirm};
    *bytes = lengths[shake->step];
    return texts[shake->step];
}

/* The connection has ended, by an error (0: the other end hung up). */
static hki_shake lose(hki_handshake *shake, int error)
{
    shake->reason = error == 0 ? "the other end hung up during the handshake" : strerror(error);
    shake->hung_up = error == 0 || error == ECONNRESET || error == EPIPE;
    if (met_alert(shake)) {
        shake->turned_down = true;
        shake->hung_up = false;
        shake->reason = "the other end wants TLS: HOCKET_TLS is off here and required there";
    } else if (error == EPROTO && shake->stream->tls != NULL) {
        shake->turned_down = true;
        snprintf(shake->told, sizeof shake->told, "%s", hki_tls_reason(shake->stream->tls));
        shake->reason = shake->told;
    }
    return HKI_SHAKE_FAILED;
}

/* Moves what it can of the step's bytes: DONE when all have moved. */
static hki_shake move(hki_handshake *shake)
{
    size_t bytes;
    uint8_t *text = text_of(shake, &bytes);
    while (shake->moved < bytes) {
        ssize_t moved = shake->writing
                            ? hki_stream_send(shake->stream, text + shake->moved, bytes - shake->moved, false)
                            : hki_stream_receive(shake->stream, text + shake->moved, bytes - shake->moved);
        if (moved < 0 && errno == EINTR)
            continue;
        if (moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return HKI_SHAKE_AGAIN;
        if (moved <= 0)
            return lose(shake, moved == 0 ? 0 : errno);
        shake->moved += (size_t)moved;
        if (met_alert(shake))
            return lose(shake, 0);
    }
    return HKI_SHAKE_DONE;
}

/* DONE: there is no TLS, or it is ready. */
static hki_shake secure(hki_handshake *shake)
{
    if (shake->stream->tls == NULL)
        return HKI_SHAKE_DONE;
    hki_tls_state state = hki_tls_step(shake->stream->tls, &shake->writing);
    if (state == HKI_TLS_AGAIN || state == HKI_TLS_READY)
        return state == HKI_TLS_READY ? HKI_SHAKE_DONE : HKI_SHAKE_AGAIN;
    shake->hung_up = state == HKI_TLS_HUNG_UP;
    shake->turned_down = !shake->hung_up;
    snprintf(shake->told, sizeof shake->told, "%s", hki_tls_reason(shake->stream->tls));
    shake->reason = shake->told;
    return HKI_SHAKE_FAILED;
}

static hki_shake end(hki_handshake *shake, hki_shake how)
{
    explicit_bzero(shake->key, sizeof shake->key);
    shake->step = HKI_STEP_OVER;
    return how;
}

/* The client's turn at HELLO, PROOF and CONFIRM; the server's at CHALLENGE and VERDICT. */
static bool writes(const hki_handshake *shake)
{
    return (shake->step % 2 == 0) != shake->server;
}

hki_shake hki_handshake_step(hki_handshake *shake)
{
    hki_shake secured = shake->step == HKI_STEP_OVER ? HKI_SHAKE_FAILED : secure(shake);
    if (secured != HKI_SHAKE_DONE)
        return secured == HKI_SHAKE_AGAIN ? secured : end(shake, secured);
    while (shake->step != HKI_STEP_OVER) {
        shake->writing = writes(shake);
        hki_shake moved = move(shake);
        if (moved != HKI_SHAKE_DONE)
            return moved == HKI_SHAKE_AGAIN ? moved : end(shake, moved);
        const char *wrong = shake->writing ? NULL : hear(shake);
        if (wrong != NULL) {
            shake->reason = wrong;
            return end(shake, HKI_SHAKE_FAILED);
        }
        if (shake->step == HKI_STEP_VERDICT && hki_wire_get32(shake->verdict) != HKI_ACCEPT)
            return end(shake, shake->later ? HKI_SHAKE_LATER : HKI_SHAKE_FAILED);
        if (shake->step == HKI_STEP_CONFIRM)
            return end(shake, HKI_SHAKE_DONE);
        shake->step++;
        shake->moved = 0;
        if (shake->step == HKI_STEP_PROOF && !shake->server)
            prove(shake, false, shake->proof);
    }
    return HKI_SHAKE_FAILED;
}
