/* A synchronous transport without a peer: what is sent on a link comes back from it at once, as if the peer had sent
 * the same. Two ranks that exchange equal messages (an all-reduce by recursive doubling) can be run by one of them
 * alone. */
#ifndef TESTS_UNIT_ECHO_TRANSPORT_H
#define TESTS_UNIT_ECHO_TRANSPORT_H

#include <hocket/transport.h>

extern const hk_transport_ops hk_transport_echo;

#endif
