#!/bin/bash
# Jobs over several hosts: network namespaces (hosts.sh), which `hocket run --hosts` reaches by a stand-in for ssh.
set -u
. "$SOURCE_DIR/tests/multi/hosts.sh"
hosts_make a b c d
hosts_rsh
export HOCKET_JOIN_TIMEOUT=30
ranks="$BUILD_DIR/tests/multi/test_contexts"

# job LABEL LIST RANKS
job() {
    local label=$1 list=$2 count=$3
    timeout 100 "$HOCKET_PROGRAM" run --hosts "$list" -- "$ranks" rank "$count" >"$work/out" 2>"$work/err" </dev/null ||
        failed "$label: exit status $?"
    grep -q "$count ranks, three contexts" "$work/out" || failed "$label: no word of rank 0"
    timeout 100 "$HOCKET_PROGRAM" run --hosts "$list" -- "$HOCKET_PROGRAM" bench allreduce broadcast --max 64K --check \
        >"$work/out" 2>"$work/err" </dev/null || failed "$label, bench: exit status $?"
    grep -q "$count ranks over.*tcp" "$work/out" || failed "$label, bench: not over tcp"
    passed "$label"
}

job "a rank on each of two hosts" node1,node2 2
job "three hosts, one with two ranks" node1:1,node2:2,node3:1 4
job "four hosts" node1:1,node2:1,node3:1,node4:1 4
job "IPv6 names" six1:1,six2:1 2
HOCKET_INTERFACE='eth*' job "a named interface" node1:1,node2:1 2
without=$(HOCKET_TLS=required "$HOCKET_PROGRAM" bench allreduce -n 2 --transport tcp --max 8 2>&1 | grep -m 1 OpenSSL)
if [ -z "$without" ]; then
    HOCKET_TLS=required job "three hosts, encrypted" node1:1,node2:2,node3:1 4
else
    echo "TLS between hosts is not tried: $without"
fi

# A host that is not reached on the network, though the stand-in for ssh gets there: the end names who is missing.
ip -n "${tag}b" link set eth0 down
HOCKET_JOIN_TIMEOUT=3 timeout 60 "$HOCKET_PROGRAM" run --hosts node1:2,node2:1 -- "$ranks" rank 3 >"$work/out" \
    2>"$work/err" && failed "a job without a network"
grep -Eq 'rank 2 of 3 did not arrive|rank that serves the others was not found' "$work/err" || failed "who is missing"
ip -n "${tag}b" link set eth0 up
ip -n "${tag}b" addr add fd91::2/64 dev eth0 nodad 2>/dev/null
passed "a host without a network"

echo "$failures failed"
[ $failures -eq 0 ]
