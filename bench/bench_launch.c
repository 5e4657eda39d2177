#include "bench/bench_launch.h"

#include "base/settings.h"

#include <stddef.h>

bool hki_bench_under_launcher(void)
{
    /* Each of these is set by one kind of launcher for its processes. */
    static const char *const names[] = {"HOCKET_LAUNCH", "HOCKET_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_FD",
                                        "PMI_SIZE",      "WORLD_SIZE"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (hki_environment(names[i]) != NULL)
            return true;
    return false;
}
