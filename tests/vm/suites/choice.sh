# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: which of verbs and tcp is taken when nobody says, and why; what is said when verbs cannot be had
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

# reasoned: two such ranks take what they say is fastest, both the same, by what was measured.
reasoned() {
    HOCKET_LOG=debug apart || return 1
    grep -o 'rank [01] on .* reaches rank .*\|verbs: rank .* a small message.*\|tcp: rank .* stack.*\|figures of .*' /tmp/job
    taken=$(sed -n 's/.* ranks over \([a-z]*\),.*/\1/p' /tmp/job)
    [ "$(grep -c " reaches rank .* by $taken: 32 KiB take [0-9.]* us by $taken (.*), [0-9.]* us by " /tmp/job)" -eq 2 ] &&
        grep ' reaches rank ' /tmp/job | awk '{ for (i = 1; i < NF; i++) if ($(i + 1) == "us") time[++n] = $i }
            n % 2 == 0 && time[n - 1] > time[n] + 0 { exit 1 } END { exit n != 4 }' &&
        grep -q 'figures of the cost model: .*verbs reported by the ports' /tmp/job
}

# refused TEXT: verbs, asked for, ends the job with an error that says TEXT.
refused() {
    if HOCKET_TRANSPORT=verbs apart; then
        return 1
    fi
    cat /tmp/job
    grep -q "verbs.*$1" /tmp/job
}

# has_device, no_device: as hocket info has it.
has_device() {
    hocket info | grep '^verbs' >/tmp/info
    cat /tmp/info
    grep -q 'device rxe0 port 1, RoCE.* [0-9.]* Gbit/s$' /tmp/info && grep -q ' us for a small message, ' /tmp/info &&
        grep -q 'registered for one message .*(measured: registering takes ' /tmp/info
}

no_device() {
    hocket info | grep '^verbs .* active port'
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
if is_verbs; then
    check "with a device, what is faster between hosts is taken, by what both ends measured" reasoned
    sed 's/^/  /' /tmp/output # check's: the measured figures, for whoever reads this
fi
HOCKET_TRANSPORT=verbs,tcp check "verbs is taken between hosts when it is named first" over verbs 0
check "nothing is left of the device" left
check "hocket info shows the port, its latency, and when memory is registered" has_device
sed 's/^/  /' /tmp/output

make_key && chown nobody /tmp/key
export HOCKET_TRANSPORT=verbs,tcp
check "users with 4 MiB of locked memory have verbs" limited 4096 4096 verbs 0
check "with 64 KiB tcp serves, and each says why" limited 64 64 tcp 2
check "with 64 KiB at one of them, too" limited 4096 64 tcp 1
check "nothing is left of the device after those" left
unset HOCKET_RANKS HOCKET_STORE HOCKET_KEY_FILE HOCKET_TRANSPORT

HOCKET_VERBS_DEVICE=absent check "a device that there is not is an error" refused "absent"
/bin/ip link set net0 down
check "with its port down, tcp serves" over tcp 0
check "with its port down, asking for verbs is an error" refused "active port"
check "hocket info says why there is no device to use" no_device
finish
