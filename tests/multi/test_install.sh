#!/bin/bash
# The installed package serves a program: the one in the README, by pkg-config against the shared and the static
# library, and by CMake; run alone and as 4 ranks by the installed launcher. The tree is moved first, since a package
# must not remember where it was built.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*"
    exit 1
}

cmake --install "$BUILD_DIR" --prefix "$work/first" >"$work/log" || fail "install: $(cat "$work/log")"
mv "$work/first" "$work/moved"
pc=$(find "$work/moved" -name hocket.pc)
[ -n "$pc" ] || fail "no hocket.pc is installed"
libraries=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=$libraries/pkgconfig
launcher=$work/moved/bin/hocket
"$launcher" --version >/dev/null || fail "the installed program does not run"

# The first C program of the README.
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$SOURCE_DIR/README.md" >"$work/program.c"
lines=$(wc -l <"$work/program.c")
[ "$lines" -ge 10 ] && [ "$lines" -le 20 ] || fail "the README's program has $lines lines, not 10 to 20"

# try NAME PROGRAM: alone, then as 4 ranks.
try() {
    local output
    output=$("$2") || fail "$1, alone: $output"
    grep -q 'rank 0 of 1' <<<"$output" || fail "$1, alone, prints: $output"
    output=$("$launcher" run -n 4 "$2") || fail "$1, 4 ranks: $output"
    [ "$(grep -c 'of 4: the sum is 10' <<<"$output")" -eq 4 ] || fail "$1, 4 ranks, prints: $output"
    echo "ok: $1"
}

cd "$work" || exit 1
read -ra flags <<<"$(pkg-config --cflags --libs hocket)"
cc program.c "${flags[@]}" -o shared || fail "cc program.c ${flags[*]}"
export LD_LIBRARY_PATH=$libraries
readelf -d shared | grep -q 'NEEDED.*libhocket.so.0' || fail "the program does not need libhocket.so.0"
try "pkg-config" ./shared

read -ra flags <<<"$(pkg-config --static --cflags --libs hocket)"
cc program.c "${flags[@]/-lhocket/-l:libhocket.a}" -o static || fail "cc, static: ${flags[*]}"
readelf -d static | grep -q libhocket && fail "the static program needs libhocket.so"
LD_LIBRARY_PATH='' try "pkg-config --static" ./static

for target in hocket hocket_static; do
    mkdir "cmake-$target"
    cp program.c "cmake-$target/"
    cat >"cmake-$target/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(user C)
find_package(hocket 0.1 REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE hocket::$target)
END
    { cmake -S "cmake-$target" -B "cmake-$target/build" -DCMAKE_PREFIX_PATH="$work/moved" &&
        cmake --build "cmake-$target/build"; } >log 2>&1 || fail "CMake, $target: $(cat log)"
    LD_LIBRARY_PATH='' try "CMake, hocket::$target" "cmake-$target/build/program"
done
