/* Integers as they travel: little-endian, whatever the machine. */
#ifndef HKI_NET_WIRE_H
#define HKI_NET_WIRE_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void hki_wire_put16(unsigned char *at, uint16_t value)
{
    value = htole16(value);
    memcpy(at, &value, sizeof value);
}

static inline void hki_wire_put32(unsigned char *at, uint32_t value)
{
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void hki_wire_put64(unsigned char *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static inline uint16_t hki_wire_get16(const unsigned char *at)
{
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return le16toh(value);
}

static inline uint32_t hki_wire_get32(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t hki_wire_get64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

#endif
