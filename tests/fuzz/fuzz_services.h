/* What a fuzz target lends a transport in place of the core: silence, fixed names, a job key that its input may know.
 */
#ifndef HKI_FUZZ_SERVICES_H
#define HKI_FUZZ_SERVICES_H

#include <hocket/transport.h>

#include <string.h>
#include <time.h>
#include <unistd.h>

static inline void __attribute__((format(printf, 3, 4)))
fuzz_log(void *core, hk_log_level level, const char *format, ...)
{
    (void)core;
    (void)level;
    (void)format;
}

static inline void __attribute__((format(printf, 3, 4)))
fuzz_error(void *core, hk_status status, const char *format, ...)
{
    (void)core;
    (void)status;
    (void)format;
}

static inline uint64_t fuzz_now(void *core)
{
    struct timespec now;
    (void)core;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline const char *fuzz_setting(void *core, const char *name)
{
    (void)core;
    if (strcmp(name, "INTERFACE") == 0)
        return "127.0.0.1";
    if (strcmp(name, "PROTOCOL") == 0)
        return "auto";
    return strcmp(name, "HEARTBEAT") == 0 ? "0" : "";
}

static const uint8_t fuzz_token[32] = "a token that the input may know";

static inline hk_peer fuzz_peer(int rank)
{
    hk_peer peer = {.host = 77, .context = 1000 + (uint64_t)rank, .pid = (int)getpid(), .rank = rank};
    peer.local_index = rank;
    peer.local_ranks = 2;
    strcpy(peer.host_name, "here");
    return peer;
}

static inline hk_transport_services fuzz_services(const hk_peer *self)
{
    return (hk_transport_services){.size = sizeof(hk_transport_services),
                                   .abi = HK_TRANSPORT_ABI,
                                   .log = fuzz_log,
                                   .setting = fuzz_setting,
                                   .now = fuzz_now,
                                   .error = fuzz_error,
                                   .self = self,
                                   .ranks = 2,
                                   .token = fuzz_token};
}

#endif
