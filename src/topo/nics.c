/* See Documentation/ABI/testing/sysfs-class-net and stable/sysfs-class-infiniband of the kernel. */
#include "topo/nics.h"

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES_MOST = 64, NAME_BYTES = 256 };

/* Hardware, each once: told apart by what "device" points to. */
typedef struct devices {
    char name[DEVICES_MOST][NAME_BYTES];
    uint64_t rate[DEVICES_MOST]; /* bytes a second */
    uint32_t count;
} devices;

static void note(devices *found, const char *name, uint64_t rate)
{
    uint32_t i = 0;
    while (i < found->count && strcmp(found->name[i], name) != 0)
        i++;
    if (i == DEVICES_MOST)
        return;
    if (i == found->count) {
        snprintf(found->name[i], NAME_BYTES, "%s", name);
        found->rate[i] = 0;
        found->count++;
    }
    found->rate[i] = rate > found->rate[i] ? rate : found->rate[i];
}

/* The number at the beginning of a file ("25000", "2.5 Gb/sec"), in tenths; 0 when there is none. */
static uint64_t read_tenths(const char *path)
{
    char text[64] = "", *end = text;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    bool read = fgets(text, sizeof text, file) != NULL; /* a downed link's speed cannot be read */
    fclose(file);
    long long whole = read ? strtoll(text, &end, 10) : 0;
    uint64_t tenth = *end == '.' && end[1] >= '0' && end[1] <= '9' ? (uint64_t)(end[1] - '0') : 0;
    return whole < 0 || whole > 1000000000 ? 0 : (uint64_t)whole * 10 + tenth;
}

/* Every entry of a class that has a device: the file below it says how many times ten·`tenth` bytes a second it does.
 */
static void read_class(const char *root, const char *class, const char *file, uint64_t tenth, devices *found)
{
    char path[PATH_MAX], target[NAME_BYTES];
    snprintf(path, sizeof path, "%s/sys/class/%s", root, class);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/sys/class/%s/%s/device", root, class, entry->d_name);
        ssize_t length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue; /* loopback, bridge, tunnel, one end of a pair: no hardware of its own */
        target[length] = '\0';
        snprintf(path, sizeof path, "%s/sys/class/%s/%s/%s", root, class, entry->d_name, file);
        uint64_t rate = read_tenths(path) * tenth;
        const char *name = strrchr(target, '/');
        if (rate > 0)
            note(found, name ? name + 1 : target, rate);
    }
    if (folder)
        closedir(folder);
}

hki_nics hki_nics_find_below(const char *root)
{
    devices *found = calloc(1, sizeof *found);
    hki_nics nics = {.count = 1};
    if (!found)
        return nics;
    read_class(root, "net", "speed", 12500, found);                  /* Mbit/s */
    read_class(root, "infiniband", "ports/1/rate", 12500000, found); /* Gbit/s */
    for (uint32_t i = 0; i < found->count; i++)
        nics.rate += found->rate[i];
    if (found->count > 0)
        nics.count = found->count;
    free(found);
    return nics;
}

hki_nics hki_nics_find(void)
{
    return hki_nics_find_below("");
}
