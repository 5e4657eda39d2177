/* Where this process is: its host, as far as sharing memory goes. */
#ifndef HKI_COMM_PLACE_H
#define HKI_COMM_PLACE_H

#include <hocket/transport.h>

/* Fills host (hash of boot id, pid, network and user namespaces, and HOCKET_HOST), pid and host_name. */
void hki_place_self(hk_peer *self);

#endif
