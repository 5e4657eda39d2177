#include "net/openssl.h"

#ifdef HKI_HAVE_OPENSSL

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

hki_openssl hki_openssl_table;
static char crypto_trouble[256], ssl_trouble[256]; /* "": loaded */
static pthread_once_t crypto_once = PTHREAD_ONCE_INIT, ssl_once = PTHREAD_ONCE_INIT;

typedef struct symbol {
    const char *name;
    void **to; /* dlsym gives an object's address for a function: POSIX allows the conversion, ISO C does not */
} symbol;

static void load(const char *library, const symbol *symbols, size_t count, char trouble[256])
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(trouble, sizeof crypto_trouble, "%s", dlerror());
        return;
    }
    for (size_t i = 0; i < count; i++) {
        *symbols[i].to = dlsym(handle, symbols[i].name);
        if (*symbols[i].to == NULL)
            snprintf(trouble, sizeof crypto_trouble, "%s has no %s", library, symbols[i].name);
    }
}

#define SYMBOL(name) {#name, (void **)&hki_openssl_table.name},

/* Left alone, OpenSSL would tear itself down at exit before contexts that were not freed have said goodbye. */
static void load_crypto(void)
{
    const symbol symbols[] = {HKI_CRYPTO_CALLS(SYMBOL)};
    load("libcrypto.so.3", symbols, sizeof symbols / sizeof *symbols, crypto_trouble);
    if (crypto_trouble[0] == '\0' && hki_openssl_table.OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        snprintf(crypto_trouble, sizeof crypto_trouble, "libcrypto.so.3 cannot be initialised");
}

static void load_ssl(void)
{
    const symbol symbols[] = {HKI_SSL_CALLS(SYMBOL)};
    load("libssl.so.3", symbols, sizeof symbols / sizeof *symbols, ssl_trouble);
}

const hki_openssl *hki_openssl_crypto(const char **why)
{
    pthread_once(&crypto_once, load_crypto);
    if (why != NULL)
        *why = crypto_trouble;
    return crypto_trouble[0] == '\0' ? &hki_openssl_table : NULL;
}

const hki_openssl *hki_openssl_ssl(const char **why)
{
    if (hki_openssl_crypto(why) == NULL)
        return NULL;
    pthread_once(&ssl_once, load_ssl);
    if (why != NULL)
        *why = ssl_trouble;
    return ssl_trouble[0] == '\0' ? &hki_openssl_table : NULL;
}

#endif
