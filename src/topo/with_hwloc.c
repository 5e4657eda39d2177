/*
 * A topology through hwloc, which knows more machines than /sys tells plainly, reads files of other machines, and makes
 * up machines from a description. It is loaded by name and only while it is used: neither the library nor the ranks of
 * a job depend on it, and a program that is linked to an hwloc of its own keeps that.
 */
#include "topo/found.h"

#include "base/error.h"

#ifdef HKI_HAVE_HWLOC

#include "base/settings.h"

#include <dlfcn.h>
#include <errno.h>
#include <hwloc.h>
#include <stdlib.h>
#include <string.h>

#if HWLOC_API_VERSION < 0x00020100 || HWLOC_API_VERSION >= 0x00030000
#error "hwloc 2.1 or a later 2.x is needed; -DHOCKET_WITH_HWLOC=OFF builds without it"
#endif
#define LIBRARY "libhwloc.so.15" /* what all of hwloc 2 is called */

#define HWLOC_CALLS(X)                                                                                                 \
    X(topology_init)                                                                                                   \
    X(topology_destroy)                                                                                                \
    X(topology_abi_check)                                                                                              \
    X(topology_set_flags)                                                                                              \
    X(topology_set_components)                                                                                         \
    X(topology_set_xml)                                                                                                \
    X(topology_set_synthetic)                                                                                          \
    X(topology_load)                                                                                                   \
    X(topology_get_allowed_cpuset)                                                                                     \
    X(get_obj_by_depth)                                                                                                \
    X(bitmap_isset)

typedef struct hwloc_library {
    void *handle;
#define MEMBER(name) __typeof__(hwloc_##name) *name;
    HWLOC_CALLS(MEMBER)
#undef MEMBER
} hwloc_library;

/* ---------------------------------------------------------------------------------------------------------------
 * The library
 * ------------------------------------------------------------------------------------------------------------- */

/* Plugins (GPUs, PCI, a second XML reader) double the time and tell nothing that is asked here; complaints about a
 * firmware's tables are not for our users. Both are said in the environment only; what the user has said there stays.
 */
static const char *const quiet[][2] = {{"HWLOC_PLUGINS_PATH", "/dev/null"}, {"HWLOC_HIDE_ERRORS", "2"}};
enum { QUIET = sizeof quiet / sizeof *quiet };

static void hush(bool ours[QUIET])
{
    for (int i = 0; i < QUIET; i++)
        ours[i] = !hki_environment(quiet[i][0]) && setenv(quiet[i][0], quiet[i][1], 0) == 0;
}

static void unhush(const bool ours[QUIET])
{
    for (int i = 0; i < QUIET; i++)
        if (ours[i])
            unsetenv(quiet[i][0]);
}

static hk_status open_library(hwloc_library *library)
{
    library->handle = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library->handle)
        return hki_error(HK_ERR_UNSUPPORTED, "hwloc is not installed (%s)", dlerror());
    const char *missing = NULL;
    /* dlsym gives an object's address for a function (POSIX allows the conversion, ISO C does not). */
#define FIND(name)                                                                                                     \
    *(void **)&library->name = dlsym(library->handle, "hwloc_" #name);                                                 \
    missing = library->name ? missing : "hwloc_" #name;
    HWLOC_CALLS(FIND)
#undef FIND
    if (!missing)
        return HK_OK;
    dlclose(library->handle);
    return hki_error(HK_ERR_UNSUPPORTED, LIBRARY " has no %s: too old?", missing);
}

/* ---------------------------------------------------------------------------------------------------------------
 * Walking over its objects
 * ------------------------------------------------------------------------------------------------------------- */

typedef struct visitor {
    const hwloc_library *library;
    hwloc_const_cpuset_t allowed; /* NULL: usable tells */
    const hki_cpus *usable;
    hki_found_pu *found;
    size_t count;
    bool overflow; /* more hardware threads than there is room for */
} visitor;

/* What lies on the way down to an object is told by *above. */
static void note_object(const struct hwloc_obj *object, hki_found_pu *above)
{
    switch (object->type) {
    case HWLOC_OBJ_PACKAGE:
        above->package = object->logical_index;
        break;
    case HWLOC_OBJ_L3CACHE:
        above->l3 = object->logical_index;
        above->l3_bytes = object->attr->cache.size;
        break;
    case HWLOC_OBJ_L2CACHE:
        above->l2 = object->logical_index;
        above->l2_bytes = object->attr->cache.size;
        break;
    case HWLOC_OBJ_CORE:
        above->core = object->logical_index;
        break;
    default:
        break;
    }
}

/* The first NUMA node attached here, perhaps behind a cache on the memory's side. Where there are several, the others
 * are memory of another kind. */
static void note_memory(const struct hwloc_obj *object, hki_found_pu *above)
{
    const struct hwloc_obj *memory = object->memory_first_child;
    while (memory && memory->type != HWLOC_OBJ_NUMANODE)
        memory = memory->memory_first_child;
    if (!memory)
        return;
    bool known = memory->os_index < HKI_TOPOLOGY_UNKNOWN_NODE;
    above->numa = memory->logical_index;
    above->numa_os = known ? memory->os_index : HKI_TOPOLOGY_UNKNOWN_NODE;
    above->numa_bytes = memory->attr->numanode.local_memory;
}

static void take_pu(visitor *self, const struct hwloc_obj *object, const hki_found_pu *above)
{
    if (self->count == HKI_TOPOLOGY_PUS_MAX || object->os_index >= HKI_TOPOLOGY_PUS_MAX) {
        self->overflow = true;
        return;
    }
    hki_found_pu *pu = &self->found[self->count++];
    *pu = *above;
    pu->os = object->os_index;
    if (pu->core == hki_found_none)
        pu->core = HKI_TOPOLOGY_PUS_MAX + object->logical_index; /* told apart from cores that have a number */
    pu->usable = self->allowed ? self->library->bitmap_isset(self->allowed, object->os_index) > 0
                               : hki_cpus_has(self->usable, object->os_index);
}

/* Depth first; the tree is as deep as there are kinds of objects. */
static void visit(visitor *self, const struct hwloc_obj *object, hki_found_pu above)
{
    note_object(object, &above);
    note_memory(object, &above);
    if (object->type == HWLOC_OBJ_PU)
        take_pu(self, object, &above);
    for (const struct hwloc_obj *child = object->first_child; child; child = child->next_sibling)
        visit(self, child, above);
}

static hk_status take_objects(const hwloc_library *library, hwloc_topology_t objects, const hki_cpus *usable,
                              hki_topology **topology)
{
    visitor walk = {.library = library, .usable = usable};
    walk.allowed = usable ? NULL : library->topology_get_allowed_cpuset(objects);
    walk.found = calloc(HKI_TOPOLOGY_PUS_MAX, sizeof *walk.found);
    if (!walk.found)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for reading a topology");
    hki_found_pu root = {
        .core = hki_found_none, .l2 = hki_found_none, .l3 = hki_found_none, .numa_os = HKI_TOPOLOGY_UNKNOWN_NODE};
    visit(&walk, library->get_obj_by_depth(objects, 0, 0), root);
    hk_status status = HK_OK;
    if (walk.overflow || walk.count == 0)
        status = hki_error(HK_ERR_UNSUPPORTED, "this topology has no hardware threads, or more than %d",
                           (int)HKI_TOPOLOGY_PUS_MAX);
    if (status == HK_OK)
        status = hki_topology_make(walk.found, walk.count, HKI_TOPOLOGY_BY_HWLOC, topology);
    free(walk.found);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Loading
 * ------------------------------------------------------------------------------------------------------------- */

/* Where the objects come from: this host when both are NULL. */
typedef struct origin {
    const char *xml, *synthetic;
    const hki_cpus *usable; /* of this host */
} origin;

static hk_status set_origin(const hwloc_library *library, hwloc_topology_t objects, const origin *from)
{
    /* PUs that this process may not use belong to the host as well: others run there. */
    if (library->topology_set_flags(objects, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0)
        return hki_error(HK_ERR_UNSUPPORTED, "hwloc refuses to show CPUs that are not usable");
    if (from->xml)
        return library->topology_set_xml(objects, from->xml) == 0
                   ? HK_OK
                   : hki_error_errno(HK_ERR_ARGUMENT, errno, "%s is not a topology in hwloc's XML", from->xml);
    if (from->synthetic)
        return library->topology_set_synthetic(objects, from->synthetic) == 0
                   ? HK_OK
                   : hki_error(HK_ERR_ARGUMENT,
                               "\"%s\" does not describe a topology; an example is \"package:2 core:4 pu:2\"",
                               from->synthetic);
    /* The component x86 would move this thread over all CPUs, which takes long on a busy host, to learn what the
     * system tells. */
    if (library->topology_set_components(objects, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86") != 0)
        return hki_error(HK_ERR_UNSUPPORTED, "hwloc refuses to leave out its component x86");
    return HK_OK;
}

static hk_status load_objects(const hwloc_library *library, const origin *from, hki_topology **topology)
{
    hwloc_topology_t objects;
    if (library->topology_init(&objects) != 0)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for hwloc");
    hk_status status = HK_OK;
    if (library->topology_abi_check(objects) != 0)
        status = hki_error(HK_ERR_UNSUPPORTED, LIBRARY " is not what this build knows");
    if (status == HK_OK)
        status = set_origin(library, objects, from);
    if (status == HK_OK && library->topology_load(objects) != 0)
        status = from->xml ? hki_error(HK_ERR_ARGUMENT, "%s is not a topology in hwloc's XML", from->xml)
                           : hki_error_errno(HK_ERR_UNSUPPORTED, errno, "hwloc cannot load this topology");
    if (status == HK_OK)
        status = take_objects(library, objects, from->usable, topology);
    library->topology_destroy(objects);
    return status;
}

static hk_status load(const origin *from, hki_topology **topology)
{
    hwloc_library library;
    HK_TRY(open_library(&library));
    bool ours[QUIET];
    hush(ours);
    hk_status status = load_objects(&library, from, topology);
    unhush(ours);
    dlclose(library.handle);
    return status;
}

#else

typedef struct origin {
    const char *xml, *synthetic;
    const hki_cpus *usable;
} origin;

static hk_status load(const origin *from, hki_topology **topology)
{
    (void)from;
    (void)topology;
    return hki_error(HK_ERR_UNSUPPORTED, "this build is without hwloc");
}

#endif

hk_status hki_topology_load_hwloc(const hki_cpus *usable, hki_topology **topology)
{
    return load(&(origin){.usable = usable}, topology);
}

hk_status hki_topology_load_xml_here(const char *path, hki_topology **topology)
{
    return load(&(origin){.xml = path}, topology);
}

hk_status hki_topology_load_synthetic_here(const char *description, hki_topology **topology)
{
    return load(&(origin){.synthetic = description}, topology);
}
