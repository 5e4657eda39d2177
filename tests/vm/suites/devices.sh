# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: two devices on two ends of a cable, which have link-local addresses only
# seconds: 90
. /test/common.sh
/bin/ip link add net0 mtu 9000 type veth peer name net1 mtu 9000 && /bin/ip link set net0 up && /bin/ip link set net1 up &&
    make_device rxe0 net0 0 && make_device rxe1 net1 0 || exit 1

# on_both COMMAND…: as ranks 0 and 1 of a job, the first on rxe0 and the second on rxe1.
on_both() {
    export HOCKET_RANKS=2 HOCKET_STORE=tcp://127.0.0.1:7777
    HOCKET_RANK=0 HOCKET_VERBS_DEVICE=rxe0 "$@" &
    HOCKET_RANK=1 HOCKET_VERBS_DEVICE=rxe1 "$@"
    second=$?
    wait $! && [ "$second" -eq 0 ]
}

both_sent() {
    sent_more rxe0 1000 && sent_more rxe1 1000
}

make_key
check "results are right from 8 B to 1 MiB" \
    on_both hocket bench allreduce broadcast alltoall sendrecv --min 8 --max 1M --step 16 --iters 1 --check
is_verbs && check "both devices carried them" both_sent
check "nothing is left of the devices" left
finish
