# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: two devices at the ends of a cable, with link-local addresses only: one for each rank, then both for both
# seconds: 90
. /test/common.sh
/bin/ip link add net0 mtu 9000 type veth peer name net1 mtu 9000 && /bin/ip link set net0 up && /bin/ip link set net1 up &&
    make_device rxe0 net0 0 && make_device rxe1 net1 0 || exit 1
export HOCKET_RANKS=2 HOCKET_STORE=tcp://127.0.0.1:7777

# on DEVICES DEVICES COMMAND…: as ranks 0 and 1 of a job, each on these. A device reaches the other one alone.
on() {
    first=$1
    second=$2
    shift 2
    HOCKET_RANK=0 HOCKET_VERBS_DEVICE=$first "$@" &
    HOCKET_RANK=1 HOCKET_VERBS_DEVICE=$second "$@"
    status=$?
    wait $! && [ "$status" -eq 0 ]
}

# shared: rank 0's messages, which the other only acknowledges, leave half by each device.
shared() {
    before0=$(sent rxe0)
    before1=$(sent rxe1)
    on rxe0,rxe1 rxe1,rxe0 hocket bench broadcast --min 1M --max 1M --iters 4 --check || return 1
    sleep 1 # until the kernel reads the counters anew
    by0=$(($(sent rxe0) - before0))
    by1=$(($(sent rxe1) - before1))
    echo "$by0 and $by1 packets"
    [ "$by0" -gt 1000 ] && [ $((3 * by0)) -gt $((2 * by1)) ] && [ $((3 * by1)) -gt $((2 * by0)) ]
}

make_key
check "results are right from 8 B to 1 MiB" \
    on rxe0 rxe1 hocket bench allreduce broadcast alltoall sendrecv --min 8 --max 1M --step 16 --iters 1 --check
if is_verbs; then
    check "large messages are shared among devices" shared
fi
check "nothing is left of the devices" left
finish
