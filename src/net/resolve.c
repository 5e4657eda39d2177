#include "net/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>

/* Digits only, 1 … 65535. */
static bool parse_port(const char *text, uint16_t *port)
{
    unsigned value = 0;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 5 || text[digits] != '\0')
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (unsigned)(text[i] - '0');
    if (value == 0 || value > UINT16_MAX)
        return false;
    *port = (uint16_t)value;
    return true;
}

bool hki_host_port_parse(const char *text, char host[HKI_HOST_TEXT], uint16_t *port)
{
    const char *end, *rest;
    bool bracketed = *text == '[';
    if (bracketed) {
        text++;
        end = strchr(text, ']');
        if (end == NULL)
            return false;
        rest = end + 1;
    } else {
        end = strchr(text, ':');
        if (end == NULL)
            end = text + strlen(text);
        rest = end;
    }
    size_t length = (size_t)(end - text);
    uint16_t given = 0;
    if (length == 0 || length >= HKI_HOST_TEXT || (*rest != '\0' && *rest != ':') ||
        (*rest == ':' && !parse_port(rest + 1, &given)))
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    hki_address address;
    if (bracketed && !hki_address_parse(host, &address))
        return false;
    *port = given;
    return true;
}

static bool listed(const hki_address *list, int count, const hki_address *one)
{
    for (int i = 0; i < count; i++)
        if (hki_address_same_host(&list[i], one))
            return true;
    return false;
}

int hki_resolve(const char *host, uint16_t port, hki_address *list, int capacity, const char **why)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found;
    int count = 0;
    if (capacity > 0 && hki_address_parse(host, &list[0])) {
        list[0].port = port;
        return 1;
    }
    int failure = getaddrinfo(host, NULL, &hints, &found);
    if (failure != 0) {
        *why = failure == EAI_SYSTEM ? strerror(errno) : gai_strerror(failure);
        return 0;
    }
    for (const struct addrinfo *one = found; one != NULL && count < capacity; one = one->ai_next) {
        if (!hki_address_from_socket(one->ai_addr, &list[count]) || listed(list, count, &list[count]))
            continue;
        list[count++].port = port;
    }
    freeaddrinfo(found);
    *why = "the name has no address";
    return count;
}
