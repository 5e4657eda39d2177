#!/bin/bash
# Two hosts with two links of 400 Mbit/s: large messages go over both (HOCKET_INTERFACE=eth0,eth1), one alone carries
# what it can, and when one breaks the peer is lost and named.
set -u
. "$SOURCE_DIR/tests/multi/hosts.sh"
hosts_make a b
ip link add eth1 netns "${tag}a" type veth peer name eth1 netns "${tag}b" || hosts_skip "no second link can be made here"
number=0
for host in a b; do
    number=$((number + 1))
    ip -n "$tag$host" addr add "10.92.0.$number/24" dev eth1
    ip -n "$tag$host" link set eth1 up
    for link in eth0 eth1; do
        on $host tc qdisc add dev $link root tbf rate 400mbit burst 256kb latency 20ms 2>/dev/null ||
            hosts_skip "no link can be limited here"
    done
done
hosts_key
mkdir "$work/store"
export HOCKET_TRANSPORT=tcp HOCKET_HEARTBEAT=4
megabytes=16 messages=12

# carried LINK: bytes that host a has sent over it.
carried() {
    on a cat "/sys/class/net/$1/statistics/tx_bytes"
}

# stream INTERFACES NAME: rank 0 on a sends to rank 1 on b. Sets `first` and `second`: megabytes over each link.
stream() {
    local before=($(carried eth0) $(carried eth1)) pid
    local pids=()
    export HOCKET_INTERFACE=$1 HOCKET_STORE=file:$work/store/$2
    for rank in 0 1; do
        start $rank 2 "$(echo a b | cut -d' ' -f$((rank + 1)))" "$HOCKET_PROGRAM" bench stream --min ${megabytes}M \
            --max ${megabytes}M --iters $messages --warmup 1 --check --json "$work/json$rank"
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed "$2: a rank failed"
    done
    first=$((($(carried eth0) - before[0]) >> 20))
    second=$((($(carried eth1) - before[1]) >> 20))
    rate=$(grep -o '"algbw": [0-9.]*' "$work/json0" | head -1 | cut -d' ' -f2)
    echo "# $2: $first MiB over eth0, $second MiB over eth1, ${rate:-?} GB/s (a link: 0.05)"
}

total=$((megabytes * (messages + 1)))
stream eth0 one
[ $first -ge $total ] && [ $second -lt 2 ] || failed "eth0 alone does not carry all"
passed "one interface"
stream eth0,eth1 both
[ $first -ge $((total / 4)) ] && [ $second -ge $((total / 4)) ] || failed "one of two links carries hardly anything"
passed "two interfaces share what is sent"

# A link breaks under way.
pids=()
export HOCKET_STORE=file:$work/store/broken
for rank in 0 1; do
    start $rank 2 "$(echo a b | cut -d' ' -f$((rank + 1)))" "$HOCKET_PROGRAM" bench stream --min ${megabytes}M \
        --max ${megabytes}M --iters 100000
done
for _ in $(seq 200); do
    before=$(carried eth1)
    sleep 0.2
    [ $(($(carried eth1) - before)) -gt 1000000 ] && break
done
ip -n "${tag}b" link set eth1 down
for rank in 0 1; do
    wait "${pids[$rank]}" && failed "rank $rank went on without eth1"
    said "$work/err$rank" "rank $((1 - rank)) on"
done
passed "a stripe that breaks is a peer that is lost and named"

echo "$failures failed"
[ $failures -eq 0 ]
