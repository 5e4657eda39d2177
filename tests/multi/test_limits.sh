#!/bin/bash
# `hocket bench limits` measures every way that works here, with right results (a wrong one is null), and says so in JSON;
# `hocket bench kernels` measures the reductions, `hocket bench choosing` the choice of algorithms.
set -euo pipefail
"$HOCKET_PROGRAM" bench limits --json --bytes 8 --bytes 64K --bytes 1M --time 0.01 | python3 -c '
import json, sys
limits = json.load(sys.stdin)["limits"]
assert 1 < limits["handover_ns"] < 1e7, limits
assert 0.01 < limits["copy_gbs"] < 1e4, limits
cells = {cell["bytes"]: cell for cell in limits["cells"]}
assert sorted(cells) == [8, 65536, 1048576], cells
assert all(cell["slots_us"] > 0 for cell in cells.values()), cells
assert cells[8]["mapped_us"] is None and cells[8]["get_us"] is None, cells
assert cells[65536]["mapped_us"] > 0 and cells[1048576]["mapped_us"] > 0, cells
assert cells[8]["slots_us"] < cells[1048576]["slots_us"], cells
assert all(cell["tcp_us"] > 0 and cell["stream_us"] > 0 for cell in cells.values()), cells
'
"$HOCKET_PROGRAM" bench limits --json --bytes 64K --way tcp --way stream --time 0.01 | python3 -c '
import json, sys
(cell,) = json.load(sys.stdin)["limits"]["cells"]
assert cell["tcp_us"] > 0 and cell["stream_us"] > 0, cell
assert cell["slots_us"] is None and cell["get_us"] is None and cell["mapped_us"] is None, cell
'
if "$HOCKET_PROGRAM" bench limits --way wire 2>/dev/null; then
    echo "an unknown way was accepted"
    exit 1
fi
if "$HOCKET_PROGRAM" bench limits --bytes 2 2>/dev/null; then
    echo "a size below one element was accepted"
    exit 1
fi
"$HOCKET_PROGRAM" bench kernels --kernels reference --type int8 --op max --max 16K | grep "int8 max, reference kernels" >/dev/null
if "$HOCKET_PROGRAM" bench kernels --type foo 2>/dev/null; then
    echo "an unknown type was accepted"
    exit 1
fi
lines=$("$HOCKET_PROGRAM" bench choosing --hosts 2 --ranks 4 | grep -c "^[a-z_]* *8 *2 ")
if [ "$lines" -lt 16 ]; then
    echo "only $lines collectives have a line of what choosing takes"
    exit 1
fi
if "$HOCKET_PROGRAM" bench choosing --ranks 0 2>/dev/null; then
    echo "hosts without ranks were accepted"
    exit 1
fi
