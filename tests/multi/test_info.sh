# hocket info: the listings are complete, and their JSON is JSON.
set -eu

fail() {
    echo "FAILED: $*"
    exit 1
}

"$HOCKET_PROGRAM" info | grep -q "^hocket  *$("$HOCKET_PROGRAM" --version | cut -d' ' -f2)$" || fail "version"
"$HOCKET_PROGRAM" info | grep -q "^kernels" || fail "kernels"
"$HOCKET_PROGRAM" info | grep -q '^network     lo 127.0.0.1: used' || fail "loopback"
HOCKET_INTERFACE=^lo "$HOCKET_PROGRAM" info | grep -q '^network     lo 127.0.0.1: skipped: HOCKET_INTERFACE' || fail "^lo"
HOCKET_INTERFACE=lo,nosuch7 "$HOCKET_PROGRAM" info |
    grep -q '^network     HOCKET_INTERFACE=lo,nosuch7 cannot be used: there are .*lo 127.0.0.1' || fail "a wrong name"

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
status=0
"$HOCKET_PROGRAM" info --topology /no/such/file >/dev/null 2>&1 || status=$?
[ "$status" = 1 ] || fail "a file that is not there is an error"
status=0
"$HOCKET_PROGRAM" info --topology --json >/dev/null 2>&1 || status=$?
[ "$status" = 2 ] || fail "a topology as JSON is wrong usage"
