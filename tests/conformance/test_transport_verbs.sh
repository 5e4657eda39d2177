#!/bin/bash
# The contract of transports, kept by verbs over the fake libibverbs, on one device and on two; then jobs over it: every
# size of message, point-to-point, deaths. The real thing is tried in guests (tests/vm/run).
set -u
fake=$BUILD_DIR/tests/fake_verbs/libibverbs.so.1
if [ ! -f "$fake" ]; then
    echo "SKIPPED: built without libibverbs-dev: the verbs transport was NOT tried"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOCKET_TRANSPORT_PATH=$BUILD_DIR/lib/hocket

# attempt NAME COMMAND…: on a fabric of its own.
attempt() {
    local name=$1
    shift
    FAKE_VERBS_FABRIC=$(mktemp -d "$work/fabric.XXXXXX")
    export FAKE_VERBS_FABRIC
    if ! "$@" >"$work/log" 2>&1; then
        echo "FAILED: $name"
        tail -n 40 "$work/log"
        exit 1
    fi
    echo "ok: $name"
}

for devices in fake0 fake0,fake1; do
    export FAKE_VERBS_DEVICES=$devices
    for test in test_transport test_transport_memory; do
        attempt "$test, $devices" env CONFORMANCE_PLUGIN=verbs \
            CONFORMANCE_SETTINGS="VERBS_LIBRARY=$fake VERBS_DEVICE=$devices VERBS_REGISTER=256K" "$BUILD_DIR/tests/conformance/$test"
    done
done
export HOCKET_TRANSPORT=verbs HOCKET_VERBS_LIBRARY=$fake HOCKET_VERBS_REGISTER=256K # not what this machine measures now
for devices in fake0 fake0,fake1; do
    export HOCKET_VERBS_DEVICE=$devices
    attempt "collectives, $devices" "$HOCKET_PROGRAM" bench allreduce broadcast alltoall reduce_scatter -n 3 --min 8 \
        --max 4M --step 8 --iters 2 --warmup 1 --check
    grep -q ' no$' "$work/log" && echo "FAILED: wrong results" && exit 1
    grep -q 'over verbs' "$work/log" || { echo "FAILED: not over verbs" && exit 1; }
done
attempt "memory of hk_alloc" "$HOCKET_PROGRAM" bench allreduce allgather -n 2 --alloc --in-place --min 64K --max 1M --iters 2 --check
for protocol in get stream; do
    HOCKET_PROTOCOL=$protocol attempt "protocol $protocol" "$HOCKET_PROGRAM" bench allreduce broadcast -n 3 --min 256K \
        --max 1M --iters 2 --check
done
attempt "messages" "$BUILD_DIR/tests/multi/test_point"
attempt "deaths" "$BUILD_DIR/tests/fault/test_lost"

# Which transport ranks on two hosts use when nobody says, and what happens when it cannot be had.
unset HOCKET_TRANSPORT HOCKET_VERBS_DEVICE
hosts() {
    # shellcheck disable=SC2016 # the ranks' shells expand it
    "$HOCKET_PROGRAM" run -n 2 -- bash -c 'HOCKET_HOST=host$$ exec "$0" bench allreduce --max 8 --iters 2 --check' \
        "$HOCKET_PROGRAM"
}
attempt "hosts apart" hosts
grep -q '2 ranks over verbs,' "$work/log" || { echo "FAILED: verbs was not used" && tail "$work/log" && exit 1; }
export HOCKET_LOG=warn HOCKET_VERBS_GID=99
attempt "no usable address" hosts
grep -q '2 ranks over tcp,' "$work/log" || { echo "FAILED: tcp was not used" && tail "$work/log" && exit 1; }
[ "$(grep -c 'transport verbs is not usable.*HOCKET_VERBS_GID' "$work/log")" -eq 2 ] ||
    { echo "FAILED: not one warning a rank" && tail "$work/log" && exit 1; }
HOCKET_TRANSPORT=verbs hosts >"$work/log" 2>&1 && echo "FAILED: forced without an address" && exit 1
grep -q 'no RoCE address.*HOCKET_VERBS_GID=99' "$work/log" || { echo "FAILED: the error does not say why" && tail "$work/log" && exit 1; }
unset HOCKET_VERBS_GID
HOCKET_TRANSPORT=verbs HOCKET_VERBS_DEVICE=fake0:1x hosts >"$work/log" 2>&1 && echo "FAILED: a port that is no number" && exit 1
grep -q 'fake0:1x' "$work/log" || { echo "FAILED: the error does not say what was asked for" && tail "$work/log" && exit 1; }
export HOCKET_VERBS_LIBRARY=$work/nothing
attempt "no library" hosts
grep -q '2 ranks over tcp,' "$work/log" || { echo "FAILED: tcp was not used" && tail "$work/log" && exit 1; }
grep -q 'verbs' "$work/log" && echo "FAILED: words about what nobody asked for" && exit 1
HOCKET_TRANSPORT=verbs hosts >"$work/log" 2>&1 && echo "FAILED: forced without a library" && exit 1
grep -q 'libibverbs does not load' "$work/log" || { echo "FAILED: the error does not say why" && tail "$work/log" && exit 1; }
echo "ok: falls back, or says why not"
