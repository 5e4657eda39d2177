/* Device pointers are refused: Hocket moves host memory. */
#ifndef HKI_COMM_DEVICE_H
#define HKI_COMM_DEVICE_H

#include <stdbool.h>

/* Asks the CUDA driver or HIP runtime if the process has loaded one; false otherwise, at the cost of one load. */
bool hki_is_device_memory(const void *memory);

#endif
