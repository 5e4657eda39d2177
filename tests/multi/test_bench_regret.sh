# hocket bench --regret: every algorithm that can serve is measured and checked, the chosen one first, and what is said
# of them follows from their times.
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
    "$HOCKET_PROGRAM" bench --regret "$@" >out 2>err || status=$?
    [ "$status" = 2 ] || fail "hocket bench --regret $*: status $status, not 2"
    grep -qF -- "$word" err || fail "hocket bench --regret $*: no \"$word\" in: $(cat err)"
}

wrong --algorithm allreduce --algorithm ring
wrong pingpong pingpong
wrong 'two ranks' allreduce -n 1

for transport in shm tcp; do
    "$HOCKET_PROGRAM" bench --regret -n 2 --transport $transport --check --min 64 --max 2K --step 32 --iters 10 \
        --json $transport.json >$transport.txt 2>err || fail "$transport: $(cat err)"
    grep -q '^# regret over.*predicted / measured: median' $transport.txt && grep -q '^# simulated / measured: median' $transport.txt ||
        fail "$transport: the summary: $(tail -3 $transport.txt)"
done
"$HOCKET_PROGRAM" bench --regret allreduce reduce_scatter -n 3 --min 1K --max 1K --iters 10 --check --json three.json \
    --csv three.csv >three.txt 2>err || fail "three ranks: $(cat err)"
"$HOCKET_PROGRAM" info --algorithms >algorithms.txt
python3 - <<'PYTHON' || fail "the results"
import json
for name in ("shm", "tcp", "three"):
    cells = json.load(open(name + ".json"))["cells"]
    kinds = {cell["collective"] for cell in cells}
    assert name == "three" or len(kinds) == 16, kinds
    assert len({cell["state"] is None for cell in cells}) == 1, cells # told of all cells, or of none
    for cell in cells:
        candidates = cell["candidates"]
        chosen = candidates[0]
        assert cell["correct"] is True and cell["samples"] == 10, cell
        assert chosen["algorithm"] == cell["algorithm"] and cell["why"].startswith(cell["algorithm"]), cell
        assert cell["predicted_us"] > 0 and abs(cell["predicted_us"] - chosen["predicted_us"]) < 1e-3 * cell["predicted_us"]
        assert cell["simulated_us"] > 0, cell
        assert cell["state"] is None or cell["state"] > 0, cell # none where ranks share CPUs
        assert name == "three" or abs(cell["simulated_us"] / cell["predicted_us"] - 1) < 0.2, cell # the same rules
        assert len({(one["algorithm"], one["segments"]) for one in candidates}) == len(candidates), candidates
        assert cell["collective"] != "allreduce" or len(candidates) > 8, candidates
        for one in candidates:
            assert one["odd_us"] > 0 and one["low_us"] <= one["even_us"] <= one["high_us"], one
        best = min(candidates, key=lambda one: one["odd_us"])
        if best["high_us"] >= chosen["low_us"]:
            assert cell["best"] == cell["algorithm"] and cell["regret"] == 0, cell
        else:
            assert cell["best"] == best["algorithm"], cell
            assert abs(cell["regret"] - (chosen["even_us"] / best["even_us"] - 1)) < 1e-3 * (1 + cell["regret"]), cell
import csv
rows = list(csv.DictReader(open("three.csv")))
assert len(rows) == len(cells) == 2, (rows, cells) # of three ranks
for row, cell in zip(rows, cells):
    assert row["best"] == cell["best"] and abs(float(row["regret"]) - cell["regret"]) < 1e-3, (row, cell)
    best = [one for one in cell["candidates"] if one["algorithm"] == row["best"]]
    assert any(abs(float(row["best_us"]) / one["even_us"] - 1) < 1e-3 for one in best), (row, best)
    assert abs(float(row["predicted_us"]) / cell["predicted_us"] - 1) < 1e-3, (row, cell)
    assert (row["state"] == "") == (cell["state"] is None), (row, cell)
PYTHON
echo "regret: well"
