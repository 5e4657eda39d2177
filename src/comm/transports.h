/* Which transports there are, and which may be used (HOCKET_TRANSPORT). */
#ifndef HKI_COMM_TRANSPORTS_H
#define HKI_COMM_TRANSPORTS_H

#include <hocket/transport.h>

/* All that are built in, in order of preference, ended by NULL. */
const hk_transport_ops *const *hki_transports_all(void);
/* Puts one more before them (a test's). False when there is no room, or the choice has been made already. */
bool hki_transports_add(const hk_transport_ops *ops);
/* Those that HOCKET_TRANSPORT allows, in order of preference, ended by NULL: built in, or plug-ins, which are loaded by
 * the first call. When it names none, the modules of this package that are installed are among them. */
const hk_transport_ops *const *hki_transports_usable(void);
/* Whether HOCKET_TRANSPORT names those that are allowed, and so says which comes first; equal on all ranks. Else what
 * costs least does. */
bool hki_transports_ordered(void);
/* Whether it was asked for or is always there, so that its absence is worth a word. */
bool hki_transports_named(const hk_transport_ops *ops);
/* HK_ERR_SETTING when HOCKET_TRANSPORT names one that does not exist, or leaves none; HK_ERR_UNSUPPORTED when it names
 * a plug-in that does not fit (see comm/plugin.h). */
hk_status hki_transports_check(void);

#endif
