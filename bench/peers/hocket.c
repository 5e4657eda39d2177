/* Driver of Hocket, over its public interface only: linked with the installed library. Ranks come from `hocket run`. */
#include "bench/bench_hocket.h"
#include "bench/peers/driver.h"

#include <stdio.h>

int main(int argc, char **argv)
{
    hki_peer_options options;
    if (!hki_peer_parse(argc, argv, &options))
        return 2;
    hki_peer_bind();
    hk_comm *comm;
    if (hk_init(&comm) != HK_OK) {
        fprintf(stderr, "hocket: hk_init: %s\n", hk_last_error());
        return 1;
    }
    hki_bench_library library;
    hki_bench_hocket(comm, options.mappable, &library);
    int status = hki_peer_run(&library, &options);
    if (hk_comm_free(comm) != HK_OK && status == 0) {
        fprintf(stderr, "hocket: hk_comm_free: %s\n", hk_last_error());
        status = 1;
    }
    return status;
}
