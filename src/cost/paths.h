/* What messages meet on their way where some ranks stand for all. */
#ifndef HKI_COST_PATHS_H
#define HKI_COST_PATHS_H

#include "cost/walk.h"

/* For every step of traces that stand for all ranks: what links the n-th messages take, and how many pass the same
 * resource at once, as told by the ranks of a few hosts. HK_ERR_NO_MEMORY. */
hk_status hki_paths_new(const hki_cluster *cluster, const hki_figures *figures, const hki_algorithm *algorithm,
                        const hki_call *call, const hki_traces *traces, hki_path **paths);

#endif
