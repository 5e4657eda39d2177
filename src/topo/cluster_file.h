/*
 * Clusters from files: what nobody here owns, or what is to be tried before it is bought. The form, JSON, is described
 * in src/topo/README.md. Read through jansson, and hwloc where a host is given as its XML or description; both are
 * loaded when they are needed.
 */
#ifndef HKI_TOPO_CLUSTER_FILE_H
#define HKI_TOPO_CLUSTER_FILE_H

#include "topo/cluster.h"

enum { HKI_CLUSTER_FILE_RANKS = 1 << 20 }; /* at most */

/* Reads a cluster from a file. HK_ERR_SYSTEM (cannot be read), HK_ERR_ARGUMENT (names the file, and the line or the
 * field that is wrong), HK_ERR_UNSUPPORTED (no jansson, or no hwloc where a host asks for it), HK_ERR_NO_MEMORY. */
hk_status hki_cluster_read(const char *path, hki_cluster **cluster);
/* The same from memory; `name` stands for it in messages. Files named in it are relative to `folder`; with NULL, as for
 * text from strangers, neither files nor hwloc's descriptions are looked at, and naming one is an error. */
hk_status hki_cluster_parse(const char *text, size_t bytes, const char *name, const char *folder,
                            hki_cluster **cluster);

#endif
