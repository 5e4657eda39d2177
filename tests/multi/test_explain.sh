# hocket explain: its command line, its errors, and that what it says agrees with itself, with the textbook and with
# what a job logs.
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
    "$HOCKET_PROGRAM" explain "$@" >out 2>err || status=$?
    [ "$status" = 2 ] || fail "hocket explain $*: status $status, not 2"
    grep -qF -- "$word" err || fail "hocket explain $*: no \"$word\" in: $(cat err)"
}

wrong collective
wrong '"allredoce"' allredoce
wrong '"broadcast" follows' allreduce broadcast
wrong '"1X"' allreduce --bytes 1X
wrong --ranks allreduce -n 0
wrong 65536 allreduce -n 1000000
wrong 'no multiple' allreduce -n 7 --hosts 2
wrong '"float31"' allreduce --type float31
wrong '"plus"' allreduce --op plus
wrong bxor allreduce --op bxor --type float32
wrong '1 TiB' allreduce --bytes 1025G
wrong 'root 1 among 1 rank' broadcast -n 1 --root 1
"$HOCKET_PROGRAM" explain broadcast --op bxor --type float32 >out 2>err || fail "an operator that is not used: $(cat err)"
"$HOCKET_PROGRAM" explain allreduce --bytes 1024G --hosts 8 -n 8 >out 2>err || fail "a TiB: $(cat err)"
"$HOCKET_PROGRAM" explain allreduce -n 1 >out && ! grep -q '1 ranks' out || fail "one rank: $(head -3 out)"
for command in explain tune sim info run bench verify; do
    status=0
    "$HOCKET_PROGRAM" $command --help >/dev/full 2>err || status=$?
    [ "$status" -gt 0 ] && [ -s err ] || fail "$command --help to a full disk: status $status: $(cat err)"
done
wrong 'root 4' broadcast -n 4 --root 4
wrong 'rank 4' broadcast -n 4 --rank 4 --schedule
wrong '--rank says' broadcast -n 4 --rank 3
wrong --figures allreduce --figures textbook:1
wrong '"udp"' allreduce --transport udp
wrong --transport allreduce --transport tcp --hosts 2
wrong --topology allreduce --topology cluster.json --hosts 2

# Over verbs: with built-in figures where there is no device, else with what its port reports.
HOCKET_VERBS_LIBRARY=none "$HOCKET_PROGRAM" explain allreduce -n 8 --hosts 8 --transport verbs --figures built-in >out
grep -q '^  RDMA between hosts, built in$' out || fail "verbs without a device: $(cat out)"
if [ -f "$BUILD_DIR/tests/fake_verbs/libibverbs.so.1" ]; then
    explain_verbs() {
        FAKE_VERBS_FABRIC=$PWD FAKE_VERBS_DEVICES=mlx9/width=2/speed=64 \
            HOCKET_VERBS_LIBRARY=$BUILD_DIR/tests/fake_verbs/libibverbs.so.1 \
            "$HOCKET_PROGRAM" explain allreduce -n 8 --hosts 8 --transport verbs --figures "$1" >out
    }
    explain_verbs built-in
    grep -q '^  RDMA between hosts, reported by the ports$' out && grep -q 'beta   38.5[0-9]* ns/KiB' out ||
        fail "verbs as a port reports it: $(cat out)"
    explain_verbs textbook:2/0.1/0.05
    grep -q '^  RDMA between hosts, given$' out || fail "given figures come before reported ones: $(cat out)"
fi
status=0
HOCKET_ALGORITHM=allreduce:rong "$HOCKET_PROGRAM" explain allreduce >out 2>err || status=$?
[ "$status" = 2 ] && grep -q rong err || fail "a wrong name in HOCKET_ALGORITHM"
"$HOCKET_PROGRAM" explain --help | grep -q -- --schedule || fail "help"

# By the textbook: a ring of 8 takes 2·7·α + 2·7/8·nβ + 7/8·nγ, and the parts are these.
HOCKET_ALGORITHM=allreduce:ring "$HOCKET_PROGRAM" explain allreduce -n 8 --hosts 8 --bytes 1M \
    --figures textbook:2/0.1/0.05 --json ring.json >ring.txt
grep -q '^allreduce of 1048576 bytes on 8 ranks: ring' ring.txt || fail "what is forced comes first: $(head -5 ring.txt)"
"$HOCKET_PROGRAM" explain allreduce -n 64 --hosts 8 --bytes 16M --json all.json --schedule --rank 9 >all.txt
grep -q 'steps of rank 9' all.txt && grep -q ': send to' all.txt || fail "the steps"
python3 - <<'PYTHON' || fail "what was written as JSON"
import json
n = 1 << 20
ring = json.load(open("ring.json"))["candidates"][0]
assert ring["algorithm"] == "ring", ring
for name, expected in (("alpha_us", 28), ("beta_us", 14 / 8 * n * 0.1e-3), ("gamma_us", 7 / 8 * n * 0.05e-3),
                       ("contention_us", 0)):
    assert abs(ring[name] - expected) <= 1e-3 * expected, (name, ring[name], expected)
assert json.load(open("ring.json"))["choice"]["forced"], ring
assert ring["rounds"] == 14 and ring["bytes_sent"] == 14 * n // 8, ring
found = json.load(open("all.json"))
priced = [one for one in found["candidates"] if one["candidacy"] == "priced"]
assert len(priced) > 10 and priced[0] is found["candidates"][0], priced
for one in priced:
    parts = sum(one[part + "_us"] for part in ("alpha", "beta", "gamma", "contention"))
    assert abs(parts - one["predicted_us"]) < 1e-3 * one["predicted_us"], one
best = min(one["predicted_us"] for one in priced)
assert priced[0]["predicted_us"] <= 1.05 * best, (priced[0], best)  # within what prices tell apart
crossovers = found["crossovers"]
assert crossovers[0]["bytes"] == 8 and len(crossovers) > 1, crossovers
for before, after in zip(crossovers, crossovers[1:]):
    assert before["bytes"] < after["bytes"], crossovers
    assert (before["algorithm"], before["segments"]) != (after["algorithm"], after["segments"]), crossovers
at = [one for one in crossovers if one["bytes"] <= 16 << 20][-1]
assert at["algorithm"] == priced[0]["algorithm"], (at, priced[0])
assert {link["link"] for link in found["figures"]["links"]} == {"l3", "tcp"}, found["figures"]
PYTHON

# A running job chooses what is explained, and logs the same line; so does the list of choices by size.
cat >lines.py <<'PYTHON'
import json
import os
import random
import subprocess
import sys

program, seed = os.environ["HOCKET_PROGRAM"], random.randrange(1 << 32)
random.seed(seed)
debug = dict(os.environ, HOCKET_LOG="debug")
rooted = ("broadcast", "reduce", "gather", "scatter", "gatherv")


def logged(collective, ranks, bytes, root):
    size = ["--min", str(bytes), "--max", str(bytes)] if bytes else []
    job = subprocess.run([program, "run", "-n", str(ranks), program, "bench", collective, "--iters", "1"] + size +
                         (["--root", str(root)] if root else []), env=debug, capture_output=True, text=True)
    assert job.returncode == 0, job.stderr
    begin = "hocket debug: " + collective + " o"
    return {line[len("hocket debug: "):] for line in job.stderr.splitlines() if line.startswith(begin)}


def explained(collective, ranks, bytes, root):
    size = ["--bytes", str(bytes)] if bytes else []
    said = subprocess.run([program, "explain", collective, "-n", str(ranks), "--json", "-"] + size +
                          (["--root", str(root)] if root else []), check=True, capture_output=True, text=True)
    return json.loads(said.stdout)


def check(collective, ranks, bytes, root):
    where = f"{collective} of {bytes} bytes on {ranks} ranks, root {root}, seed {seed}"
    found, lines = explained(collective, ranks, bytes, root), logged(collective, ranks, bytes, root)
    choice, first = found["choice"], found["candidates"][0]
    assert choice["text"] in lines, (where, choice["text"], lines)
    assert (choice["algorithm"], choice["segments"]) == (first["algorithm"], first["segments"]), (where, choice, first)
    by_size = [one for one in found["crossovers"] if one["bytes"] <= bytes] or found["crossovers"]
    assert (choice["algorithm"], choice["segments"]) == (by_size[-1]["algorithm"], by_size[-1]["segments"]), \
        (where, choice, by_size[-1])


check("allreduce", 2, 1 << 20, 0)
check("allreduce", 3, 3898272, 0)
check("reduce", 5, 32768, 1)
for ranks in (2, 3, 5):
    check("barrier", ranks, 0, 0)
    for collective in rooted + ("allreduce", "reduce_scatter", "allgather", "alltoall", "alltoallv", "scan"):
        bytes = max(int(2 ** random.uniform(3, 22)) // (4 * ranks), 1) * 4 * ranks
        check(collective, ranks, bytes, random.randrange(ranks) if collective in rooted else 0)
PYTHON
python3 lines.py || fail "a job's line"

# The picture, or a clear word that gnuplot is missing.
PATH=/nowhere "$HOCKET_PROGRAM" explain allreduce --plot none.svg >out 2>err && fail "a picture without gnuplot"
grep -q 'gnuplot.*not installed' err && ! [ -e none.svg ] || fail "says that gnuplot is missing: $(cat err)"
if command -v gnuplot >/dev/null; then
    "$HOCKET_PROGRAM" explain allreduce -n 16 --hosts 4 --plot all.svg >out
    python3 - <<'PYTHON' || fail "the picture"
from xml.etree import ElementTree
root = ElementTree.parse("all.svg").getroot()
text = " ".join(root.itertext())
assert root.tag.endswith("svg") and "recursive_doubling" in text and "16 ranks on 4 hosts" in text, text[:500]
PYTHON
else
    echo "gnuplot is not installed: the picture is not tried"
fi
status=0
"$HOCKET_PROGRAM" explain barrier --plot barrier.svg >out 2>err || status=$?
[ "$status" = 1 ] && grep -q 'nothing to draw' err || fail "a barrier has no sizes"

# What is not the cheapest and yet comes first says why.
HOCKET_ALGORITHM=allreduce:ring "$HOCKET_PROGRAM" explain allreduce -n 8 --hosts 8 >forced.txt
grep -q '^ring comes first because HOCKET_ALGORITHM' forced.txt || fail "what is forced says so: $(cat forced.txt)"
for bytes in 8 1K 8K 64K 1M 16M; do
    "$HOCKET_PROGRAM" explain allreduce -n 64 --hosts 8 --figures built-in --bytes $bytes --json near.json >near.txt
    cheaper=$(python3 -c '
import json
priced = [one for one in json.load(open("near.json"))["candidates"] if one["candidacy"] == "priced"]
assert priced[1:] == sorted(priced[1:], key=lambda one: one["predicted_us"]), priced
print(int(priced[1]["predicted_us"] < priced[0]["predicted_us"]))')
    said=$(grep -c '% cheaper for just this size: ' near.txt) || true
    [ "$said" = "$cheaper" ] || fail "explains the order at $bytes bytes: $(cat near.txt)"
done
"$HOCKET_PROGRAM" explain allreduce -n 8 --figures built-in --bytes 1000000 --json class.json >class.txt
grep -q 'chosen for 917504 bytes, .*; the table is for 1000000$' class.txt &&
    grep -q '"chosen_bytes": 917504, "priced_bytes": 1000000' class.json || fail "a class of sizes: $(head -4 class.txt)"
"$HOCKET_PROGRAM" explain reduce -n 5 --root 3 --schedule --rank 3 >root.txt
grep -q '^chosen, and priced, for root 0' root.txt && grep -q '^reduce, rank 3 of 5, root 3:' root.txt ||
    fail "the root does not matter for the choice, but does for the steps: $(cat root.txt)"

# Ranks that wait for a core contend for it.
"$HOCKET_PROGRAM" explain allreduce -n 64 --hosts 1 --capacity 2 --figures built-in --bytes 64K --json crowded.json >out
python3 -c 'import json
first = json.load(open("crowded.json"))["candidates"][0]
assert first["contention_us"] > 0.9 * first["predicted_us"], first' || fail "64 ranks on 2 cores: $(head -3 out)"

# What is asked for is what a job takes, be it over again; what cannot serve fails as it fails there.
HOCKET_ALGORITHM=allreduce:hierarchical "$HOCKET_PROGRAM" explain allreduce -n 2 >forced.txt
grep -q ' on 2 ranks: hierarchical, ' forced.txt && grep -Eq '^hierarchical +[0-9]+ .* 1\.00 ' forced.txt &&
    ! grep -Eq 'no algorithm|not hierarchical:' forced.txt || fail "flat ranks by a hierarchy: $(cat forced.txt)"
refused() {
    status=0
    HOCKET_ALGORITHM=$1 "$HOCKET_PROGRAM" explain broadcast -n 3 >out 2>err || status=$?
    [ "$status" = 1 ] && [ ! -s out ] || fail "explain with $1: status $status: $(cat out err)"
    HOCKET_ALGORITHM=$1 "$HOCKET_PROGRAM" bench broadcast -n 3 --max 8 >out 2>job && fail "a job with $1"
    grep -qF -- "$(sed 's/^hocket explain: //' err)" job || fail "with $1: $(cat err), but in a job: $(cat job)"
}
refused "$("$HOCKET_PROGRAM" info --algorithms | awk -F '[: ]' '$1 == "broadcast" {printf "%s%s:^%s", n++ ? "," : "", $1, $2}')"

# What cannot be written is an error, and a device is not removed for it.
ln -s /dev/full full
for form in --json --plot; do
    "$HOCKET_PROGRAM" explain allreduce $form full >out 2>err && fail "explain $form, to what is full"
    [ -L full ] || fail "explain $form removed what it could not write to"
done

# A choice that does not depend on the size says so; one that nothing can serve as well.
"$HOCKET_PROGRAM" explain alltoallv -n 4 | grep -q 'not all ranks know the size' || fail "private sizes"
echo "explain: well"
