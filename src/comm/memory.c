/* hk_alloc and its kin: memory that peers can reach without a copy on the way. */
#include "comm/comm.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

/* Memory that no transport could give, so that hk_free knows its own. */
typedef struct plain {
    hki_node node;
    void *memory;
} plain;

static hk_status alloc_plain(hki_context *context, size_t bytes, void **memory)
{
    plain *record = malloc(sizeof *record);
    if (!record || posix_memalign(&record->memory, PAGE, bytes) != 0) {
        free(record);
        return hki_error(HK_ERR_NO_MEMORY, "alloc: no memory for %zu bytes", bytes);
    }
    memset(record->memory, 0, bytes);
    hki_list_append(&context->plain, &record->node);
    *memory = record->memory;
    return HK_OK;
}

hk_status hk_alloc(hk_comm *comm, size_t bytes, void **memory)
{
    if (!memory || bytes > SIZE_MAX / 2)
        return hki_error(HK_ERR_ARGUMENT, "alloc: %s", memory ? "bytes is too large" : "memory is NULL");
    HK_TRY(hki_comm_enter(comm));
    if (bytes == 0) { /* a rank's share may be empty */
        *memory = NULL;
        hki_comm_leave(comm);
        return HK_OK;
    }
    hki_context *context = comm->context;
    void *made = NULL;
    uint32_t maker = 0;
    for (uint32_t i = 0; i < context->transport_count && !made; i++) {
        maker = i;
        made = context->ops[i]->alloc ? context->ops[i]->alloc(context->transports[i], bytes) : NULL;
    }
    for (uint32_t i = 0; i < context->transport_count && made; i++) { /* the others reach it, too, where they can */
        if (i != maker && context->ops[i]->register_memory)
            (void)context->ops[i]->register_memory(context->transports[i], made, bytes);
    }
    hk_status status = HK_OK;
    if (made)
        *memory = made;
    else
        status = alloc_plain(context, bytes, memory);
    hki_comm_leave(comm);
    return status;
}

static bool free_plain(hki_context *context, void *memory)
{
    hki_list_each (node, &context->plain) {
        plain *record = hki_list_entry(node, plain, node);
        if (record->memory != memory)
            continue;
        hki_list_remove(node);
        free(memory);
        free(record);
        return true;
    }
    return false;
}

void hki_memory_close(hki_context *context)
{
    while (!hki_list_empty(&context->plain))
        free_plain(context, hki_list_entry(context->plain.next, plain, node)->memory);
}

/* At the first so many transports. */
static void unregister_at(hki_context *context, void *memory, uint32_t transports)
{
    for (uint32_t i = 0; i < transports; i++)
        if (context->ops[i]->unregister_memory)
            context->ops[i]->unregister_memory(context->transports[i], memory);
}

hk_status hk_free(hk_comm *comm, void *memory)
{
    if (!memory)
        return HK_OK;
    if (!comm || comm->magic != HKI_COMM_MAGIC)
        return hki_error(HK_ERR_COMM, "free: not a live communicator");
    hki_context *context = comm->context;
    if (!hki_context_here(context))
        return hki_error(HK_ERR_FORKED, "free: the memory belongs to the parent process");
    hki_context_enter(context);
    bool known = false;
    unregister_at(context, memory, context->transport_count);
    for (uint32_t i = 0; i < context->transport_count && !known; i++)
        known = context->ops[i]->free && context->ops[i]->free(context->transports[i], memory);
    known = known || free_plain(context, memory);
    hki_context_leave(context);
    return known ? HK_OK : hki_error(HK_ERR_ARGUMENT, "free: %p was not given by hk_alloc of this context", memory);
}

hk_status hk_register(hk_comm *comm, void *memory, size_t bytes)
{
    if (!memory || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)memory)
        return hki_error(HK_ERR_ARGUMENT, "register: %s",
                         !memory      ? "memory is NULL"
                         : bytes == 0 ? "bytes is zero"
                                      : "memory ends beyond the address space");
    HK_TRY(hki_comm_enter(comm));
    hki_context *context = comm->context;
    hk_status status = HK_OK;
    uint32_t done = 0;
    for (; done < context->transport_count && status == HK_OK; done++) {
        if (context->ops[done]->register_memory)
            status = context->ops[done]->register_memory(context->transports[done], memory, bytes);
    }
    if (status != HK_OK) /* at all transports, or at none: the last of those done is the one that failed */
        unregister_at(context, memory, done - 1);
    hki_comm_leave(comm);
    return status;
}

hk_status hk_unregister(hk_comm *comm, void *memory)
{
    if (!memory)
        return hki_error(HK_ERR_ARGUMENT, "unregister: memory is NULL");
    HK_TRY(hki_comm_enter(comm));
    hki_context *context = comm->context;
    unregister_at(context, memory, context->transport_count);
    hki_comm_leave(comm);
    return HK_OK;
}
