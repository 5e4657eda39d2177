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
wrong 'rank 4' broadcast -n 4 --rank 4
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
assert ring["rounds"] == 14 and ring["bytes_sent"] == 14 * n // 8, ring
found = json.load(open("all.json"))
priced = [one for one in found["candidates"] if one["candidacy"] == "priced"]
assert len(priced) > 10 and priced[0] is found["candidates"][0], priced
for one in priced:
    parts = sum(one[part + "_us"] for part in ("alpha", "beta", "gamma", "contention"))
    assert abs(parts - one["predicted_us"]) < 1e-3 * one["predicted_us"], one
best = min(one["predicted_us"] for one in priced)
assert priced[0]["predicted_us"] <= 1.03 * best, (priced[0], best)  # within what counts as equal
crossovers = found["crossovers"]
assert crossovers[0]["bytes"] == 8 and len(crossovers) > 1, crossovers
for before, after in zip(crossovers, crossovers[1:]):
    assert before["bytes"] < after["bytes"], crossovers
    assert (before["algorithm"], before["segments"]) != (after["algorithm"], after["segments"]), crossovers
at = [one for one in crossovers if one["bytes"] <= 16 << 20][-1]
assert at["algorithm"] == priced[0]["algorithm"], (at, priced[0])
assert {link["link"] for link in found["figures"]["links"]} == {"l3", "tcp"}, found["figures"]
PYTHON

# A running job chooses what is explained, and logs the same line.
HOCKET_LOG=debug "$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" bench allreduce --min 64K --max 64K --iters 1 \
    >bench.txt 2>log || fail "the job: $(cat log)"
line=$("$HOCKET_PROGRAM" explain allreduce -n 2 --bytes 64K | grep '^allreduce of 65536 bytes on 2 ranks: ')
grep -qF -- "$line" log || fail "no \"$line\" in the job's log"

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
first, second = json.load(open("near.json"))["candidates"][:2]
print(int(second["predicted_us"] < first["predicted_us"]))')
    said=$(grep -c 'comes first because prices so close' near.txt) || true
    [ "$said" = "$cheaper" ] || fail "explains the order at $bytes bytes: $(cat near.txt)"
done

# What cannot be written is an error, and a device is not removed for it.
ln -s /dev/full full
for form in --json --plot; do
    "$HOCKET_PROGRAM" explain allreduce $form full >out 2>err && fail "explain $form, to what is full"
    [ -L full ] || fail "explain $form removed what it could not write to"
done

# A choice that does not depend on the size says so; one that nothing can serve as well.
"$HOCKET_PROGRAM" explain alltoallv -n 4 | grep -q 'not all ranks know the size' || fail "private sizes"
echo "explain: well"
