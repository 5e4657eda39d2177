/* Device pointers are refused: Hocket moves host memory. */
#ifndef HKI_COMM_DEVICE_H
#define HKI_COMM_DEVICE_H

#include <stdbool.h>

/* Whether there may be device memory at all in this process: a driver has been loaded (looked for once). */
extern bool hki_devices_possible;

/* Asks the CUDA driver or HIP runtime if the process has loaded one; false otherwise, at the cost of one load. */
bool hki_is_device_memory(const void *memory);

#endif
