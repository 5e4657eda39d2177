#!/bin/bash
# CONTRIBUTING's "add an algorithm", followed to the letter in a copy of the tree: the new algorithm is listed, verified
# and run. Then one of its sends is lost, and the verifier says so.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy=$work/copy
program=$work/build/bin/hocket
mkdir "$copy"
tar -C "$SOURCE_DIR" --exclude=./build --exclude=./.git -cf - . | tar -C "$copy" -xf - || exit 1

fail() {
    echo "FAILED: $*"
    exit 1
}

# block N: the N-th C block of the walk-through.
block() {
    awk -v wanted="$1" '/^## / { here = ($0 == "## Add an algorithm") }
        here && /^```c$/ { number++; inside = 1; next }
        /^```$/ { inside = 0 }
        here && inside && number == wanted' "$SOURCE_DIR/CONTRIBUTING.md"
}

build() {
    cmake --build "$work/build" --target hocket_program -j 2 >"$work/log" 2>&1 || fail "build: $(tail -n 30 "$work/log")"
}

block 1 >"$copy/src/algo/broadcast_star.c"
block 2 >>"$copy/src/algo/algos.def"
grep -q broadcast_star "$copy/src/algo/algos.def" || fail "CONTRIBUTING.md has no line for algos.def"
cmake -S "$copy" -B "$work/build" -G Ninja -DHOCKET_TESTS=OFF -DHOCKET_WERROR=ON -DCMAKE_C_FLAGS_RELEASE=-O0 \
    >"$work/log" 2>&1 || fail "configure: $(cat "$work/log")"
build
"$program" info --algorithms | grep -E '\bstar\b' || fail "the algorithm is not listed"
"$program" verify broadcast --algorithm star --ranks 7 || fail "the algorithm is not verified"
"$program" bench broadcast --algorithm star -n 3 --min 8 --max 64K --check || fail "the algorithm does not run"

sed -i 's/distance < call->ranks/distance + 1 < call->ranks/' "$copy/src/algo/broadcast_star.c"
build
if "$program" verify broadcast --algorithm star --ranks 7; then
    fail "the verifier accepts an algorithm that forgets a rank"
fi
echo "ok: listed, verified, run; refused when wrong"
