/* The network interfaces of this host that are hardware, and how fast the system says they are. */
#ifndef HKI_TOPO_NICS_H
#define HKI_TOPO_NICS_H

#include <stdint.h>

typedef struct hki_nics {
    uint32_t count; /* of those whose rate is known; at least 1 */
    uint64_t rate;  /* bytes a second of all together, each way; 0: not known */
} hki_nics;

/* Reads /sys/class/net and /sys/class/infiniband. A device that is in both counts once. */
hki_nics hki_nics_find(void);
/* The same below a root, which is "" but in tests. */
hki_nics hki_nics_find_below(const char *root);

#endif
