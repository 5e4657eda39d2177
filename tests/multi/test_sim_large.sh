# Simulations of 65,536 ranks, and of a ring of 4,096, within 8 GiB: by closed forms where there are some. They take a
# minute or two, so only tests/run --all has them; test_sim.sh has one of them.
set -eu
[ "${TESTS_ALL-}" = 1 ] || exit 77

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
ulimit -v 8388608

# simulate COLLECTIVE ALGORITHM HOSTS SEGMENTS FORM: FORM of P, α, β, γ (µs, and µs a byte), n and log, in Python; or of
# the time t, where there is no closed form.
simulate() {
    "$HOCKET_PROGRAM" sim "$1" --algorithm "$2" --hosts "$3" --ranks-per-host 8 --segments "$4" --bytes 64M \
        --figures textbook:2/0.1/0.05 --json found.json >/dev/null
    FORM=$5 HOSTS=$3 python3 - <<'EOF'
import json, os
from math import log2
with open("found.json") as file:
    one = json.load(file)["candidates"][0]
hosts, form = int(os.environ["HOSTS"]), os.environ["FORM"]
t = one["time_us"]
value = eval(form, {"P": 8 * hosts, "N": hosts, "n": 64 << 20, "a": 2, "b": 0.1e-3, "g": 0.05e-3, "log": log2, "t": t})
holds = value if isinstance(value, bool) else abs(t - value) <= 1e-3 * value
print(one["algorithm"], one["steps"], "steps:", t, "us;", form, "=", value)
assert holds, one
EOF
}

simulate allreduce recursive_doubling 8192 1 'log(P) * (a + n * (b + g))'
simulate broadcast binomial 8192 1 'log(P) * (a + n * b)'
simulate allreduce hierarchical 8192 1 \
    '14 * a + 14 / 8 * n * b + 7 / 8 * n * g + log(N) * (a + n / 8 * (b + g))'
# No rank sends or receives less than the vector twice in all; and pipelining must gain over whole vectors in a tree.
simulate allreduce double_tree 8192 16 '2 * n * b < t < log(P) * (a + n * (b + g))'
simulate allreduce ring 512 1 '2 * (P - 1) * a + 2 * (P - 1) / P * n * b + (P - 1) / P * n * g'
