/*
 * What the ranks of a context tell each other while it is made, in two exchanges: who they are, then, with transports
 * open, how they are reached and where they run. Whatever they have to agree on goes along with the second, as a
 * section of their cards (card.h).
 */
#ifndef HKI_COMM_AGREE_H
#define HKI_COMM_AGREE_H

#include "comm/context.h"

/* First: fills peers and local_cpus. HK_ERR_BOOTSTRAP (also: another version), HK_ERR_SETTING (settings that must agree
 * do not), HK_ERR_NO_MEMORY. */
hk_status hki_agree_on_ranks(hki_context *context, hki_boot *boot);
/* Second: links every peer, closes transports that reach nobody, makes the cluster. HK_ERR_BOOTSTRAP, HK_ERR_TRANSPORT
 * (a rank that no transport reaches), HK_ERR_NO_MEMORY. */
hk_status hki_agree_on_links(hki_context *context, hki_boot *boot);

#endif
