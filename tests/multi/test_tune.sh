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

# Under a launcher it measures what is between the ranks, by the transport that is asked for.
"$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" tune --quick --transport tcp -o tcp.json >out 2>err ||
    fail "under a launcher: $(cat err)"
python3 -c 'import json; f = json.load(open("tcp.json"))
assert {l["class"] for l in f["links"] + f.get("not_believed", [])} == {"loopback"}' ||
    fail "links of ranks: $(cat tcp.json)"

echo "tune: well"
