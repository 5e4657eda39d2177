#include "boot/boot.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/source.h"
#include "net/mac.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { NAME_MAX_BYTES = 32 }; /* a store's keys have 64 bytes: "<name>/<exchange>/<rank>" */

/* ---------------------------------------------------------------------------------------------------------------
 * A job of one rank
 * ------------------------------------------------------------------------------------------------------------- */

static void alone_leave(hki_boot *boot)
{
    free(boot);
}

/* exchange is never called: with one rank hki_boot_exchange copies. */
static const hki_boot_ops alone_ops = {.exchange = NULL, .leave = alone_leave};

hk_status hki_boot_alone(const hk_options *options, const char *source, hki_boot **boot)
{
    hki_boot *alone = calloc(1, sizeof *alone);
    if (!alone)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining as the only rank");
    alone->ops = &alone_ops;
    alone->place = (hki_place){.rank = 0, .ranks = 1, .source = source};
    if (options->key) {
        hki_boot_derive_key(options->key, options->key_bytes, hki_boot_name(options), alone->place.key);
        alone->place.has_key = true;
    }
    *boot = alone;
    return HK_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * What the sources share
 * ------------------------------------------------------------------------------------------------------------- */

const char *hki_boot_name(const hk_options *options)
{
    return options->name ? options->name : "hocket";
}

void hki_boot_derive_key(const void *secret, size_t bytes, const char *name, uint8_t key[HKI_KEY_BYTES])
{
    char purpose[64] = "hocket job ";
    strncat(purpose, name, NAME_MAX_BYTES);
    hki_mac(secret, bytes, purpose, strlen(purpose), key);
}

hk_status hki_boot_random(void *bytes, size_t count)
{
    uint8_t *next = bytes;
    while (count > 0) {
        ssize_t got = getrandom(next, count, 0);
        if (got < 0 && errno != EINTR)
            return hki_error_errno(HK_ERR_SYSTEM, errno, "getrandom failed while joining");
        if (got > 0) {
            next += got;
            count -= (size_t)got;
        }
    }
    return HK_OK;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Joining
 * ------------------------------------------------------------------------------------------------------------- */

static hk_status check_name(const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length > NAME_MAX_BYTES)
        return hki_error(HK_ERR_ARGUMENT, "options.name has %zu characters; 1 to %d are allowed", length,
                         (int)NAME_MAX_BYTES);
    for (size_t i = 0; i < length; i++)
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '/')
            return hki_error(HK_ERR_ARGUMENT, "options.name: character %zu is not printable ASCII, or is a space or /",
                             i);
    return HK_OK;
}

static hk_status check_options(const hk_options *options)
{
    HK_TRY(check_name(hki_boot_name(options)));
    if (options->key && (options->key_bytes < 16 || options->key_bytes > 64))
        return hki_error(HK_ERR_ARGUMENT, "options.key_bytes is %zu; a job key has 16 to 64 bytes", options->key_bytes);
    if (options->rank < -1)
        return hki_error(HK_ERR_ARGUMENT, "options.rank is %d; -1 (from the environment) or a rank is expected",
                         options->rank);
    if (options->store && options->id)
        return hki_error(HK_ERR_ARGUMENT, "options.store and options.id are given: ranks meet by one of them");
    if (options->rank == -1 && (options->store || options->id))
        return hki_error(HK_ERR_ARGUMENT, "options.%s is given, so options.rank and options.ranks must be too",
                         options->store ? "store" : "id");
    if (options->rank >= 0 && options->rank >= options->ranks)
        return hki_error(HK_ERR_ARGUMENT, "options.rank is %d, but options.ranks is %d", options->rank, options->ranks);
    if (options->rank >= 0 && options->ranks > 1 && !options->store && !options->id)
        return hki_error(HK_ERR_ARGUMENT,
                         "options.store is NULL, but rank %d of %d needs one (or options.id) to find "
                         "the others",
                         options->rank, options->ranks);
    if (isnan(options->timeout))
        return hki_error(HK_ERR_ARGUMENT, "options.timeout is not a number");
    if (options->threads != HK_THREADS_SERIALIZED && options->threads != HK_THREADS_MULTIPLE)
        return hki_error(HK_ERR_ARGUMENT, "options.threads is %d, which is no hk_threads", (int)options->threads);
    const hk_store *store = options->store;
    if (store && (store->size < offsetof(hk_store, wait) || !store->set || !store->get))
        return hki_error(HK_ERR_ARGUMENT, "options.store: size must be sizeof(hk_store), set and get not NULL");
    return HK_OK;
}

static hk_status join(const hk_options *options, hki_boot **boot)
{
    static const struct {
        bool (*there)(void);
        hk_status (*join)(const hk_options *options, hki_boot **boot);
    } sources[] = {{hki_boot_settings_place, hki_boot_by_settings},
                   {hki_boot_launched, hki_boot_by_launcher},
                   {hki_boot_kvs_place, hki_boot_by_kvs},
                   {hki_boot_torch_place, hki_boot_by_torch}};
    if (options->id)
        return hki_boot_by_unique_id(options, boot);
    if (options->rank >= 0 && options->ranks == 1)
        return hki_boot_alone(options, "alone", boot);
    if (options->store)
        return hki_boot_by_store(options, boot);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (sources[i].there())
            return sources[i].join(options, boot);
    if (hki_setting_integer(HKI_SET_RANKS) > 1 && hki_setting_integer(HKI_SET_RANK) < 0)
        hki_log(HK_LOG_WARN,
                "HOCKET_RANKS is %d, but nothing says which of them this process is (HOCKET_RANK): it runs alone",
                (int)hki_setting_integer(HKI_SET_RANKS));
    return hki_boot_alone(options, "alone", boot);
}

hk_status hki_boot_join(const hk_options *given, hki_boot **boot)
{
    uint8_t secret[HKI_SECRET_MOST];
    hk_options options = *given;
    HK_TRY(check_options(given));
    HK_TRY(hki_boot_fill_key(&options, secret));
    hk_status status = join(&options, boot);
    explicit_bzero(secret, sizeof secret);
    return status;
}

const hki_place *hki_boot_place(const hki_boot *boot)
{
    return &boot->place;
}

hk_status hki_boot_exchange(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout)
{
    if (boot->place.ranks == 1) {
        memcpy(all, mine, bytes);
        return HK_OK;
    }
    return boot->ops->exchange(boot, mine, bytes, all, timeout);
}

void hki_boot_leave(hki_boot *boot)
{
    if (boot)
        boot->ops->leave(boot);
}
