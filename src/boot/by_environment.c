/*
 * Joining by variables of the environment: HOCKET_RANK, HOCKET_RANKS and HOCKET_STORE; or those that torchrun and many
 * operators for Kubernetes set, RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. MASTER_PORT itself is left alone:
 * torchrun's agent, or PyTorch in rank 0, listens there. Rank 0 takes the first free one of the 16 after it, and the
 * others find it by the handshake.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/source.h"
#include "boot/spot.h"
#include "net/mac.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double linger_seconds = 10; /* for ranks that still read when rank 0 is done */

/* ---------------------------------------------------------------------------------------------------------------
 * What sources in the environment have in common
 * ------------------------------------------------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t idle;
    bool busy;
    unsigned joined; /* contexts begun so far */
} turns = {.lock = PTHREAD_MUTEX_INITIALIZER, .idle = PTHREAD_COND_INITIALIZER};

unsigned hki_boot_take_turn(void)
{
    pthread_mutex_lock(&turns.lock);
    while (turns.busy)
        pthread_cond_wait(&turns.idle, &turns.lock);
    turns.busy = true;
    unsigned before = turns.joined++;
    pthread_mutex_unlock(&turns.lock);
    return before;
}

void hki_boot_end_turn(void)
{
    pthread_mutex_lock(&turns.lock);
    turns.busy = false;
    pthread_cond_signal(&turns.idle);
    pthread_mutex_unlock(&turns.lock);
}

static const char *joined_variable(void)
{
    size_t count;
    return hki_settings(&count)[HKI_SET_JOINED].name;
}

/* HOCKET_JOINED=<pid> <mark>. */
bool hki_boot_place_taken(const char *mark)
{
    const char *taken = hki_environment(joined_variable());
    char *end;
    if (!taken)
        return false;
    long pid = strtol(taken, &end, 10);
    return end != taken && *end == ' ' && strcmp(end + 1, mark) == 0 && pid != (long)getpid();
}

void hki_boot_take_place(const char *mark)
{
    char value[512];
    snprintf(value, sizeof value, "%ld %s", (long)getpid(), mark);
    setenv(joined_variable(), value, 1);
}

/* Digits only, low … high. */
static bool whole(const char *text, long low, long high, long *value)
{
    char *end;
    errno = 0;
    *value = strtol(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 && *value >= low && *value <= high;
}

/* ---------------------------------------------------------------------------------------------------------------
 * A store over TCP at a known place
 * ------------------------------------------------------------------------------------------------------------- */

/* *loopback: nobody else can come. */
static hk_status listening_addresses(const hki_spot *where, hki_address at[HKI_LISTEN_MOST], int *count, bool *loopback)
{
    const char *why = "";
    *count = hki_resolve(where->host, 0, at, HKI_LISTEN_MOST, &why);
    if (*count == 0)
        return hki_error(HK_ERR_BOOTSTRAP, "%s: %s: %s", where->settings, where->host, why);
    *loopback = true;
    for (int i = 0; i < *count; i++)
        *loopback &= hki_address_is_loopback(&at[i]);
    return HK_OK;
}

static hk_status need_key(const hki_spot *where)
{
    return hki_error(HK_ERR_SETTING,
                     "%s: %s is not this machine alone, and there is no job key to tell friends from strangers: set "
                     "HOCKET_KEY_FILE, or HOCKET_KEY=none to do without",
                     where->settings, where->host);
}

/* With a key, a name that leads to the loopback is likely the machine's own (Debian has "127.0.1.1 name"), and others
 * come by its other addresses. */
static bool is_machine_name(const char *host)
{
    hki_address address;
    return strcmp(host, "localhost") != 0 && !hki_address_parse(host, &address);
}

/* At the host's addresses if they are this machine's; else (a name that is translated on the way, such as a service of
 * Kubernetes) at all. */
static hk_status listen_there(const hki_spot *where, bool may_be_wide, hki_listeners *listeners)
{
    hki_address at[HKI_LISTEN_MOST];
    int count;
    bool loopback;
    const hki_address all[] = {{.family = AF_INET6}, {.family = AF_INET}};
    HK_TRY(listening_addresses(where, at, &count, &loopback));
    if (!loopback && !may_be_wide)
        return need_key(where);
    if (loopback && may_be_wide && is_machine_name(where->host))
        return hki_listeners_open(all, 2, where->first, where->ports, listeners);
    hk_status status = hki_listeners_open(at, count, where->first, where->ports, listeners);
    if (status == HK_OK || loopback)
        return status;
    return hki_listeners_open(all, 2, where->first, where->ports, listeners);
}

/* Of the one context that is being made. */
static struct {
    hki_listeners listeners;
    void (*ended)(void);
} served;

static void end_served(void)
{
    hki_listeners_close(&served.listeners);
    if (served.ended)
        served.ended();
}

/* Without a key the same key for all: the handshake then only tells Hocket from others, and jobs from one another. */
static void identify(const hk_options *options, unsigned number, hki_store_identity *identity)
{
    uint8_t digest[HKI_MAC_BYTES];
    const char *name = hki_boot_name(options);
    if (options->key)
        hki_boot_derive_key(options->key, options->key_bytes, name, identity->key);
    else
        memset(identity->key, 0, sizeof identity->key);
    hki_mac(name, strlen(name), &number, sizeof number, digest);
    memcpy(&identity->id, digest, sizeof identity->id);
}

static hk_status make_store(const hki_spot *where, const hk_options *options, unsigned number, hk_store **store)
{
    hki_store_identity identity;
    identify(options, number, &identity);
    if (options->rank == 0) {
        HK_TRY(listen_there(where, options->key || hki_boot_keyless(), &served.listeners));
        return hki_store_serve(&served.listeners, &identity, linger_seconds, store);
    }
    hki_dial dial = {.host = where->host, .first = where->first, .ports = where->ports, .settings = where->settings};
    return hki_store_dial(&dial, &identity, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT), store);
}

/* A client of a place that is not this machine must have a key, too: without it would tell the secret to whoever
 * listens there. */
static hk_status check_key(const hki_spot *where, const hk_options *options)
{
    hki_address at[HKI_LISTEN_MOST];
    int count;
    bool loopback;
    if (options->key || hki_boot_keyless() || options->rank == 0)
        return HK_OK;
    if (listening_addresses(where, at, &count, &loopback) != HK_OK || loopback)
        return HK_OK; /* it may come to be known later; the handshake tells */
    return need_key(where);
}

hk_status hki_boot_at_spot(const hki_spot *where, const hk_options *options, unsigned number, const char *source,
                           void (*ended)(void), hki_boot **boot)
{
    hk_store *store;
    served.ended = ended;
    hk_status status = check_key(where, options);
    if (status == HK_OK)
        status = make_store(where, options, number, &store);
    if (status != HK_OK) {
        end_served();
        return status;
    }
    return hki_boot_by_own_store(options, store, source, end_served, boot);
}

/* ---------------------------------------------------------------------------------------------------------------
 * HOCKET_RANK, HOCKET_RANKS, HOCKET_STORE
 * ------------------------------------------------------------------------------------------------------------- */

static const char tcp[] = "tcp://", file[] = "file:"; /* how HOCKET_STORE begins */

static void settings_mark(char mark[256])
{
    snprintf(mark, 256, "HOCKET_RANK %lld %.200s", (long long)hki_setting_integer(HKI_SET_RANK),
             hki_setting_text(HKI_SET_STORE));
}

bool hki_boot_settings_place(void)
{
    char mark[256];
    settings_mark(mark);
    return hki_setting_integer(HKI_SET_RANK) >= 0 && !hki_boot_place_taken(mark);
}

/* A directory keeps what was set, so each context has a name of its own there. */
static hk_status join_by_directory(const char *directory, const hk_options *options, unsigned number, hki_boot **boot)
{
    char name[64];
    hk_store *store;
    hk_options placed = *options;
    snprintf(name, sizeof name, number > 0 ? "%.24s.%u" : "%s", hki_boot_name(options), number);
    placed.name = name;
    hk_status status = hk_store_file(directory, &store);
    if (status != HK_OK) {
        hki_boot_end_turn();
        return status;
    }
    return hki_boot_by_own_store(&placed, store, "HOCKET_STORE", hki_boot_end_turn, boot);
}

/* An IPv6 address without brackets, as in ::1:29500, hides where its port begins: *port is then the text behind the
 * last colon, and `host` what is before. */
static bool lacks_brackets(const char *text, char host[HKI_HOST_TEXT], const char **port)
{
    hki_address address;
    const char *colon = strrchr(text, ':');
    if (!colon || colon == text || (size_t)(colon - text) >= HKI_HOST_TEXT)
        return false;
    memcpy(host, text, (size_t)(colon - text));
    host[colon - text] = '\0';
    *port = colon + 1;
    return hki_address_parse(host, &address) && address.family == AF_INET6;
}

static hk_status bad_store(const char *text)
{
    char host[HKI_HOST_TEXT];
    const char *port;
    if (*text == '\0')
        return hki_error(HK_ERR_SETTING, "HOCKET_STORE is not set, but HOCKET_RANK is: tcp://host:port or "
                                         "file:directory is expected with it");
    if (strncmp(text, tcp, sizeof tcp - 1) == 0 && lacks_brackets(text + sizeof tcp - 1, host, &port))
        return hki_error(HK_ERR_SETTING, "HOCKET_STORE=%s: an IPv6 address is written in brackets: %s[%s]:%s", text,
                         tcp, host, port);
    return hki_error(HK_ERR_SETTING, "HOCKET_STORE=%s: tcp://host:port or file:directory is expected with HOCKET_RANK",
                     text);
}

static hk_status join_by_settings(const hk_options *options, hki_boot **boot)
{
    const char *text = hki_setting_text(HKI_SET_STORE);
    hki_spot where = {.ports = 1, .settings = "HOCKET_STORE"};
    unsigned number = hki_boot_take_turn();
    if (strncmp(text, file, sizeof file - 1) == 0 && text[sizeof file - 1] != '\0')
        return join_by_directory(text + sizeof file - 1, options, number, boot);
    if (strncmp(text, tcp, sizeof tcp - 1) == 0 &&
        hki_host_port_parse(text + sizeof tcp - 1, where.host, &where.first) && where.first != 0)
        return hki_boot_at_spot(&where, options, number, "HOCKET_STORE", hki_boot_end_turn, boot);
    hki_boot_end_turn();
    return bad_store(text);
}

hk_status hki_boot_by_settings(const hk_options *given, hki_boot **boot)
{
    char mark[256];
    hk_options options = *given;
    options.rank = (int)hki_setting_integer(HKI_SET_RANK);
    options.ranks = (int)hki_setting_integer(HKI_SET_RANKS);
    if (options.rank >= options.ranks)
        return hki_error(HK_ERR_SETTING, "HOCKET_RANK is %d, so HOCKET_RANKS must be more than that, but is %d",
                         options.rank, options.ranks);
    settings_mark(mark);
    hki_boot_take_place(mark);
    return join_by_settings(&options, boot);
}

/* ---------------------------------------------------------------------------------------------------------------
 * RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
 * ------------------------------------------------------------------------------------------------------------- */

static const char *const torch_names[] = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"};
enum { TORCH_RANK, TORCH_RANKS, TORCH_ADDRESS, TORCH_PORT, TORCH_NAMES };

static void torch_mark(char mark[256])
{
    size_t used = 0;
    mark[0] = '\0';
    for (int i = 0; i < TORCH_NAMES && used < 256; i++)
        used += (size_t)snprintf(mark + used, 256 - used, "%s %.60s ", torch_names[i], hki_environment(torch_names[i]));
}

bool hki_boot_torch_place(void)
{
    char mark[256];
    for (int i = 0; i < TORCH_NAMES; i++) {
        const char *value = hki_environment(torch_names[i]);
        if (!value || *value == '\0')
            return false;
    }
    torch_mark(mark);
    return !hki_boot_place_taken(mark);
}

static hk_status choose_ports(uint16_t master, hki_spot *where)
{
    uint16_t own = (uint16_t)hki_setting_integer(HKI_SET_PORT);
    where->first = own != 0 ? own : (uint16_t)(master + 1);
    where->ports = own != 0 ? 1 : HKI_PORTS_TRIED;
    if (own == 0 && master > UINT16_MAX - HKI_PORTS_TRIED)
        return hki_error(HK_ERR_SETTING,
                         "MASTER_PORT=%u: there are no %d ports after it, one of which rank 0 takes; set HOCKET_PORT "
                         "to one that is free",
                         master, (int)HKI_PORTS_TRIED);
    return HK_OK;
}

hk_status hki_boot_by_torch(const hk_options *given, hki_boot **boot)
{
    char mark[256];
    const char *values[TORCH_NAMES];
    long rank, ranks, port;
    hk_options options = *given;
    hki_spot where = {.settings = "MASTER_ADDR and MASTER_PORT"};
    for (int i = 0; i < TORCH_NAMES; i++)
        values[i] = hki_environment(torch_names[i]);
    if (!whole(values[TORCH_RANKS], 1, 1 << 20, &ranks) || !whole(values[TORCH_RANK], 0, ranks - 1, &rank) ||
        !whole(values[TORCH_PORT], 1, UINT16_MAX, &port) || strlen(values[TORCH_ADDRESS]) >= sizeof where.host)
        return hki_error(HK_ERR_SETTING, "RANK=%s WORLD_SIZE=%s MASTER_ADDR=%s MASTER_PORT=%s make no sense together",
                         values[TORCH_RANK], values[TORCH_RANKS], values[TORCH_ADDRESS], values[TORCH_PORT]);
    snprintf(where.host, sizeof where.host, "%s", values[TORCH_ADDRESS]);
    HK_TRY(choose_ports((uint16_t)port, &where));
    options.rank = (int)rank;
    options.ranks = (int)ranks;
    torch_mark(mark);
    hki_boot_take_place(mark);
    unsigned number = hki_boot_take_turn();
    return hki_boot_at_spot(&where, &options, number, "RANK and MASTER_ADDR", hki_boot_end_turn, boot);
}
