/* Network addresses, IPv4 and IPv6: text, CIDR, socket and wire forms. */
#ifndef HKI_NET_ADDRESS_H
#define HKI_NET_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
    HKI_ADDRESS_TEXT = 80, /* "[fe80::…%interface]:port" and its end */
    HKI_ADDRESS_WIRE = 20  /* bytes of the wire form */
};

typedef struct hki_address {
    uint16_t family;   /* AF_INET or AF_INET6 */
    uint16_t port;     /* host order; 0: none */
    uint32_t scope;    /* interface index of a link-local address; 0: unknown, or not needed */
    uint8_t bytes[16]; /* network order; IPv4 has the first 4 */
} hki_address;

/* "10.0.0.1", "::1", "fe80::1%eth0". False when it is no address, or the interface does not exist. */
bool hki_address_parse(const char *text, hki_address *address);
/* "10.0.0.0/8", or an address alone, which stands for itself. False when malformed. */
bool hki_address_parse_network(const char *text, hki_address *network, unsigned *prefix);
/* With its port, if it has one: "10.0.0.1:4000", "[fe80::1%eth0]:4000", "::1". */
void hki_address_text(const hki_address *address, char text[HKI_ADDRESS_TEXT]);

socklen_t hki_address_to_socket(const hki_address *address, struct sockaddr_storage *result);
/* False for other families. IPv4 inside IPv6 becomes IPv4. */
bool hki_address_from_socket(const struct sockaddr *from, hki_address *address);

/* 20 bytes: family (4 or 6), a zero, port (16 bits), 16 bytes. The scope stays behind: it means nothing elsewhere. */
void hki_address_to_wire(const hki_address *address, unsigned char wire[HKI_ADDRESS_WIRE]);
bool hki_address_from_wire(const unsigned char wire[HKI_ADDRESS_WIRE], hki_address *address);

bool hki_address_is_loopback(const hki_address *address);
/* IPv6 fe80::/10: needs a scope. */
bool hki_address_is_link_local(const hki_address *address);
/* The same host, whatever port and scope. */
bool hki_address_same_host(const hki_address *a, const hki_address *b);
bool hki_address_within(const hki_address *address, const hki_address *network, unsigned prefix);

#endif
