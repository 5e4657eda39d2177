# shellcheck shell=bash
# Sourced by tests/vm/run: what a guest boots. A Debian kernel, which is only downloaded and unpacked, and an initial RAM
# file system of busybox, the verbs library with its Soft-RoCE provider, the tools that look at devices, and kernel
# modules. Both are kept in $cache.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
library_folder=lib/x86_64-linux-gnu # where Debian has the libraries of the only machine that there are guests of

guest_packages=(qemu-system-x86 busybox-static cpio kmod zstd python3 iproute2 ibverbs-providers ibverbs-utils)
guest_modules=(crc32_generic crc32_pclmul crc32c_generic virtio_pci virtio_net dummy veth rdma_rxe)
guest_tools=(rdma ip ibv_devinfo ibv_rc_pingpong)

# libraries_of FILE…: paths of the shared libraries that programs or libraries need.
libraries_of() {
    ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u
}

# add_libraries ROOT FILE…: copies what FILEs need into the file system ROOT.
add_libraries() {
    local root=$1 path
    shift
    mkdir -p "$root/$library_folder" || return 1
    for path in $(libraries_of "$@"); do
        cp -L "$path" "$root/$library_folder/" || return 1
    done
}

# pack ROOT FILE: an initial RAM file system of what is under ROOT. Not compressed: unpacking is the guest's work.
pack() {
    (cd "$1" && find . -mindepth 1 | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0) >"$2"
}

# find_package: sets $version and $kernel to what this Debian calls its newest kernel; one that is there already will do.
find_package() {
    local package
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-/ { print $2; exit }')
    version=${package#linux-image-}
    if [ -z "$version" ]; then
        version=$(basename "$(dirname "$(compgen -G "$cache/*/linux.deb" | tail -n 1)")")
    fi
    kernel=$cache/$version
    base=$kernel/base.cpio
    [ -n "$version" ] && [ "$version" != . ]
}

# download: gets the kernel's package.
download() {
    local folder=$kernel/download
    echo "downloading linux-image-$version"
    rm -rf "$kernel" && mkdir -p "$folder" &&
        (cd "$folder" && apt-get -qq -o APT::Sandbox::User=root download "linux-image-$version" >/dev/null) &&
        mv "$folder"/*.deb "$kernel/linux.deb" && rmdir "$folder"
}

# get_package: leaves it in $kernel/linux.deb. Where apt's lists are missing or old, they are fetched first.
get_package() {
    find_package && [ -s "$kernel/linux.deb" ] && return 0
    find_package && download && return 0
    refresh_packages && find_package && download
}

# add_busybox ROOT: a shell and its usual commands.
add_busybox() {
    local name
    cp /bin/busybox "$1/bin/" || return 1
    for name in $(/bin/busybox --list); do
        ln -s busybox "$1/bin/$name" 2>/dev/null # its list has itself
    done
    rm -f "$1/bin/ip" # iproute2's takes its place
}

# add_verbs ROOT: tools, the provider for Soft-RoCE, and where the verbs library looks for it.
add_verbs() {
    local root=$1 provider=usr/$library_folder/libibverbs name paths=()
    for name in "${guest_tools[@]}"; do
        paths+=("$(PATH=$PATH:/usr/sbin:/sbin command -v "$name")") || return 1
    done
    mkdir -p "$root/$provider" "$root/etc/libibverbs.d" &&
        cp -L "${paths[@]}" "$root/bin/" &&
        cp "/$provider"/librxe-rdmav*.so "$root/$provider/" &&
        cp /etc/libibverbs.d/rxe.driver "$root/etc/libibverbs.d/" &&
        add_libraries "$root" "${paths[@]}" "/$provider"/librxe-rdmav*.so &&
        cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/" &&
        cp -L "/$library_folder/libgcc_s.so.1" "$root/$library_folder/" # for threads that are cancelled
}

# add_modules ROOT UNPACKED: kernel modules in /modules, and the order to load them in.
add_modules() {
    local name path
    mkdir "$1/modules" && depmod -b "$2" "$version" || return 1
    for name in "${guest_modules[@]}"; do
        modprobe -d "$2" -S "$version" --show-depends "$name" || return 1
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r path; do
        cp "$path" "$1/modules/" && basename "$path" >>"$1/modules/order"
    done
    [ -s "$1/modules/order" ] && strip -g "$1"/modules/*.ko
}

# fill_base ROOT UNPACKED
fill_base() {
    mkdir -p "$1"/{bin,sbin,etc,proc,sys,dev,tmp,lib64,usr} && ln -s ../bin "$1/usr/bin" &&
        add_busybox "$1" && add_verbs "$1" && add_modules "$1" "$2" &&
        echo "127.0.0.1 localhost" >"$1/etc/hosts" &&
        printf '%s\n' root:x:0:0::/tmp:/bin/sh nobody:x:65534:65534::/tmp:/bin/sh >"$1/etc/passwd" &&
        install -m 755 "$here/guest/init" "$1/init"
}

# get_base: makes $kernel/vmlinux and $base, the part of the file system that is the same for all suites, unless they are
# there and new.
get_base() {
    local folder status
    [ -s "$base" ] && [ "$base" -nt "$here/image.sh" ] && [ "$base" -nt "$here/guest/init" ] && return 0
    folder=$(mktemp -d "$cache/base.XXXXXX") || return 1
    dpkg -x "$kernel/linux.deb" "$folder/unpacked" &&
        python3 -B "$here/vmlinux.py" "$folder/unpacked/boot/vmlinuz-$version" "$kernel/vmlinux" &&
        mkdir "$folder/root" && fill_base "$folder/root" "$folder/unpacked" &&
        pack "$folder/root" "$base.new" && mv "$base.new" "$base"
    status=$?
    rm -rf "$folder"
    return $status
}
