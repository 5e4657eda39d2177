# shellcheck shell=dash
# Sourced by scripts in a guest: devices, and checks that tests/vm/run counts.
: "${transport:=verbs}" "${number:=0}" # from the kernel's command line
export HOCKET_TRANSPORT="$transport" HOCKET_LOG=warn HOCKET_JOIN_TIMEOUT=60 HOCKET_TIMEOUT=60 CONFORMANCE_SLOWER=10
failures=0

# check NAME COMMAND…: the command succeeds. Otherwise the end of its output is shown.
check() {
    label=$1
    shift
    "$@" >/tmp/output 2>&1
    status=$?
    if [ $status -eq 0 ]; then
        echo "ok: $label ($(cut -d' ' -f1 /proc/uptime) s)"
        return 0
    fi
    echo "FAILED: $label: exit status $status"
    tail -n 60 /tmp/output
    failures=$((failures + 1))
    return 1
}

# finish: the end of a script.
finish() {
    exit $((failures > 0))
}

is_verbs() {
    [ "$transport" = verbs ]
}

# Of commands that it has itself, busybox's shell takes no others unless they are named by their path: /bin/ip.

# patiently COMMAND…: until it succeeds, for a minute at most.
patiently() {
    tries=0
    until "$@" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || return 1
        usleep 100000
    done
}

has_gid() {
    grep -qv '^0000:0000:0000:0000:0000:0000:0000:0000$' "/sys/class/infiniband/$1/ports/1/gids/$2"
}

# make_device NAME INTERFACE GID: a Soft-RoCE device; returns when it has its address of that index: 0 is link-local, 1
# the first IPv4 address.
make_device() {
    rdma link add "$1" type rxe netdev "$2" && patiently has_gid "$1" "$3"
}

# make_host ADDRESS: an interface with that address which leads nowhere but serves any number of local processes, and a
# device on it: rxe0.
make_host() {
    /bin/ip link add net0 mtu 9000 type dummy && /bin/ip addr add "$1/24" dev net0 && /bin/ip link set net0 up &&
        make_device rxe0 net0 1
}

# make_peer ADDRESS: the interface to the other guest, once it is really up, and a device on it: rxe0.
make_peer() {
    /bin/ip addr add "$1/24" dev eth0 && /bin/ip link set eth0 up &&
        patiently grep -q up /sys/class/net/eth0/operstate && make_device rxe0 eth0 1
}

# count WHAT: queue pairs (qp), memory regions (mr), … that processes have; the kernel's own do not count.
count() {
    rdma -d resource show "$1" | grep -c ' pid '
}

# sent DEVICE: packets that it has sent.
sent() {
    cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

# sent_more DEVICE COUNT
sent_more() {
    [ "$(sent "$1")" -gt "$2" ]
}

nothing_left() {
    for what in qp mr cq pd cm_id; do
        [ "$(count $what)" -eq 0 ] || return 1
    done
}

# left: shows what processes have of devices, and fails if there is anything.
left() {
    patiently nothing_left && return 0
    for what in qp mr cq pd; do
        rdma -d resource show $what
    done
    return 1
}

# make_key: the key of jobs that are started by hand, the same in all guests.
make_key() {
    export HOCKET_KEY_FILE=/tmp/key
    (umask 077 && echo "the key of all guests' jobs, 32 B" >/tmp/key)
}
