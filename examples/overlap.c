/*
 * Overlap: sums of several arrays are under way while the program computes, as in the backward pass of a training
 * step, where the gradients of the last layers are ready first.
 */
#include "check.h"

enum { LAYERS = 4, COUNT = 50000 };

/* Stands for the computing of one layer's gradient. Lets the sums in flight move on now and then. */
static void compute(float *gradient, int layer, hk_comm *comm)
{
    for (int i = 0; i < COUNT; i++) {
        gradient[i] = (float)(layer + i % 7);
        if (i % 10000 == 0)
            check(hk_progress(comm));
    }
}

int main(void)
{
    static float gradients[LAYERS][COUNT];
    hk_request *requests[LAYERS];
    hk_comm *comm;
    check(hk_init(&comm));

    for (int layer = LAYERS - 1; layer >= 0; layer--) {
        compute(gradients[layer], layer, comm);
        /* In place: each rank's gradient becomes the average of all. */
        check(hk_iallreduce(HK_IN_PLACE, gradients[layer], COUNT, HK_FLOAT32, HK_AVG, comm, &requests[layer]));
    }
    int done = 0;
    check(hk_test(&requests[LAYERS - 1], &done)); /* the first may be complete already; then its request is NULL */
    check(hk_wait_all(LAYERS, requests));

    for (int layer = 0; layer < LAYERS; layer++)
        expect(gradients[layer][13] == (float)(layer + 13 % 7), "an averaged gradient");
    if (hk_comm_rank(comm) == 0)
        printf("%d gradients averaged over %d ranks\n", LAYERS, hk_comm_size(comm));
    check(hk_comm_free(comm));
    return 0;
}
