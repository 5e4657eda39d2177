#!/bin/bash
# hocket bench: every collective checked over sizes and ranks, results in the form that is promised, wrong command lines
# refused.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
runs=0

# good LABEL ARGUMENT…: the benchmark ends well.
good() {
    local label=$1
    shift
    runs=$((runs + 1))
    if ! timeout 100 "$HOCKET_PROGRAM" bench "$@" >"$work/out" 2>"$work/err" </dev/null; then
        failures=$((failures + 1))
        printf 'FAILED: %s: %s\n' "$label" "$*"
        tail -5 "$work/out" "$work/err"
    fi
}

# refused WORD ARGUMENT…: exit status 2, and a message that contains WORD.
refused() {
    local word=$1 status
    shift
    runs=$((runs + 1))
    timeout 20 "$HOCKET_PROGRAM" bench "$@" >"$work/out" 2>"$work/err" </dev/null
    status=$?
    if [ $status -ne 2 ] || ! grep -q -- "$word" "$work/err"; then
        failures=$((failures + 1))
        printf 'FAILED: bench %s: exit status %d, said: %s\n' "$*" $status "$(cat "$work/err")"
    fi
}

# shaped FILE RANKS COLLECTIVES: the JSON is what readers of it are promised.
shaped() {
    runs=$((runs + 1))
    if ! python3 - "$@" <<'PYTHON'; then
import json, math, sys
path, ranks, wanted = sys.argv[1], int(sys.argv[2]), sys.argv[3].split()
result = json.load(open(path))
assert set(result) == {"meta", "cells"}, set(result)
for name in ("version", "host", "time", "transport", "kernels", "ranks", "cpus"):
    assert name in result["meta"], name
seen = {cell["collective"] for cell in result["cells"]}
assert seen == set(wanted), (seen, wanted)
others = (ranks - 1) / ranks
factors = {"allreduce": 2 * others}
factors |= {name: others for name in ("reduce_scatter reduce_scatterv allgather allgatherv gather gatherv scatter "
                                      "scatterv alltoall alltoallv").split()}
for cell in result["cells"]:
    time = cell["time_us"]
    assert set(time) == {"min", "p50", "avg", "p99"}, time
    assert 0 < time["min"] <= time["p50"] <= time["p99"] and time["min"] <= time["avg"], cell
    assert cell["correct"] is True and cell["ranks"] == ranks, cell
    for name in ("transport", "count", "type", "op", "algorithm", "batch", "samples"):
        assert name in cell, (name, cell)
    assert math.isclose(cell["algbw"], cell["bytes"] / time["p50"] * 1e-3, rel_tol=1e-4), cell
    assert math.isclose(cell["busbw"], cell["algbw"] * factors.get(cell["collective"], 1), rel_tol=1e-4), cell
    if cell["collective"] not in ("sendrecv", "pingpong", "stream") and ranks > 1:
        assert cell["algorithm"], cell
PYTHON
        failures=$((failures + 1))
        printf 'FAILED: the JSON of %s ranks\n' "$2"
    fi
}

all=$("$HOCKET_PROGRAM" bench --list)
for ranks in 1 2 3 4; do
    names=$all
    if [ $ranks -eq 1 ]; then
        names=$(echo "$all" | grep -v -e pingpong -e stream)
    fi
    good "$ranks ranks" -n $ranks --min 8 --max 64K --step 91 --iters 2 --check --json "$work/r.json" --root $((ranks - 1))
    shaped "$work/r.json" $ranks "$names"
done
good "nothing to move" -n 3 --min 0 --max 0 --iters 2 --check
if [ "$(grep -c yes "$work/out")" -ne "$(echo "$all" | wc -l)" ]; then
    failures=$((failures + 1))
    echo "FAILED: --max 0 is not one cell for each collective"
fi
good "in place" -n 3 --in-place --uneven --min 1000 --max 100K --step 100 --iters 2 --check --root 1
good "uneven counts" -n 4 allgatherv alltoallv gatherv scatterv reduce_scatterv --uneven --min 4 --max 40K --step 100 \
    --iters 2 --check
good "mappable buffers" -n 2 allreduce allgather broadcast --alloc --min 64 --max 1M --step 128 --iters 2 --check
algorithms=$("$HOCKET_PROGRAM" info --algorithms --json |
    python3 -c 'import json, sys; print(*[a["name"] for a in json.load(sys.stdin) if a["collective"] == "allreduce"])')
for algorithm in $algorithms; do
    good "forced" -n 3 allreduce --algorithm "$algorithm" --min 8 --max 64K --step 91 --iters 2 --check --json "$work/r.json"
    if [ "$(grep -c "\"algorithm\": \"$algorithm\"" "$work/r.json")" -ne 3 ]; then
        failures=$((failures + 1))
        echo "FAILED: --algorithm $algorithm was not what was used"
    fi
done
good "constant inputs" -n 2 allreduce --constant --max 64 --iters 2 --check
for type in int8 uint16 int32 uint64 float16 bfloat16 float64; do
    for op in sum min prod; do
        good "$type $op" -n 3 allreduce scan --type $type --op $op --min 1000 --max 1000 --iters 2 --check
    done
    good "$type avg" -n 3 allreduce --type $type --op avg --min 1000 --max 1000 --iters 2 --check
done
good "bits" -n 2 reduce --type uint32 --op bxor --min 1000 --max 1000 --iters 2 --check
good "a given number of calls" -n 2 allreduce --min 8 --max 8 --iters 3 --warmup 0 --json - --csv "$work/r.csv"
if [ "$(grep -c '"batch": 1, "samples": 3,' "$work/out")" -ne 1 ] || [ "$(wc -l <"$work/r.csv")" -ne 2 ]; then
    failures=$((failures + 1))
    echo "FAILED: --iters 3 made another number of calls, or the CSV is incomplete"
fi
good "as part of a job" allreduce --max 64 --iters 2 --check

refused 'no collective "alreduce"' alreduce
refused '--min' --min x
refused '--max is below' --min 64 --max 8
refused '--type' --type float128
refused '--op' --op plus
refused '--root 2' -n 2 --root 2
refused 'ranks' -n 0
refused '--step' --step 1
refused '--iters' --iters -3
refused '--seconds' --seconds 0
refused 'no in-place form' barrier --in-place
refused 'name the collectives' --algorithm ring
refused 'has no "rong", but' allreduce --algorithm rong
refused 'broadcast is not measured here' allreduce --algorithm allreduce:ring,broadcast:chain
refused 'pingpong has no "ring", but none' allreduce pingpong --algorithm ring
refused 'unrecognized' --nonsense
refused 'pingpong and stream need two ranks' -n 1 pingpong
refused 'pingpong and stream need two ranks' -n 1 stream

# Ranks that share a CPU yield to one another only within one session (fields 5 and 6: process group and session).
runs=$((runs + 1))
"$HOCKET_PROGRAM" run -n 3 -- sh -c 'cut -d" " -f5,6 /proc/$$/stat' >"$work/out"
if [ "$(cut -d' ' -f1 "$work/out" | sort -u | wc -l)" -ne 3 ] || [ "$(cut -d' ' -f2 "$work/out" | sort -u | wc -l)" -ne 1 ]; then
    failures=$((failures + 1))
    echo "FAILED: ranks are to be groups of one session"
    cat "$work/out"
fi

runs=$((runs + 1))
if "$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" bench allreduce -n 3 --max 8 >"$work/out" 2>"$work/err"; then
    failures=$((failures + 1))
    echo "FAILED: -n 3 within a job of 2 was accepted"
fi
runs=$((runs + 1))
if "$HOCKET_PROGRAM" bench allreduce -n 2 --max 8 --json "$work/none/r.json" >"$work/out" 2>"$work/err"; then
    failures=$((failures + 1))
    echo "FAILED: a file that cannot be written was no failure"
fi
for full in --json --csv; do
    runs=$((runs + 1))
    if "$HOCKET_PROGRAM" bench allreduce -n 2 --max 8 --iters 2 $full /dev/full >"$work/out" 2>"$work/err" ||
        ! grep -q '/dev/full: No space left on device' "$work/err"; then
        failures=$((failures + 1))
        echo "FAILED: $full to a full disk: $(cat "$work/err")"
    fi
done
runs=$((runs + 1))
if "$HOCKET_PROGRAM" bench allreduce -n 2 --max 8 --iters 2 >/dev/full 2>"$work/err" ||
    ! grep -q 'cannot write standard output: No space left on device' "$work/err"; then
    failures=$((failures + 1))
    echo "FAILED: a table on a full disk: $(cat "$work/err")"
fi
echo "$runs runs, $failures failed"
[ $failures -eq 0 ] && [ $runs -gt 65 ]
