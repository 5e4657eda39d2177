#include "net/interfaces.h"

#include <ifaddrs.h>
#include <net/route.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { ITEM_BYTES = 80 };

static uint8_t prefix_of(const struct sockaddr *mask, uint16_t family)
{
    hki_address bits;
    unsigned count = 0;
    if (mask == NULL)
        return family == AF_INET ? 32 : 128;
    struct sockaddr_storage copy = {.ss_family = family};
    memcpy((char *)&copy + sizeof copy.ss_family, (const char *)mask + sizeof copy.ss_family,
           (family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) - sizeof copy.ss_family);
    if (!hki_address_from_socket((const struct sockaddr *)&copy, &bits))
        return 0;
    while (count < (family == AF_INET ? 32u : 128u) && (bits.bytes[count / 8] & 0x80 >> count % 8))
        count++;
    return (uint8_t)count;
}

static bool look_at(const struct ifaddrs *one, hki_interface *result)
{
    memset(result, 0, sizeof *result);
    if (one->ifa_addr == NULL || !hki_address_from_socket(one->ifa_addr, &result->address))
        return false;
    snprintf(result->name, sizeof result->name, "%s", one->ifa_name);
    result->index = if_nametoindex(one->ifa_name);
    result->up = (one->ifa_flags & IFF_UP) && (one->ifa_flags & IFF_RUNNING);
    result->loopback = (one->ifa_flags & IFF_LOOPBACK) != 0;
    result->prefix = prefix_of(one->ifa_netmask, result->address.family);
    result->address.scope = hki_address_is_link_local(&result->address) ? result->index : 0;
    return true;
}

/* ---- default routes ---- */

static void mark_outward(hki_interface *list, int count, const char *name, uint16_t family)
{
    for (int i = 0; i < count; i++)
        list[i].outward |= !list[i].loopback && list[i].address.family == family && strcmp(list[i].name, name) == 0;
}

/* Lines: name, destination, gateway, flags, three numbers, mask, … */
static void find_routes_4(hki_interface *list, int count)
{
    char line[256], name[IF_NAMESIZE];
    unsigned long destination, mask;
    FILE *file = fopen("/proc/net/route", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%15s %lx %*x %*x %*u %*u %*u %lx", name, &destination, &mask) == 3 && destination == 0 &&
            mask == 0)
            mark_outward(list, count, name, AF_INET);
    if (file != NULL)
        fclose(file);
}

/* Lines: destination, bits, source, bits, gateway, metric, two numbers, flags, name. */
static void find_routes_6(hki_interface *list, int count)
{
    char line[256], name[IF_NAMESIZE];
    unsigned bits, flags;
    FILE *file = fopen("/proc/net/ipv6_route", "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "%*s %x %*s %*x %*s %*x %*x %*x %x %15s", &bits, &flags, name) == 3 && bits == 0 &&
            (flags & RTF_REJECT) == 0)
            mark_outward(list, count, name, AF_INET6);
    if (file != NULL)
        fclose(file);
}

static void find_bridges(hki_interface *list, int count)
{
    for (int i = 0; i < count; i++) {
        char path[sizeof "/sys/class/net//bridge" + IF_NAMESIZE];
        snprintf(path, sizeof path, "/sys/class/net/%s/bridge", list[i].name);
        list[i].bridge = !list[i].outward && access(path, F_OK) == 0;
    }
}

/* ---- lists ---- */

static int merit(const hki_interface *one)
{
    if (hki_address_is_link_local(&one->address))
        return 3;
    return one->bridge ? 2 : one->outward ? 0 : 1;
}

/* Stable: within a merit they stay in the kernel's order. */
static void sort(hki_interface *list, int count)
{
    for (int i = 1; i < count; i++) {
        hki_interface one = list[i];
        int at = i;
        for (; at > 0 && merit(&list[at - 1]) > merit(&one); at--)
            list[at] = list[at - 1];
        list[at] = one;
    }
}

int hki_interfaces_survey(hki_interface *list, size_t capacity)
{
    struct ifaddrs *all;
    size_t count = 0;
    if (getifaddrs(&all) != 0)
        return -1;
    for (int link_local = 0; link_local < 2; link_local++) /* were there more than fit, these would go */
        for (const struct ifaddrs *one = all; one != NULL && count < capacity; one = one->ifa_next)
            if (look_at(one, &list[count]) && hki_address_is_link_local(&list[count].address) == (link_local != 0))
                count++;
    freeifaddrs(all);
    find_routes_4(list, (int)count);
    find_routes_6(list, (int)count);
    find_bridges(list, (int)count);
    sort(list, (int)count);
    return (int)count;
}

int hki_interfaces_list(hki_interface *list, size_t capacity)
{
    int kept = 0, count = hki_interfaces_survey(list, capacity);
    for (int i = 0; i < count; i++)
        if (list[i].up)
            list[kept++] = list[i];
    return count < 0 ? count : kept;
}

/* ---- rates ---- */

uint64_t hki_interface_rate(const char *name)
{
    char path[64 + IF_NAMESIZE];
    long long megabits = 0;
    snprintf(path, sizeof path, "/sys/class/net/%.*s/device", IF_NAMESIZE, name);
    if (access(path, F_OK) != 0)
        return 0;
    snprintf(path, sizeof path, "/sys/class/net/%.*s/speed", IF_NAMESIZE, name);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%lld", &megabits) != 1 || megabits < 0 || megabits > 1000000000)
        megabits = 0; /* -1, or an error: there is no link, or the system does not know */
    fclose(file);
    return (uint64_t)megabits * 125000;
}

/* ---- choices ---- */

/* Whether an item of the list speaks of this address. */
static bool matches(const char *item, const hki_interface *one)
{
    hki_address network;
    unsigned prefix;
    size_t length = strlen(item);
    if (hki_address_parse_network(item, &network, &prefix))
        return hki_address_within(&one->address, &network, prefix);
    if (length > 0 && item[length - 1] == '*')
        return strncmp(item, one->name, length - 1) == 0;
    return strcmp(item, one->name) == 0;
}

/* The next item; NULL at the end. `bad` is set when it cannot be a name or a network. */
static const char *next_item(const char *text, char item[ITEM_BYTES], bool *bad)
{
    size_t length = strcspn(text, ",");
    *bad = length == 0 || length >= ITEM_BYTES;
    if (!*bad) {
        hki_address network;
        unsigned prefix;
        memcpy(item, text, length);
        item[length] = '\0';
        bool names_network = strpbrk(item, "/:") != NULL;
        *bad = names_network ? !hki_address_parse_network(item, &network, &prefix) : length >= IF_NAMESIZE + 1;
    }
    return text[length] == ',' ? text + length + 1 : NULL;
}

static bool is_exact_name(const char *item)
{
    hki_address network;
    unsigned prefix;
    return item[strlen(item) - 1] != '*' && !hki_address_parse_network(item, &network, &prefix);
}

static bool matches_any(const char *item, const hki_interface *list, int count)
{
    for (int i = 0; i < count; i++)
        if (matches(item, &list[i]))
            return true;
    return false;
}

/* Moves those that match to the front, in the order of the items. */
static int choose_named(const char *text, hki_interface *list, int count, bool *bad)
{
    char item[ITEM_BYTES];
    int chosen = 0;
    while (text != NULL) {
        text = next_item(text, item, bad);
        if (*bad || (is_exact_name(item) && !matches_any(item, list, count)))
            return 0;
        for (int i = chosen; i < count; i++) {
            if (!matches(item, &list[i]))
                continue;
            hki_interface one = list[i];
            memmove(&list[chosen + 1], &list[chosen], (size_t)(i - chosen) * sizeof *list);
            list[chosen++] = one;
        }
    }
    return chosen;
}

static int choose_others(const char *text, hki_interface *list, int count, bool *bad)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        char item[ITEM_BYTES];
        bool forbidden = false;
        for (const char *rest = text; rest != NULL;) {
            rest = next_item(rest, item, bad);
            if (*bad)
                return 0;
            forbidden |= matches(item, &list[i]);
        }
        if (!forbidden)
            list[kept++] = list[i];
    }
    return kept;
}

static int choose_usual(hki_interface *list, int count, const char **why)
{
    int outward = 0;
    for (int i = 0; i < count; i++)
        outward += !list[i].loopback;
    *why = outward > 0 ? "all that are up, but loopback" : "only loopback is up";
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (outward == 0 || !list[i].loopback)
            list[kept++] = list[i];
    return kept;
}

static void describe(const hki_interface *list, int count, const char *before, char text[HKI_INTERFACES_REASON])
{
    size_t at = (size_t)snprintf(text, HKI_INTERFACES_REASON, "%s", before);
    for (int i = 0; i < count && at < HKI_INTERFACES_REASON; i++) {
        char address[HKI_ADDRESS_TEXT];
        hki_address_text(&list[i].address, address);
        at += (size_t)snprintf(text + at, HKI_INTERFACES_REASON - at, "%s%s %s", i > 0 ? ", " : " ", list[i].name,
                               address);
    }
}

int hki_interfaces_choose(const char *choice, hki_interface *list, int count, char reason[HKI_INTERFACES_REASON])
{
    bool bad = false;
    const char *why = "as HOCKET_INTERFACE says";
    hki_interface all[HKI_INTERFACES_MOST];
    int known = count < HKI_INTERFACES_MOST ? count : HKI_INTERFACES_MOST, chosen;
    memcpy(all, list, (size_t)known * sizeof *all);
    if (*choice == '\0')
        chosen = choose_usual(list, count, &why);
    else if (*choice == '^')
        chosen = choose_others(choice + 1, list, count, &bad);
    else
        chosen = choose_named(choice, list, count, &bad);
    if (bad)
        snprintf(reason, HKI_INTERFACES_REASON, "a list of names and networks (eth0, 10.0.0.0/8, ^lo) is expected");
    else if (chosen == 0)
        describe(all, known, known > 0 ? "there are" : "no interface is up", reason);
    else
        snprintf(reason, HKI_INTERFACES_REASON, "%s", why);
    return bad ? -1 : chosen;
}
