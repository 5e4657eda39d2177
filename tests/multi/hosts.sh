# For tests over several hosts, which are network namespaces joined by a bridge. Sourced; needs root and iproute2, else the
# test is skipped. `hosts_make a b c` makes them: host number N (from 1) has eth0 with 10.91.0.N and fd91::N, and a bridge
# docker0 that leads nowhere, as containers have them. nodeN and sixN are names. Everything is removed at the end.
export PATH=$PATH:/usr/sbin:/sbin
tag=hk$$
hosts=()
failures=0
bad=no

hosts_skip() {
    echo "SKIPPED: $1"
    exit 77
}

hosts_remove() {
    local host
    for host in "${hosts[@]}"; do
        ip netns del "$tag$host" 2>/dev/null
        rm -rf "/etc/netns/$tag$host"
    done
    ip link del "${tag}br" 2>/dev/null
    rm -rf "$work"
}

# hosts_name HOST NUMBER COUNT: names, as on Debian, where a host's own leads to its loopback.
hosts_name() {
    local other
    mkdir -p "/etc/netns/$tag$1"
    {
        echo "127.0.0.1 localhost"
        for other in $(seq "$3"); do
            [ "$other" -eq "$2" ] && echo "127.0.1.1 node$other" || echo "10.91.0.$other node$other"
            echo "fd91::$other six$other"
        done
    } >"/etc/netns/$tag$1/hosts"
}

hosts_make() {
    local number=0 host
    [ "$(id -u)" -eq 0 ] && ip netns add "$tag$1" 2>/dev/null || hosts_skip "network namespaces cannot be made here"
    work=$(mktemp -d)
    hosts=("$@")
    trap hosts_remove EXIT
    ip link add "${tag}br" type bridge || hosts_skip "no bridge can be made here"
    ip link set "${tag}br" up
    for host in "$@"; do
        number=$((number + 1))
        [ "$host" = "$1" ] || ip netns add "$tag$host"
        ip link add "${tag}v$host" type veth peer name eth0 netns "$tag$host"
        ip link set "${tag}v$host" master "${tag}br" up
        ip -n "$tag$host" link set lo up
        ip -n "$tag$host" link set eth0 up
        ip -n "$tag$host" addr add "10.91.0.$number/24" dev eth0
        ip -n "$tag$host" addr add "fd91::$number/64" dev eth0 nodad
        ip -n "$tag$host" link add docker0 type bridge
        ip -n "$tag$host" addr add 172.30.0.1/24 dev docker0
        ip -n "$tag$host" link set docker0 up
        hosts_name "$host" "$number" $#
    done
}

# on HOST COMMAND…
on() {
    local host=$1
    shift
    ip netns exec "$tag$host" "$@"
}

# failed WHAT: shows the end of what was written.
failed() {
    failures=$((failures + 1))
    bad=yes
    printf 'FAILED: %s\n' "$1"
    tail -n 20 "$work"/out* "$work"/err* 2>/dev/null
}

# passed WHAT: unless something failed since the last one.
passed() {
    [ $bad = yes ] || echo "ok: $1"
    bad=no
}

# said FILE TEXT
said() {
    grep -q -- "$2" "$1" || failed "\"$2\" is not said in $(basename "$1")"
}

# start RANK RANKS HOST COMMAND…: a rank by HOCKET_RANK; its pid is added to `pids`. HOCKET_STORE says where to meet.
start() {
    local rank=$1 ranks=$2 host=$3
    shift 3
    HOCKET_RANK=$rank HOCKET_RANKS=$ranks on "$host" timeout 100 "$@" >"$work/out$rank" 2>"$work/err$rank" </dev/null &
    pids+=($!)
}

# until_said TEXT FILE…: waits until all say it.
until_said() {
    local text=$1
    shift
    for _ in $(seq 300); do
        [ "$(grep -l -- "$text" "$@" 2>/dev/null | wc -l)" -eq $# ] && return
        sleep 0.1
    done
    failed "not all say \"$text\""
}

hosts_key() {
    head -c 32 /dev/urandom >"$work/key"
    chmod 600 "$work/key"
    export HOCKET_KEY_FILE=$work/key
}

# hosts_rsh: a stand-in for ssh, by which `hocket run --hosts` reaches them: node2 and six2 are the second namespace.
hosts_rsh() {
    cat >"$work/rsh" <<SCRIPT
#!/bin/bash
name=\$1
shift
hosts=(- ${hosts[@]})
exec ip netns exec "$tag\${hosts[\${name: -1}]}" "\$@"
SCRIPT
    chmod +x "$work/rsh"
    export HOCKET_RSH=$work/rsh
}

# hosts_throttle RATE: what each host sends, by a token bucket. hosts_unthrottle: no more.
hosts_throttle() {
    local host
    for host in "${hosts[@]}"; do
        on "$host" tc qdisc add dev eth0 root tbf rate "$1" burst 256kb latency 400ms 2>"$work/tc" ||
            hosts_skip "no link can be throttled here: $(cat "$work/tc")"
    done
}

hosts_unthrottle() {
    local host
    for host in "${hosts[@]}"; do
        on "$host" tc qdisc del dev eth0 root
    done
}
