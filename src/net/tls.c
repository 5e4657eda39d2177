/*
 * Connections. One record per SSL_write: at most RECORD bytes, gathered from the caller's pieces, so that a frame's
 * header and the beginning of its payload share one. A record that the socket did not take whole stays with OpenSSL,
 * which wants the same bytes offered again.
 */
#include "net/tls_context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

void hki_tls_decline(int fd)
{
    /* A fatal alert, protocol_version (RFC 8446, 6.2). */
    static const uint8_t alert[] = {HKI_TLS_ALERT, 3, 3, 0, 2, 2, 70};
    enum { ROUNDS = 16 };
    uint8_t nothing[4096];
    for (int i = 0; i < ROUNDS && recv(fd, nothing, sizeof nothing, MSG_DONTWAIT) > 0; i++)
        ; /* closing over unread bytes would destroy the alert */
    (void)!send(fd, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT);
}

#ifdef HKI_HAVE_OPENSSL

#include <pthread.h>

enum {
    RECORD = 16384,           /* the most that one holds (RFC 8446, 5.1) */
    RECORDS_PER_KEY = 1 << 23 /* AES-GCM is sound for 2^24.5 (RFC 8446, 5.5) */
};

static const hki_openssl *const openssl = &hki_openssl_table;

struct hki_tls {
    hki_tls_context *context;
    int fd;
    bool server;
    bool greeted; /* server: what comes is TLS */
    bool ready;
    pthread_mutex_t lock; /* of all below, once ready */
    SSL *ssl;
    bool committed;
    bool send_failed;                  /* what has come can still be received */
    int receive_error;                 /* errno; 0: none */
    uint64_t records, records_per_key; /* sent */
    char reason[HKI_TLS_REASON];
};

/* ---- the socket, as OpenSSL sees it: its own way of writing raises SIGPIPE ---- */

static int moved(BIO *bio, ssize_t count, int which)
{
    openssl->BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS || errno == EINTR))
        openssl->BIO_set_flags(bio, which | BIO_FLAGS_SHOULD_RETRY);
    return (int)count;
}

static int write_socket(BIO *bio, const char *bytes, int count)
{
    const hki_tls *tls = openssl->BIO_get_data(bio);
    return moved(bio, send(tls->fd, bytes, (size_t)count, MSG_NOSIGNAL | MSG_DONTWAIT), BIO_FLAGS_WRITE);
}

static int read_socket(BIO *bio, char *to, int room)
{
    const hki_tls *tls = openssl->BIO_get_data(bio);
    return moved(bio, recv(tls->fd, to, (size_t)room, MSG_DONTWAIT), BIO_FLAGS_READ);
}

static long control_socket(BIO *bio, int command, long number, void *argument)
{
    (void)bio, (void)number, (void)argument;
    return command == BIO_CTRL_FLUSH; /* nothing is held back; nothing else is known */
}

BIO_METHOD *hki_tls_method(void)
{
    BIO_METHOD *method = openssl->BIO_meth_new(BIO_TYPE_SOURCE_SINK, "hocket socket");
    if (method != NULL && (openssl->BIO_meth_set_write(method, write_socket) != 1 ||
                           openssl->BIO_meth_set_read(method, read_socket) != 1 ||
                           openssl->BIO_meth_set_ctrl(method, control_socket) != 1)) {
        openssl->BIO_meth_free(method);
        return NULL;
    }
    return method;
}

/* ---- beginning and end ---- */

/* False when there is no memory. */
static bool attach(hki_tls *tls)
{
    tls->ssl = openssl->SSL_new(tls->context->ssl);
    BIO *bio = tls->ssl != NULL ? openssl->BIO_new(tls->context->method) : NULL;
    if (bio == NULL)
        return false;
    openssl->BIO_set_data(bio, tls);
    openssl->BIO_set_init(bio, 1);
    openssl->SSL_set_bio(tls->ssl, bio, bio);
    return openssl->SSL_set_ex_data(tls->ssl, 0, tls->context) == 1;
}

hki_tls *hki_tls_new(hki_tls_context *context, int fd, bool server)
{
    hki_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return NULL;
    *tls = (hki_tls){.context = context, .fd = fd, .server = server, .records_per_key = RECORDS_PER_KEY};
    atomic_fetch_add(&context->users, 1);
    pthread_mutex_init(&tls->lock, NULL);
    snprintf(tls->reason, sizeof tls->reason, "no reason given");
    if (!attach(tls)) {
        hki_tls_free(tls);
        return NULL;
    }
    if (server)
        openssl->SSL_set_accept_state(tls->ssl);
    else
        openssl->SSL_set_connect_state(tls->ssl);
    return tls;
}

void hki_tls_free(hki_tls *tls)
{
    if (tls == NULL)
        return;
    if (tls->ready && !tls->send_failed && tls->receive_error == 0 && !tls->committed) {
        openssl->ERR_clear_error();
        (void)openssl->SSL_shutdown(tls->ssl);
    }
    openssl->SSL_free(tls->ssl);
    openssl->ERR_clear_error();
    pthread_mutex_destroy(&tls->lock);
    hki_tls_context_free(tls->context);
    free(tls);
}

void hki_tls_set_records_per_key(hki_tls *tls, uint64_t records)
{
    tls->records_per_key = records;
}

const char *hki_tls_reason(const hki_tls *tls)
{
    return tls->reason;
}

/* ---- what goes wrong ---- */

/* In the users' terms, where OpenSSL's do not help them; else in OpenSSL's. */
static const char *explain(hki_tls *tls, unsigned long error)
{
    long verified = openssl->SSL_get_verify_result(tls->ssl);
    if (tls->context->certified && verified != X509_V_OK)
        return openssl->X509_verify_cert_error_string(verified);
    switch (ERR_GET_REASON(error)) {
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
        return "the other end does not use it: HOCKET_TLS is required here and off there";
    case SSL_R_BINDER_DOES_NOT_VERIFY:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
    case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
        if (!tls->context->certified)
            return "the other end has another job key";
        break;
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
        if (!tls->context->certified)
            return "the other end does not offer the job key";
        break;
    default:
        break;
    }
    return hki_tls_complaint("the handshake failed");
}

/* Makes errno and the reason of OpenSSL's last failure: `code` is SSL_get_error's. */
static void fail(hki_tls *tls, int code, int system)
{
    unsigned long error = openssl->ERR_peek_error();
    if (code == SSL_ERROR_SYSCALL && error == 0) {
        errno = system != 0 ? system : ECONNRESET;
        snprintf(tls->reason, sizeof tls->reason, "TLS: %s", strerror(errno));
        return;
    }
    snprintf(tls->reason, sizeof tls->reason, "TLS: %.200s", explain(tls, error));
    errno = EPROTO;
}

/* ---- the handshake ---- */

/* Looks at the first byte before OpenSSL does, to tell an end without TLS (which begins with "hocket") what it lacks.
 * READY: it is TLS. */
static hki_tls_state listen_first(hki_tls *tls)
{
    uint8_t first;
    ssize_t got = recv(tls->fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return HKI_TLS_AGAIN;
    if (got <= 0) {
        snprintf(tls->reason, sizeof tls->reason, "the other end hung up before it said anything");
        return HKI_TLS_HUNG_UP;
    }
    tls->greeted = first == HKI_TLS_HANDSHAKE;
    if (tls->greeted)
        return HKI_TLS_READY;
    hki_tls_decline(tls->fd);
    snprintf(tls->reason, sizeof tls->reason, "%s",
             first == 'h' ? "the other end does not use TLS: HOCKET_TLS is required here and off there"
                          : "the other end speaks neither TLS nor this protocol");
    return HKI_TLS_FAILED;
}

static hki_tls_state shake(hki_tls *tls, bool *writing)
{
    openssl->ERR_clear_error();
    errno = 0;
    int done = openssl->SSL_do_handshake(tls->ssl), system = errno;
    if (done == 1) {
        tls->ready = true;
        return HKI_TLS_READY;
    }
    int code = openssl->SSL_get_error(tls->ssl, done);
    *writing = code == SSL_ERROR_WANT_WRITE;
    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
        return HKI_TLS_AGAIN;
    if (code == SSL_ERROR_ZERO_RETURN || (code == SSL_ERROR_SYSCALL && system == 0)) {
        snprintf(tls->reason, sizeof tls->reason, "the other end hung up during the TLS handshake");
        return HKI_TLS_HUNG_UP;
    }
    fail(tls, code, system);
    return errno == EPROTO ? HKI_TLS_FAILED : HKI_TLS_HUNG_UP;
}

hki_tls_state hki_tls_step(hki_tls *tls, bool *writing)
{
    *writing = false;
    if (tls->ready)
        return HKI_TLS_READY;
    if (tls->server && !tls->greeted) {
        hki_tls_state first = listen_first(tls);
        if (first != HKI_TLS_READY)
            return first;
    }
    return shake(tls, writing);
}

/* ---- sending ---- */

/* From byte `at` of the pieces on: at most a record's worth, where it lies if it lies in one place. */
static const void *gather(const struct iovec *pieces, size_t count, size_t at, uint8_t room[RECORD], size_t *bytes)
{
    *bytes = 0;
    for (size_t i = 0; i < count && *bytes < RECORD; i++) {
        if (at >= pieces[i].iov_len) {
            at -= pieces[i].iov_len;
            continue;
        }
        const uint8_t *from = (const uint8_t *)pieces[i].iov_base + at;
        size_t there = pieces[i].iov_len - at, left = RECORD - *bytes, part = there < left ? there : left;
        if (*bytes == 0 && (part == RECORD || i + 1 == count)) {
            *bytes = part;
            return from;
        }
        memcpy(room + *bytes, from, part);
        *bytes += part;
        at = 0;
    }
    return room;
}

/* Keys wear out. */
static void renew_key(hki_tls *tls)
{
    if (tls->records < tls->records_per_key || tls->committed)
        return;
    tls->records = 0;
    (void)openssl->SSL_key_update(tls->ssl, SSL_KEY_UPDATE_NOT_REQUESTED); /* leaves with the next record */
}

/* One record; 0 when the socket is full, −1 when the connection is broken. */
static int send_record(hki_tls *tls, const void *bytes, size_t count)
{
    size_t written;
    renew_key(tls);
    openssl->ERR_clear_error();
    errno = 0;
    int done = openssl->SSL_write_ex(tls->ssl, bytes, count, &written), system = errno;
    tls->committed = false;
    if (done == 1) {
        tls->records++;
        return 1;
    }
    int code = openssl->SSL_get_error(tls->ssl, done);
    tls->committed = code == SSL_ERROR_WANT_WRITE || code == SSL_ERROR_WANT_READ;
    if (tls->committed)
        return 0;
    fail(tls, code, system);
    tls->send_failed = true;
    return -1;
}

static ssize_t send_records(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    uint8_t room[RECORD];
    size_t total = 0, bytes;
    for (;;) {
        const void *from = gather(pieces, count, total, room, &bytes);
        if (bytes == 0)
            return (ssize_t)total;
        int sent = send_record(tls, from, bytes);
        if (sent < 0)
            return -1;
        if (sent == 0)
            break;
        total += bytes;
    }
    errno = EAGAIN;
    return total > 0 ? (ssize_t)total : -1;
}

ssize_t hki_tls_send(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    ssize_t sent = -1;
    pthread_mutex_lock(&tls->lock);
    if (tls->send_failed)
        errno = EPIPE;
    else
        sent = send_records(tls, pieces, count);
    pthread_mutex_unlock(&tls->lock);
    return sent;
}

bool hki_tls_committed(hki_tls *tls)
{
    pthread_mutex_lock(&tls->lock);
    bool committed = tls->committed;
    pthread_mutex_unlock(&tls->lock);
    return committed;
}

/* ---- receiving ---- */

/* Fills one piece as far as it goes. 1: filled; 0: nothing more comes now, or ever (*ended); −1: broken. */
static int fill(hki_tls *tls, uint8_t *to, size_t room, size_t *got, bool *ended)
{
    *got = 0;
    while (*got < room) {
        size_t part;
        openssl->ERR_clear_error();
        errno = 0;
        int done = openssl->SSL_read_ex(tls->ssl, to + *got, room - *got, &part), system = errno;
        if (done == 1) {
            *got += part;
            continue;
        }
        int code = openssl->SSL_get_error(tls->ssl, done);
        *ended = code == SSL_ERROR_ZERO_RETURN;
        if (*ended || code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
            return 0;
        fail(tls, code, system);
        tls->receive_error = errno;
        return -1;
    }
    return 1;
}

static ssize_t receive_pieces(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    size_t total = 0, got;
    bool ended = false;
    int filled = 1;
    if (tls->receive_error != 0) {
        errno = tls->receive_error;
        return -1;
    }
    for (size_t i = 0; i < count && filled == 1; i++) {
        filled = fill(tls, pieces[i].iov_base, pieces[i].iov_len, &got, &ended);
        total += got;
    }
    if (total > 0)
        return (ssize_t)total; /* what went wrong is said next time */
    if (filled == 0 && !ended)
        errno = EAGAIN;
    return ended ? 0 : -1;
}

ssize_t hki_tls_receive(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    pthread_mutex_lock(&tls->lock);
    ssize_t got = receive_pieces(tls, pieces, count);
    pthread_mutex_unlock(&tls->lock);
    return got;
}

#else

/* Without OpenSSL no context is ever made, and so no connection; these only satisfy the linker. */

hki_tls *hki_tls_new(hki_tls_context *context, int fd, bool server)
{
    (void)context, (void)fd, (void)server;
    return NULL;
}

void hki_tls_free(hki_tls *tls)
{
    (void)tls;
}

hki_tls_state hki_tls_step(hki_tls *tls, bool *writing)
{
    (void)tls;
    *writing = false;
    return HKI_TLS_FAILED;
}

const char *hki_tls_reason(const hki_tls *tls)
{
    (void)tls;
    return "built without OpenSSL";
}

ssize_t hki_tls_send(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    (void)tls, (void)pieces, (void)count;
    errno = EPROTO;
    return -1;
}

bool hki_tls_committed(hki_tls *tls)
{
    (void)tls;
    return false;
}

ssize_t hki_tls_receive(hki_tls *tls, const struct iovec *pieces, size_t count)
{
    (void)tls, (void)pieces, (void)count;
    errno = EPROTO;
    return -1;
}

void hki_tls_set_records_per_key(hki_tls *tls, uint64_t records)
{
    (void)tls, (void)records;
}

#endif
