#include "boot/relay.h"

#include "base/log.h"
#include "boot/meeting.h"
#include "boot/source.h"
#include "boot/store_made.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAN_OUT = 8 }; /* guessed */
static const double dial_seconds = 2, linger_seconds = 10;

struct hki_relay {
    const hk_store *common;
    char name[HKI_STORE_KEY_MAX];
    int rank, parent;
    bool sought; /* the parent has been */
    hk_store *source, *sink;
    hki_listeners listeners; /* of the sink */
};

static void relay_key(const hki_relay *self, int rank, char key[HKI_STORE_KEY_MAX + 1])
{
    snprintf(key, HKI_STORE_KEY_MAX + 1, "%.32s/relay/%d", self->name, rank);
}

static void close_sink(hki_relay *self)
{
    hk_store_free(self->sink);
    self->sink = NULL;
    hki_listeners_close(&self->listeners);
}

/* Listens where this process talks to rank 0 from: not on more networks than that takes. */
static bool open_sink(hki_relay *self, hki_meeting *meeting)
{
    hki_store_identity identity;
    memset(meeting, 0, sizeof *meeting);
    if (!hki_store_own_address(self->common, &meeting->at[0]) ||
        hki_boot_random(meeting->key, sizeof meeting->key) != HK_OK ||
        hki_boot_random(&meeting->id, sizeof meeting->id) != HK_OK ||
        hki_listeners_open(meeting->at, 1, 0, 1, &self->listeners) != HK_OK)
        return false;
    meeting->count = 1;
    meeting->at[0].port = self->listeners.port;
    identity.id = meeting->id;
    memcpy(identity.key, meeting->key, sizeof identity.key);
    bool served = hki_store_serve(&self->listeners, &identity, linger_seconds, &self->sink) == HK_OK;
    explicit_bzero(&identity, sizeof identity);
    return served;
}

/* An empty value says that this rank is no relay. */
static void publish(hki_relay *self)
{
    hki_meeting meeting;
    uint8_t bytes[HKI_MEETING_BYTES];
    char key[HKI_STORE_KEY_MAX + 1];
    bool open = open_sink(self, &meeting);
    size_t length = open ? hki_meeting_write(&meeting, bytes) : 0;
    relay_key(self, self->rank, key);
    if (self->common->set(self->common->context, key, bytes, length) != HK_OK || !open)
        close_sink(self);
    explicit_bzero(&meeting, sizeof meeting);
    explicit_bzero(bytes, sizeof bytes);
}

hki_relay *hki_relay_open(const hk_store *store, const char *name, int rank, int ranks)
{
    hki_address own;
    if (ranks < HKI_RELAY_RANKS || rank == 0 || !hki_store_own_address(store, &own))
        return NULL;
    hki_relay *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->common = store;
    self->rank = rank;
    self->parent = (rank - 1) / FAN_OUT;
    snprintf(self->name, sizeof self->name, "%s", name);
    if ((long)rank * FAN_OUT + 1 < ranks)
        publish(self);
    return self;
}

static void seek(hki_relay *self)
{
    hki_meeting meeting;
    uint8_t bytes[HKI_MEETING_BYTES];
    size_t length = sizeof bytes;
    char key[HKI_STORE_KEY_MAX + 1];
    relay_key(self, self->parent, key);
    if (self->common->get(self->common->context, key, bytes, &length, 0) != HK_OK ||
        !hki_meeting_read(bytes, length, &meeting))
        return;
    hki_store_identity identity = {.id = meeting.id};
    hki_dial dial = {.count = meeting.count, .settings = "the store"};
    memcpy(identity.key, meeting.key, sizeof identity.key);
    memcpy(dial.at, meeting.at, (size_t)meeting.count * sizeof *dial.at);
    if (hki_store_dial(&dial, &identity, dial_seconds, &self->source) == HK_OK)
        hki_log(HK_LOG_DEBUG, "rank %d gets the results of exchanges from rank %d", self->rank, self->parent);
    else
        hki_log(HK_LOG_INFO, "rank %d gets the results of exchanges from rank 0, since rank %d is not reached: %s",
                self->rank, self->parent, hk_last_error());
    explicit_bzero(&identity, sizeof identity);
    explicit_bzero(&meeting, sizeof meeting);
    explicit_bzero(bytes, sizeof bytes);
}

bool hki_relay_wanted(const hki_relay *relay)
{
    return relay && relay->parent > 0 && (!relay->sought || relay->source);
}

const hk_store *hki_relay_source(hki_relay *relay)
{
    if (!relay->sought)
        seek(relay);
    relay->sought = true;
    return relay->source;
}

void hki_relay_give_up(hki_relay *relay)
{
    hk_store_free(relay->source);
    relay->source = NULL;
}

const hk_store *hki_relay_sink(const hki_relay *relay)
{
    return relay ? relay->sink : NULL;
}

void hki_relay_close(hki_relay *relay)
{
    if (!relay)
        return;
    hki_relay_give_up(relay);
    close_sink(relay);
    free(relay);
}
