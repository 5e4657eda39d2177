# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: two machines on one Ethernet, which find each other through the TCP store
# guests: 2
# seconds: 120
. /test/common.sh
make_peer 10.2.0.$((number + 1)) || exit 1
make_key
export HOCKET_STORE=tcp://10.2.0.1:7777

two() {
    HOCKET_RANKS=2 HOCKET_RANK=$number "$@"
}

# Ranks 0 and 1 are on the first machine, 2 and 3 on the second.
four() {
    export HOCKET_RANKS=4 HOCKET_TRANSPORT="shm,$transport" HOCKET_STORE=tcp://10.2.0.1:7778
    HOCKET_RANK=$((2 * number)) "$@" &
    HOCKET_RANK=$((2 * number + 1)) "$@"
    odd=$?
    wait $! && [ "$odd" -eq 0 ]
}

check "a rank on each: all-reduce, broadcast, all-to-all up to 1 MiB" \
    two hocket bench allreduce broadcast alltoall --min 8 --max 1M --step 16 --iters 1 --check
check "two ranks on each, in shared memory within a machine" \
    four hocket bench allreduce broadcast alltoall allgather --min 8 --max 64K --step 16 --iters 1 --check
check "nothing is left of the device" left
finish
