/* What the core lends transports. */
#ifndef HKI_COMM_SERVICES_H
#define HKI_COMM_SERVICES_H

#include <hocket/transport.h>

/* Log, settings, clock and errors of this process. core comes back with every call; self and token are borrowed. */
void hki_services_fill(hk_transport_services *services, void *core, const hk_peer *self, uint32_t ranks,
                       const uint8_t *token);

#endif
