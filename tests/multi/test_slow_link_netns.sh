#!/bin/bash
# Two hosts with two ranks each, and a slow link between them: after `hocket tune`, all-reduces of 16 MiB are served by
# themselves by an algorithm that carries only n bytes each way over the link, where a flat ring carries 1.5 n. With
# other figures for the link other choices are made, and always those that the model explains. (How much faster that is,
# bench/two_hosts measures.)
set -u
. "$SOURCE_DIR/tests/multi/hosts.sh"
hosts_make a b
hosts_rsh
export HOCKET_JOIN_TIMEOUT=30
unset HOCKET_TUNING

job() {
    timeout 100 "$HOCKET_PROGRAM" run --hosts node1:2,node2:2 -- "$HOCKET_PROGRAM" "$@" 2>"$work/err" </dev/null
}

# tuned NAME: figures for the link as it is.
tuned() {
    job tune --quick -o "$work/$1.json" >"$work/out" || failed "tune: exit status $?"
    grep -q '"class": "tcp"' "$work/$1.json" || failed "tune has not measured the link between the hosts"
}

# chosen NAME BYTES: by a job with these figures; the results are checked.
chosen() {
    HOCKET_TUNING=$work/$1.json job bench allreduce --min "$2" --max "$2" --iters 2 --check --json - >"$work/out" ||
        failed "bench with figures of $1: exit status $?"
    python3 -c 'import json, sys
cell = json.load(open(sys.argv[1]))["cells"][0]
assert cell["correct"] is True and cell["ranks"] == 4, cell
print(cell["algorithm"])' "$work/out" || failed "wrong results"
}


# explained NAME BYTES: what the model says of that: the best, and what it does not tell apart from it.
explained() {
    "$HOCKET_PROGRAM" explain allreduce -n 4 --hosts 2 --bytes "$2" --figures "$work/$1.json" --json - >"$work/out" ||
        failed "explain: exit status $?"
    python3 -c 'import json, sys
all = [one for one in json.load(open(sys.argv[1]))["candidates"] if "predicted_us" in one]
print(*(one["algorithm"] for one in all if one["predicted_us"] <= 1.1 * all[0]["predicted_us"]))' "$work/out"
}

hosts_throttle 1gbit
tuned slow
slow=$(chosen slow 16M)
case $slow in
hierarchical* | multilevel | leader) ;;
*) failed "16 MiB over a slow link by $slow" ;;
esac
passed "16 MiB over 1 Gbit/s by $slow"

# The model says that the same link matters less, and less, the faster it is: by figures that differ in it alone.
for factor in 1 100 10000; do
    python3 - "$work/slow.json" "$work/by$factor.json" $factor <<'PYTHON'
import json, sys
found, factor = json.load(open(sys.argv[1])), int(sys.argv[3])
if all(link["class"] != "tcp" for link in found["links"]): # on a busy machine tune may not believe what it saw
    found["links"].append({"class": "tcp", "ranges": [{"alpha_ps": 30000000, "overhead_ps": 5000000, "rendezvous": 1,
                                                       "beta_ps_per_kib": 8192000, "core_ps_per_kib": 500000}]})
near = next((link["ranges"] for link in found["links"] if link["class"] == "l3"), None)
link = near if factor == 10000 else None
for one in found["links"]:
    if one["class"] == "tcp" and link:
        one["ranges"] = link # as near as shared memory: nothing is gained by sparing it
    for part in one["ranges"] if one["class"] == "tcp" and not link else []:
        for name in ("alpha_ps", "overhead_ps", "beta_ps_per_kib", "core_ps_per_kib"):
            part[name] //= factor
json.dump(found, open(sys.argv[2], "w"))
PYTHON
done
hosts_unthrottle
told=
for factor in 1 100 10000; do
    for bytes in 8 16M; do
        job=$(chosen by$factor $bytes) model=$(explained by$factor $bytes)
        [[ " $model " == *" $job "* ]] || failed "$bytes bytes, link $factor times as fast: $job, but the model says $model"
        told="$told $bytes:$job"
    done
    told="$told;"
done
[ "$(tr ';' '\n' <<<"$told" | sed 's/^ //' | sort -u | grep -c .)" -gt 1 ] || failed "the link makes no difference:$told"
passed "choices as the model says:$told"

echo "$failures failed"
[ $failures -eq 0 ]
