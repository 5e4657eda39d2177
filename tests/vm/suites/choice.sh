# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: when verbs is taken by itself, and what is said when it cannot be
# seconds: 120
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

# nobody LIMIT RANK: a rank of a job of two, of a user without privileges; LIMIT: of locked memory, KiB.
nobody() {
    # shellcheck disable=SC3045
    (ulimit -l "$1" && HOCKET_RANK=$2 HOCKET_HOST=host$2 su nobody -c \
        "exec hocket bench allreduce --min 8 --max 1M --step 131072 --iters 2 --check")
}

# limited LIMIT LIMIT TRANSPORT WARNINGS: a job under such limits goes over that transport, and so many ranks say why.
limited() {
    export HOCKET_RANKS=2 HOCKET_STORE=tcp://127.0.0.1:7777
    nobody "$1" 0 >/tmp/job 2>&1 &
    nobody "$2" 1 >/tmp/other 2>&1
    second=$?
    wait $!
    first=$?
    cat /tmp/job /tmp/other
    [ "$first" -eq 0 ] && [ "$second" -eq 0 ] && grep -q "2 ranks over $3," /tmp/job &&
        [ "$(cat /tmp/job /tmp/other | grep -c 'hocket warn.*verbs.*ulimit -l')" -eq "$4" ]
}

/bin/ip link add net0 mtu 9000 type dummy && /bin/ip addr add 10.0.0.1/24 dev net0 && /bin/ip link set net0 up || exit 1
check "without a device, tcp serves, and nothing is said" over tcp 0
check "without a device, asking for verbs is an error" refused "no RDMA device"

make_device rxe0 net0 1 || exit 1
check "with a device, verbs is taken between hosts" over verbs 0
check "nothing is left of the device" left

make_key && chown nobody /tmp/key
check "users with 4 MiB of locked memory have verbs" limited 4096 4096 verbs 0
check "with 64 KiB tcp serves, and each says why" limited 64 64 tcp 2
check "with 64 KiB at one of them, too" limited 4096 64 tcp 1
check "nothing is left of the device after those" left
unset HOCKET_RANKS HOCKET_STORE HOCKET_KEY_FILE

HOCKET_VERBS_DEVICE=absent check "a device that there is not is an error" refused "absent"
/bin/ip link set net0 down
check "with its port down, tcp serves" over tcp 0
check "with its port down, asking for verbs is an error" refused "active port"
finish
