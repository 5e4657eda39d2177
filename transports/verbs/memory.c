/*
 * Registered memory. What hk_alloc gave and hk_register was told of stays registered; other memory is registered for
 * one message when that is large enough, or its bytes go through the rings. Nobody watches malloc or munmap.
 */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    HUGE = 2 << 20,
    ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ
};

/* ---- regions ---- */

void hki_region_deregister(const hk_transport *transport, hki_region *region)
{
    for (uint32_t i = 0; i < HKI_VERBS_LANES; i++) {
        if (region->key[i] != NULL)
            transport->library->dereg_mr(region->key[i]);
        region->key[i] = NULL;
    }
}

/* For one message without pinning where that is possible, else pinned. Memory that cannot be written can still be read
 * by peers. */
static struct ibv_mr *register_at(const hki_port *port, const hki_region *region)
{
    const hki_verbs_library *library = port->transport->library;
    struct ibv_mr *key = NULL;
    if (port->on_demand && !region->kept)
        key = library->reg_mr(port->pd, region->memory, region->bytes, ACCESS | IBV_ACCESS_ON_DEMAND);
    if (key == NULL)
        key = library->reg_mr(port->pd, region->memory, region->bytes, ACCESS);
    return key != NULL ? key : library->reg_mr(port->pd, region->memory, region->bytes, IBV_ACCESS_REMOTE_READ);
}

bool hki_region_register(hk_transport *transport, hki_region *region)
{
    for (uint32_t i = 0; i < transport->port_count; i++) {
        region->key[i] = register_at(&transport->port[i], region);
        if (region->key[i] == NULL) {
            hki_region_deregister(transport, region);
            return false;
        }
    }
    return true;
}

static hki_region *make_region(hk_transport *transport, const void *memory, size_t bytes, bool kept)
{
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(PAGE - 1);
    uintptr_t last = ((uintptr_t)memory + bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
    hki_region *region = calloc(1, sizeof *region);
    if (region == NULL)
        return NULL;
    region->memory = (char *)first;
    region->bytes = last - first;
    region->uses = 1;
    region->kept = kept;
    if (!hki_region_register(transport, region)) {
        free(region);
        return NULL;
    }
    transport->counts.registrations++;
    hki_list_append(&transport->regions, &region->node);
    return region;
}

void hki_region_drop(hk_transport *transport, hki_region *region)
{
    if (--region->uses > 0)
        return;
    hki_region_deregister(transport, region);
    hki_list_remove(&region->node);
    if (region->own)
        munmap(region->memory, region->bytes);
    free(region);
}

hki_region *hki_region_kept(const hk_transport *transport, const void *memory, size_t bytes)
{
    const char *first = memory;
    hki_list_each (node, &transport->regions) {
        hki_region *region = hki_list_entry(node, hki_region, node);
        if (region->kept && region->key[0] != NULL && first >= region->memory && bytes <= region->bytes &&
            (size_t)(first - region->memory) <= region->bytes - bytes)
            return region;
    }
    return NULL;
}

hki_region *hki_region_for(hk_transport *transport, const void *memory, size_t bytes)
{
    hki_region *region = hki_region_kept(transport, memory, bytes);
    if (region != NULL) {
        region->uses++;
        return region;
    }
    return bytes >= transport->memory.from ? make_region(transport, memory, bytes, false) : NULL;
}

void hki_verbs_drop_regions(hk_transport *transport)
{
    while (!hki_list_empty(&transport->registrations)) {
        hki_node *node = transport->registrations.next;
        hki_list_remove(node);
        free(hki_list_entry(node, hki_registration, node));
    }
    while (!hki_list_empty(&transport->regions)) {
        hki_region *region = hki_list_entry(transport->regions.next, hki_region, node);
        region->uses = 1;
        hki_region_drop(transport, region);
    }
}

/* ---- memory of users ---- */

void *hki_verbs_alloc(hk_transport *transport, size_t bytes)
{
    size_t whole = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
    void *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (whole >= HUGE)
        (void)madvise(memory, whole, MADV_HUGEPAGE);
    hki_region *region = make_region(transport, memory, whole, true);
    if (region == NULL) {
        munmap(memory, whole);
        return NULL;
    }
    region->own = true;
    return memory;
}

bool hki_verbs_free(hk_transport *transport, void *memory)
{
    hki_list_each (node, &transport->regions) {
        hki_region *region = hki_list_entry(node, hki_region, node);
        if (!region->own || region->memory != memory)
            continue;
        region->kept = false;
        hki_region_drop(transport, region);
        return true;
    }
    return false;
}

/* A region whose life a registration may share: memory of hk_alloc around it, or just these pages. A larger one that
 * another registration keeps may end before this one does, and its other pages may be given back then. */
static hki_region *find_shared(const hk_transport *transport, const void *memory, size_t bytes)
{
    uintptr_t first = (uintptr_t)memory & ~(uintptr_t)(PAGE - 1);
    size_t whole = (size_t)((((uintptr_t)memory + bytes + PAGE - 1) & ~(uintptr_t)(PAGE - 1)) - first);
    hki_list_each (node, &transport->regions) {
        hki_region *region = hki_list_entry(node, hki_region, node);
        uintptr_t begin = (uintptr_t)region->memory;
        if (!region->kept || region->key[0] == NULL)
            continue;
        if (region->own ? first >= begin && first - begin <= region->bytes && whole <= region->bytes - (first - begin)
                        : first == begin && whole == region->bytes)
            return region;
    }
    return NULL;
}

hk_status hki_verbs_register(hk_transport *transport, void *memory, size_t bytes)
{
    const hk_transport_services *services = transport->services;
    hki_registration *registration = calloc(1, sizeof *registration);
    hki_region *region = find_shared(transport, memory, bytes);
    if (region != NULL)
        region->uses++;
    else if (registration != NULL)
        region = make_region(transport, memory, bytes, true);
    if (registration == NULL || region == NULL) {
        services->error(services->core, HK_ERR_NO_MEMORY,
                        "verbs: rank %d on %s cannot register %zu bytes with device %s: %s (see ulimit -l)",
                        (int)services->self->rank, services->self->host_name, bytes, transport->port[0].device,
                        strerror(errno));
        if (region != NULL)
            hki_region_drop(transport, region);
        free(registration);
        return HK_ERR_NO_MEMORY;
    }
    *registration = (hki_registration){.memory = memory, .region = region};
    hki_list_append(&transport->registrations, &registration->node);
    return HK_OK;
}

static bool registered(const hk_transport *transport, const hki_region *region)
{
    hki_list_each (node, &transport->registrations) {
        if (hki_list_entry(node, hki_registration, node)->region == region)
            return true;
    }
    return false;
}

static void end_registration(hk_transport *transport, hki_registration *registration)
{
    hki_region *region = registration->region;
    hki_list_remove(&registration->node);
    free(registration);
    if (!region->own && !registered(transport, region))
        region->kept = false; /* whoever uses it now still does */
    hki_region_drop(transport, region);
}

/* By the address that was registered, and not by what lies there: regions are whole pages, and may overlap. */
void hki_verbs_unregister(hk_transport *transport, void *memory)
{
    hki_registration *last = NULL;
    hki_list_each (node, &transport->registrations) {
        hki_registration *registration = hki_list_entry(node, hki_registration, node);
        if (registration->memory == memory)
            last = registration;
    }
    if (last != NULL)
        end_registration(transport, last);
}

/* ---- what peers are told: address, keys 0 and 1, description + 1, keys 2 and 3 ---- */

static hki_description *free_description(hk_link *link)
{
    for (uint32_t i = 0; i < HKI_VERBS_DESCRIPTIONS; i++) {
        if (link->description[i].region == NULL)
            return &link->description[i];
    }
    return NULL;
}

static uint64_t keys(const hki_region *region, uint32_t first)
{
    uint64_t low = region->key[first] != NULL ? region->key[first]->rkey : 0;
    uint64_t high = region->key[first + 1] != NULL ? region->key[first + 1]->rkey : 0;
    return low | high << 32;
}

hk_transport_result hki_verbs_describe(hk_link *link, const void *memory, size_t bytes, hk_remote *remote,
                                       uint32_t *protocols)
{
    hk_transport *transport = link->transport;
    bool to_write = (*protocols & HK_TRANSPORT_PUT) != 0;
    uint32_t offered = to_write ? HK_TRANSPORT_PUT : (transport->gets ? HK_TRANSPORT_GET : 0u);
    if (!to_write && transport->puts)
        offered |= HK_TRANSPORT_PUT; /* it could be written from there, too */
    if (link->state > HK_LINK_UP)
        return HK_TRANSPORT_LOST;
    if (link->bulk_broken || offered == 0 || (to_write && (!transport->puts || link->grants == HKI_VERBS_GRANTS)))
        return HK_TRANSPORT_REFUSED;
    hki_description *description = free_description(link);
    hki_region *region = description != NULL ? hki_region_for(transport, memory, bytes) : NULL;
    if (region == NULL)
        return HK_TRANSPORT_REFUSED;
    *description = (hki_description){region, to_write};
    link->grants += to_write;
    *remote = (hk_remote){
        {(uintptr_t)memory, keys(region, 0), (uint64_t)(description - link->description) + 1, keys(region, 2)}};
    *protocols = offered;
    return HK_TRANSPORT_OK;
}

/* Old keys are worth nothing from here on. A region that cannot be registered again is found by nobody any more. */
static void revoke_keys(hk_transport *transport, hki_region *region)
{
    transport->counts.revocations++;
    hki_region_deregister(transport, region);
    if (region->kept && hki_region_register(transport, region))
        transport->counts.registrations++;
}

void hki_verbs_withdraw(hk_link *link, const hk_remote *remote, bool revoke)
{
    hki_description *description = &link->description[remote->word[2] - 1];
    hki_region *region = description->region;
    link->grants -= description->to_write;
    if (revoke && link->frames != NULL)
        revoke_keys(link->transport, region);
    *description = (hki_description){0};
    hki_region_drop(link->transport, region);
}
