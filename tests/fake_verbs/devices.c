/* Devices and ports: what FAKE_VERBS_DEVICES says. */
#include "fabric.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default)
#undef ibv_query_port

static fake_device devices[DEVICES];

/* ---- what they are ---- */

/* For devices whose NUMA node is told: the file that says so, as below /sys/class/infiniband. */
static void tell_node(fake_device *device, int node)
{
    char folder[sizeof device->device.ibdev_path], path[sizeof folder + 32];
    snprintf(folder, sizeof folder, "%.160s/%.*s", fake_folder(), (int)strcspn(device->text, "/"), device->text);
    (void)mkdir(folder, 0700);
    snprintf(path, sizeof path, "%s/device", folder);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/device/numa_node", folder);
    memcpy(device->device.ibdev_path, folder, sizeof folder);
    FILE *file = fopen(path, "we");
    if (file == NULL)
        abort();
    fprintf(file, "%d\n", node);
    fclose(file);
}

static void set(fake_device *device, const char *word)
{
    const struct {
        const char *name;
        uint32_t *value;
    } numbers[] = {{"ports=", &device->ports}, {"subnet=", &device->subnet},   {"width=", &device->width},
                   {"speed=", &device->speed}, {"latency=", &device->latency}, {"register=", &device->registration},
                   {"page=", &device->page}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].name);
        if (strncmp(word, numbers[i].name, length) == 0)
            *numbers[i].value = (uint32_t)strtoul(word + length, NULL, 10);
    }
    device->infiniband |= strcmp(word, "ib") == 0;
    device->odp |= strcmp(word, "odp") == 0;
    if (strncmp(word, "node=", 5) == 0)
        tell_node(device, atoi(word + 5));
}

static void parse(fake_device *device, uint32_t number, const char *text, size_t bytes)
{
    char copy[sizeof device->text], *rest = copy, *word;
    snprintf(copy, sizeof copy, "%.*s", (int)bytes, text);
    if (strcmp(copy, device->text) == 0)
        return; /* contexts point to it */
    *device = (fake_device){.number = number, .ports = 1, .width = 2, .speed = 32};
    snprintf(device->text, sizeof device->text, "%s", copy);
    snprintf(device->device.name, sizeof device->device.name, "%s", strsep(&rest, "/"));
    while ((word = strsep(&rest, "/")) != NULL)
        set(device, word);
}

struct ibv_device **ibv_get_device_list(int *count)
{
    const char *names = getenv("FAKE_VERBS_DEVICES");
    struct ibv_device **list = calloc(DEVICES + 1, sizeof(struct ibv_device *));
    *count = 0;
    fake_lock();
    for (names = names != NULL ? names : "fake0"; *names != '\0' && *count < DEVICES && list != NULL;) {
        size_t bytes = strcspn(names, ",");
        parse(&devices[*count], (uint32_t)*count, names, bytes);
        list[*count] = &devices[*count].device;
        *count += 1;
        names += bytes + (names[bytes] == ',');
    }
    fake_unlock();
    return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

fake_context *fake_context_of(struct ibv_context *context)
{
    return (fake_context *)(void *)((char *)context - offsetof(fake_context, extended.context));
}

fake_device *fake_device_of(struct ibv_context *context)
{
    return (fake_device *)(void *)context->device;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attributes)
{
    *attributes =
        (struct ibv_device_attr){.phys_port_cnt = (uint8_t)fake_device_of(context)->ports, .max_qp_rd_atom = 4};
    return 0;
}

/* Of devices that page on demand; others are as before there was such a query. */
int fake_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *attributes, size_t bytes)
{
    (void)input;
    (void)bytes;
    attributes->odp_caps.general_caps = IBV_ODP_SUPPORT;
    attributes->odp_caps.per_transport_caps.rc_odp_caps = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
    return ibv_query_device(context, &attributes->orig_attr);
}

/* ---- ports ---- */

/* LIDs are 7, 8, … by port of all devices with two each; a RoCE port has one, too, which nobody looks at. */
static uint16_t lid_of(const fake_device *device, uint8_t port)
{
    return (uint16_t)(6 + 2 * device->number + port);
}

static union ibv_gid gid_of(const fake_device *device, uint8_t port, int index)
{
    union ibv_gid gid = {.raw = {0xfe, 0x80, [7] = (uint8_t)device->subnet}};
    gid.raw[15] = (uint8_t)lid_of(device, port);
    if (index == 0 || device->infiniband)
        return gid;
    return (union ibv_gid){.raw = {[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(lid_of(device, port) - 6)}};
}

/* In the older form that the real library's function of this name has, too: up to link_layer. */
int ibv_query_port(struct ibv_context *context, uint8_t number, struct _compat_ibv_port_attr *attributes)
{
    const fake_device *device = fake_device_of(context);
    struct ibv_port_attr port = {.state = IBV_PORT_ACTIVE,
                                 .max_mtu = IBV_MTU_4096,
                                 .active_mtu = IBV_MTU_1024,
                                 .gid_tbl_len = 2,
                                 .max_msg_sz = 1 << 20,
                                 .lid = lid_of(device, number),
                                 .active_width = (uint8_t)device->width,
                                 .active_speed = (uint8_t)device->speed,
                                 .link_layer =
                                     device->infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET};
    memcpy(attributes, &port, offsetof(struct ibv_port_attr, flags));
    return number >= 1 && number <= device->ports ? 0 : EINVAL;
}

static int gids_of(const fake_device *device)
{
    return device->infiniband ? 1 : 2;
}

int ibv_query_gid(struct ibv_context *context, uint8_t number, int index, union ibv_gid *gid)
{
    const fake_device *device = fake_device_of(context);
    *gid = gid_of(device, number, index);
    return number >= 1 && number <= device->ports && index < gids_of(device) ? 0 : EINVAL;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t most, uint32_t flags,
                             size_t bytes)
{
    const fake_device *device = fake_device_of(context);
    size_t count = 0;
    (void)flags;
    (void)bytes;
    for (uint32_t port = 1; port <= device->ports; port++) {
        for (int i = 0; i < gids_of(device) && count < most; i++)
            entries[count++] =
                (struct ibv_gid_entry){.gid = gid_of(device, (uint8_t)port, i),
                                       .gid_index = (uint32_t)i,
                                       .port_num = port,
                                       .gid_type = device->infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2};
    }
    return (ssize_t)count;
}

#pragma GCC visibility pop

fabric_place fake_place(struct ibv_context *context, uint8_t port)
{
    const fake_device *device = fake_device_of(context);
    return (fabric_place){.infiniband = device->infiniband,
                          .lid = lid_of(device, port),
                          .gid = gid_of(device, port, gids_of(device) - 1)};
}

fabric_place fake_route(struct ibv_context *context, const struct ibv_ah_attr *route)
{
    return (fabric_place){.infiniband = fake_device_of(context)->infiniband,
                          .global = route->is_global,
                          .lid = route->dlid,
                          .gid = route->grh.dgid};
}

void fake_spin(uint64_t nanoseconds)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t begin = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec, at = begin;
    while (at - begin < nanoseconds) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        at = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    }
}
