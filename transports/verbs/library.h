/*
 * libibverbs, loaded when it is needed: whoever has no RDMA device does not pay for it, and a test can put another in
 * its place (HOCKET_VERBS_LIBRARY). What <infiniband/verbs.h> defines inline (posting, polling, arming) goes through
 * the context that the library gave, and needs no symbol.
 */
#ifndef HKI_VERBS_LIBRARY_H
#define HKI_VERBS_LIBRARY_H

#include <hocket/transport.h>

#include <infiniband/verbs.h>

/* Every function that is called by name. */
#define HKI_VERBS_FUNCTIONS(F)                                                                                         \
    F(get_device_list)                                                                                                 \
    F(free_device_list)                                                                                                \
    F(get_device_name)                                                                                                 \
    F(open_device)                                                                                                     \
    F(close_device)                                                                                                    \
    F(query_device)                                                                                                    \
    F(query_port)                                                                                                      \
    F(query_gid)                                                                                                       \
    F(alloc_pd)                                                                                                        \
    F(dealloc_pd)                                                                                                      \
    F(reg_mr)                                                                                                          \
    F(dereg_mr)                                                                                                        \
    F(create_comp_channel)                                                                                             \
    F(destroy_comp_channel)                                                                                            \
    F(create_cq)                                                                                                       \
    F(destroy_cq)                                                                                                      \
    F(get_cq_event)                                                                                                    \
    F(ack_cq_events)                                                                                                   \
    F(create_qp)                                                                                                       \
    F(modify_qp)                                                                                                       \
    F(destroy_qp)                                                                                                      \
    F(create_ah)                                                                                                       \
    F(destroy_ah)                                                                                                      \
    F(get_async_event)                                                                                                 \
    F(ack_async_event)                                                                                                 \
    F(wc_status_str)                                                                                                   \
    F(event_type_str)

typedef struct hki_verbs_library {
#define HKI_VERBS_MEMBER(NAME) __typeof__(ibv_##NAME) *NAME;
    HKI_VERBS_FUNCTIONS(HKI_VERBS_MEMBER)
#undef HKI_VERBS_MEMBER
    __typeof__(_ibv_query_gid_table) *query_gid_table; /* NULL before rdma-core 32 */
} hki_verbs_library;

/* The library of this process, loaded by the first call and kept; NULL with *why (static) when there is none. `path`: a
 * file, or "" for the system's. */
const hki_verbs_library *hki_verbs_load(const char *path, const char **why);

#endif
