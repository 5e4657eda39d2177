/*
 * HOCKET_CALIBRATE=1: the figures of the cost model are measured when a context is made, before anything is chosen by
 * them. For when machines are not known beforehand; `hocket tune` takes its time and measures more.
 */
#ifndef HKI_COMM_CALIBRATE_H
#define HKI_COMM_CALIBRATE_H

#include "comm/context.h"

/*
 * Collective over the ranks of a context that has no communicator yet. Does nothing unless the setting asks for it;
 * with more ranks than cores on a host, where times would be those of taking turns, rank 0 logs that nothing is
 * measured. Else rank 0 measures each kind of link that it has, with the first rank at its other end, while the others
 * wait: about a second in all (slow links take longer), plus copies and reductions. On all ranks context->figures is
 * then the same, bit for bit, with what was measured in place of what was tuned or built in.
 *
 * HK_ERR_NO_MEMORY; HK_ERR_TIMEOUT after HOCKET_JOIN_TIMEOUT; whatever collectives fail with. One rank's failure is
 * that of all.
 */
hk_status hki_calibrate(hki_context *context);

#endif
