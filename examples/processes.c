/*
 * Embedding, in processes that something else has started (here: fork): rank, number of ranks, a directory that all of
 * them see, and a key that proves that they belong together.
 */
#include "check.h"

#include <hocket/store.h>

#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3 };

static int run_rank(int rank, const char *directory, const unsigned char key[32])
{
    hk_store *store;
    hk_comm *comm;
    check(hk_store_file(directory, &store));
    hk_options options = HK_OPTIONS_INIT;
    options.rank = rank;
    options.ranks = RANKS;
    options.store = store;
    options.name = "example";
    options.key = key;
    options.key_bytes = 32;
    check(hk_comm_create(&options, &comm));
    hk_store_free(store);

    uint64_t mine = UINT64_C(1) << rank, all = 0;
    check(hk_allreduce(&mine, &all, 1, HK_UINT64, HK_BOR, comm));
    expect(all == (UINT64_C(1) << RANKS) - 1, "one bit of each rank");
    check(hk_comm_free(comm));
    return 0;
}

int main(void)
{
    char directory[] = "/tmp/hocket-example-XXXXXX", command[64];
    unsigned char key[32];
    if (mkdtemp(directory) == NULL || getentropy(key, sizeof key) != 0)
        expect(0, "a directory and a key");
    for (int rank = 0; rank < RANKS; rank++) {
        pid_t child = fork();
        expect(child >= 0, "a process for each rank");
        if (child == 0)
            return run_rank(rank, directory, key);
    }
    int failures = 0, status;
    while (wait(&status) > 0)
        failures += status != 0;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0)
        failures++;
    expect(failures == 0, "every rank");
    printf("%d processes were ranks\n", RANKS);
    return 0;
}
