#!/bin/bash
# Every example runs to the end, alone and as 2 to 5 ranks; those that make their ranks themselves, alone. They check
# their results.
set -u
alone="threads processes"
failures=0
runs=0

# attempt LABEL COMMAND…: counts a failure, and shows what was printed.
attempt() {
    local label=$1 output
    shift
    runs=$((runs + 1))
    if ! output=$(timeout 60 "$@" 2>&1 </dev/null); then
        failures=$((failures + 1))
        printf 'FAILED: %s\n%s\n' "$label" "$output"
    fi
}

for source in "$SOURCE_DIR"/examples/*.c; do
    name=$(basename "$source" .c)
    program=$BUILD_DIR/bin/examples/$name
    attempt "$name alone" "$program"
    case " $alone " in *" $name "*) continue ;; esac
    for ranks in 2 3 4 5; do
        attempt "$name with $ranks ranks" "$HOCKET_PROGRAM" run -n $ranks -- "$program"
    done
done

# What hello prints, to the letter: examples that print nothing would pass everything above.
expected=$(printf 'rank %d of 3: the sum is 6\n' 0 1 2)
actual=$("$HOCKET_PROGRAM" run -n 3 -- "$BUILD_DIR/bin/examples/hello" | sort)
runs=$((runs + 1))
if [ "$actual" != "$expected" ]; then
    failures=$((failures + 1))
    printf 'FAILED: hello printed\n%s\n' "$actual"
fi
echo "$runs runs, $failures failed"
[ $failures -eq 0 ] && [ $runs -gt 10 ]
