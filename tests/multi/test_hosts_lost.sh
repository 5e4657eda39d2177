#!/bin/bash
# A host that vanishes from the network: every other rank, also one that computes and one that waits for it, gets an error
# that names the lost rank within HOCKET_HEARTBEAT. Network namespaces are the hosts; see hosts.sh.
set -u
. "$SOURCE_DIR/tests/multi/hosts.sh"
hosts_make a b c d
hosts_key
export HOCKET_HEARTBEAT=4 HOCKET_TIMEOUT=90 HOCKET_JOIN_TIMEOUT=30
program="$BUILD_DIR/tests/multi/test_watch"

# vanish LABEL LOST HOST…: one rank on each HOST; LOST (a host) goes down once all work. All others name its ranks.
vanish() {
    local label=$1 lost=$2 rank=0 ranks=$(($# - 2)) host survivors=() all=() names=''
    shift 2
    pids=()
    rm -f "$work"/out* "$work"/err*
    export HOCKET_STORE=tcp://node1:2940$#
    for host in "$@"; do
        HOCKET_HOST=host$host start $rank $ranks "$host" "$program" rank 8
        if [ "$host" = "$lost" ]; then
            names="$names\\|rank $rank on host"
        else
            survivors+=("$work/out$rank")
        fi
        all+=("$work/out$rank")
        rank=$((rank + 1))
    done
    until_said works "${all[@]}"
    sleep 1.5 # until they watch
    ip -n "$tag$lost" link set eth0 down
    until_said 'is lost' "${survivors[@]}"
    for host in "${survivors[@]}"; do
        said "$host" "${names#??}"
        said "$host" 'does not answer\|is cut off'
    done
    kill "${pids[@]}" 2>/dev/null
    wait "${pids[@]}" 2>/dev/null
    ip -n "$tag$lost" link set eth0 up
    passed "$label"
}

vanish "one of two hosts" b a b
vanish "one of four hosts" d a b c d
vanish "a host with two ranks" c a b c c a b

echo "$failures failed"
[ $failures -eq 0 ]
