#!/bin/sh
# hocket verify: proves what holds, says what cannot be served, and refuses wrong arguments.
set -u
program=${HOCKET_PROGRAM:?}
failures=0

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect STATUS PATTERN ARGUMENTS...: ends with STATUS and prints something that matches PATTERN
expect() {
    status=$1 pattern=$2
    shift 2
    output=$("$program" verify "$@" 2>&1)
    got=$?
    [ $got -eq "$status" ] || fail "verify $*: ended with $got instead of $status: $output"
    printf '%s\n' "$output" | grep -Eq "$pattern" || fail "verify $*: nothing matches \"$pattern\" in: $output"
}

expect 0 'allreduce +ring +13 +0 +24 +24 +1\.846 +1\.846 +312 +holds' allreduce --ranks 13 --algorithm ring
expect 0 'allreduce +hierarchical +5 .*holds' allreduce -n 5 --algorithm hierarchical --per-node 3
expect 0 'broadcast +circulant +6 +5 .*holds' broadcast -n 6 --root all --algorithm circulant --segments 8
expect 0 'reduce +binomial_ordered .*holds, in rank order' reduce -n 9 --root 4
expect 0 'not served: neighbour exchange needs an even number of ranks' allgather -n 7
expect 0 'send to 0' allreduce -n 3 --algorithm recursive_doubling --dump 1
expect 0 'reduce_scatter +direct .*holds' reduce_scatter -n 4 --packed
clusters=${SOURCE_DIR:?}/examples/clusters
if "$program" verify barrier --algorithm tree --topology "$clusters/uneven.json" >/dev/null 2>&1; then # jansson is there
    expect 0 'allreduce +multilevel +30 .*holds' allreduce --algorithm multilevel --topology "$clusters/uneven.json"
    expect 2 'no root 30 among 30 ranks' reduce --root 30 --topology "$clusters/uneven.json"
fi
expect 1 '/no/such/file cannot be read|jansson' allreduce --topology /no/such/file
expect 2 'topology says how many ranks' allreduce -n 4 --topology "$clusters/uneven.json"
expect 2 'packed is for reduce_scatter' allreduce -n 4 --packed
expect 2 'no collective "allredcue"' allredcue
expect 2 'no algorithm "rign" of allreduce' allreduce --algorithm rign
[ -z "$("$program" verify --algorithm rign 2>/dev/null)" ] || fail "a table without rows"
expect 2 'takes a number from 1' -n 0
expect 2 'no root 8 among 8 ranks' reduce --root 8
expect 2 'power of two' reduce --segments 3

lines=$("$program" verify -n 6 | grep -c ' holds')
listed=$("$program" info --algorithms --json | grep -c '"collective"')
[ "$lines" -eq "$listed" ] || fail "$lines algorithms hold for 6 ranks, but $listed are listed"

[ $failures -eq 0 ] && echo "hocket verify: all as expected"
exit $((failures > 0))
