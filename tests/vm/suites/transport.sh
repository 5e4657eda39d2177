# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: the contract of <hocket/transport.h>, between two processes and between two threads
# seconds: 180
. /test/common.sh
make_host 10.0.0.1 || exit 1

# Another program's messages: if these do not arrive, it is not the transport's fault.
pingpong() {
    ibv_rc_pingpong -d rxe0 -g 1 -n 100 -e &
    patiently listens 18515 && ibv_rc_pingpong -d rxe0 -g 1 -n 100 -e 127.0.0.1 && wait $!
}

# listens PORT: some process does, by TCP.
listens() {
    grep -q ":$(printf %04X "$1") " /proc/net/tcp /proc/net/tcp6
}

check "the device carries messages of ibv_rc_pingpong" pingpong
is_verbs && export CONFORMANCE_PLUGIN=verbs CONFORMANCE_SETTINGS=VERBS_REGISTER=256K
check "the transport keeps its contract: frames, sleep, ends" test_transport
check "the transport keeps its contract: memory that peers reach" test_transport_memory
check "nothing is left of the device" left
finish
