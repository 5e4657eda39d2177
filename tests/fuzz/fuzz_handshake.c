/* Whatever comes over a connection that has not proved itself: to a server, and to a client. */
#include "stranger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 1024)
        stranger_meets(data, size, 1, NULL);
    return 0;
}
