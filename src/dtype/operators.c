/* The table of predefined operators, and the registry of made ones. */
#include "dtype/operators.h"

#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define MADE_BIT UINT32_C(0x80000000)
#define LIVE_OPERATORS 1024u

static const char *const names[HK_OP_COUNT] = {
#define HK_X(NAME, name) [HK_##NAME] = #name,
    HK_OP_LIST(HK_X)
#undef HK_X
};

/* An operator sits in the first free slot at or after number % LIVE_OPERATORS, so that it is nearly always found at the
 * first look. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static hki_operator slots[LIVE_OPERATORS];
static uint32_t made; /* how many so far */

/* Under the lock. */
static hki_operator *find(hk_op op)
{
    if (!(op & MADE_BIT))
        return NULL;
    for (uint32_t i = 0; i < LIVE_OPERATORS; i++) {
        hki_operator *slot = &slots[(op + i) % LIVE_OPERATORS];
        if (slot->references > 0 && slot->handle == op && !slot->freed)
            return slot;
    }
    return NULL;
}

/* Under the lock: drops one reference; with the last one the slot becomes free. */
static void drop(hki_operator *entry)
{
    if (--entry->references > 0)
        return;
    free(entry->scale);
    memset(entry, 0, sizeof *entry);
}

/* Registers a copy of `entry`, which brings everything but handle and references. Owns entry->scale on success
 * only. */
static hk_status add(const hki_operator *entry, hk_op *op)
{
    hki_operator *slot = NULL;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < LIVE_OPERATORS && slot == NULL; i++)
        if (slots[(made + i) % LIVE_OPERATORS].references == 0)
            slot = &slots[(made + i) % LIVE_OPERATORS];
    if (slot != NULL) {
        *slot = *entry;
        slot->handle = MADE_BIT | made++;
        slot->references = 1;
        *op = slot->handle;
    }
    pthread_mutex_unlock(&lock);
    if (slot == NULL)
        return hki_error(HK_ERR_NO_MEMORY, "%u operators are live already: free some with hk_op_free", LIVE_OPERATORS);
    return HK_OK;
}

hk_status hk_op_create(hk_op_function *function, int commutative, void *context, hk_op *op)
{
    if (function == NULL)
        return hki_error(HK_ERR_ARGUMENT, "hk_op_create: function is NULL");
    if (op == NULL)
        return hki_error(HK_ERR_ARGUMENT, "hk_op_create: op is NULL");
    hki_operator entry = {.function = function, .context = context, .commutative = commutative != 0};
    return add(&entry, op);
}

hk_status hk_op_create_premul_sum(const void *scalar, hk_type type, hk_op *op)
{
    if (scalar == NULL)
        return hki_error(HK_ERR_ARGUMENT, "hk_op_create_premul_sum: scalar is NULL");
    if (op == NULL)
        return hki_error(HK_ERR_ARGUMENT, "hk_op_create_premul_sum: op is NULL");
    if (type >= HK_TYPE_COUNT)
        return hki_error(HK_ERR_TYPE, "hk_op_create_premul_sum: type %s (0x%x) is neither an integer nor a float",
                         hk_type_name(type), type);
    hki_operator entry = {.commutative = true, .type = type, .scale = malloc(HKI_SCALE_BYTES)};
    if (entry.scale == NULL)
        return hki_error(HK_ERR_NO_MEMORY, "hk_op_create_premul_sum: no memory for %u bytes", HKI_SCALE_BYTES);
    size_t bytes = hk_type_size(type);
    for (size_t at = 0; at < HKI_SCALE_BYTES; at += bytes)
        memcpy((char *)entry.scale + at, scalar, bytes);
    hk_status status = add(&entry, op);
    if (status != HK_OK)
        free(entry.scale);
    return status;
}

hk_status hk_op_free(hk_op op)
{
    if (op < HK_OP_COUNT)
        return hki_error(HK_ERR_OPERATOR, "hk_op_free: %s is predefined and cannot be freed", names[op]);
    pthread_mutex_lock(&lock);
    hki_operator *entry = find(op);
    if (entry != NULL) {
        entry->freed = true;
        drop(entry);
    }
    pthread_mutex_unlock(&lock);
    if (entry == NULL)
        return hki_error(HK_ERR_OPERATOR, "hk_op_free: 0x%x is not a live operator", op);
    return HK_OK;
}

hki_operator *hki_operator_acquire(hk_op op)
{
    pthread_mutex_lock(&lock);
    hki_operator *entry = find(op);
    if (entry != NULL)
        entry->references++;
    pthread_mutex_unlock(&lock);
    return entry;
}

void hki_operator_release(hki_operator *entry)
{
    pthread_mutex_lock(&lock);
    drop(entry);
    pthread_mutex_unlock(&lock);
}

const char *hk_op_name(hk_op op)
{
    if (op < HK_OP_COUNT)
        return names[op];
    pthread_mutex_lock(&lock);
    const hki_operator *entry = find(op);
    const char *name = entry == NULL ? "unknown" : entry->function != NULL ? "user" : "premul_sum";
    pthread_mutex_unlock(&lock);
    return name;
}

bool hki_op_valid(hk_op op)
{
    if (op < HK_OP_COUNT)
        return true;
    pthread_mutex_lock(&lock);
    bool valid = find(op) != NULL;
    pthread_mutex_unlock(&lock);
    return valid;
}
