/* Where this rank listens, what it publishes of that, and in which order a peer's addresses are tried. */
#include "tcp.h"

#include "base/settings.h"
#include "net/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    PUBLISHED_VERSION = 1,
    PUBLISHED_HEADER = 16,
    STANDARD_BUFFER = 4 << 20, /* measured: 1 MiB all-reduce of two ranks 173 µs, against 221 as the kernel tunes it */
    STANDARD_CONNECT_SECONDS = 30,
    STANDARD_HEARTBEAT_SECONDS = 20,
    SHORTEST_HEARTBEAT_SECONDS = 4, /* the kernel counts in seconds, and three probes must have gone unanswered */
    SCOPES_MOST = 8
};

/* How near an address is: the nearest is tried first. */
enum nearness { NEAR_LOOPBACK, NEAR_SUBNET, NEAR_ROUTED, NEAR_LINK_LOCAL, NEAR_NO_FAMILY };

/* ---- settings ---- */

static const char *setting(const hk_transport *transport, const char *name)
{
    return transport->services->setting(transport->services->core, name);
}

static uint64_t mix(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* Equal for those who share a loopback: boot id and network namespace. */
static uint64_t this_machine(void)
{
    char text[128] = "";
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        if (fgets(text, sizeof text, file) != NULL)
            hash = mix(hash, text);
        fclose(file);
    }
    ssize_t length = readlink("/proc/self/ns/net", text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    return mix(hash, text);
}

static void read_settings(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    uint64_t bytes;
    bool open = strcmp(setting(transport, "KEY"), "none") == 0;
    transport->wide = hki_key_given(services->token) || open;
    if (open && !hki_key_given(services->token))
        services->log(services->core, HK_LOG_WARN,
                      "tcp: HOCKET_KEY=none: whoever reaches this machine's network can join the job");
    transport->buffer = STANDARD_BUFFER;
    if (hki_parse_bytes(setting(transport, "SOCKET_BUFFER"), &bytes))
        transport->buffer = (size_t)bytes;
    int streams = atoi(setting(transport, "STREAMS"));
    transport->streams = streams >= 1 && streams <= HKI_TCP_LANES ? (uint32_t)streams : 1;
    const char *interfaces = setting(transport, "INTERFACE");
    transport->striped = *interfaces != '\0' && *interfaces != '^';
    transport->connect_timeout = STANDARD_CONNECT_SECONDS;
    (void)hki_parse_seconds(setting(transport, "CONNECT_TIMEOUT"), &transport->connect_timeout);
    double heartbeat = STANDARD_HEARTBEAT_SECONDS;
    (void)hki_parse_seconds(setting(transport, "HEARTBEAT"), &heartbeat);
    bool short_one = heartbeat > 0 && heartbeat < SHORTEST_HEARTBEAT_SECONDS;
    transport->heartbeat = short_one ? SHORTEST_HEARTBEAT_SECONDS : heartbeat;
    transport->machine = this_machine();
}

/* A name that the kernel knows, and lets this process use. */
static hk_status read_congestion(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const char *name = setting(transport, "CONGESTION");
    char allowed[160] = "?";
    snprintf(transport->congestion, sizeof transport->congestion, "%s", name);
    int error = *name == '\0' ? 0 : hki_socket_congestion(transport->listeners[0], name);
    if (error == 0 && strlen(name) < sizeof transport->congestion)
        return HK_OK;
    FILE *file = fopen("/proc/sys/net/ipv4/tcp_allowed_congestion_control", "re");
    if (file != NULL) {
        if (fgets(allowed, sizeof allowed, file) != NULL)
            allowed[strcspn(allowed, "\n")] = '\0';
        fclose(file);
    }
    services->error(services->core, HK_ERR_SETTING, "HOCKET_CONGESTION=%s: %s; everybody may use: %s", name,
                    error == -EPERM ? "only an administrator may use that" : "this kernel has none of that name",
                    allowed);
    return HK_ERR_SETTING;
}

/* A connection within the machine loses nothing and fills no queue but its own, and what paces itself (bbr) only waits:
 * with it, 1 MiB each way took 270 us, against 126 with reno, which every kernel has. */
void hki_tcp_congestion(const hk_transport *transport, int fd)
{
    if (transport->congestion[0] != '\0')
        (void)hki_socket_congestion(fd, transport->congestion);
    else if (hki_socket_stays_here(fd))
        (void)hki_socket_congestion(fd, "reno");
}

static hk_status read_tls(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    const hki_tls_settings settings = {.mode = setting(transport, "TLS"),
                                       .certificate = setting(transport, "TLS_CERTIFICATE"),
                                       .key = setting(transport, "TLS_KEY"),
                                       .authority = setting(transport, "TLS_CA")};
    char reason[HKI_TLS_REASON];
    hki_tls_made made = hki_tls_context_make(&settings, services->token, &transport->tls, reason);
    if (made == HKI_TLS_MADE)
        services->log(services->core, HK_LOG_INFO, "tcp: connections are encrypted by TLS 1.3, and proved by %s",
                      *settings.certificate != '\0' ? "certificates" : "the job key");
    if (made == HKI_TLS_MADE || made == HKI_TLS_OFF)
        return HK_OK;
    services->error(services->core, HK_ERR_SETTING, "%s", reason);
    return HK_ERR_SETTING;
}

/* ---- listening ---- */

static hk_status choose(hk_transport *transport, char reason[HKI_INTERFACES_REASON])
{
    const hk_transport_services *services = transport->services;
    const char *choice = setting(transport, "INTERFACE");
    int all = hki_interfaces_list(transport->interfaces, HKI_INTERFACES_MOST);
    if (all < 0) {
        services->error(services->core, HK_ERR_SYSTEM, "tcp: the machine's interfaces cannot be listed: %s",
                        strerror(errno));
        return HK_ERR_SYSTEM;
    }
    memcpy(transport->chosen, transport->interfaces, sizeof transport->chosen);
    transport->interface_count = all;
    const char *usual = transport->wide ? "" : "127.0.0.0/8,::1";
    int chosen = hki_interfaces_choose(*choice != '\0' ? choice : usual, transport->chosen, all, reason);
    if (chosen <= 0) {
        services->error(services->core, HK_ERR_SETTING, "HOCKET_INTERFACE=%s %s: %s", choice,
                        chosen < 0 ? "is malformed" : "matches no interface that is up", reason);
        return HK_ERR_SETTING;
    }
    for (int i = 0; i < chosen; i++)
        if (!transport->wide && !transport->chosen[i].loopback) {
            services->error(services->core, HK_ERR_SETTING,
                            "HOCKET_INTERFACE=%s reaches beyond this machine, but there is no job key to tell friends "
                            "from strangers: set HOCKET_KEY_FILE, or HOCKET_KEY=none to do without",
                            choice);
            return HK_ERR_SETTING;
        }
    if (!transport->wide)
        snprintf(reason, HKI_INTERFACES_REASON, "without a job key only loopback is used; HOCKET_KEY_FILE gives one");
    transport->chosen_count = chosen;
    return HK_OK;
}

/* The best come first: what does not fit is what is needed least. */
static void publish(hk_transport *transport, const hki_address *address, uint16_t port)
{
    if (transport->published_count == HKI_TCP_ADDRESSES) {
        transport->unpublished++;
        return;
    }
    transport->published[transport->published_count] = *address;
    transport->published[transport->published_count++].port = port;
}

/* Opens a listener; returns its port, 0 on failure with errno. */
static uint16_t listen_at(hk_transport *transport, hki_address address)
{
    if (transport->listener_count == HKI_TCP_LISTENERS) {
        errno = EMFILE;
        return 0;
    }
    address.port = 0;
    int fd = hki_socket_listen(&address, transport->buffer);
    if (fd < 0) {
        errno = -fd;
        return 0;
    }
    transport->listeners[transport->listener_count++] = fd;
    return address.port;
}

/* One listener for each family at all addresses; loopback is published too, for ranks of this machine. */
static void listen_everywhere(hk_transport *transport)
{
    static const uint16_t families[] = {AF_INET, AF_INET6};
    uint16_t port[2];
    for (int f = 0; f < 2; f++)
        port[f] = listen_at(transport, (hki_address){.family = families[f]});
    for (int i = 0; i < transport->interface_count; i++) {
        const hki_interface *one = &transport->interfaces[i];
        uint16_t here = port[one->address.family == AF_INET6];
        if (one->loopback && here != 0)
            publish(transport, &one->address, here);
    }
    for (int i = 0; i < transport->chosen_count; i++) {
        const hki_interface *one = &transport->chosen[i];
        uint16_t here = port[one->address.family == AF_INET6];
        if (!one->loopback && here != 0)
            publish(transport, &one->address, here);
    }
}

static void listen_at_chosen(hk_transport *transport)
{
    for (int i = 0; i < transport->chosen_count; i++) {
        if (transport->published_count == HKI_TCP_ADDRESSES) {
            transport->unpublished++;
            continue;
        }
        uint16_t port = listen_at(transport, transport->chosen[i].address);
        if (port != 0)
            publish(transport, &transport->chosen[i].address, port);
    }
}

/* One line for each address of this machine: used, or why not. */
static void log_verdicts(const hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    hki_interface all[HKI_INTERFACES_MOST];
    int count = hki_interfaces_survey(all, HKI_INTERFACES_MOST);
    bool outward = false;
    for (int i = 0; i < count; i++)
        outward |= all[i].up && !all[i].loopback;
    for (int i = 0; i < count; i++) {
        char address[HKI_ADDRESS_TEXT], verdict[HKI_INTERFACE_VERDICT];
        hki_address_text(&all[i].address, address);
        hki_interface_verdict(&all[i], setting(transport, "INTERFACE"), outward, transport->wide, verdict);
        services->log(services->core, HK_LOG_INFO, "tcp: %s %s: %s", all[i].name, address, verdict);
    }
    if (transport->unpublished > 0)
        services->log(services->core, HK_LOG_WARN,
                      "tcp: this machine has %u addresses more than the %d that other ranks are told; HOCKET_INTERFACE "
                      "says which matter",
                      transport->unpublished, (int)HKI_TCP_ADDRESSES);
}

static void log_choice(const hk_transport *transport, const char *reason)
{
    const hk_transport_services *services = transport->services;
    char text[400] = "";
    size_t at = 0;
    for (uint32_t i = 0; i < transport->published_count && at < sizeof text; i++) {
        char one[HKI_ADDRESS_TEXT];
        hki_address_text(&transport->published[i], one);
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", i > 0 ? ", " : "", one);
    }
    services->log(services->core, HK_LOG_INFO, "tcp: rank %d on %s listens at %s (%s)", (int)services->self->rank,
                  services->self->host_name, text, reason);
}

hk_status hki_tcp_listen(hk_transport *transport)
{
    const hk_transport_services *services = transport->services;
    char reason[HKI_INTERFACES_REASON];
    read_settings(transport);
    hk_status status = read_tls(transport);
    if (status == HK_OK)
        status = choose(transport, reason);
    if (status != HK_OK)
        return status;
    errno = 0;
    if (*setting(transport, "INTERFACE") == '\0' && transport->wide)
        listen_everywhere(transport);
    else
        listen_at_chosen(transport);
    if (transport->published_count == 0) {
        services->error(services->core, HK_ERR_SYSTEM, "tcp: rank %d on %s can listen at none of its addresses: %s",
                        (int)services->self->rank, services->self->host_name, strerror(errno));
        return HK_ERR_SYSTEM;
    }
    status = read_congestion(transport);
    if (status != HK_OK)
        return status;
    log_choice(transport, reason);
    log_verdicts(transport);
    return HK_OK;
}

/* ---- published form: version, count, 6 zeros, machine (64 bits), addresses ---- */

hk_status hki_tcp_publish(const hk_transport *transport, void *address, size_t *bytes)
{
    const hk_transport_services *services = transport->services;
    unsigned char *at = address;
    size_t length = PUBLISHED_HEADER + transport->published_count * (size_t)HKI_ADDRESS_WIRE;
    if (*bytes < length) {
        services->error(services->core, HK_ERR_INTERNAL, "tcp address needs %zu bytes, not %zu", length, *bytes);
        return HK_ERR_INTERNAL;
    }
    memset(at, 0, PUBLISHED_HEADER);
    at[0] = PUBLISHED_VERSION;
    at[1] = (unsigned char)transport->published_count;
    hki_wire_put64(at + 8, transport->machine);
    for (uint32_t i = 0; i < transport->published_count; i++)
        hki_address_to_wire(&transport->published[i], at + PUBLISHED_HEADER + i * HKI_ADDRESS_WIRE);
    *bytes = length;
    return HK_OK;
}

/* ---- a peer's addresses ---- */

typedef struct ranked {
    hki_address address;
    enum nearness nearness;
} ranked;

/* Whether it makes sense to dial the address, and how near it is. */
static bool rank_address(const hk_transport *transport, const hki_address *address, bool same_machine,
                         enum nearness *nearness)
{
    *nearness = NEAR_NO_FAMILY;
    if (hki_address_is_loopback(address)) {
        *nearness = NEAR_LOOPBACK;
        return same_machine;
    }
    for (int i = 0; i < transport->interface_count && !same_machine; i++)
        if (hki_address_same_host(address, &transport->interfaces[i].address) && !hki_address_is_link_local(address))
            return false; /* every machine has this one (a bridge of containers, say): dialling it leads here */
    for (int i = 0; i < transport->chosen_count; i++) {
        const hki_interface *one = &transport->chosen[i];
        if (one->address.family != address->family)
            continue;
        bool local = hki_address_is_link_local(address);
        bool subnet = !local && hki_address_within(address, &one->address, one->prefix);
        enum nearness here = local ? NEAR_LINK_LOCAL : subnet ? NEAR_SUBNET : NEAR_ROUTED;
        if (here < *nearness)
            *nearness = here;
    }
    return transport->wide;
}

static void add(hk_link *link, ranked *list, const hki_address *address, enum nearness nearness)
{
    uint32_t at = link->candidate_count++;
    for (; at > 0 && list[at - 1].nearness > nearness; at--)
        list[at] = list[at - 1];
    list[at] = (ranked){*address, nearness};
}

/* A link-local address is tried over every interface that has one itself: which of them it is meant for is unknown. */
static void add_scoped(hk_link *link, ranked *list, hki_address address, enum nearness nearness)
{
    const hk_transport *transport = link->transport;
    uint32_t tried = 0;
    for (int i = 0; i < transport->chosen_count && tried < SCOPES_MOST; i++) {
        if (!hki_address_is_link_local(&transport->chosen[i].address))
            continue;
        address.scope = transport->chosen[i].index;
        add(link, list, &address, nearness);
        tried++;
    }
}

static hk_status unreachable(const hk_link *link, const char *why)
{
    const hk_transport_services *services = link->transport->services;
    services->error(services->core, HK_ERR_UNSUPPORTED, "tcp does not reach rank %d on %s from rank %d on %s: %s",
                    (int)link->peer.rank, link->peer.host_name, (int)services->self->rank, services->self->host_name,
                    why);
    return HK_ERR_UNSUPPORTED;
}

/* None of the published addresses (already checked) makes sense here. */
static hk_status nowhere_to_dial(const hk_link *link, const unsigned char *at)
{
    char why[400] = "it can be reached at ";
    if (!link->transport->wide)
        return unreachable(link, "without a job key only ranks of this machine are talked to; set HOCKET_KEY_FILE, or "
                                 "HOCKET_KEY=none to do without");
    for (unsigned i = 0; i < at[1]; i++) {
        char text[HKI_ADDRESS_TEXT];
        hki_address one;
        size_t used = strlen(why);
        (void)hki_address_from_wire(at + PUBLISHED_HEADER + i * HKI_ADDRESS_WIRE, &one);
        hki_address_text(&one, text);
        snprintf(why + used, sizeof why - used, "%s%s", i > 0 ? ", " : "", text);
    }
    size_t used = strlen(why);
    snprintf(why + used, sizeof why - used,
             " only, which from here does not lead there: is its network up? (or see "
             "HOCKET_INTERFACE)");
    return unreachable(link, why);
}

hk_status hki_tcp_candidates(hk_link *link, const void *address, size_t bytes)
{
    const unsigned char *at = address;
    ranked list[HKI_TCP_ADDRESSES * SCOPES_MOST];
    if (bytes < PUBLISHED_HEADER || at[0] != PUBLISHED_VERSION || at[1] > HKI_TCP_ADDRESSES ||
        bytes != PUBLISHED_HEADER + at[1] * (size_t)HKI_ADDRESS_WIRE)
        return unreachable(link, "it publishes no addresses that are understood here");
    bool same_machine = hki_wire_get64(at + 8) == link->transport->machine;
    for (unsigned i = 0; i < at[1]; i++) {
        hki_address one;
        enum nearness nearness;
        if (!hki_address_from_wire(at + PUBLISHED_HEADER + i * HKI_ADDRESS_WIRE, &one))
            return unreachable(link, "it publishes a malformed address");
        if (!rank_address(link->transport, &one, same_machine, &nearness))
            continue;
        if (hki_address_is_link_local(&one))
            add_scoped(link, list, one, nearness);
        else
            add(link, list, &one, nearness);
    }
    if (link->candidate_count == 0)
        return nowhere_to_dial(link, at);
    link->candidates = calloc(link->candidate_count, sizeof *link->candidates);
    if (link->candidates == NULL)
        return HK_ERR_NO_MEMORY;
    for (uint32_t i = 0; i < link->candidate_count; i++)
        link->candidates[i] = list[i].address;
    return HK_OK;
}
