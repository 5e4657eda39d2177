#include "boot/meeting.h"

#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"
#include "boot/source.h"
#include "net/interfaces.h"
#include "net/wire.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { VERSION = 1, AT_COUNT = 4, AT_ID = 8, AT_KEY = 16, AT_ADDRESSES = 48 };
static const double linger_seconds = 10; /* for ranks that still read when the serving one is done */

/* ---- making one ---- */

static int loopback(hki_address at[HKI_MEETING_ADDRESSES])
{
    at[0] = (hki_address){.family = AF_INET, .bytes = {127, 0, 0, 1}};
    at[1] = (hki_address){.family = AF_INET6, .bytes = {[15] = 1}};
    return 2;
}

/* Link-local addresses are left out: they mean nothing without the name of an interface of the one who reads them. */
static hk_status chosen_interfaces(hki_address at[HKI_MEETING_ADDRESSES], int *count)
{
    hki_interface list[HKI_INTERFACES_MOST];
    char reason[HKI_INTERFACES_REASON];
    const char *choice = hki_setting_text(HKI_SET_INTERFACE);
    int all = hki_interfaces_list(list, HKI_INTERFACES_MOST);
    if (all < 0)
        return hki_error_errno(HK_ERR_SYSTEM, errno, "the interfaces of this machine cannot be listed");
    int chosen = hki_interfaces_choose(choice, list, all, reason);
    if (chosen > 0)
        snprintf(reason, sizeof reason, "link-local ones are good on their own link only");
    *count = 0;
    for (int i = 0; i < chosen && *count < HKI_MEETING_ADDRESSES; i++)
        if (!hki_address_is_link_local(&list[i].address))
            at[(*count)++] = list[i].address;
    if (*count == 0)
        return hki_error(HK_ERR_SETTING,
                         "HOCKET_INTERFACE=%s leaves no address at which other ranks could find this one: %s", choice,
                         reason);
    return HK_OK;
}

hk_status hki_meeting_make(bool one_host, hki_meeting *meeting, hki_listeners *listeners)
{
    memset(meeting, 0, sizeof *meeting);
    HK_TRY(hki_boot_random(meeting->key, sizeof meeting->key));
    HK_TRY(hki_boot_random(&meeting->id, sizeof meeting->id));
    if (one_host)
        meeting->count = loopback(meeting->at);
    else
        HK_TRY(chosen_interfaces(meeting->at, &meeting->count));
    HK_TRY(hki_listeners_open(meeting->at, meeting->count, 0, 1, listeners));
    for (int i = 0; i < meeting->count; i++)
        meeting->at[i].port = listeners->port;
    return HK_OK;
}

/* ---- as bytes and as text ---- */

size_t hki_meeting_write(const hki_meeting *meeting, uint8_t bytes[HKI_MEETING_BYTES])
{
    static const uint8_t magic[4] = {'H', 'K', 'M', VERSION};
    memcpy(bytes, magic, sizeof magic);
    hki_wire_put32(bytes + AT_COUNT, (uint32_t)meeting->count);
    hki_wire_put64(bytes + AT_ID, meeting->id);
    memcpy(bytes + AT_KEY, meeting->key, sizeof meeting->key);
    for (int i = 0; i < meeting->count; i++)
        hki_address_to_wire(&meeting->at[i], bytes + AT_ADDRESSES + i * HKI_ADDRESS_WIRE);
    return AT_ADDRESSES + (size_t)meeting->count * HKI_ADDRESS_WIRE;
}

bool hki_meeting_read(const uint8_t *bytes, size_t length, hki_meeting *meeting)
{
    static const uint8_t magic[4] = {'H', 'K', 'M', VERSION};
    memset(meeting, 0, sizeof *meeting);
    if (length < AT_ADDRESSES || memcmp(bytes, magic, sizeof magic) != 0)
        return false;
    uint32_t count = hki_wire_get32(bytes + AT_COUNT);
    if (count == 0 || count > HKI_MEETING_ADDRESSES || (length - AT_ADDRESSES) / HKI_ADDRESS_WIRE < count)
        return false;
    meeting->count = (int)count;
    meeting->id = hki_wire_get64(bytes + AT_ID);
    memcpy(meeting->key, bytes + AT_KEY, sizeof meeting->key);
    for (int i = 0; i < meeting->count; i++)
        if (!hki_address_from_wire(bytes + AT_ADDRESSES + i * HKI_ADDRESS_WIRE, &meeting->at[i]))
            return false;
    return true;
}

void hki_meeting_text(const hki_meeting *meeting, char text[HKI_MEETING_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t bytes[HKI_MEETING_BYTES];
    size_t length = hki_meeting_write(meeting, bytes);
    for (size_t i = 0; i < length; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * length] = '\0';
    explicit_bzero(bytes, sizeof bytes);
}

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool hki_meeting_parse(const char *text, hki_meeting *meeting)
{
    uint8_t bytes[HKI_MEETING_BYTES];
    size_t length = strlen(text);
    if (length % 2 != 0 || length > 2 * sizeof bytes)
        return false;
    for (size_t i = 0; i < length / 2; i++) {
        int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (uint8_t)(high << 4 | low);
    }
    bool read = hki_meeting_read(bytes, length / 2, meeting);
    explicit_bzero(bytes, sizeof bytes);
    return read;
}

/* ---- joining ---- */

static void log_place(const hki_meeting *meeting, const hk_options *options)
{
    char text[HKI_ADDRESS_TEXT];
    hki_address_text(&meeting->at[0], text);
    hki_log(HK_LOG_INFO, "rank %d of %d %s the ranks' meeting at %s%s", options->rank, options->ranks,
            options->rank == 0 ? "serves" : "goes to", text, meeting->count > 1 ? " and others" : "");
}

hk_status hki_meeting_join(const hki_meeting *meeting, const hki_listeners *listeners, unsigned number,
                           const hk_options *options, const char *source, void (*ended)(void), hki_boot **boot)
{
    hk_store *store;
    hk_options placed = *options;
    hki_store_identity identity = {.id = meeting->id + number * UINT64_C(0x9e3779b97f4a7c15)};
    memcpy(identity.key, meeting->key, sizeof identity.key);
    if (!placed.key) {
        placed.key = meeting->key;
        placed.key_bytes = sizeof meeting->key;
    }
    log_place(meeting, options);
    hk_status status;
    if (listeners) {
        status = hki_store_serve(listeners, &identity, linger_seconds, &store);
    } else {
        hki_dial dial = {.count = meeting->count, .settings = source};
        memcpy(dial.at, meeting->at, sizeof meeting->at);
        status = hki_store_dial(&dial, &identity, hki_setting_seconds(HKI_SET_JOIN_TIMEOUT), &store);
    }
    explicit_bzero(&identity, sizeof identity);
    if (status != HK_OK) {
        if (ended)
            ended();
        return status;
    }
    return hki_boot_by_own_store(&placed, store, source, ended, boot);
}
