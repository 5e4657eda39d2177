#!/bin/bash
# Over which interfaces and addresses ranks of several hosts reach one another: the right one of two, IPv6 alone, link-local
# addresses alone, many; and what is said when there is no way. Network namespaces are the hosts; see hosts.sh.
set -u
. "$SOURCE_DIR/tests/multi/hosts.sh"
hosts_make a b c
hosts_key
export HOCKET_JOIN_TIMEOUT=30 HOCKET_TIMEOUT=30
port=29500

# job LABEL STORE-HOST HOST…: one rank of the benchmark on each; $work/out0 has what it prints, $work/errN the log.
job() {
    local label=$1 where=$2 rank=0 host ranks=$(($# - 2))
    shift 2
    pids=()
    rm -f "$work"/out* "$work"/err*
    port=$((port + 1))
    export HOCKET_STORE=tcp://$where:$port
    for host in "$@"; do
        HOCKET_HOST=host$host HOCKET_LOG=info start $rank $ranks "$host" "$HOCKET_PROGRAM" bench allreduce --max 1K --check
        rank=$((rank + 1))
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || failed "$label: exit status $?"
    done
    said "$work/out0" "$ranks ranks over"
}

ip -n "${tag}c" link set docker0 down
job "three hosts" node1 a b c
said "$work/err1" 'eth0 10.91.0.2: used'
said "$work/err1" 'docker0 172.30.0.1: used after others: a bridge'
said "$work/err2" 'docker0 172.30.0.1: skipped: it is down, or nothing is attached'
said "$work/err1" 'reached at.*over eth0 \|has connected from.*over eth0 '
passed "three hosts"

# A second network, which leads nowhere from the other hosts, and comes first in the kernel's list.
for host in a b; do
    ip -n "$tag$host" link add aux0 type veth peer name aux1
    ip -n "$tag$host" link set aux0 up
    ip -n "$tag$host" link set aux1 up
    ip -n "$tag$host" addr add "10.77.$(printf %d "'$host").1/24" dev aux0
done
job "the right one of two interfaces" node1 a b
said "$work/err1" 'aux0 10.77.98.1: used'
said "$work/err1" '10.91.0.1.*over eth0 10.91.0.2'
HOCKET_INTERFACE=eth0 job "a named one of two interfaces" node1 a b
said "$work/err1" 'aux0 10.77.98.1: skipped: HOCKET_INTERFACE leaves it out'
HOCKET_INTERFACE='^aux0,lo,docker0' job "all but the wrong one" node1 a b
HOCKET_INTERFACE=10.91.0.0/16,fd91::/64 job "a list of networks" node1 a b
passed "two interfaces"

# The same network from each host, but no way between them: both ends and what was tried are named.
pids=()
export HOCKET_STORE=tcp://node1:29600
rm -f "$work"/out* "$work"/err*
HOCKET_CONNECT_TIMEOUT=3 HOCKET_INTERFACE=aux0 HOCKET_HOST=hosta start 0 2 a "$BUILD_DIR/tests/multi/test_watch" rank 0
HOCKET_CONNECT_TIMEOUT=3 HOCKET_INTERFACE=aux0 HOCKET_HOST=hostb start 1 2 b "$BUILD_DIR/tests/multi/test_watch" rank 0
wait "${pids[@]}"
cat "$work"/out[01] "$work"/err[01] >"$work/err"
said "$work/err" 'rank 1 on hostb is not reached from rank 0 on hosta.*tried.*10.77.98.1'
passed "no way"

# What HOCKET_INTERFACE names must be there.
HOCKET_INTERFACE=eth0,eth7 HOCKET_RANK=0 HOCKET_RANKS=2 HOCKET_JOIN_TIMEOUT=1 on a timeout 60 "$HOCKET_PROGRAM" info \
    >"$work/out" 2>"$work/err"
said "$work/out" 'HOCKET_INTERFACE=eth0,eth7 cannot be used: there are .*eth0 10.91.0.1'
passed "a name that is not there"

# More addresses than other ranks are told.
for number in $(seq 30); do
    ip -n "${tag}a" addr add "10.78.$number.1/24" dev aux0
done
job "many addresses" node1 a b
said "$work/err0" 'addresses more than the 20 that other ranks are told'
passed "many addresses"

# IPv6 alone.
for host in a b c; do
    ip -n "$tag$host" -4 addr flush dev eth0
done
job "IPv6 alone" six1 a b c
said "$work/err2" 'fd91::'
passed "IPv6 alone"

# Link-local addresses alone: they mean something only with an interface, which each host adds for itself.
for host in a b c; do
    ip -n "$tag$host" -4 addr flush dev aux0 2>/dev/null
    ip -n "$tag$host" link del aux0 2>/dev/null
    ip -n "$tag$host" link del docker0
    ip -n "$tag$host" addr del "$(ip -n "$tag$host" -6 -o addr show dev eth0 scope global | awk '{print $4}')" dev eth0
done
for _ in $(seq 50); do
    ip -n "${tag}a" -6 -o addr show dev eth0 scope link | grep -q tentative || break
    sleep 0.1
done
first=$(ip -n "${tag}a" -6 -o addr show dev eth0 scope link | awk '{sub("/.*", "", $4); print $4; exit}')
job "link-local addresses alone" "[$first%eth0]" a b c
said "$work/err1" 'reached at \[fe80\|has connected from \[fe80'
passed "link-local addresses alone"

echo "$failures failed"
[ $failures -eq 0 ]
