# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: when verbs is taken by itself, and what is said when it cannot be
# seconds: 90
. /test/common.sh
unset HOCKET_TRANSPORT
export HOCKET_INTERFACE=lo # for tcp: the only one that never goes away

# apart: a job of two ranks that take themselves to be on two hosts. Its output is left in /tmp/job.
apart() {
    # shellcheck disable=SC2016
    hocket run -n 2 --tag-output -- sh -c 'HOCKET_HOST=host$$ exec "$@"' sh \
        hocket bench allreduce --min 8 --max 64K --step 8192 --iters 2 --check >/tmp/job 2>&1
}

# over TRANSPORT WARNINGS: such a job ends well over that transport, and warns so many times.
over() {
    apart
    status=$?
    cat /tmp/job
    [ "$status" -eq 0 ] && grep -q "2 ranks over $1," /tmp/job && [ "$(grep -c 'hocket warn.*verbs' /tmp/job)" -eq "$2" ]
}

# refused TEXT: verbs, asked for, ends the job with an error that says TEXT.
refused() {
    if HOCKET_TRANSPORT=verbs apart; then
        return 1
    fi
    cat /tmp/job
    grep -q "verbs.*$1" /tmp/job
}

/bin/ip link add net0 mtu 9000 type dummy && /bin/ip addr add 10.0.0.1/24 dev net0 && /bin/ip link set net0 up || exit 1
check "without a device, tcp serves, and nothing is said" over tcp 0
check "without a device, asking for verbs is an error" refused "no RDMA device"

make_device rxe0 net0 1 || exit 1
check "with a device, verbs is taken between hosts" over verbs 0
check "nothing is left of the device" left

/bin/ip link set net0 down
check "with its port down, tcp serves" over tcp 0
check "with its port down, asking for verbs is an error" refused "active port"
finish
