/* Transports that are no part of the library: shared objects which are looked for, loaded and checked. */
#ifndef HKI_COMM_PLUGIN_H
#define HKI_COMM_PLUGIN_H

#include <hocket/transport.h>

/*
 * Finds libhocket_transport_NAME.so in the directories of HOCKET_TRANSPORT_PATH (not in a program with privileges of
 * its own, whose environment is not to be trusted) and then in `hocket/` beside the library, and takes the operations
 * from its symbol hk_transport_NAME. What it gives lives as long as the process: a plug-in is never unloaded.
 *
 * HK_ERR_SETTING: the name is none that a plug-in can have, there is no such file (the text says where it was looked
 * for), or the file does not load. HK_ERR_UNSUPPORTED: it was made for another version of the interface, or lacks a
 * function.
 */
hk_status hki_plugin_load(const char *name, const hk_transport_ops **ops);

/*
 * The operations as this version of the library knows them: those of an older plug-in, whose structure is shorter,
 * completed with NULL. `where` names it in errors; *complete is set on success only.
 */
hk_status hki_plugin_complete(const hk_transport_ops *ops, const char *name, const char *where,
                              hk_transport_ops *complete);

/* Whether what `open` promised can be kept: sizes, and a function for each capability. HK_ERR_TRANSPORT. */
hk_status hki_plugin_check_limits(const hk_transport_ops *ops, const hk_transport_limits *limits);

#endif
