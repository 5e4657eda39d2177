# hocket info: the listings are complete, and their JSON is JSON.
set -eu

fail() {
    echo "FAILED: $*"
    exit 1
}

"$HOCKET_PROGRAM" info | grep -q "^hocket  *$("$HOCKET_PROGRAM" --version | cut -d' ' -f2)$" || fail "version"
"$HOCKET_PROGRAM" info | grep -q "^kernels" || fail "kernels"
HOCKET_VERBS_REGISTER=auto "$HOCKET_PROGRAM" info | grep -q '^settings  *HOCKET_VERBS_REGISTER=auto is not' ||
    fail "a setting that cannot be used"
HOCKET_VERBS_RING=2M "$HOCKET_PROGRAM" info | grep -q ' between 16384 and 1048576 ' || fail "bounds"
"$HOCKET_PROGRAM" info | grep -q '^network     lo 127.0.0.1: used' || fail "loopback"
HOCKET_INTERFACE=^lo "$HOCKET_PROGRAM" info | grep -q '^network     lo 127.0.0.1: skipped: HOCKET_INTERFACE' || fail "^lo"
HOCKET_INTERFACE=lo,nosuch7 "$HOCKET_PROGRAM" info |
    grep -q '^network     HOCKET_INTERFACE=lo,nosuch7 cannot be used: there are .*lo 127.0.0.1' || fail "a wrong name"

fake=$BUILD_DIR/tests/fake_verbs/libibverbs.so.1
if [ -f "$fake" ]; then
    folder=$(mktemp -d)
    listed=$(FAKE_VERBS_FABRIC=$folder FAKE_VERBS_DEVICES=mlx9/ib/width=2/speed=64/register=2000000 \
        HOCKET_VERBS_LIBRARY=$fake "$HOCKET_PROGRAM" info)
    forced=$(FAKE_VERBS_FABRIC=$folder HOCKET_VERBS_REGISTER=64K HOCKET_VERBS_LIBRARY=$fake "$HOCKET_PROGRAM" info)
    HOCKET_VERBS_LIBRARY=$folder/none "$HOCKET_PROGRAM" info | grep -q '^verbs  .*does not load' || fail "no library"
    # In a job the figures that ports report are those of the model.
    job=$(FAKE_VERBS_FABRIC=$folder FAKE_VERBS_DEVICES=mlx9/width=2/speed=64 HOCKET_VERBS_LIBRARY=$fake \
        "$HOCKET_PROGRAM" run -n 2 -- bash -c 'HOCKET_HOST=host$$ exec "$0" info --topology' "$HOCKET_PROGRAM")
    rm -r "$folder"
    echo "$job" | grep -q '^figures of the cost model: .*verbs reported by the ports' &&
        echo "$job" | grep -Eq '^  RDMA between hosts: small messages take [0-9.]+ us, large ones 0.0376 ns a byte, reported' ||
        fail "figures of a job that ports report: $job"
    echo "$listed" | grep -q '^verbs  .*device mlx9 port 1, InfiniBand, LID 7, .* 212.5 Gbit/s$' || fail "a port: $listed"
    echo "$listed" | grep -Eq '^verbs  .* [0-9.]+ us for a small message, 0.038 ns a byte$' || fail "its costs: $listed"
    echo "$listed" | grep -Eq '^verbs  .*registered for one message from [0-9]+ KiB on \(measured: registering takes [0-9.]+ us' ||
        fail "when memory is registered: $listed"
    echo "$forced" | grep -q '^verbs  .*from 65536 bytes on (HOCKET_VERBS_REGISTER)$' || fail "a threshold that is set: $forced"
fi

lines=$(grep -c '^HKI_ALGORITHM(' "$SOURCE_DIR/src/algo/algos.def")
"$HOCKET_PROGRAM" info --algorithms --json | python3 -c "
import json, sys
found = json.load(sys.stdin)
assert len(found) == $lines, (len(found), $lines)
for one in found:
    for key in 'collective', 'name', 'summary', 'rounds', 'sent', 'scratch', 'source':
        assert one[key], (key, one)
    reduces = any(word in one['collective'] for word in ('reduce', 'scan'))
    assert (one['keeps_order'] is not None) == reduces, one
" || fail "algorithms as JSON"
[ "$("$HOCKET_PROGRAM" info --algorithms | grep -c '^[a-z_]*:[a-z_]*  ')" = "$lines" ] || fail "algorithms as text"
"$HOCKET_PROGRAM" info --algorithms broadcast | grep -q operator && fail "a broadcast has no operator"
"$HOCKET_PROGRAM" info --algorithms allreduce | grep -q 'commutative operators only' || fail "operators of an all-reduce"

settings=$(grep -c '^HKI_SETTING(' "$SOURCE_DIR/src/base/settings.def")
HOCKET_SPIN=7 "$HOCKET_PROGRAM" info --settings --json | python3 -c "
import json, sys
found = {one['name']: one for one in json.load(sys.stdin)}
assert len(found) == $settings, (len(found), $settings)
assert found['HOCKET_SPIN']['now'] == '7' and 'now' not in found['HOCKET_YIELD'], found
" || fail "settings as JSON"

status=0
HOCKET_SPIN=many "$HOCKET_PROGRAM" info --settings 2>&1 >/dev/null | grep -q HOCKET_SPIN || fail "a bad setting is named"
HOCKET_SPIN=many "$HOCKET_PROGRAM" info --settings >/dev/null 2>&1 || status=$?
[ "$status" = 1 ] || fail "a bad setting is an error"
status=0
"$HOCKET_PROGRAM" info --algorithms nonsense >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "an unknown collective is wrong usage"

drawn=$("$HOCKET_PROGRAM" info --topology)
echo "$drawn" | head -1 | grep -Eq '^[0-9]+ packages?, [0-9]+ NUMA nodes?, [0-9]+ cores?, [0-9]+ CPUs?; read from ' ||
    fail "topology: first line"
echo "$drawn" | grep -q "^usable: [0-9]* cores*, $(nproc) CPU" || fail "topology: usable CPUs"
echo "$drawn" | grep -q '^package 0$' || fail "topology: package"
taskset -c "$(taskset -pc $$ | sed 's/.*: //; s/[-,].*//')" "$HOCKET_PROGRAM" info --topology |
    grep -q '^usable: 1 core, 1 CPU\(;\|$\)' || fail "topology: affinity"
clusters=$SOURCE_DIR/examples/clusters
picture=$(mktemp)
trap 'rm -f "$picture" "$picture.err"' EXIT
"$HOCKET_PROGRAM" info --topology --svg "$picture"
grep -q '>core 0<' "$picture" && grep -q '</svg>' "$picture" || fail "topology: picture of this host"
"$HOCKET_PROGRAM" run -n 3 -- "$HOCKET_PROGRAM" info --topology >"$picture"
[ "$(head -n 1 "$picture")" = "3 ranks on 1 host (as the ranks found it)" ] || fail "topology: of a job"
grep -q 'ranks* .*\b2\b' "$picture" || fail "topology: where the ranks of a job are"
grep -q '^figures of the cost model: links built in; reductions built in; host built in$' "$picture" ||
    fail "topology: by which figures a job chooses"
if [ "$(nproc)" -ge 2 ] && HOCKET_CALIBRATE=1 HOCKET_LOG=warn \
    "$HOCKET_PROGRAM" run -n 2 -- "$HOCKET_PROGRAM" info --topology >"$picture" 2>"$picture.err"; then
    grep -q 'calibration on .*: .* calibrated, .*; reductions calibrated; host built in$' "$picture" ||
        grep -q 'nothing is measured' "$picture.err" || fail "topology: calibrated figures"
fi
if "$HOCKET_PROGRAM" info --topology "$clusters/uneven.json" >"$picture" 2>&1; then
    grep -q '^  host 3: 6 ranks (among 3-23), room for 4, 1 NUMA node, 1 NIC, 10 Gbit/s$' "$picture" ||
        fail "topology: a cluster"
    grep -q '^  3 hosts alike, 0 … 2: each 8 ranks' "$picture" || fail "topology: hosts that are alike"
    for name in uneven two_racks fat_tree; do
        "$HOCKET_PROGRAM" info --topology "$clusters/$name.json" --svg "$picture" 2>"$picture.err" || {
            grep -q hwloc "$picture.err" && continue # the only one that asks for it
            fail "topology: $(cat "$picture.err")"
        }
        if command -v xmllint >/dev/null; then
            xmllint --noout "$picture" || fail "topology: the picture of $name is not XML"
        fi
        grep -q ' hosts* alike' "$picture" || fail "topology: picture of $name"
    done
    echo '{"hosts": [{"rank": 2}]}' >"$picture"
    "$HOCKET_PROGRAM" info --topology "$picture" 2>&1 | grep -q 'hosts\[0\].rank is not known' ||
        fail "topology: a mistake in a file is named"
    status=0
    "$HOCKET_PROGRAM" info --topology "$picture" >/dev/null 2>&1 || status=$?
    [ "$status" = 2 ] || fail "topology: a mistake in a file is wrong usage, as for explain and sim"
else
    grep -q 'jansson\|hwloc' "$picture" || fail "topology: $(cat "$picture")"
fi
status=0
"$HOCKET_PROGRAM" info --settings --svg "$picture" >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "a picture of settings is wrong usage"
status=0
"$HOCKET_PROGRAM" info --topology --svg /no/such/folder/f >/dev/null 2>&1 || status=$?
[ "$status" = 1 ] || fail "a picture that cannot be written is an error"

status=0
"$HOCKET_PROGRAM" info --topology /no/such/file >/dev/null 2>&1 || status=$?
[ "$status" = 1 ] || fail "a file that is not there is an error"
status=0
"$HOCKET_PROGRAM" info --topology >/dev/full 2>"$picture" || status=$?
[ "$status" = 1 ] && grep -q 'standard output' "$picture" || fail "topology, to what is full: $(cat "$picture")"
status=0
"$HOCKET_PROGRAM" info --topology --json >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "a topology as JSON is wrong usage"
