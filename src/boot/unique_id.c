/* A unique id: a meeting point that one rank makes and hands to the others by whatever means the program has. */
#include "base/error.h"
#include "base/settings.h"
#include "boot/meeting.h"
#include "boot/source.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(HKI_MEETING_BYTES <= sizeof(hk_unique_id), "a meeting point fits an id");

/* Ids that this process made and serves: their listeners wait, without a thread, until it joins. */
typedef struct made_id {
    struct made_id *next;
    uint64_t id;
    pid_t owner;
    hki_listeners listeners;
} made_id;

static struct {
    pthread_mutex_t lock;
    made_id *ids;
} made = {.lock = PTHREAD_MUTEX_INITIALIZER};

hk_status hk_unique_id_create(hk_unique_id *id)
{
    hki_meeting meeting;
    if (!id)
        return hki_error(HK_ERR_ARGUMENT, "unique_id_create: id is NULL");
    HK_TRY(hki_settings_check());
    made_id *one = calloc(1, sizeof *one);
    if (!one)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for an id");
    hk_status status = hki_meeting_make(false, &meeting, &one->listeners);
    if (status != HK_OK) {
        free(one);
        return status;
    }
    one->id = meeting.id;
    one->owner = getpid();
    memset(id, 0, sizeof *id);
    hki_meeting_write(&meeting, id->bytes);
    explicit_bzero(&meeting, sizeof meeting);
    pthread_mutex_lock(&made.lock);
    one->next = made.ids;
    made.ids = one;
    pthread_mutex_unlock(&made.lock);
    return HK_OK;
}

/* The id's entry, which then belongs to the caller; NULL when this process did not make the id. */
static made_id *take_made(uint64_t id)
{
    made_id *found = NULL;
    pthread_mutex_lock(&made.lock);
    for (made_id **at = &made.ids; *at && !found; at = found ? at : &(*at)->next) {
        if ((*at)->id == id && (*at)->owner == getpid()) {
            found = *at;
            *at = found->next;
        }
    }
    pthread_mutex_unlock(&made.lock);
    return found;
}

static void release(made_id *one)
{
    hki_listeners_close(&one->listeners);
    free(one);
}

hk_status hk_unique_id_free(const hk_unique_id *id)
{
    hki_meeting meeting;
    if (!id)
        return HK_OK;
    if (!hki_meeting_read(id->bytes, sizeof id->bytes, &meeting))
        return hki_error(HK_ERR_ARGUMENT, "unique_id_free: id was not made by hk_unique_id_create");
    made_id *one = take_made(meeting.id);
    if (one)
        release(one);
    return HK_OK;
}

/* A boot whose end also closes the listeners, which the store's thread uses until then. */
typedef struct id_boot {
    hki_boot boot;
    hki_boot *inner;
    made_id *one;
} id_boot;

static hk_status id_exchange(hki_boot *boot, const void *mine, size_t bytes, void *all, double timeout)
{
    return hki_boot_exchange(((id_boot *)boot)->inner, mine, bytes, all, timeout);
}

static void id_leave(hki_boot *boot)
{
    id_boot *self = (id_boot *)boot;
    hki_boot_leave(self->inner);
    if (self->one)
        release(self->one);
    free(self);
}

static const hki_boot_ops id_ops = {.exchange = id_exchange, .leave = id_leave};

hk_status hki_boot_by_unique_id(const hk_options *options, hki_boot **boot)
{
    hki_meeting meeting;
    if (!hki_meeting_read(options->id->bytes, sizeof options->id->bytes, &meeting))
        return hki_error(HK_ERR_ARGUMENT, "options.id was not made by hk_unique_id_create, or arrived damaged");
    if (options->ranks == 1) { /* nobody is to be met: the id has served */
        HK_TRY(hk_unique_id_free(options->id));
        return hki_boot_alone(options, "a unique id", boot);
    }
    id_boot *self = calloc(1, sizeof *self);
    if (!self)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for joining");
    self->one = take_made(meeting.id);
    self->boot.ops = &id_ops;
    hk_status status = hki_meeting_join(&meeting, self->one ? &self->one->listeners : NULL, 0, options, "a unique id",
                                        NULL, &self->inner);
    explicit_bzero(&meeting, sizeof meeting);
    if (status != HK_OK) {
        if (self->one)
            release(self->one);
        free(self);
        return status;
    }
    self->boot.place = *hki_boot_place(self->inner);
    *boot = &self->boot;
    return HK_OK;
}
