# hocket sim: its command line, its errors, and that what it writes is what it says: JSON, a trace, a picture.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*"
    exit 1
}

# Wrong usage: status 2 and a message that names what is wrong. $1: a word of it.
wrong() {
    word=$1
    shift
    status=0
    "$HOCKET_PROGRAM" sim "$@" >out 2>err || status=$?
    [ "$status" = 2 ] || fail "hocket sim $*: status $status, not 2"
    grep -qF -- "$word" err || fail "hocket sim $*: no \"$word\" in: $(cat err)"
}

wrong collective
wrong '"allredoce"' allredoce
wrong '"b"' allreduce b
wrong '"1X"' allreduce --bytes 1X
wrong --hosts allreduce --hosts 0
wrong --segments allreduce --segments 3
wrong --type allreduce --type float31
wrong --op allreduce --op plus
wrong bxor reduce --op bxor --type float64
wrong '1 TiB' allreduce --bytes 2000G
"$HOCKET_PROGRAM" sim allreduce --bytes 1024G --hosts 2 --algorithm ring >out 2>err || fail "a TiB: $(cat err)"
wrong --figures allreduce --figures textbook:1/2
wrong --figures allreduce --figures textbook:1/2/-3
wrong '"rong"' allreduce --algorithm ring,rong
wrong 'root 16' broadcast --root 16 --hosts 2
wrong --topology allreduce --topology cluster.json --capacity 3
wrong 'ranks-per-host' allreduce --ranks-per-host 1048576 # which would not end
wrong '16777216' allreduce --hosts 16777216 --ranks-per-host 2
wrong 'at most 1048576 ranks' alltoall --hosts 1000000
# Where each rank has a block for each other, few steps are much work: refused, and at once.
status=0
timeout 60 "$HOCKET_PROGRAM" sim alltoall --hosts 4096 >out 2>err || status=$?
[ "$status" != 124 ] && grep -q '^bruck .*not simulated: about' out || fail "a large alltoall: $(cat out err)"

# Clusters from files, whole or in part. Reading them takes jansson.
racks=$SOURCE_DIR/examples/clusters/two_racks.json
if "$HOCKET_PROGRAM" sim allreduce --topology "$racks" --bytes 64K --json racks.json >/dev/null 2>err; then
    python3 -c '
import json
with open("racks.json") as file:
    meta = json.load(file)["meta"]
assert meta["ranks"] == 128 and meta["hosts"] == 8, meta' || fail "a cluster from a file"
    "$HOCKET_PROGRAM" sim allreduce --topology "$racks" --hosts 3 --ranks-per-host 5 --bytes 64K |
        grep -q 'among 15 ranks on 3 hosts' || fail "a part of a cluster"
    wrong '8 hosts, not 9' allreduce --topology "$racks" --hosts 9
    wrong '16 ranks, not 17' allreduce --topology "$racks" --ranks-per-host 17
    "$HOCKET_PROGRAM" sim allreduce --topology nowhere.json >out 2>err && fail "a cluster from nowhere"
    grep -q nowhere.json err || fail "a file that is not there: $(cat err)"
else
    grep -qi jansson err || fail "a cluster from a file: $(cat err)"
fi

status=0
"$HOCKET_PROGRAM" sim allreduce --hosts 8192 --algorithm flat >out 2>err || status=$?
[ "$status" = 1 ] || fail "what is too large is not simulated"
grep -q 'flat .*million steps are too many' out || fail "it says so: $(cat out)"
status=0
"$HOCKET_PROGRAM" sim allreduce --json /nowhere/file >out 2>err || status=$?
[ "$status" = 1 ] && grep -q /nowhere/file err || fail "a file that cannot be written is an error"
"$HOCKET_PROGRAM" sim --help | grep -q -- --timeline || fail "help"

# By the textbook, without shared links: a ring of 8 takes 2·7·α + 2·7/8·nβ + 7/8·nγ.
"$HOCKET_PROGRAM" sim allreduce --algorithm ring --bytes 1M --hosts 8 --ranks-per-host 1 --figures textbook:2/0.1/0.05 \
    --json ring.json >ring.txt
python3 - <<'EOF' || fail "the ring's time"
import json
with open("ring.json") as file:
    found = json.load(file)
n = 1 << 20
expected = 14 * 2 + 14 / 8 * n * 0.1e-3 + 7 / 8 * n * 0.05e-3
one = found["candidates"][0]
assert abs(one["time_us"] - expected) < 1e-3 * expected, (one, expected)
assert one["path_messages"] == 14 and one["messages"] == 8 * 14, one
assert abs(one["alpha_us"] - 28) < 1e-6 and one["contention_us"] == 0, one
legs = found["critical_path"]
assert legs[0]["begin_us"] == 0 and abs(legs[-1]["end_us"] - one["time_us"]) < 1e-5, legs
for before, after in zip(legs, legs[1:]):
    assert before["end_us"] == after["begin_us"], (before, after)
EOF
grep -q '^ring .* 1.00 ' ring.txt || fail "the table: $(cat ring.txt)"

# All candidates, with everything written.
"$HOCKET_PROGRAM" sim allreduce --bytes 256K --hosts 4 --ranks-per-host 6 --capacity 3 --top 4 --json all.json \
    --timeline all.trace --svg all.svg >all.txt
HOCKET_ALGORITHM=allreduce:ring "$HOCKET_PROGRAM" sim allreduce --hosts 2 >out 2>err &&
    grep -q 'HOCKET_ALGORITHM is not looked at' err || fail "HOCKET_ALGORITHM goes unnoticed: $(cat err)"
algorithms=$(grep -c '^HKI_ALGORITHM(ALLREDUCE,' "$SOURCE_DIR/src/algo/algos.def")
ALGORITHMS=$algorithms python3 - <<'EOF' || fail "what was written"
import json, os
from collections import defaultdict
from xml.etree import ElementTree

with open("all.json") as file:
    found = json.load(file)
assert len(found["candidates"]) == int(os.environ["ALGORITHMS"]), found["candidates"]
times = {one["algorithm"]: one["time_us"] for one in found["candidates"] if "skipped" not in one}
assert found["best"] == min(times, key=times.get), (found["best"], times)
assert 0 < len(found["busiest_links"]) <= 4, found["busiest_links"]
for one in found["candidates"]:
    if "skipped" in one:
        assert one["skipped"], one
        continue
    parts = sum(one[name + "_us"] for name in ("alpha", "beta", "gamma", "copy", "local", "contention"))
    assert abs(parts - one["time_us"]) < 1e-4, one

# A trace: complete events that nest (here: do not overlap) within a track, and arrows with two ends.
with open("all.trace") as file:
    events = json.load(file)["traceEvents"]
tracks, arrows, named = defaultdict(list), defaultdict(set), set()
for event in events:
    track = event["pid"], event["tid"]
    if event["ph"] == "X":
        assert event["dur"] > 0 and event["name"], event
        tracks[track].append((event["ts"], event["ts"] + event["dur"]))
    elif event["ph"] in "sf":
        arrows[event["id"]].add(event["ph"])
    else:
        assert event["ph"] == "M", event
        named.add(track)
assert len(tracks) == 24 * 3 + 1, len(tracks)
assert set(tracks) <= named | {(0, 0)}, set(tracks) - named
for stretches in tracks.values():
    stretches.sort()
    for before, after in zip(stretches, stretches[1:]):
        assert after[0] >= before[1] - 1e-6, (before, after)
end = max(stretch[1] for stretches in tracks.values() for stretch in stretches)
assert abs(end - times[found["best"]]) < 1e-5, (end, times)
assert arrows and all(ends == {"s", "f"} for ends in arrows.values()), arrows

root = ElementTree.parse("all.svg").getroot()
assert root.tag == "{http://www.w3.org/2000/svg}svg", root.tag
height = float(root.get("height"))
bars = root.findall("{http://www.w3.org/2000/svg}rect")
assert len(bars) > 50
for bar in bars[1:]:
    left, top = float(bar.get("x")), float(bar.get("y"))
    assert left >= 0 and left + float(bar.get("width")) <= 1200 and 0 <= top < height, bar.attrib
EOF

# Of a world that is too large to draw, some ranks are drawn, and that is said.
"$HOCKET_PROGRAM" sim barrier --algorithm dissemination --hosts 100 --timeline some.trace >/dev/null 2>err
grep -q 'shows [0-9]* of 800 ranks' err || fail "a timeline of some ranks: $(cat err)"

# What takes no time at all, or no message.
for call in "broadcast --bytes 0" "barrier --hosts 1 --ranks-per-host 1" "alltoall --bytes 0 --hosts 2"; do
    # shellcheck disable=SC2086 # words
    "$HOCKET_PROGRAM" sim $call --json none.json --timeline none.trace --svg none.svg >none.txt || fail "hocket sim $call"
    grep -q nan none.txt none.json none.trace none.svg && fail "hocket sim $call: $(cat none.txt)"
    python3 -c 'import json; json.load(open("none.json")); json.load(open("none.trace"))' || fail "hocket sim $call: JSON"
done

# Every collective, every algorithm; and the same figures each time.
for collective in barrier broadcast reduce allreduce reduce_scatter reduce_scatterv allgather allgatherv gather gatherv \
    scatter scatterv alltoall alltoallv scan exscan; do
    "$HOCKET_PROGRAM" sim $collective --hosts 3 --ranks-per-host 5 --bytes 30K --root 4 >first ||
        fail "hocket sim $collective"
    "$HOCKET_PROGRAM" sim $collective --hosts 3 --ranks-per-host 5 --bytes 30K --root 4 >second
    cmp -s first second || fail "hocket sim $collective: not the same twice"
done

# 65,536 ranks. More of them in test_sim_large.sh.
"$HOCKET_PROGRAM" sim allreduce --algorithm recursive_doubling --bytes 64M --hosts 8192 --ranks-per-host 8 \
    --figures textbook:2/0.1/0.05 --json large.json >/dev/null
python3 - <<'EOF' || fail "65,536 ranks"
import json
with open("large.json") as file:
    one = json.load(file)["candidates"][0]
n = 64 << 20
expected = 16 * (2 + n * 0.15e-3)
assert abs(one["time_us"] - expected) < 1e-3 * expected, (one, expected)
assert one["messages"] == 65536 * 16, one
EOF
echo "sim holds"
