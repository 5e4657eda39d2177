# Sourced by tests/run and bench/quickstart: Debian packages, of which only the missing ones are installed, unasked.

# What building the library and the program takes.
# shellcheck disable=SC2034
build_packages=(gcc libc6-dev cmake ninja-build pkg-config libhwloc-dev libibverbs-dev libjansson-dev libssl-dev python3)

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# refresh_packages: fetches the lists of what there is.
refresh_packages() {
    as_root apt-get -qq update >/dev/null
}

# need_packages NAME…: returns after all are installed; otherwise says which are missing and returns 1.
need_packages() {
    local missing=() name
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        echo "note: this is no Debian, so nothing is installed; what is needed: $*" >&2
        return 0
    fi
    for name in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null)" != installed ]; then
            missing+=("$name")
        fi
    done
    if [ ${#missing[@]} -eq 0 ]; then
        return 0
    fi
    echo "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    if refresh_packages &&
        as_root apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install "${missing[@]}" >/dev/null; then
        return 0
    fi
    echo "could not install ${missing[*]}" >&2
    return 1
}
