# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: the contract of <hocket/transport.h>, between two processes and between two threads
# seconds: 180
. /test/common.sh
make_host 10.0.0.1 || exit 1

is_verbs && export CONFORMANCE_PLUGIN=verbs
check "the transport keeps its contract" test_transport
check "nothing is left of the device" left
finish
