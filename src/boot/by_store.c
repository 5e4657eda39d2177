/*
 * Joining through a store. One exchange: every rank sets "<name>/<n>/<rank>"; rank 0 gets them all and sets the result
 * "<name>/<n>/all.<part>" in parts of at most 1 MiB, which the others get: about 2P operations on the store for P
 * ranks, where everyone reading everyone would be P². What rank 0 finds wrong (a missing rank, ranks that disagree) it
 * sets as the result, so that everyone learns it. Many ranks hand on the result from one to the other (relay.h).
 *
 * Some stores overwrite silently. Records therefore carry a random number of their writer, and each rank looks for its
 * own in the result: a second process with the same rank finds another's.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/ranks.h"
#include "boot/relay.h"
#include "boot/source.h"
#include "boot/store_made.h"
#include "boot/store_tcp.h"
#include "net/mac.h"
#include "net/refusals.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RECORD_MAGIC = 0x484b5231, RESULT_MAGIC = 0x484b5232, FAILURE_TEXT_BYTES = 400, RELAY_SECONDS = 5 };

typedef struct store_boot {
    hki_boot boot;
    const hk_store *store;
    hk_store *owned;     /* the same, if it is to be freed */
    void (*ended)(void); /* called after that */
    hki_relay *relay;    /* NULL: all get results from the store itself */
    uint64_t nonce;      /* tells this process from another that claims the same rank */
    uint32_t exchanges;  /* so far */
    char name[HKI_STORE_KEY_MAX];
} store_boot;

typedef struct record_header {
    uint32_t magic, ranks;
    uint64_t nonce, bytes; /* of the payload that follows */
} record_header;

/* At the start of part 0 of a result. Then: one nonce a rank, one payload a rank; or the text of a failure. */
typedef struct result_header {
    uint32_t magic, ranks;
    uint32_t status; /* hk_status */
    uint32_t zero;
    uint64_t bytes; /* of one payload; of the text, if status is not HK_OK */
} result_header;

typedef struct exchange {
    store_boot *self;
    size_t bytes; /* payload of one rank */
    uint64_t deadline;
    double timeout; /* as given, for errors */
    char *result;   /* result_header, nonces, payloads */
    size_t result_bytes;
} exchange;

static double left(const exchange *x)
{
    uint64_t now = hki_now();
    return now < x->deadline ? (double)(x->deadline - now) * 1e-9 : 0;
}

static void rank_key(const exchange *x, int rank, char key[HKI_STORE_KEY_MAX + 1])
{
    snprintf(key, HKI_STORE_KEY_MAX + 1, "%.32s/%u/%d", x->self->name, x->self->exchanges, rank);
}

static void part_key(const exchange *x, size_t part, char key[HKI_STORE_KEY_MAX + 1])
{
    snprintf(key, HKI_STORE_KEY_MAX + 1, "%.32s/%u/all.%zu", x->self->name, x->self->exchanges, part);
}

/* Set when the result is: what ranks wait for that get it from a relay. */
static void done_key(const exchange *x, char key[HKI_STORE_KEY_MAX + 1])
{
    snprintf(key, HKI_STORE_KEY_MAX + 1, "%.32s/%u/done", x->self->name, x->self->exchanges);
}

static uint64_t *nonces(const exchange *x)
{
    return (uint64_t *)(void *)(x->result + sizeof(result_header));
}

static char *payloads(const exchange *x)
{
    return x->result + sizeof(result_header) + (size_t)x->self->boot.place.ranks * sizeof(uint64_t);
}

/* A store of the caller's does not record errors, so its status is named here; one of ours has said more. */
static hk_status store_failed(const exchange *x, hk_status status, const char *what, const char *key)
{
    const hki_place *place = &x->self->boot.place;
    char text[512];
    snprintf(text, sizeof text, "%s", hk_last_error());
    if (x->self->owned)
        return hki_error(HK_ERR_BOOTSTRAP, "rank %d of job %s: %s", place->rank, x->self->name, text);
    return hki_error(HK_ERR_BOOTSTRAP, "rank %d of job %s: the store failed to %s key %s: %s", place->rank,
                     x->self->name, what, key, hk_status_string(status));
}

static hk_status set_own(exchange *x, const void *mine)
{
    const hki_place *place = &x->self->boot.place;
    const hk_store *store = x->self->store;
    char key[HKI_STORE_KEY_MAX + 1];
    rank_key(x, place->rank, key);
    char *record = malloc(sizeof(record_header) + x->bytes);
    if (!record)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for a record of %zu bytes", x->bytes);
    record_header header = {RECORD_MAGIC, (uint32_t)place->ranks, x->self->nonce, x->bytes};
    memcpy(record, &header, sizeof header);
    memcpy(record + sizeof header, mine, x->bytes);
    hk_status status = store->set(store->context, key, record, sizeof header + x->bytes);
    free(record);
    if (status == HK_ERR_REFUSED)
        return hki_error(HK_ERR_REFUSED,
                         "rank %d has already joined job %s through this store: two processes have the same rank, or "
                         "the store was used before under this name",
                         place->rank, x->self->name);
    return status == HK_OK ? HK_OK : store_failed(x, status, "set", key);
}

/* Gets and checks the record of one rank into `record`, at most header and x->bytes long. HK_ERR_TIMEOUT when it is not
 * there. */
static hk_status get_record(const exchange *x, int rank, double timeout, char *record)
{
    const hk_store *store = x->self->store;
    char key[HKI_STORE_KEY_MAX + 1];
    rank_key(x, rank, key);
    size_t length = sizeof(record_header) + x->bytes;
    hk_status status = store->get(store->context, key, record, &length, timeout);
    if (status == HK_ERR_TIMEOUT)
        return status;
    if (status != HK_OK && status != HK_ERR_TRUNCATED)
        return store_failed(x, status, "get", key);
    record_header header = {0};
    if (status == HK_OK && length >= sizeof header)
        memcpy(&header, record, sizeof header);
    if (status == HK_OK && header.magic == RECORD_MAGIC && header.ranks != (uint32_t)x->self->boot.place.ranks)
        return hki_error(HK_ERR_BOOTSTRAP, "rank %d of job %s says that there are %u ranks, rank %d says %d", rank,
                         x->self->name, header.ranks, x->self->boot.place.rank, x->self->boot.place.ranks);
    if (status != HK_OK || header.magic != RECORD_MAGIC || header.bytes != x->bytes ||
        length != sizeof header + x->bytes)
        return hki_error(HK_ERR_BOOTSTRAP,
                         "rank %d of job %s gave a record of another length or form than rank %d: another version of "
                         "Hocket, or another use of key %s",
                         rank, x->self->name, x->self->boot.place.rank, key);
    return HK_OK;
}

/* Records who is missing: every rank whose record is not in the store now. */
static hk_status name_missing(const exchange *x, char *record)
{
    const hki_place *place = &x->self->boot.place;
    bool *missing = calloc((size_t)place->ranks, sizeof *missing);
    if (!missing)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for naming the missing ranks");
    bool any = false;
    for (int rank = 0; rank < place->ranks; rank++) {
        missing[rank] = rank != place->rank && get_record(x, rank, 0, record) == HK_ERR_TIMEOUT;
        any |= missing[rank];
    }
    missing[0] |= !any && place->rank != 0; /* all are there, so rank 0 has not collected them */
    char text[HKI_RANKS_TEXT], refusals[HKI_REFUSALS_TEXT];
    hki_ranks_text(text, sizeof text, missing, place->ranks);
    free(missing);
    hki_store_turned_away(x->self->store, refusals, sizeof refusals);
    return hki_error(HK_ERR_BOOTSTRAP, "job %s: %s of %d did not arrive within %g s (waiting: rank %d)%s%s",
                     x->self->name, text, place->ranks, x->timeout, place->rank, *refusals != '\0' ? "; " : "",
                     refusals);
}

/* Lets a store wait for everyone at once, if it can: some do so in one round trip. What it returns does not matter,
 * since each record is then got by itself. */
static void wait_for_all(const exchange *x)
{
    const hk_store *store = x->self->store;
    if (store->size < sizeof(hk_store) || !store->wait)
        return;
    size_t count = (size_t)x->self->boot.place.ranks - 1;
    char(*text)[HKI_STORE_KEY_MAX + 1] = malloc(count * sizeof *text);
    const char **keys = malloc(count * sizeof *keys);
    if (text && keys) {
        for (size_t i = 0; i < count; i++) {
            rank_key(x, (int)i + 1, text[i]);
            keys[i] = text[i];
        }
        store->wait(store->context, keys, count, left(x));
    }
    free(keys);
    free(text);
}

/* Rank 0: collects the records into x->result. */
static hk_status gather(exchange *x, const void *mine, char *record)
{
    const hki_place *place = &x->self->boot.place;
    wait_for_all(x);
    nonces(x)[0] = x->self->nonce;
    memcpy(payloads(x), mine, x->bytes);
    for (int rank = 1; rank < place->ranks; rank++) {
        hk_status status = get_record(x, rank, left(x), record);
        if (status == HK_ERR_TIMEOUT)
            return name_missing(x, record);
        HK_TRY(status);
        nonces(x)[rank] = ((record_header *)(void *)record)->nonce;
        memcpy(payloads(x) + (size_t)rank * x->bytes, record + sizeof(record_header), x->bytes);
    }
    hk_status status = get_record(x, 0, left(x), record);
    if (status == HK_OK && ((record_header *)(void *)record)->nonce != x->self->nonce)
        return hki_error(HK_ERR_REFUSED, "another process has joined job %s as rank 0", x->self->name);
    return status == HK_ERR_TIMEOUT ? name_missing(x, record) : status;
}

/* Rank 0, and relays: sets the parts of the result; part 0 last, so that whoever sees it finds the others. */
static hk_status set_result(const exchange *x, const hk_store *store, const char *result, size_t bytes)
{
    for (size_t part = (bytes - 1) / HKI_STORE_VALUE_MAX + 1; part-- > 0;) {
        char key[HKI_STORE_KEY_MAX + 1];
        part_key(x, part, key);
        size_t first = part * HKI_STORE_VALUE_MAX;
        size_t length = bytes - first < HKI_STORE_VALUE_MAX ? bytes - first : HKI_STORE_VALUE_MAX;
        hk_status status = store->set(store->context, key, result + first, length);
        if (status != HK_OK)
            return store_failed(x, status, "set", key);
    }
    return HK_OK;
}

/* Rank 0: the result is there for all. */
static hk_status announce(const exchange *x, const char *result, size_t bytes)
{
    const hk_store *store = x->self->store;
    char key[HKI_STORE_KEY_MAX + 1];
    HK_TRY(set_result(x, store, result, bytes));
    if (x->self->boot.place.ranks < HKI_RELAY_RANKS)
        return HK_OK;
    done_key(x, key);
    hk_status status = store->set(store->context, key, "", 0);
    return status == HK_OK ? HK_OK : store_failed(x, status, "set", key);
}

/* Rank 0: tells the others why the exchange failed. Keeps this thread's error. */
static void set_failure(const exchange *x, hk_status why)
{
    char result[sizeof(result_header) + FAILURE_TEXT_BYTES], text[FAILURE_TEXT_BYTES];
    int length = snprintf(text, sizeof text, "%s", hk_last_error());
    size_t bytes = length < 0 ? 0 : (size_t)length < sizeof text ? (size_t)length : sizeof text - 1;
    result_header header = {RESULT_MAGIC, (uint32_t)x->self->boot.place.ranks, (uint32_t)why, 0, bytes};
    memcpy(result, &header, sizeof header);
    memcpy(result + sizeof header, text, bytes);
    announce(x, result, sizeof header + bytes);
    hki_error_set(why, text);
}

static hk_status collect(exchange *x, const void *mine, char *record)
{
    hk_status status = gather(x, mine, record);
    if (status != HK_OK) {
        set_failure(x, status);
        return status;
    }
    result_header header = {RESULT_MAGIC, (uint32_t)x->self->boot.place.ranks, HK_OK, 0, x->bytes};
    memcpy(x->result, &header, sizeof header);
    return announce(x, x->result, x->result_bytes);
}

/* Other ranks: checks part 0 of a result, of `length` bytes. */
static hk_status check_result(const exchange *x, size_t length)
{
    const hki_place *place = &x->self->boot.place;
    result_header header = {0};
    if (length >= sizeof header)
        memcpy(&header, x->result, sizeof header);
    if (header.magic != RESULT_MAGIC || (header.status != HK_OK && header.bytes > length - sizeof header))
        return hki_error(HK_ERR_BOOTSTRAP, "job %s: what rank 0 set in the store is not a result of Hocket",
                         x->self->name);
    if (header.status != HK_OK)
        return hki_error((hk_status)header.status, "%.*s", (int)header.bytes, x->result + sizeof header);
    if (header.ranks != (uint32_t)place->ranks)
        return hki_error(HK_ERR_BOOTSTRAP, "rank 0 of job %s says that there are %u ranks, rank %d says %d",
                         x->self->name, header.ranks, place->rank, place->ranks);
    if (header.bytes != x->bytes)
        return hki_error(HK_ERR_BOOTSTRAP, "rank 0 of job %s exchanges records of %llu bytes, rank %d of %zu",
                         x->self->name, (unsigned long long)header.bytes, place->rank, x->bytes);
    return HK_OK;
}

/* Other ranks: gets what rank 0 set, out of this store, as it is: *have bytes, which may be a failure's. What the store
 * returns is not recorded; *key says of which key. */
static hk_status get_parts(const exchange *x, const hk_store *store, double timeout, size_t *have,
                           char key[HKI_STORE_KEY_MAX + 1])
{
    size_t length = HKI_STORE_VALUE_MAX;
    *have = 0;
    for (size_t part = 0; length == HKI_STORE_VALUE_MAX && *have < x->result_bytes; part++) {
        part_key(x, part, key);
        /* Room for a failure's text, too, which may be longer than a small result. */
        size_t room = part == 0 ? x->result_bytes + FAILURE_TEXT_BYTES : x->result_bytes - *have;
        length = room < HKI_STORE_VALUE_MAX ? room : HKI_STORE_VALUE_MAX;
        HK_TRY(store->get(store->context, key, x->result + *have, &length, timeout));
        *have += length;
    }
    return HK_OK;
}

/* From a relay, once rank 0 has said that there is a result: until then the relay may just be late. HK_ERR_UNSUPPORTED
 * when there is no relay. */
static hk_status get_relayed(const exchange *x, double timeout, size_t *have, char key[HKI_STORE_KEY_MAX + 1])
{
    const hk_store *common = x->self->store;
    size_t none = 0;
    if (!hki_relay_wanted(x->self->relay))
        return HK_ERR_UNSUPPORTED;
    done_key(x, key);
    HK_TRY(common->get(common->context, key, x->result, &none, timeout));
    const hk_store *source = hki_relay_source(x->self->relay);
    if (!source)
        return HK_ERR_UNSUPPORTED;
    hk_status status = get_parts(x, source, RELAY_SECONDS, have, key);
    if (status != HK_OK)
        hki_relay_give_up(x->self->relay);
    return status == HK_OK ? HK_OK : HK_ERR_UNSUPPORTED;
}

/* From a relay, else from the store; and for those whose relay this rank is. */
static hk_status get_result(const exchange *x, size_t *have, char key[HKI_STORE_KEY_MAX + 1])
{
    const hk_store *sink = hki_relay_sink(x->self->relay);
    double timeout = left(x) + 0.25; /* a little longer than rank 0 waits, whose verdict is the better one */
    hk_status status = get_relayed(x, timeout, have, key);
    if (status == HK_ERR_UNSUPPORTED)
        status = get_parts(x, x->self->store, timeout, have, key);
    if (status == HK_OK && sink)
        (void)set_result(x, sink, x->result, *have); /* who does not find it there asks rank 0 */
    return status;
}

/* Other ranks: gets the result that rank 0 set. */
static hk_status fetch(exchange *x, char *record)
{
    const hki_place *place = &x->self->boot.place;
    char key[HKI_STORE_KEY_MAX + 1];
    size_t have;
    hk_status status = get_result(x, &have, key);
    if (status == HK_ERR_TIMEOUT)
        return name_missing(x, record);
    if (status != HK_OK)
        return store_failed(x, status, "get", key);
    HK_TRY(check_result(x, have));
    if (have != x->result_bytes)
        return hki_error(HK_ERR_BOOTSTRAP, "job %s: key %s has a wrong length", x->self->name, key);
    if (nonces(x)[place->rank] != x->self->nonce)
        return hki_error(HK_ERR_REFUSED, "another process has joined job %s as rank %d", x->self->name, place->rank);
    return HK_OK;
}

static hk_status store_exchange(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout)
{
    store_boot *self = (store_boot *)boot;
    if (bytes > HKI_STORE_VALUE_MAX - sizeof(record_header))
        return hki_error(HK_ERR_ARGUMENT, "a record of %zu bytes is too long to be exchanged through a store", bytes);
    exchange x = {.self = self, .bytes = bytes, .timeout = timeout};
    x.deadline = hki_now() + (uint64_t)((timeout < 1e9 ? timeout : 1e9) * 1e9);
    x.result_bytes = sizeof(result_header) + (size_t)boot->place.ranks * (sizeof(uint64_t) + bytes);
    x.result = malloc(x.result_bytes + FAILURE_TEXT_BYTES);
    char *record = malloc(sizeof(record_header) + bytes);
    hk_status status = HK_OK;
    if (!x.result || !record)
        status = hki_error(HK_ERR_NO_MEMORY, "no memory for exchanging %zu bytes a rank", bytes);
    if (status == HK_OK)
        status = set_own(&x, mine);
    if (status == HK_OK)
        status = boot->place.rank == 0 ? collect(&x, mine, record) : fetch(&x, record);
    if (status == HK_OK)
        memcpy(all, payloads(&x), (size_t)boot->place.ranks * bytes);
    free(record);
    free(x.result);
    self->exchanges++;
    return status;
}

static void store_leave(hki_boot *boot)
{
    store_boot *self = (store_boot *)boot;
    hki_relay_close(self->relay);
    hk_store_free(self->owned);
    if (self->ended)
        self->ended();
    free(self);
}

static const hki_boot_ops store_ops = {.exchange = store_exchange, .leave = store_leave};

/* ---------------------------------------------------------------------------------------------------------------
 * The job key
 * ------------------------------------------------------------------------------------------------------------- */

/* Exchanged first. Without keys of the caller's, rank 0's random secret makes the key: whoever can read the store may
 * join. With them, the proofs show that all were given the same one. */
typedef struct join_card {
    uint8_t secret[HKI_KEY_BYTES]; /* random; zero when the caller gave a key */
    uint8_t proof[16];             /* that the sender knows the key; zero when the caller gave none */
} join_card;

static hk_status make_card(const hk_options *options, const uint8_t key[HKI_KEY_BYTES], join_card *card)
{
    memset(card, 0, sizeof *card);
    if (!options->key)
        return hki_boot_random(card->secret, sizeof card->secret);
    uint8_t mac[HKI_MAC_BYTES];
    hki_mac(key, HKI_KEY_BYTES, "same key", 8, mac);
    memcpy(card->proof, mac, sizeof card->proof);
    return HK_OK;
}

/* The proof of another rank's card is not this rank's. */
static hk_status other_key(const store_boot *self, int rank, const join_card *other, const join_card *mine)
{
    static const join_card none;
    bool has = memcmp(other->proof, none.proof, sizeof none.proof) != 0;
    bool have = memcmp(mine->proof, none.proof, sizeof none.proof) != 0;
    const char *key = has && have ? "another job key than"
                      : has       ? "a job key, but none was given to"
                                  : "no job key (HOCKET_KEY_FILE, options.key), unlike";
    return hki_error(HK_ERR_REFUSED, "rank %d of job %s was given %s rank %d", rank, self->name, key,
                     self->boot.place.rank);
}

static hk_status agree_on_key(store_boot *self, const hk_options *options)
{
    hki_place *place = &self->boot.place;
    join_card mine;
    if (options->key)
        hki_boot_derive_key(options->key, options->key_bytes, self->name, place->key);
    HK_TRY(make_card(options, place->key, &mine));
    join_card *cards = calloc((size_t)place->ranks, sizeof *cards);
    if (!cards)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining %d ranks", place->ranks);
    hk_status status =
        hki_boot_exchange(&self->boot, &mine, sizeof mine, cards, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT));
    for (int rank = 0; rank < place->ranks && status == HK_OK; rank++)
        if (memcmp(cards[rank].proof, mine.proof, sizeof mine.proof) != 0)
            status = other_key(self, rank, &cards[rank], &mine);
    if (status == HK_OK && !options->key)
        hki_boot_derive_key(cards[0].secret, sizeof cards[0].secret, self->name, place->key);
    place->has_key = status == HK_OK;
    free(cards);
    return status;
}

static hk_status join(const hk_options *options, store_boot *self)
{
    self->boot.ops = &store_ops;
    self->boot.place.rank = options->rank;
    self->boot.place.ranks = options->ranks;
    snprintf(self->name, sizeof self->name, "%s", hki_boot_name(options));
    HK_TRY(hki_boot_random(&self->nonce, sizeof self->nonce));
    self->relay = hki_relay_open(self->store, self->name, options->rank, options->ranks);
    return agree_on_key(self, options);
}

hk_status hki_boot_by_store(const hk_options *options, hki_boot **boot)
{
    store_boot *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
    self->store = options->store;
    self->boot.place.source = "store";
    hk_status status = join(options, self);
    if (status != HK_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", hk_last_error());
        store_leave(&self->boot); /* the others may have to read why */
        return hki_error_set(status, text);
    }
    *boot = &self->boot;
    return HK_OK;
}

hk_status hki_boot_by_own_store(const hk_options *options, hk_store *store, const char *source, void (*ended)(void),
                                hki_boot **boot)
{
    hk_status status;
    store_boot *self = calloc(1, sizeof *self);
    if (!self) {
        status = hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
        hk_store_free(store);
        if (ended)
            ended();
        return status;
    }
    self->store = self->owned = store;
    self->ended = ended;
    self->boot.place.source = source;
    status = join(options, self);
    if (status != HK_OK) {
        char text[1024];
        snprintf(text, sizeof text, "%s", hk_last_error());
        store_leave(&self->boot); /* the others may have to read why */
        return hki_error_set(status, text);
    }
    *boot = &self->boot;
    return HK_OK;
}
