#!/bin/bash
# CONTRIBUTING's "add a transport", followed to the letter against the installed package: a copy of the template passes
# the transports' suite and carries jobs, without a trace of it in the library. Then plug-ins that do not fit are refused,
# and the error says why.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOCKET=$SOURCE_DIR PREFIX=$work/prefix

fail() {
    echo "FAILED: $*"
    exit 1
}

# block N: the N-th shell block of the walk-through.
block() {
    awk -v wanted="$1" '/^## / { here = ($0 == "## Add a transport") }
        here && /^```sh$/ { number++; inside = 1; next }
        /^```$/ { inside = 0 }
        here && inside && number == wanted' "$SOURCE_DIR/CONTRIBUTING.md" | sed "s|\$HOCKET/build/dev|$BUILD_DIR|"
}

# follow N: runs it here; its exports stay.
follow() {
    local steps
    steps=$(block "$1")
    [ -n "$steps" ] || fail "CONTRIBUTING.md has no block $1"
    set -e
    eval "$steps" >"$work/log" 2>&1
    set +e
}

cmake --install "$BUILD_DIR" --prefix "$PREFIX" >"$work/log" || fail "install: $(cat "$work/log")"
PKG_CONFIG_PATH=$(dirname "$(find "$PREFIX" -name hocket.pc)")
libraries=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH PATH=$PREFIX/bin:$PATH
cd "$work" || exit 1
trap 'status=$?; [ $status -eq 0 ] || tail -n 60 "$work/log"; rm -rf "$work"' EXIT

follow 1
[ "$(nm -D --defined-only libhocket_transport_mine.so | wc -l)" -eq 1 ] || fail "a plug-in shows more than its table"
nm -D --undefined-only libhocket_transport_mine.so | grep -w 'hk[i]*_[a-z_]*' && fail "a plug-in needs the library"
follow 2
grep -q '4 ranks over mine' "$work/log" || fail "the job did not use the plug-in"
[ "$(grep -c ' yes$' "$work/log")" -ge 20 ] || fail "the job measured too little"
grep -q ' no$' "$work/log" && fail "wrong results"
echo "ok: walk-through"

# What the core's own tests do over shared memory works over a transport that hands payloads over by read.
for test in multi/test_point fault/test_lost; do
    HOCKET_TRANSPORT=mine "$BUILD_DIR/tests/$test" >"$work/log" 2>&1 || fail "$test over the plug-in"
done
echo "ok: messages, deaths"

# Pieces that the kernel takes in parts.
mkdir "$work/cut" && cp ./*.c ./*.h "$work/cut" || exit 1
sed -i 's/PIECE_BYTES = 32 << 10/PIECE_BYTES = 128 << 10/' "$work/cut/mine.h"
read -ra flags <<<"$(pkg-config --cflags hocket)"
# plugin FOLDER: builds the sources in it.
plugin() {
    cc -shared -fPIC -D_GNU_SOURCE "$1"/*.c "${flags[@]}" -o "$1/libhocket_transport_mine.so" || fail "cc in $1"
}
plugin "$work/cut"
HOCKET_TRANSPORT_PATH=$work/cut hocket run -n 3 hocket bench allreduce --transport mine --check --min 256K --max 4M \
    >"$work/log" 2>&1 || fail "pieces that are cut"
echo "ok: cut pieces"

# Installed, it is found without HOCKET_TRANSPORT_PATH, by the program and through the shared library.
follow 3
unset HOCKET_TRANSPORT_PATH
HOCKET_TRANSPORT=mine hocket run -n 2 hocket bench barrier >"$work/log" 2>&1 || fail "the installed plug-in is not found"
grep -q '2 ranks over mine' "$work/log" || fail "the job did not use the installed plug-in"
read -ra flags <<<"$(pkg-config --cflags --libs hocket)"
cc "$SOURCE_DIR/examples/hello.c" "${flags[@]}" -o "$work/hello" || fail "cc examples/hello.c"
HOCKET_TRANSPORT=mine HOCKET_LOG=info LD_LIBRARY_PATH=$libraries hocket run -n 2 "$work/hello" >"$work/log" 2>&1 ||
    fail "the shared library does not find the plug-in"
grep -q "transport mine comes from $libraries/hocket/libhocket_transport_mine.so" "$work/log" || fail "not said in the log"
echo "ok: installed"

# refused TEXT FOLDER NAME: a job with that transport fails, and says TEXT.
refused() {
    if HOCKET_TRANSPORT_PATH=$2 hocket run -n 2 hocket bench barrier --transport "$3" >"$work/log" 2>&1; then
        fail "$3 in $2 is accepted"
    fi
    grep -qF -- "$1" "$work/log" || fail "the error for $3 in $2 does not say: $1"
}

# spoil NAME SED: a copy of the plug-in that is changed by a sed script, in the folder NAME.
spoil() {
    mkdir "$work/$1" && cp ./*.c ./*.h "$work/$1" && sed -i "$2" "$work/$1/mine.c" || exit 1
    cmp -s mine.c "$work/$1/mine.c" && fail "nothing is spoilt in $1"
    plugin "$work/$1"
}

read -ra flags <<<"$(pkg-config --cflags hocket)"
spoil other 's/\.abi = HK_TRANSPORT_ABI/.abi = HK_TRANSPORT_ABI + 1/'
refused "$work/other/libhocket_transport_mine.so was compiled for version 2 of the transport interface; this library has version 1" \
    "$work/other" mine
spoil newer 's/\.size = sizeof(hk_transport_ops)/.size = sizeof(hk_transport_ops) + 8/'
refused "was compiled with a newer <hocket/transport.h>" "$work/newer" mine
spoil lacking '/\.consume = /d'
refused 'hk_transport_mine lacks the function "consume"' "$work/lacking" mine
spoil braggart 's/\.capabilities = HK_TRANSPORT_LOCAL/.capabilities = HK_TRANSPORT_MAP/'
refused 'but lacks the function "describe"' "$work/braggart" mine
spoil unnamed 's/hk_transport_mine = /hk_transport_yours = /'
refused "has no symbol hk_transport_mine" "$work/unnamed" mine
mkdir "$work/broken" && echo "no library" >"$work/broken/libhocket_transport_mine.so"
refused "transport mine does not load: " "$work/broken" mine
refused "libhocket_transport_absent.so is not in any of: $work/broken, $work/cut, " "$work/broken:$work/cut" absent
refused "is not the name of a transport" "$work/cut" ../mine
echo "ok: refused"
