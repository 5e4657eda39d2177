/* The table of element types. */
#include "dtype/dtype.h"

#define OPAQUE_BIT UINT32_C(0x80000000)
#define OPAQUE_MAX (UINT32_C(1) << 24) /* bytes of the largest opaque element */

static const struct {
    const char *name;
    size_t bytes;
} types[HK_TYPE_COUNT] = {
#define HK_X(NAME, name, storage, bytes) [HK_##NAME] = {#name, bytes},
    HK_TYPE_LIST(HK_X)
#undef HK_X
};

size_t hk_type_size(hk_type type)
{
    if (type < HK_TYPE_COUNT)
        return types[type].bytes;
    uint32_t bytes = type & ~OPAQUE_BIT;
    return type & OPAQUE_BIT && bytes <= OPAQUE_MAX ? bytes : 0;
}

const char *hk_type_name(hk_type type)
{
    if (type < HK_TYPE_COUNT)
        return types[type].name;
    return hki_type_valid(type) ? "opaque" : "unknown";
}

bool hki_type_valid(hk_type type)
{
    return hk_type_size(type) != 0;
}
