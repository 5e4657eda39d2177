# hocket tune: measures this machine, writes a file that jobs and hocket explain use, and says so; others' files.
set -eu

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*"
    exit 1
}

wrong() {
    word=$1
    shift
    status=0
    "$HOCKET_PROGRAM" tune "$@" >out 2>err || status=$?
    [ "$status" = 2 ] || fail "hocket tune $*: status $status, not 2"
    grep -qF -- "$word" err || fail "hocket tune $*: no \"$word\" in: $(cat err)"
}

wrong '"udp"' --transport udp
wrong --ranks -n 1
wrong launcher -n 3
wrong launcher --points pairs
wrong '"more"' more
"$HOCKET_PROGRAM" tune --help | grep -q -- --quick || fail "help"

if [ "$(nproc)" -lt 2 ]; then
    status=0
    "$HOCKET_PROGRAM" tune --quick -o f.json >out 2>err || status=$?
    [ "$status" = 1 ] && grep -q 'only one may be used' err || fail "one CPU: $(cat err)"
    echo "SKIPPED: links are measured between two CPUs, and here is one"
    exit 77
fi

# What cannot be written is said before anything is measured, and what is there stays.
mkdir empty
ln -s /dev/full full
echo kept >empty/old.json
for path in empty/none/f.json full; do
    status=0
    "$HOCKET_PROGRAM" tune -o $path >out 2>err || status=$?
    [ "$status" = 1 ] && grep -q "$path cannot be written" err && ! grep -q 'tune: 1 of' err ||
        fail "to $path: status $status: $(cat err)"
    "$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" tune -o $path >out 2>err && fail "ranks, to $path"
    grep -q "$path cannot be written" err || fail "ranks, to $path: $(cat err)"
done
cores=$("$HOCKET_PROGRAM" info --topology | sed -n 's/^usable: \([0-9]*\) core.*/\1/p')
status=0
XDG_CACHE_HOME=$work/empty "$HOCKET_PROGRAM" run -n $((2 * cores + 1)) -- "$HOCKET_PROGRAM" tune >out 2>err || status=$?
[ "$status" != 0 ] && grep -q 'take turns' err && [ "$(ls empty)" = old.json ] && [ "$(cat empty/old.json)" = kept ] ||
    fail "more ranks than cores, into the cache: status $status: $(cat err)"

# To the user's cache, whose folders do not exist yet. Jobs find it there.
unset HOCKET_TUNING
export XDG_CACHE_HOME=$work/cache
"$HOCKET_PROGRAM" tune --quick -n 2 >tune.txt 2>tune.log || fail "tune: $(cat tune.log)"
file=$(ls cache/hocket/tuning-*.json)
grep -q "written to .*$file" tune.txt || fail "where it is: $(cat tune.txt)"
! grep -q not_believed "$file" || grep -q 'as on a machine that is busy\|but a machine that is busy' tune.log || fail "silent doubts: $(cat tune.log)"
python3 - "$file" <<'PYTHON' || fail "the file: $(cat "$file")"
import json, sys
found = json.load(open(sys.argv[1]))
links = {link["class"]: link["ranges"] for link in found["links"]}
doubts = {link["class"]: link for link in found.get("not_believed", []) if link["figures"] == "ranges"} # on a busy machine
assert not set(links) & set(doubts), (links, doubts)
assert "loopback" in {**links, **doubts} and {**links, **doubts}.keys() & {"l2", "l3", "numa", "package", "host"}, links
assert all(one["residual"] > 0.5 or one["confidence"] > 0.5 for one in doubts.values()), doubts
for ranges in links.values():
    for one in ranges:
        assert one["alpha_ps"] >= one["overhead_ps"] >= 0 and one["beta_ps_per_kib"] >= 0, one
        assert one["samples"] == 0 or one["samples"] >= 2 and one["residual"] >= 0, one
assert doubts or any(one["samples"] for ranges in links.values() for one in ranges), links
for link in found["links"]:
    bulk = link.get("bulk", {"from": 0, "full": 1})
    assert bulk["full"] > bulk["from"] >= 0, link
gamma = found["gamma_ps_per_kib"]
assert len(gamma) == 12 and all(one["add"] > 0 and one["compare"] > 0 for one in gamma), gamma
assert found["copy_far_ps_per_kib"] >= found["copy_ps_per_kib"] > 0 and found["host"]["switch_ps"] > 0, found
assert found["machine"] and found["date"] and found["version"], found
PYTHON
"$HOCKET_PROGRAM" explain allreduce >explain.txt
grep -q "figures from $(basename "$file" | cut -c1-20)" explain.txt && grep -q 'tuned' explain.txt ||
    fail "explain uses it: $(tail -20 explain.txt)"
HOCKET_TUNING=none "$HOCKET_PROGRAM" explain allreduce | grep -q 'tuned' && fail "none is none"

# A file of another machine says so.
sed 's/"machine": *"[^"]*"/"machine": "elsewhere"/' "$file" >other.json
"$HOCKET_PROGRAM" explain allreduce --figures other.json | grep -q '^figures from other.json, .*, of another machine:$' ||
    fail "explain with another machine's figures"
HOCKET_TUNING=other.json "$HOCKET_PROGRAM" explain allreduce | grep -q ', of another machine:$' ||
    fail "another machine's figures by HOCKET_TUNING"

# Under a launcher it measures what is between the ranks, by the transport that is asked for.
"$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" tune --quick --transport tcp -o tcp.json >out 2>err ||
    fail "under a launcher: $(cat err)"
python3 -c 'import json; f = json.load(open("tcp.json"))
assert {l["class"] for l in f["links"] + f.get("not_believed", [])} == {"loopback"}' ||
    fail "links of ranks: $(cat tcp.json)"

echo "tune: well"
