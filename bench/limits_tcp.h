/* What two processes can do over one TCP connection of this machine, without any library. */
#ifndef HKI_BENCH_LIMITS_TCP_H
#define HKI_BENCH_LIMITS_TCP_H

#include <stdbool.h>
#include <stddef.h>

/* Both ends of a loopback connection: non-blocking, no Nagle, socket buffers of 4 MiB as Hocket's. False, with errno:
 * there is none. */
bool hki_limits_tcp_pair(int ends[2]);

/* Sends `sent` bytes and takes `taken` at the same time, polling in turn; returns when both are done. False: the
 * connection has failed. */
bool hki_limits_tcp_exchange(int fd, const void *from, size_t sent, void *into, size_t taken);

#endif
