/*
 * OpenSSL 3, loaded by name when it is first needed: nothing is linked to it, ranks that talk through shared memory
 * never load it (0.8 ms and as much again for its first use, measured), and a program that brings its own keeps that.
 * Once loaded it stays. For src/net alone; others see net/mac.h and net/tls.h.
 */
#ifndef HKI_NET_OPENSSL_H
#define HKI_NET_OPENSSL_H

#ifdef HKI_HAVE_OPENSSL

#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#if OPENSSL_VERSION_NUMBER < 0x30000000L || OPENSSL_VERSION_NUMBER >= 0x40000000L
#error "OpenSSL 3 is needed; -DHOCKET_WITH_OPENSSL=OFF builds without it"
#endif

#define HKI_CRYPTO_CALLS(X)                                                                                            \
    X(BIO_clear_flags)                                                                                                 \
    X(BIO_get_data)                                                                                                    \
    X(BIO_meth_free)                                                                                                   \
    X(BIO_meth_new)                                                                                                    \
    X(BIO_meth_set_ctrl)                                                                                               \
    X(BIO_meth_set_read)                                                                                               \
    X(BIO_meth_set_write)                                                                                              \
    X(BIO_new)                                                                                                         \
    X(BIO_set_data)                                                                                                    \
    X(BIO_set_flags)                                                                                                   \
    X(BIO_set_init)                                                                                                    \
    X(ERR_clear_error)                                                                                                 \
    X(ERR_peek_error)                                                                                                  \
    X(ERR_reason_error_string)                                                                                         \
    X(EVP_sha256)                                                                                                      \
    X(HMAC)                                                                                                            \
    X(OPENSSL_init_crypto)                                                                                             \
    X(X509_verify_cert_error_string)

#define HKI_SSL_CALLS(X)                                                                                               \
    X(SSL_CIPHER_find)                                                                                                 \
    X(SSL_CTX_check_private_key)                                                                                       \
    X(SSL_CTX_ctrl)                                                                                                    \
    X(SSL_CTX_free)                                                                                                    \
    X(SSL_CTX_load_verify_file)                                                                                        \
    X(SSL_CTX_new)                                                                                                     \
    X(SSL_CTX_set_ciphersuites)                                                                                        \
    X(SSL_CTX_set_default_passwd_cb)                                                                                   \
    X(SSL_CTX_set_default_read_buffer_len)                                                                             \
    X(SSL_CTX_set_num_tickets)                                                                                         \
    X(SSL_CTX_set_options)                                                                                             \
    X(SSL_CTX_set_psk_find_session_callback)                                                                           \
    X(SSL_CTX_set_psk_use_session_callback)                                                                            \
    X(SSL_CTX_set_session_id_context)                                                                                  \
    X(SSL_CTX_set_verify)                                                                                              \
    X(SSL_CTX_use_PrivateKey_file)                                                                                     \
    X(SSL_CTX_use_certificate_chain_file)                                                                              \
    X(SSL_SESSION_free)                                                                                                \
    X(SSL_SESSION_new)                                                                                                 \
    X(SSL_SESSION_set1_id_context)                                                                                     \
    X(SSL_SESSION_set1_master_key)                                                                                     \
    X(SSL_SESSION_set_cipher)                                                                                          \
    X(SSL_SESSION_set_protocol_version)                                                                                \
    X(SSL_do_handshake)                                                                                                \
    X(SSL_free)                                                                                                        \
    X(SSL_get_error)                                                                                                   \
    X(SSL_get_ex_data)                                                                                                 \
    X(SSL_get_verify_result)                                                                                           \
    X(SSL_key_update)                                                                                                  \
    X(SSL_new)                                                                                                         \
    X(SSL_read_ex)                                                                                                     \
    X(SSL_set_accept_state)                                                                                            \
    X(SSL_set_bio)                                                                                                     \
    X(SSL_set_connect_state)                                                                                           \
    X(SSL_set_ex_data)                                                                                                 \
    X(SSL_shutdown)                                                                                                    \
    X(SSL_write_ex)                                                                                                    \
    X(TLS_method)

typedef struct hki_openssl {
#define HKI_OPENSSL_MEMBER(name) __typeof__(name) *name;
    HKI_CRYPTO_CALLS(HKI_OPENSSL_MEMBER)
    HKI_SSL_CALLS(HKI_OPENSSL_MEMBER)
#undef HKI_OPENSSL_MEMBER
} hki_openssl;

/* The calls, once they are loaded: never without one of the functions below having said so. */
extern hki_openssl hki_openssl_table;

/* libcrypto's calls, or NULL: *why (NULL-able) says what is missing. Any thread. */
const hki_openssl *hki_openssl_crypto(const char **why);
/* These and libssl's. */
const hki_openssl *hki_openssl_ssl(const char **why);

#endif

#endif
