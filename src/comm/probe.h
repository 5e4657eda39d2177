/* Transports looked at without a job: what they find on this host, and what they say that messages cost. */
#ifndef HKI_COMM_PROBE_H
#define HKI_COMM_PROBE_H

#include <hocket/transport.h>

/* What a transport logs meanwhile. */
typedef void hki_probe_log(void *core, hk_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Opens the transport for a moment, as the only rank. log: NULL, as others do. Whatever `open` fails with. */
hk_status hki_probe(const hk_transport_ops *ops, hki_probe_log *log, hk_transport_limits *limits);
/* The one of this name that may be used (HOCKET_TRANSPORT). NULL: there is none. */
const hk_transport_ops *hki_probe_find(const char *name);

#endif
