/* Monotonic time. */
#ifndef HKI_BASE_CLOCK_H
#define HKI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t hki_now(void) /* nanoseconds of CLOCK_MONOTONIC */
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

#endif
