/* Addresses, networks, lists of interfaces, places of hosts and meeting points, all from the same text. What is read
 * reads the same once it has been written. */
#include "boot/meeting.h"
#include "net/interfaces.h"
#include "net/resolve.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_address(const char *text)
{
    hki_address address, again;
    char written[HKI_ADDRESS_TEXT];
    if (!hki_address_parse(text, &address))
        return;
    if (address.scope != 0)
        return; /* the interface may be gone by now */
    hki_address_text(&address, written);
    if (!hki_address_parse(written, &again) || !hki_address_same_host(&address, &again))
        abort();
}

static void check_interfaces(const char *text)
{
    hki_interface list[4] = {
        {.name = "lo", .index = 1, .loopback = true, .prefix = 8},
        {.name = "eth0", .index = 2, .prefix = 24},
        {.name = "eth1", .index = 3, .prefix = 64},
    };
    char reason[HKI_INTERFACES_REASON];
    hki_address_parse("127.0.0.1", &list[0].address);
    hki_address_parse("10.0.0.1", &list[1].address);
    hki_address_parse("fd00::1", &list[2].address);
    int kept = hki_interfaces_choose(text, list, 3, reason);
    if (kept < -1 || kept > 3 || memchr(reason, '\0', sizeof reason) == NULL)
        abort();
}

static void check_meeting(const char *text, const uint8_t *data, size_t size)
{
    hki_meeting meeting, again;
    char written[HKI_MEETING_TEXT];
    if (hki_meeting_read(data, size, &meeting) || hki_meeting_parse(text, &meeting)) {
        hki_meeting_text(&meeting, written);
        if (!hki_meeting_parse(written, &again) || again.id != meeting.id || again.count != meeting.count)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), host[HKI_HOST_TEXT];
    hki_address network;
    unsigned prefix;
    uint16_t port;
    memcpy(text, data, size);
    text[size] = '\0';
    check_address(text);
    if (hki_address_parse_network(text, &network, &prefix) && prefix > 128)
        abort();
    check_interfaces(text);
    hki_host_port_parse(text, host, &port);
    check_meeting(text, data, size);
    free(text);
    return 0;
}
