#include "net/address.h"

#include "net/wire.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static size_t length_of(const hki_address *address)
{
    return address->family == AF_INET ? 4 : 16;
}

/* "eth0" or "3" after the % of a scoped address; 0 when there is no such interface. */
static uint32_t scope_of(const char *text)
{
    uint32_t number = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits] != '\0')
        return if_nametoindex(text);
    for (size_t i = 0; i < digits; i++)
        number = number * 10 + (uint32_t)(text[i] - '0');
    return number;
}

bool hki_address_parse(const char *text, hki_address *address)
{
    char copy[HKI_ADDRESS_TEXT];
    size_t length = strlen(text);
    hki_address result = {.family = AF_INET};
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length + 1);
    if (inet_pton(AF_INET, copy, result.bytes) != 1) {
        char *scope = strchr(copy, '%');
        if (scope != NULL)
            *scope++ = '\0';
        result.family = AF_INET6;
        if (inet_pton(AF_INET6, copy, result.bytes) != 1)
            return false;
        if (scope != NULL && (result.scope = scope_of(scope)) == 0)
            return false;
    }
    *address = result;
    return true;
}

bool hki_address_parse_network(const char *text, hki_address *network, unsigned *prefix)
{
    char copy[HKI_ADDRESS_TEXT];
    const char *slash = strchr(text, '/');
    size_t length = slash != NULL ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof copy)
        return false;
    memcpy(copy, text, length);
    copy[length] = '\0';
    if (!hki_address_parse(copy, network))
        return false;
    unsigned bits = (unsigned)length_of(network) * 8;
    if (slash != NULL) {
        size_t digits = strspn(slash + 1, "0123456789");
        unsigned given = 0;
        for (size_t i = 0; i < digits && i < 4; i++)
            given = given * 10 + (unsigned)(slash[1 + i] - '0');
        if (digits == 0 || digits > 3 || slash[1 + digits] != '\0' || given > bits)
            return false;
        bits = given;
    }
    *prefix = bits;
    return true;
}

void hki_address_text(const hki_address *address, char text[HKI_ADDRESS_TEXT])
{
    char host[INET6_ADDRSTRLEN] = "?", name[IF_NAMESIZE] = "", scope[IF_NAMESIZE + 1] = "";
    inet_ntop(address->family, address->bytes, host, sizeof host);
    if (address->scope != 0 && if_indextoname(address->scope, name) != NULL)
        snprintf(scope, sizeof scope, "%%%s", name);
    if (address->port == 0)
        snprintf(text, HKI_ADDRESS_TEXT, "%s%s", host, scope);
    else
        snprintf(text, HKI_ADDRESS_TEXT, address->family == AF_INET ? "%s%s:%u" : "[%s%s]:%u", host, scope,
                 (unsigned)address->port);
}

socklen_t hki_address_to_socket(const hki_address *address, struct sockaddr_storage *result)
{
    memset(result, 0, sizeof *result);
    if (address->family == AF_INET) {
        struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(address->port)};
        memcpy(&four.sin_addr, address->bytes, 4);
        memcpy(result, &four, sizeof four);
        return sizeof four;
    }
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_port = htons(address->port), .sin6_scope_id = address->scope};
    memcpy(&six.sin6_addr, address->bytes, 16);
    memcpy(result, &six, sizeof six);
    return sizeof six;
}

bool hki_address_from_socket(const struct sockaddr *from, hki_address *address)
{
    hki_address result = {.family = AF_INET};
    if (from->sa_family == AF_INET) {
        struct sockaddr_in four;
        memcpy(&four, from, sizeof four);
        result.port = ntohs(four.sin_port);
        memcpy(result.bytes, &four.sin_addr, 4);
    } else if (from->sa_family == AF_INET6) {
        struct sockaddr_in6 six;
        memcpy(&six, from, sizeof six);
        result.port = ntohs(six.sin6_port);
        if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
            memcpy(result.bytes, six.sin6_addr.s6_addr + 12, 4);
        } else {
            result.family = AF_INET6;
            result.scope = six.sin6_scope_id;
            memcpy(result.bytes, &six.sin6_addr, 16);
        }
    } else {
        return false;
    }
    *address = result;
    return true;
}

void hki_address_to_wire(const hki_address *address, unsigned char wire[HKI_ADDRESS_WIRE])
{
    memset(wire, 0, HKI_ADDRESS_WIRE);
    wire[0] = address->family == AF_INET ? 4 : 6;
    hki_wire_put16(wire + 2, address->port);
    memcpy(wire + 4, address->bytes, length_of(address));
}

bool hki_address_from_wire(const unsigned char wire[HKI_ADDRESS_WIRE], hki_address *address)
{
    if ((wire[0] != 4 && wire[0] != 6) || wire[1] != 0)
        return false;
    *address = (hki_address){.family = wire[0] == 4 ? AF_INET : AF_INET6, .port = hki_wire_get16(wire + 2)};
    memcpy(address->bytes, wire + 4, length_of(address));
    return address->port != 0;
}

bool hki_address_is_loopback(const hki_address *address)
{
    static const uint8_t six[16] = {[15] = 1};
    return address->family == AF_INET ? address->bytes[0] == 127 : memcmp(address->bytes, six, 16) == 0;
}

bool hki_address_is_link_local(const hki_address *address)
{
    return address->family == AF_INET6 && address->bytes[0] == 0xfe && (address->bytes[1] & 0xc0) == 0x80;
}

bool hki_address_same_host(const hki_address *a, const hki_address *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, length_of(a)) == 0;
}

bool hki_address_within(const hki_address *address, const hki_address *network, unsigned prefix)
{
    if (address->family != network->family || memcmp(address->bytes, network->bytes, prefix / 8) != 0)
        return false;
    if (prefix % 8 == 0)
        return true;
    unsigned shift = 8 - prefix % 8;
    return address->bytes[prefix / 8] >> shift == network->bytes[prefix / 8] >> shift;
}
