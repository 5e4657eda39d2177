/*
 * Device memory is refused by name. This program has the CUDA driver's entry point itself, which takes part of an array
 * for a device's: Hocket finds it as it would find the driver's, and must refuse without touching the memory.
 */
#include "../support/ranks.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static char memory[4096];
static const char *device_begin = memory + 2048; /* to the end */

int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer);

/* As the driver API says: 0 = CUDA_SUCCESS; memory type 1 = host, 2 = device; 1 = CUDA_ERROR_INVALID_VALUE for memory
 * that the driver does not know. */
__attribute__((visibility("default"))) int cuPointerGetAttribute(void *data, int attribute, unsigned long long pointer)
{
    uintptr_t address = (uintptr_t)pointer, begin = (uintptr_t)device_begin;
    if (attribute != 2 || address < (uintptr_t)memory || address >= (uintptr_t)memory + sizeof memory)
        return 1;
    *(unsigned *)data = address >= begin ? 2 : 1;
    return 0;
}

static int device_is_refused(hk_comm *comm, int rank, void *argument)
{
    float *host = (float *)(void *)memory, *device = (float *)(void *)(memory + 2048), other[8] = {0};
    hk_request *request = NULL;
    (void)argument;
    if (rank == 0) {
        for (int turn = 0; turn < 2; turn++) {
            EXPECT_STATUS(hk_allreduce(device, other, 8, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_ERROR_NAMES("send is in device memory");
            EXPECT_STATUS(hk_allreduce(other, device, 8, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_ERROR_NAMES("recv is in device memory");
            EXPECT_STATUS(hk_allreduce(HK_IN_PLACE, device, 8, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_ibroadcast(device, 8, HK_FLOAT32, 1, comm, &request), HK_ERR_BUFFER);
            EXPECT_ERROR_NAMES("buffer is in device memory");
            EXPECT_STATUS(hk_send(device, 8, HK_FLOAT32, 1, 0, comm), HK_ERR_BUFFER);
            EXPECT_STATUS(hk_recv(device, 8, HK_FLOAT32, 1, 0, comm, NULL), HK_ERR_BUFFER);
            EXPECT_ERROR_NAMES("device memory");
            EXPECT(request == NULL);
        }
    }
    for (int turn = 0; turn < 3; turn++) { /* the same call again and again, once of it on the device */
        EXPECT_OK(
            hk_allreduce(rank == 0 ? host : other, rank == 0 ? host + 64 : other + 4, 4, HK_FLOAT32, HK_SUM, comm));
        if (rank == 0)
            EXPECT_STATUS(hk_allreduce(device, host + 64, 4, HK_FLOAT32, HK_SUM, comm), HK_ERR_BUFFER);
    }
    return 0;
}

static void test_device_memory_is_refused(void **state)
{
    (void)state;
    ranks_options options = {.timeout = 20};
    assert_int_equal(ranks_run_threads(2, &options, device_is_refused, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device_memory_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
