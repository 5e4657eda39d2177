/* Which ports of which devices are used, and by which address: the best ones, or as HOCKET_VERBS_DEVICE says. */
#include "verbs.h"

#include "net/address.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { GIDS = 256, GID_WAIT_MS = 2000, GID_LOOK_MS = 20, FAR = 1 << 20 };

static const char *setting(const hk_transport *transport, const char *name)
{
    return transport->services->setting(transport->services->core, name);
}

int hki_verbs_query_port(const hki_verbs_library *library, struct ibv_context *context, uint8_t number,
                         struct ibv_port_attr *attributes)
{
    struct verbs_context *extended = verbs_get_ctx_op(context, query_port);
    memset(attributes, 0, sizeof *attributes);
    if (extended != NULL)
        return extended->query_port(context, number, attributes, sizeof *attributes);
    return library->query_port(context, number, (struct _compat_ibv_port_attr *)attributes);
}

/* Whether the kernel knows of a device: asked before the library is loaded, which takes a while. */
static bool any_device(void)
{
    DIR *folder = opendir("/sys/class/infiniband");
    bool any = false;
    if (folder == NULL)
        return false;
    for (struct dirent *entry; !any && (entry = readdir(folder)) != NULL;)
        any = entry->d_name[0] != '.';
    closedir(folder);
    return any;
}

/* ---- which are near ---- */

static int read_node(const struct ibv_device *device)
{
    char path[sizeof device->ibdev_path + 32], text[32] = "";
    snprintf(path, sizeof path, "%s/device/numa_node", device->ibdev_path);
    FILE *stream = fopen(path, "re");
    if (stream == NULL)
        return -1;
    bool there = fgets(text, sizeof text, stream) != NULL;
    fclose(stream);
    return there ? (int)strtol(text, NULL, 10) : -1;
}

/* 0: on this thread's NUMA node, or nobody knows; otherwise the nodes' distance (ACPI SLIT), which is 10 for the own.
 */
static int distance(const struct ibv_device *device)
{
    unsigned cpu, node;
    int there = read_node(device);
    if (there < 0 || getcpu(&cpu, &node) != 0 || (unsigned)there == node)
        return 0;
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/node/node%u/distance", node);
    FILE *stream = fopen(path, "re");
    int value = FAR;
    for (int i = 0; stream != NULL && i <= there; i++) {
        if (fscanf(stream, "%d", &value) != 1)
            value = FAR;
    }
    if (stream != NULL)
        fclose(stream);
    return value;
}

/* Place of device:port in the list of HOCKET_VERBS_DEVICE, or -1. */
static int listed(const char *list, const char *device, uint8_t number)
{
    for (int place = 0; *list != '\0'; place++) {
        size_t length = strcspn(list, ","), name = strcspn(list, ",:");
        bool same = strlen(device) == name && memcmp(list, device, name) == 0;
        char *end = NULL;
        if (same && (name == length || (strtoul(list + name + 1, &end, 10) == number && end == list + length)))
            return place;
        list += length + (list[length] == ',');
    }
    return -1;
}

/* ---- addresses ---- */

static bool is_v4(const union ibv_gid *gid)
{
    static const uint8_t prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    return memcmp(gid->raw, prefix, sizeof prefix) == 0;
}

static hki_address address_of(const union ibv_gid *gid)
{
    hki_address address = {.family = is_v4(gid) ? AF_INET : AF_INET6};
    memcpy(address.bytes, is_v4(gid) ? gid->raw + 12 : gid->raw, is_v4(gid) ? 4 : 16);
    return address;
}

/* How good an address is: 0 for one that must not be used. HOCKET_VERBS_GID names an index or a network. */
static int worth(const struct ibv_gid_entry *entry, bool ethernet, const char *choice)
{
    hki_address address = address_of(&entry->gid), network;
    unsigned prefix;
    char *end;
    if (*choice != '\0') {
        unsigned long index = strtoul(choice, &end, 10);
        if (*end == '\0')
            return entry->gid_index == index;
        if (!hki_address_parse_network(choice, &network, &prefix) || !hki_address_within(&address, &network, prefix))
            return 0;
    }
    if (!ethernet)
        return entry->gid_type == IBV_GID_TYPE_IB ? GIDS - (int)entry->gid_index : 0;
    if (entry->gid_type != IBV_GID_TYPE_ROCE_V2)
        return entry->gid_type == IBV_GID_TYPE_ROCE_V1 ? 1 : 0;
    if (is_v4(&entry->gid)) /* routable, and what a network is usually set up with */
        return 4;
    return hki_address_is_link_local(&address) ? 2 : 3;
}

/* The type of an address where the library is too old to say: from sysfs. */
static uint32_t type_of(const struct ibv_device *device, uint8_t number, int index)
{
    char path[sizeof device->ibdev_path + 64], text[32] = "";
    snprintf(path, sizeof path, "%s/ports/%u/gid_attrs/types/%d", device->ibdev_path, number, index);
    FILE *stream = fopen(path, "re");
    if (stream != NULL) {
        if (fgets(text, sizeof text, stream) == NULL)
            text[0] = '\0';
        fclose(stream);
    }
    if (strncmp(text, "RoCE v2", 7) == 0)
        return IBV_GID_TYPE_ROCE_V2;
    return strncmp(text, "IB/RoCE", 7) == 0 ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_IB;
}

static int list_gids(const hki_port *port, int length, struct ibv_gid_entry *list)
{
    const hki_verbs_library *library = port->transport->library;
    int count = 0;
    if (library->query_gid_table != NULL) {
        ssize_t got = library->query_gid_table(port->context, list, GIDS, 0, sizeof *list);
        for (ssize_t i = 0; i < got; i++) {
            if (list[i].port_num == port->number)
                list[count++] = list[i];
        }
        return count;
    }
    for (int index = 0; index < length && count < GIDS; index++) {
        static const union ibv_gid none;
        struct ibv_gid_entry *entry = &list[count];
        *entry = (struct ibv_gid_entry){.gid_index = (uint32_t)index, .port_num = port->number};
        if (library->query_gid(port->context, port->number, index, &entry->gid) != 0 ||
            memcmp(&entry->gid, &none, sizeof none) == 0)
            continue;
        entry->gid_type = type_of(port->context->device, port->number, index);
        count++;
    }
    return count;
}

/* A port's addresses appear a moment after the port: waits for a usable one. */
static bool choose_gid(hki_port *port, int length)
{
    const char *choice = setting(port->transport, "VERBS_GID");
    struct ibv_gid_entry *list = calloc(GIDS, sizeof *list);
    int best = 0;
    for (int waited = 0; list != NULL && best == 0 && waited <= GID_WAIT_MS; waited += GID_LOOK_MS) {
        if (waited > 0)
            nanosleep(&(struct timespec){.tv_nsec = GID_LOOK_MS * 1000000L}, NULL);
        int count = list_gids(port, length, list);
        for (int i = 0; i < count; i++) {
            int value = worth(&list[i], port->ethernet, choice);
            if (value <= best)
                continue;
            best = value;
            port->gid = list[i].gid;
            port->gid_index = (int)list[i].gid_index;
        }
        if (!port->ethernet && *choice == '\0')
            break; /* InfiniBand is addressed by LID all the same */
    }
    free(list);
    return best > 0 || !port->ethernet;
}

/* ---- ports ---- */

/* ns for a byte, from the port's width and speed (InfiniBand specification, PortInfo); 0: a code that is not known. */
static double ns_per_byte(const struct ibv_port_attr *attributes)
{
    static const struct {
        uint8_t code;
        double gigabits;
    } speeds[] = {{1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14.0625}, {32, 25.78125}, {64, 53.125}, {128, 106.25}};
    static const struct {
        uint8_t code;
        int lanes;
    } widths[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    double rate = 0;
    for (size_t i = 0; i < sizeof speeds / sizeof speeds[0]; i++)
        rate += attributes->active_speed == speeds[i].code ? speeds[i].gigabits : 0;
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
        if (attributes->active_width == widths[i].code)
            return rate > 0 ? 8 / (rate * widths[i].lanes) : 0;
    }
    return 0;
}

double hki_verbs_rate(const hk_transport *transport)
{
    double rate = 0;
    for (uint32_t i = 0; i < transport->port_count; i++) {
        if (transport->port[i].ns_per_byte <= 0)
            return 0;
        rate += 1 / transport->port[i].ns_per_byte;
    }
    return rate;
}

/* Whether memory can be registered without being pinned: its pages are brought in as the hardware needs them. */
static bool pages_on_demand(struct ibv_context *context)
{
    const uint32_t needed = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    struct verbs_context *extended = verbs_get_ctx_op(context, query_device_ex);
    struct ibv_device_attr_ex attributes = {0};
    if (extended == NULL || extended->query_device_ex(context, NULL, &attributes, sizeof attributes) != 0)
        return false;
    return (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
           (attributes.odp_caps.per_transport_caps.rc_odp_caps & needed) == needed;
}

static hk_status refuse(const hki_port *port, const char *what)
{
    const hk_transport_services *services = port->transport->services;
    services->error(services->core, HK_ERR_TRANSPORT, "verbs: rank %d on %s, device %s port %u: %s: %s",
                    (int)services->self->rank, services->self->host_name, port->device, port->number, what,
                    strerror(errno));
    return HK_ERR_TRANSPORT;
}

/* Takes over the context, or closes it. */
static hk_status open_port(hk_transport *transport, struct ibv_context *context, const char *device, uint8_t number)
{
    const hki_verbs_library *library = transport->library;
    hki_port *port = &transport->port[transport->port_count];
    struct ibv_port_attr attributes;
    struct ibv_device_attr limits;
    *port = (hki_port){.transport = transport, .number = number, .context = context};
    snprintf(port->device, sizeof port->device, "%s", device);
    transport->port_count++; /* closed with the others from here on */
    if (hki_verbs_query_port(library, context, number, &attributes) != 0 ||
        library->query_device(context, &limits) != 0)
        return refuse(port, "it cannot be queried");
    port->ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    port->lid = attributes.lid;
    port->mtu = attributes.active_mtu;
    port->longest = attributes.max_msg_sz;
    port->rd_atomic = limits.max_qp_rd_atom > 0 && limits.max_qp_rd_atom < 16 ? (uint32_t)limits.max_qp_rd_atom : 16;
    port->ns_per_byte = ns_per_byte(&attributes);
    port->on_demand = pages_on_demand(context);
    errno = 0;
    if (!choose_gid(port, attributes.gid_tbl_len)) {
        const char *choice = setting(transport, "VERBS_GID");
        char what[HKI_VERBS_REASON] = "no RoCE address (GID) is usable; HOCKET_VERBS_GID chooses one";
        if (*choice != '\0')
            snprintf(what, sizeof what, "no RoCE address (GID) is what HOCKET_VERBS_GID=%.128s asks for", choice);
        errno = EADDRNOTAVAIL;
        return refuse(port, what);
    }
    port->pd = library->alloc_pd(context);
    port->channel = library->create_comp_channel(context);
    if (port->pd == NULL || port->channel == NULL)
        return refuse(port, "no protection domain or completion channel");
    return HK_OK;
}

typedef struct candidate {
    struct ibv_device *device;
    uint8_t number;
    int place; /* in the list that the user gave, or distance */
    bool ethernet;
    double ns_per_byte; /* these two only without a list */
} candidate;

/* Without a list InfiniBand comes before RoCE, which it does not reach: ranks of hosts that have both are to have the
 * same. Then comes what is faster, then what is nearer. */
static int compare(const candidate *left, const candidate *right)
{
    if (left->ethernet != right->ethernet)
        return left->ethernet ? 1 : -1;
    if (left->ns_per_byte < right->ns_per_byte || left->ns_per_byte > right->ns_per_byte)
        return left->ns_per_byte > right->ns_per_byte ? 1 : -1;
    return left->place - right->place;
}

/* Fills in what a port is; false: it is not up. */
static bool look_at_port(const hki_verbs_library *library, struct ibv_context *context, bool listed, candidate *port)
{
    struct ibv_port_attr attributes;
    if (hki_verbs_query_port(library, context, port->number, &attributes) != 0 || attributes.state != IBV_PORT_ACTIVE)
        return false;
    port->ethernet = !listed && attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
    port->ns_per_byte = listed ? 0 : ns_per_byte(&attributes); /* what is not known yet is new, and fast */
    return true;
}

/* Ports that are up and allowed, best first. */
static int find_candidates(hk_transport *transport, struct ibv_device **devices, int count, candidate *list, int most)
{
    const hki_verbs_library *library = transport->library;
    const char *choice = setting(transport, "VERBS_DEVICE");
    bool any = *choice == '\0';
    int found = 0;
    for (int i = 0; i < count; i++) {
        const char *name = library->get_device_name(devices[i]);
        struct ibv_context *context = library->open_device(devices[i]);
        struct ibv_device_attr limits;
        if (context == NULL)
            continue;
        int ports = library->query_device(context, &limits) == 0 ? limits.phys_port_cnt : 0;
        for (int number = 1; number <= ports && found < most; number++) {
            candidate port = {.device = devices[i], .number = (uint8_t)number};
            port.place = any ? distance(devices[i]) : listed(choice, name, port.number);
            if (port.place < 0 || !look_at_port(library, context, !any, &port))
                continue;
            int at = found++;
            for (; at > 0 && compare(&list[at - 1], &port) > 0; at--)
                list[at] = list[at - 1];
            list[at] = port;
        }
        library->close_device(context);
    }
    return found;
}

/* All that the user listed, up to what is possible; else one of the best, by turns of this host's ranks. */
static hk_status open_chosen(hk_transport *transport, const candidate *list, int found)
{
    bool all = *setting(transport, "VERBS_DEVICE") != '\0';
    int best = 0, first = 0;
    while (best < found && compare(&list[best], &list[0]) == 0)
        best++;
    if (!all)
        first = transport->services->self->local_index % best;
    int last = all ? (found < HKI_VERBS_LANES ? found : HKI_VERBS_LANES) : first + 1;
    for (int i = first; i < last; i++) {
        struct ibv_context *context = transport->library->open_device(list[i].device);
        const char *name = transport->library->get_device_name(list[i].device);
        if (context == NULL) {
            hki_port port = {.transport = transport, .number = list[i].number};
            snprintf(port.device, sizeof port.device, "%s", name);
            return refuse(&port, "it cannot be opened");
        }
        hk_status status = open_port(transport, context, name, list[i].number);
        if (status != HK_OK)
            return status;
    }
    return HK_OK;
}

static hk_status none(const hk_transport *transport, const char *why)
{
    const hk_transport_services *services = transport->services;
    services->error(services->core, HK_ERR_UNSUPPORTED, "verbs: rank %d on %s: %s", (int)services->self->rank,
                    services->self->host_name, why);
    return HK_ERR_UNSUPPORTED;
}

static void log_ports(const hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    for (uint32_t i = 0; i < transport->port_count; i++) {
        const hki_port *port = &transport->port[i];
        hki_address address = address_of(&port->gid);
        char text[HKI_ADDRESS_TEXT];
        hki_address_text(&address, text);
        services->log(services->core, HK_LOG_INFO,
                      "verbs: rank %d on %s uses device %s port %u, %s, LID %u, GID %d (%s), %.1f Gbit/s",
                      (int)services->self->rank, services->self->host_name, port->device, port->number,
                      port->ethernet ? "RoCE" : "InfiniBand", port->lid, port->gid_index, text,
                      port->ns_per_byte > 0 ? 8 / port->ns_per_byte : 0);
    }
}

hk_status hki_verbs_open_ports(hk_transport *transport)
{
    enum { MOST = 64 };
    const char *path = setting(transport, "VERBS_LIBRARY"), *why = NULL;
    char text[HKI_VERBS_REASON];
    candidate list[MOST];
    int count = 0;
    if (*path == '\0' && !any_device())
        return none(transport, "this machine has no RDMA device (/sys/class/infiniband is empty)");
    transport->library = hki_verbs_load(path, &why);
    if (transport->library == NULL)
        return none(transport, why);
    struct ibv_device **devices = transport->library->get_device_list(&count);
    if (devices == NULL || count == 0) {
        if (devices != NULL)
            transport->library->free_device_list(devices);
        return none(transport, "libibverbs finds no device: is its driver (ibverbs-providers) installed, and "
                               "/dev/infiniband readable?");
    }
    int found = find_candidates(transport, devices, count, list, MOST);
    hk_status status;
    snprintf(text, sizeof text, "none of %d RDMA devices has an active port%s%s", count,
             *setting(transport, "VERBS_DEVICE") != '\0' ? " that HOCKET_VERBS_DEVICE allows: " : "",
             setting(transport, "VERBS_DEVICE"));
    status = found > 0 ? open_chosen(transport, list, found) : none(transport, text);
    transport->library->free_device_list(devices);
    if (status == HK_OK)
        log_ports(transport);
    return status;
}

void hki_verbs_close_ports(hk_transport *transport)
{
    const hki_verbs_library *library = transport->library;
    for (uint32_t i = 0; i < transport->port_count; i++) {
        hki_port *port = &transport->port[i];
        if (port->channel != NULL)
            library->destroy_comp_channel(port->channel);
        if (port->pd != NULL)
            library->dealloc_pd(port->pd);
        if (port->context != NULL)
            library->close_device(port->context);
    }
    transport->port_count = 0;
}
