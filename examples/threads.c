/*
 * Embedding, in one process: each thread is a rank with a context of its own, and they find each other through a store
 * in memory. No launcher, no environment. This is also how a program tests its use of Hocket.
 */
#include "check.h"

#include <hocket/store.h>

#include <pthread.h>

enum { RANKS = 4 };

typedef struct place {
    int rank;
    hk_store *store;
} place;

/* Called by any thread of the library; the lines say what goes on inside. */
static void print_log(hk_log_level level, const char *line, void *context)
{
    (void)context;
    fprintf(stderr, "hocket[%d] %s\n", (int)level, line);
}

static void *run_rank(void *argument)
{
    const place *here = argument;
    hk_options options = HK_OPTIONS_INIT;
    options.rank = here->rank;
    options.ranks = RANKS;
    options.store = here->store;
    options.timeout = 20;
    hk_comm *comm;
    check(hk_comm_create(&options, &comm));
    check(hk_comm_set_timeout(comm, 10));

    float mine[3] = {1, 2, (float)here->rank}, sum[3];
    check(hk_allreduce(mine, sum, 3, HK_FLOAT32, HK_SUM, comm));
    expect(sum[0] == RANKS && sum[2] == RANKS * (RANKS - 1) / 2, "the sum");

    /* A mistake is an error with a reason, and changes nothing: the communicator works on. */
    if (hk_allreduce(mine, sum, 3, HK_FLOAT32, HK_BAND, comm) != HK_ERR_OPERATOR)
        expect(0, "bits of floating-point numbers have no and");
    if (here->rank == 0)
        printf("as expected: %s\n", hk_last_error());

    /* Memory that the other ranks can read where it lies. */
    void *memory;
    check(hk_alloc(comm, 1 << 20, &memory));
    check(hk_allreduce(HK_IN_PLACE, memory, (1 << 20) / sizeof(float), HK_FLOAT32, HK_SUM, comm));
    check(hk_free(comm, memory));
    check(hk_comm_free(comm));
    return NULL;
}

int main(void)
{
    hk_store *store;
    pthread_t threads[RANKS];
    place places[RANKS];
    hk_set_log(print_log, HK_LOG_WARN, NULL);
    check(hk_store_local(&store));
    for (int rank = 0; rank < RANKS; rank++) {
        places[rank] = (place){rank, store};
        if (pthread_create(&threads[rank], NULL, run_rank, &places[rank]) != 0)
            expect(0, "a thread for each rank");
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(threads[rank], NULL);
    hk_store_free(store);
    printf("%d threads were ranks\n", RANKS);
    return 0;
}
