#include "comm/device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

/* CUDA: cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2, pointer), 0 = known; type 2 = device.
 * Values from the CUDA driver API reference. */
typedef int pointer_attribute(void *data, int attribute, unsigned long long pointer);
enum { ATTRIBUTE_MEMORY_TYPE = 2, MEMORY_TYPE_DEVICE = 2 };

static pointer_attribute *query;
bool hki_devices_possible = true; /* until looked for */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void look_for_driver(void)
{
    *(void **)&query = dlsym(RTLD_DEFAULT, "cuPointerGetAttribute");
    hki_devices_possible = query != NULL;
}

bool hki_is_device_memory(const void *memory)
{
    pthread_once(&once, look_for_driver);
    unsigned type = 0;
    return query && query(&type, ATTRIBUTE_MEMORY_TYPE, (unsigned long long)memory) == 0 && type == MEMORY_TYPE_DEVICE;
}
