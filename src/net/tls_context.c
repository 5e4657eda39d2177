/* Settings, certificates and the pre-shared key: what all connections of a job over TLS have in common. */
#include "net/tls_context.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static __attribute__((format(printf, 3, 4))) hki_tls_made wrong(char reason[HKI_TLS_REASON], hki_tls_made how,
                                                                const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, HKI_TLS_REASON, format, arguments);
    va_end(arguments);
    return how;
}

/* What can be said of the settings without OpenSSL: MADE when a context is to be made. */
static hki_tls_made judge_settings(const hki_tls_settings *settings, const uint8_t secret[HKI_TLS_SECRET],
                                   char reason[HKI_TLS_REASON])
{
    int given = (*settings->certificate != '\0') + (*settings->key != '\0') + (*settings->authority != '\0');
    uint8_t any = 0;
    for (int i = 0; i < HKI_TLS_SECRET; i++)
        any = (uint8_t)(any | secret[i]);
    bool off = *settings->mode == '\0' || strcmp(settings->mode, "off") == 0;
    if (!off && strcmp(settings->mode, "required") != 0)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS=%.64s: it can be off or required", settings->mode);
    if (off && given > 0)
        return wrong(reason, HKI_TLS_SETTING,
                     "HOCKET_TLS_CERTIFICATE, HOCKET_TLS_KEY or HOCKET_TLS_CA is given, but HOCKET_TLS is off: nothing "
                     "would be encrypted; set HOCKET_TLS=required, or give none of them");
    if (given != 0 && given != 3)
        return wrong(reason, HKI_TLS_SETTING,
                     "HOCKET_TLS_CERTIFICATE, HOCKET_TLS_KEY and HOCKET_TLS_CA belong together: give all, or none to "
                     "use the job key");
    if (!off && given == 0 && any == 0)
        return wrong(reason, HKI_TLS_SETTING,
                     "HOCKET_TLS=required needs a job key (HOCKET_KEY_FILE), or a certificate (HOCKET_TLS_CERTIFICATE, "
                     "HOCKET_TLS_KEY, HOCKET_TLS_CA)");
    return off ? HKI_TLS_OFF : HKI_TLS_MADE;
}

#ifdef HKI_HAVE_OPENSSL

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

enum {
    READ_AHEAD =
        32 << 10 /* what one recv may bring: two records; more, up to 128 KiB, gained nothing (1 MiB, measured) */
};

static const hki_openssl *const openssl = &hki_openssl_table;
/* Both with SHA-256, the hash that the pre-shared key is bound to. */
static const char ciphers[] = "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256";
static const unsigned char key_cipher[2] = {0x13, 0x01};
static const unsigned char key_name[] = {'h', 'o', 'c', 'k', 'e', 't'};

const char *hki_tls_complaint(const char *otherwise)
{
    const char *words = openssl->ERR_reason_error_string(openssl->ERR_peek_error());
    return words != NULL ? words : otherwise;
}

/* ---- the pre-shared key ---- */

/* A session as if it had been agreed on before: OpenSSL's form of an external key. Each connection gets its own, since
 * it is written to. */
static SSL_SESSION *key_session(SSL *ssl)
{
    const hki_tls_context *context = openssl->SSL_get_ex_data(ssl, 0);
    const SSL_CIPHER *cipher = openssl->SSL_CIPHER_find(ssl, key_cipher);
    SSL_SESSION *session = cipher != NULL ? openssl->SSL_SESSION_new() : NULL;
    if (session != NULL && (!openssl->SSL_SESSION_set1_master_key(session, context->key, sizeof context->key) ||
                            !openssl->SSL_SESSION_set1_id_context(session, key_name, sizeof key_name) ||
                            !openssl->SSL_SESSION_set_cipher(session, cipher) ||
                            !openssl->SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))) {
        openssl->SSL_SESSION_free(session);
        session = NULL;
    }
    return session;
}

static int use_key(SSL *ssl, const EVP_MD *hash, const unsigned char **name, size_t *bytes, SSL_SESSION **session)
{
    (void)hash; /* another than SHA-256 makes OpenSSL refuse the session */
    *name = key_name;
    *bytes = sizeof key_name;
    *session = key_session(ssl);
    return *session != NULL;
}

static int find_key(SSL *ssl, const unsigned char *name, size_t bytes, SSL_SESSION **session)
{
    *session = NULL;
    if (bytes != sizeof key_name || memcmp(name, key_name, bytes) != 0)
        return 1; /* unknown: there is no other way to prove oneself, so the handshake fails */
    *session = key_session(ssl);
    return *session != NULL;
}

static void share_key(hki_tls_context *context, const uint8_t secret[HKI_TLS_SECRET])
{
    static const char label[] = "hocket TLS 1.3 external PSK";
    hki_mac(secret, HKI_TLS_SECRET, label, sizeof label - 1, context->key);
    openssl->SSL_CTX_set_psk_use_session_callback(context->ssl, use_key);
    openssl->SSL_CTX_set_psk_find_session_callback(context->ssl, find_key);
}

/* ---- certificates ---- */

/* OpenSSL would ask at the terminal. */
static int no_password(char *to, int room, int writing, void *context)
{
    (void)to, (void)room, (void)writing, (void)context;
    return -1;
}

static hki_tls_made check_key_file(const char *path, char reason[HKI_TLS_REASON])
{
    struct stat about;
    if (stat(path, &about) != 0)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_KEY: %.128s: %s", path, strerror(errno));
    if ((about.st_mode & S_IRWXO) != 0)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_KEY: %.128s can be used by everybody (chmod 600 it)", path);
    return HKI_TLS_MADE;
}

static hki_tls_made take_certificates(SSL_CTX *ssl, const hki_tls_settings *settings, char reason[HKI_TLS_REASON])
{
    hki_tls_made made = check_key_file(settings->key, reason);
    if (made != HKI_TLS_MADE)
        return made;
    openssl->SSL_CTX_set_default_passwd_cb(ssl, no_password);
    if (openssl->SSL_CTX_use_certificate_chain_file(ssl, settings->certificate) != 1)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_CERTIFICATE: %.128s: %s", settings->certificate,
                     hki_tls_complaint("it cannot be read"));
    if (openssl->SSL_CTX_use_PrivateKey_file(ssl, settings->key, SSL_FILETYPE_PEM) != 1)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_KEY: %.128s: %s (a key without a password, as PEM)",
                     settings->key, hki_tls_complaint("it cannot be read"));
    if (openssl->SSL_CTX_check_private_key(ssl) != 1)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_KEY: %.96s is not the key of %.96s", settings->key,
                     settings->certificate);
    if (openssl->SSL_CTX_load_verify_file(ssl, settings->authority) != 1)
        return wrong(reason, HKI_TLS_SETTING, "HOCKET_TLS_CA: %.128s: %s", settings->authority,
                     hki_tls_complaint("it cannot be read"));
    return HKI_TLS_MADE;
}

/* ---- the context ---- */

static bool restrict_to_1_3(SSL_CTX *ssl)
{
    openssl->SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION |
                                          SSL_OP_IGNORE_UNEXPECTED_EOF /* frames have a goodbye of their own */);
    openssl->SSL_CTX_ctrl(ssl, SSL_CTRL_MODE, SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS, NULL);
    openssl->SSL_CTX_ctrl(ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, NULL);
    openssl->SSL_CTX_ctrl(ssl, SSL_CTRL_SET_READ_AHEAD, 1, NULL);
    openssl->SSL_CTX_set_default_read_buffer_len(ssl, READ_AHEAD);
    /* Whoever has no certificate is let in by the key alone: without it neither end has a way to prove itself. */
    openssl->SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    if (openssl->SSL_CTX_set_session_id_context(ssl, key_name, sizeof key_name) !=
        1) /* sessions need one, even these */
        return false;
    return openssl->SSL_CTX_ctrl(ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           openssl->SSL_CTX_ctrl(ssl, SSL_CTRL_SET_MAX_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           openssl->SSL_CTX_set_num_tickets(ssl, 0) == 1 && openssl->SSL_CTX_set_ciphersuites(ssl, ciphers) == 1;
}

static hki_tls_made prepare(hki_tls_context *context, const hki_tls_settings *settings,
                            const uint8_t secret[HKI_TLS_SECRET], char reason[HKI_TLS_REASON])
{
    openssl->ERR_clear_error();
    context->ssl = openssl->SSL_CTX_new(openssl->TLS_method());
    context->method = hki_tls_method();
    if (context->ssl == NULL || context->method == NULL || !restrict_to_1_3(context->ssl))
        return wrong(reason, HKI_TLS_UNAVAILABLE, "HOCKET_TLS=required: OpenSSL offers no TLS 1.3: %s",
                     hki_tls_complaint("no reason given"));
    context->certified = *settings->certificate != '\0';
    if (context->certified)
        return take_certificates(context->ssl, settings, reason);
    share_key(context, secret);
    return HKI_TLS_MADE;
}

hki_tls_made hki_tls_context_make(const hki_tls_settings *settings, const uint8_t secret[HKI_TLS_SECRET],
                                  hki_tls_context **result, char reason[HKI_TLS_REASON])
{
    const char *why;
    *result = NULL;
    hki_tls_made made = judge_settings(settings, secret, reason);
    if (made != HKI_TLS_MADE)
        return made;
    if (hki_openssl_ssl(&why) == NULL)
        return wrong(reason, HKI_TLS_UNAVAILABLE,
                     "HOCKET_TLS=required needs OpenSSL 3, whose libssl cannot be loaded (package libssl3, or "
                     "openssl-libs): %s",
                     why);
    hki_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL)
        return wrong(reason, HKI_TLS_UNAVAILABLE, "no memory for TLS");
    context->users = 1;
    made = prepare(context, settings, secret, reason);
    if (made == HKI_TLS_MADE)
        *result = context;
    else
        hki_tls_context_free(context);
    return made;
}

void hki_tls_context_free(hki_tls_context *context)
{
    if (context == NULL || atomic_fetch_sub(&context->users, 1) > 1)
        return;
    openssl->SSL_CTX_free(context->ssl);
    openssl->BIO_meth_free(context->method);
    explicit_bzero(context->key, sizeof context->key);
    free(context);
}

#else

hki_tls_made hki_tls_context_make(const hki_tls_settings *settings, const uint8_t secret[HKI_TLS_SECRET],
                                  hki_tls_context **result, char reason[HKI_TLS_REASON])
{
    *result = NULL;
    hki_tls_made made = judge_settings(settings, secret, reason);
    if (made != HKI_TLS_MADE)
        return made;
    return wrong(reason, HKI_TLS_UNAVAILABLE,
                 "HOCKET_TLS=required, but this library was built without OpenSSL (HOCKET_WITH_OPENSSL, package "
                 "libssl-dev)");
}

void hki_tls_context_free(hki_tls_context *context)
{
    (void)context;
}

#endif
