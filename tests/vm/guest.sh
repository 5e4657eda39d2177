# shellcheck shell=bash
# Sourced by tests/vm/run: starting guests, and what became of them. Needs no KVM. Emulated, a message takes a millisecond:
# guests show that something is right, never how fast it is.

# boot NUMBER CPUS SECONDS SERIAL [QEMU ARGUMENT…]: runs a guest to its end; qemu's status, or timeout's. The clock is
# HPET's: the CPU's is set against it while the guest boots, and runs up to twice too fast when the host is busy then.
boot() {
    local number=$1 cpus=$2 seconds=$3 serial=$4
    shift 4
    timeout --foreground -k 5 "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -M pc -cpu max -smp "$cpus" \
        -m "$memory" -nodefaults -no-user-config -display none -no-reboot -kernel "$kernel/vmlinux" -initrd "$image" \
        -append "console=ttyS0 quiet panic=-1 mitigations=off clocksource=hpet number=$number $guest_environment" -serial "$serial" \
        -device isa-debug-exit,iobase=0x501,iosize=0x01 "$@"
}

# verdict STATUS: the status of the guest's script, from qemu's. 124: out of time; 125: the guest gave none.
verdict() {
    case $1 in 124 | 137) return 124 ;; esac
    if [ "$1" -ge 129 ] && [ "$1" -le 255 ] && [ $(($1 % 2)) -eq 1 ]; then
        return $((($1 - 1) / 2 - 64))
    fi
    return 125
}

# boot_one SECONDS LOG: a guest of two CPUs: with one, a process that polls holds up whoever would answer it.
boot_one() {
    boot 0 2 "$1" "file:$2"
    verdict $?
}

# boot_two SECONDS LOG: two guests on one virtual Ethernet; their outputs behind one another in LOG. The status is the
# first that is not 0. The Ethernet is a stream over a UNIX socket: one over TCP takes 47 ms for a round trip.
boot_two() {
    local seconds=$1 log=$2 socket=$work/ethernet first second server
    boot 0 1 "$seconds" "file:$log.0" -netdev "stream,id=net,server=on,addr.type=unix,addr.path=$socket" \
        -device virtio-net-pci,netdev=net,mac=52:54:00:00:00:01,romfile= &
    server=$!
    until [ -S "$socket" ] || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
    boot 1 1 "$seconds" "file:$log.1" -netdev "stream,id=net,server=off,addr.type=unix,addr.path=$socket" \
        -device virtio-net-pci,netdev=net,mac=52:54:00:00:00:02,romfile=
    verdict $?
    second=$?
    wait $server
    verdict $?
    first=$?
    rm -f "$socket"
    { sed 's/^/[guest 0] /' "$log.0" && sed 's/^/[guest 1] /' "$log.1"; } >"$log"
    [ $first -ne 0 ] && return $first
    return $second
}
