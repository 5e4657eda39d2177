#!/bin/bash
# Jobs over several hosts: network namespaces joined by a bridge, which `hocket run --hosts` reaches by a stand-in for
# ssh. Needs root and iproute2; without, it is skipped.
set -u
export PATH=$PATH:/usr/sbin:/sbin
tag=hk$$
if [ "$(id -u)" -ne 0 ] || ! ip netns add "${tag}a" 2>/dev/null; then
    echo "SKIPPED: network namespaces cannot be made here"
    exit 77
fi
work=$(mktemp -d)
hosts=(a b c)
finish() {
    local host
    for host in "${hosts[@]}"; do
        ip netns del "$tag$host" 2>/dev/null
        rm -rf "/etc/netns/$tag$host"
    done
    ip link del "${tag}br" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
failures=0
failed() {
    failures=$((failures + 1))
    bad=yes
    printf 'FAILED: %s\n' "$1"
    tail -n 20 "$work/out" "$work/err"
}

ip link add "${tag}br" type bridge || { echo "SKIPPED: no bridge can be made here"; exit 77; }
ip link set "${tag}br" up
number=0
for host in "${hosts[@]}"; do
    number=$((number + 1))
    [ $host = a ] || ip netns add "$tag$host"
    ip link add "${tag}v$host" type veth peer name eth0 netns "$tag$host"
    ip link set "${tag}v$host" master "${tag}br" up
    ip -n "$tag$host" link set lo up
    ip -n "$tag$host" link set eth0 up
    ip -n "$tag$host" addr add "10.91.0.$number/24" dev eth0
    ip -n "$tag$host" addr add "fd91::$number/64" dev eth0 nodad
    # A network that leads nowhere, as containers have them.
    ip -n "$tag$host" link add docker0 type bridge
    ip -n "$tag$host" addr add 172.30.0.1/24 dev docker0
    ip -n "$tag$host" link set docker0 up
    mkdir -p "/etc/netns/$tag$host"
    {
        echo "127.0.0.1 localhost"
        # As on Debian, a host's own name leads to its loopback.
        for other in 1 2 3; do
            [ $other -eq $number ] && echo "127.0.1.1 node$other" || echo "10.91.0.$other node$other"
            echo "fd91::$other six$other"
        done
    } >"/etc/netns/$tag$host/hosts"
done

# The stand-in for ssh: node2 and six2 are the second namespace.
cat >"$work/rsh" <<SCRIPT
#!/bin/bash
name=\$1
shift
letters=(- a b c)
exec ip netns exec "$tag\${letters[\${name: -1}]}" "\$@"
SCRIPT
chmod +x "$work/rsh"
export HOCKET_RSH=$work/rsh HOCKET_JOIN_TIMEOUT=30
ranks="$BUILD_DIR/tests/multi/test_contexts"

# job LABEL LIST RANKS
job() {
    local label=$1 list=$2 count=$3
    bad=no
    timeout 100 "$HOCKET_PROGRAM" run --hosts "$list" -- "$ranks" rank "$count" >"$work/out" 2>"$work/err" </dev/null ||
        failed "$label: exit status $?"
    grep -q "$count ranks, three contexts" "$work/out" || failed "$label: no word of rank 0"
    timeout 100 "$HOCKET_PROGRAM" run --hosts "$list" -- "$HOCKET_PROGRAM" bench allreduce broadcast --max 64K --check \
        >"$work/out" 2>"$work/err" </dev/null || failed "$label, bench: exit status $?"
    grep -q "$count ranks over.*tcp" "$work/out" || failed "$label, bench: not over tcp"
    [ $bad = yes ] || echo "ok: $label"
}

job "a rank on each of two hosts" node1,node2 2
job "three hosts, one with two ranks" node1:1,node2:2,node3:1 4
job "IPv6 names" six1:1,six2:1 2
HOCKET_INTERFACE='eth*' job "a named interface" node1:1,node2:1 2

# A host that is not reached on the network, though the stand-in for ssh gets there: the end names who is missing.
ip -n "${tag}b" link set eth0 down
bad=no
HOCKET_JOIN_TIMEOUT=3 timeout 60 "$HOCKET_PROGRAM" run --hosts node1:2,node2:1 -- "$ranks" rank 3 >"$work/out" \
    2>"$work/err" && failed "a job without a network"
grep -Eq 'rank 2 of 3 did not arrive|rank that serves the others was not found' "$work/err" || failed "who is missing"
ip -n "${tag}b" link set eth0 up
ip -n "${tag}b" addr add fd91::2/64 dev eth0 nodad 2>/dev/null
[ $bad = yes ] || echo "ok: a host without a network"

echo "$failures failed"
[ $failures -eq 0 ]
