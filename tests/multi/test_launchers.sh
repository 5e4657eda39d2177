#!/bin/bash
# Ranks find each other however they were started: by Open MPI's mpirun (PMIx), MPICH's mpiexec (PMI-1), variables of
# Hocket's or of torchrun's, and over several hosts. And when they cannot, it is said who is missing, and why.
set -u
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
runs=0
ranks="$BUILD_DIR/tests/multi/test_contexts"
# Whoever runs this test may have been started by a launcher of some kind.
program=$HOCKET_PROGRAM
unset "${!PMI_@}" "${!PMIX_@}" "${!OMPI_@}" "${!HOCKET_@}" "${!SLURM_@}" RANK WORLD_SIZE MASTER_ADDR MASTER_PORT \
    2>/dev/null
export HOCKET_JOIN_TIMEOUT=60

failed() {
    failures=$((failures + 1))
    bad=yes
    printf 'FAILED: %s\n' "$1"
    tail -n 20 "$work"/out* "$work"/err* 2>/dev/null
}

# ok LABEL: unless something failed since the last one.
bad=no
ok() {
    [ $bad = yes ] || echo "ok: $1"
    bad=no
}

# job LABEL COMMAND…: three contexts in a row, of 3 ranks.
job() {
    local label=$1
    shift
    runs=$((runs + 1))
    rm -f "$work"/out* "$work"/err*
    timeout 90 "$@" >"$work/out" 2>"$work/err" </dev/null || failed "$label: exit status $?"
    grep -q '3 ranks, three contexts' "$work/out" || failed "$label: no word of rank 0"
    ok "$label"
}

# bench LABEL LAUNCHER…: 4 ranks of the benchmark.
bench() {
    local label=$1
    shift
    runs=$((runs + 1))
    timeout 90 "$@" "$program" bench allreduce --max 1K --check >"$work/out" 2>"$work/err" </dev/null ||
        failed "$label: exit status $?"
    grep -q '4 ranks' "$work/out" || failed "$label: not 4 ranks"
    grep -q 'yes' "$work/out" || failed "$label: nothing correct"
    ok "$label, bench"
}

# by_hand NAME PROGRAM…: starts 3 ranks, the last first, with variable NAME counting them.
by_hand() {
    local name=$1 pids=() status=0 rank
    shift
    rm -f "$work"/out* "$work"/err*
    for rank in 2 1 0; do
        env "$name=$rank" timeout 90 "$@" >"$work/out$rank" 2>"$work/err$rank" </dev/null &
        pids+=($!)
        sleep 0.1
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    return $status
}

# said LABEL FILE TEXT
said() {
    runs=$((runs + 1))
    grep -q -- "$3" "$2" || failed "$1: \"$3\" is not said"
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# libpmix 4.2 itself loses a few bytes, which the leak sanitizer would hold against the ranks.
echo 'leak:libpmix' >"$work/suppressions"
export LSAN_OPTIONS=suppressions=$work/suppressions:print_suppressions=0
mpirun=(mpirun.openmpi --allow-run-as-root --oversubscribe --mca oob_tcp_if_include lo)
if command -v mpirun.openmpi >/dev/null; then
    job "mpirun" "${mpirun[@]}" -np 3 "$ranks" rank 3
    bench "mpirun" "${mpirun[@]}" -np 4
    # Rank 2 never joins: the others name it.
    HOCKET_JOIN_TIMEOUT=1 timeout 60 "${mpirun[@]}" -np 3 \
        sh -c "[ \$PMIX_RANK = 2 ] && exec sleep 3; exec '$ranks' rank 3" >"$work/out" 2>"$work/err"
    said "mpirun without rank 2" "$work/err" 'rank 2 of 3 did not arrive'
else
    echo "SKIPPED: mpirun of Open MPI is not installed"
fi

if command -v mpiexec.mpich >/dev/null; then
    job "mpiexec of MPICH" mpiexec.mpich -n 3 "$ranks" rank 3
    bench "mpiexec of MPICH" mpiexec.mpich -n 4
    HOCKET_JOIN_TIMEOUT=1 timeout 60 mpiexec.mpich -n 3 \
        sh -c "[ \$PMI_RANK = 2 ] && exec sleep 3; exec '$ranks' rank 3" >"$work/out" 2>"$work/err"
    said "mpiexec without rank 2" "$work/err" 'some rank did not join'
else
    echo "SKIPPED: mpiexec of MPICH is not installed"
fi

# Beside an MPI that is initialised. Open MPI shares PMIx; MPICH keeps its connection to Hydra, so Hocket says what to do,
# and a unique id does it.
cat >"$work/beside.c" <<'PROGRAM'
#include <hocket/hocket.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    hk_comm *comm = NULL;
    hk_unique_id id;
    hk_options options = HK_OPTIONS_INIT;
    double mine, sums[2] = {0, 0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &options.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &options.ranks);
    mine = options.rank + 1;
    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        if (hk_init(&comm) != HK_OK && !strstr(hk_last_error(), "owns the connection"))
            return 1;
    }
    if (!comm) {
        if (options.rank == 1 && hk_unique_id_create(&id) != HK_OK)
            return 1;
        MPI_Bcast(&id, sizeof id, MPI_BYTE, 1, MPI_COMM_WORLD);
        options.id = &id;
        if (hk_comm_create(&options, &comm) != HK_OK) {
            fprintf(stderr, "%s\n", hk_last_error());
            return 1;
        }
    }
    MPI_Allreduce(&mine, &sums[0], 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (hk_allreduce(&mine, &sums[1], 1, HK_FLOAT64, HK_SUM, comm) != HK_OK || hk_comm_size(comm) != options.ranks)
        return 1;
    if (options.rank == 0)
        printf("MPI says %g, Hocket says %g\n", sums[0], sums[1]);
    hk_comm_free(comm);
    MPI_Finalize();
    return 0;
}
PROGRAM
# beside LABEL COMPILER LAUNCHER…
beside() {
    local label=$1 compiler=$2 how over
    shift 2
    command -v "$compiler" >/dev/null || return
    runs=$((runs + 1))
    "$compiler" "$work/beside.c" -I "$SOURCE_DIR/include" -L "$BUILD_DIR/lib" -Wl,-rpath,"$BUILD_DIR/lib" -lhocket \
        -o "$work/beside" >"$work/out" 2>"$work/err" || { failed "$label: does not build"; return; }
    for how in init id; do
        for over in shm tcp; do
            HOCKET_TRANSPORT=$over timeout 60 "$@" "$work/beside" $how >"$work/out" 2>"$work/err" </dev/null ||
                failed "$label, $how, $over: exit status $?"
            said "$label, $how, $over" "$work/out" 'MPI says 6, Hocket says 6'
        done
    done
    ok "$label"
}
if [ -e "$BUILD_DIR/lib/libhocket.so" ] && ! nm -D "$BUILD_DIR/lib/libhocket.so" | grep -Eq '__(asan|tsan|ubsan)'; then
    beside "beside Open MPI" mpicc.openmpi "${mpirun[@]}" -np 3
    beside "beside MPICH" mpicc.mpich mpiexec.mpich -n 3
fi

export HOCKET_RANKS=3
port=$(free_port)
export HOCKET_STORE=tcp://127.0.0.1:$port
runs=$((runs + 1))
by_hand HOCKET_RANK "$ranks" rank 3 || failed "HOCKET_STORE=$HOCKET_STORE"
said "HOCKET_STORE=tcp" "$work/out0" 'three contexts'
head -c 32 /dev/urandom >"$work/key"
chmod 600 "$work/key"
export HOCKET_STORE=tcp://$(hostname):$(free_port) HOCKET_KEY_FILE=$work/key
runs=$((runs + 1))
by_hand HOCKET_RANK "$ranks" rank 3 || failed "HOCKET_STORE=$HOCKET_STORE with a key"
# One rank with another key: it is turned away, and named as missing by the others.
head -c 32 /dev/urandom >"$work/key2"
chmod 600 "$work/key2"
runs=$((runs + 1))
HOCKET_JOIN_TIMEOUT=2 by_hand HOCKET_RANK sh -c \
    "[ \$HOCKET_RANK = 1 ] && export HOCKET_KEY_FILE=$work/key2; exec '$ranks' rank 3" && failed "another key joins"
said "another key" "$work/err1" 'turned this one down'
said "another key" "$work/err0" 'rank 1 of 3 did not arrive'
unset HOCKET_KEY_FILE
# Two processes of one rank: one of them is refused.
export HOCKET_STORE=tcp://127.0.0.1:$(free_port)
runs=$((runs + 1))
HOCKET_JOIN_TIMEOUT=2 by_hand HOCKET_RANK sh -c \
    "[ \$HOCKET_RANK = 2 ] && export HOCKET_RANK=1; exec '$ranks' rank 3" && failed "two of one rank join"
said "two of one rank" <(cat "$work"/err[12]) 'rank 1 has already joined'
said "two of one rank" "$work/err0" 'rank 2 of 3 did not arrive'
# Rank 0 dies while the others join: they say so, and not only that the store failed.
export HOCKET_STORE=tcp://127.0.0.1:$(free_port)
runs=$((runs + 1))
by_hand HOCKET_RANK sh -c "case \$HOCKET_RANK in 2) exit 1 ;; 0) exec timeout -s KILL 3 '$ranks' rank 3 ;; esac
    exec '$ranks' rank 3" && failed "rank 0 died, and nobody minds"
said "rank 0 died" "$work/err1" 'rank 1 of job hocket: the rank that serves the others ended'
# Beyond this machine without a key: refused, and the setting named.
HOCKET_RANK=0 HOCKET_STORE=tcp://0.0.0.0:$(free_port) timeout 60 "$ranks" rank 3 2>"$work/err" && failed "no key"
said "no key" "$work/err" HOCKET_KEY_FILE
# A link-local address means nothing without its interface.
HOCKET_JOIN_TIMEOUT=1 HOCKET_KEY=none HOCKET_RANK=1 HOCKET_STORE="tcp://[fe80::1]:$(free_port)" timeout 60 "$ranks" rank 3 \
    2>"$work/err" && failed "an address without its interface"
said "an address without its interface" "$work/err" 'needs its interface'
export HOCKET_STORE=file:$work/store
runs=$((runs + 1))
by_hand HOCKET_RANK "$ranks" rank 3 || failed "HOCKET_STORE=$HOCKET_STORE"
unset HOCKET_RANKS HOCKET_STORE
ok "HOCKET_RANK"

# As torchrun does, with its agent listening at MASTER_PORT, and someone else at the next.
python3 - >"$work/master" <<'PYTHON' &
import random, socket, time

def listen(port):
    s = socket.socket()
    s.bind(("127.0.0.1", port))
    s.listen()
    return s

while True:
    port = random.randrange(20000, 32000)
    try:
        held = listen(port), listen(port + 1)
        break
    except OSError:
        pass
print(port, flush=True)
time.sleep(60)
PYTHON
agent=$!
until [ -s "$work/master" ]; do
    sleep 0.1
done
master=$(cat "$work/master")
runs=$((runs + 1))
WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=$master by_hand RANK "$ranks" rank 3 || failed "torchrun's variables"
said "torchrun's variables" "$work/out0" 'three contexts'
kill $agent
# No room behind MASTER_PORT: HOCKET_PORT says where else.
runs=$((runs + 1))
export WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=65530
RANK=0 timeout 60 "$ranks" rank 3 2>"$work/err" && failed "MASTER_PORT=65530"
said "MASTER_PORT=65530" "$work/err" 'set HOCKET_PORT'
HOCKET_PORT=$(free_port) by_hand RANK "$ranks" rank 3 || failed "MASTER_PORT=65530 with HOCKET_PORT"
unset WORLD_SIZE MASTER_ADDR MASTER_PORT
# Three of the four are no place.
runs=$((runs + 1))
RANK=1 WORLD_SIZE=3 MASTER_ADDR=localhost timeout 60 "$ranks" alone 2>"$work/err" || failed "three of torchrun's four"
HOCKET_RANKS=3 HOCKET_LOG=warn timeout 60 "$ranks" alone 2>"$work/err" || failed "HOCKET_RANKS alone"
said "HOCKET_RANKS alone" "$work/err" 'HOCKET_RANKS is 3, but nothing says which'
SLURM_PROCID=1 SLURM_NTASKS=3 timeout 60 "$ranks" alone 2>"$work/err" || failed "Slurm's variables alone"
ok "RANK"

# Hosts that this machine only pretends to be: the command that "reaches" them gives each a name.
cat >"$work/rsh" <<'SCRIPT'
#!/bin/sh
export HOCKET_HOST="$1"
shift
exec "$@"
SCRIPT
chmod +x "$work/rsh"
run=("$program" run --rsh "$work/rsh" --hosts "localhost:2,127.0.0.1:1")
job "hocket run --hosts" "${run[@]}" -- "$ranks" rank 3
timeout 60 "${run[@]}" --tag-output -- sh -c 'echo "in $PWD"; exec sleep 0' >"$work/out" 2>"$work/err" ||
    failed "run --hosts echo"
said "output" "$work/out" "^\[2\] in $PWD"
# The key is on no command line, and in no environment.
timeout 60 "${run[@]}" -- sh -c 'cat /proc/[0-9]*/cmdline /proc/self/environ 2>/dev/null | tr "\0" "\n" |
    grep -cE "^(HOCKET_KEY=)?[0-9a-f]{64}$"' >"$work/out" 2>"$work/err"
runs=$((runs + 1))
grep -qv '^0$' "$work/out" && failed "the key shows: $(cat "$work/out")"
# A rank that dies ends the job on all hosts, and is named with its host.
runs=$((runs + 1))
timeout 60 "${run[@]}" -- sh -c '[ $HOCKET_HOST = 127.0.0.1 ] && sleep 0.3 && kill -9 $$; exec sleep 71.5' \
    >"$work/out" 2>"$work/err"
[ $? -eq 137 ] || failed "a death on another host: exit status"
said "a death" "$work/err" '127.0.0.1: rank 2 died: signal 9'
# And so does the end of the launcher, even when it is killed.
timeout 60 "${run[@]}" -- sleep 71.5 >"$work/out" 2>"$work/err" &
sleep 1
kill -KILL "$(pgrep -P $!)"
sleep 1
runs=$((runs + 1))
pgrep -f 'sleep 71[.]5' >/dev/null && failed "something is left after the launcher's death"
timeout 60 "$program" run --rsh false --hosts a:1,b:1 -- true 2>"$work/err"
said "a host that cannot be reached" "$work/err" 'host [ab] ended: exit status 1'
ok "hocket run --hosts"

# The same by the real ssh, with a server and keys for this test only.
if [ -x /usr/sbin/sshd ] && [ "$(id -u)" -eq 0 ] && command -v ssh >/dev/null; then
    port=$(free_port)
    ssh-keygen -q -t ed25519 -N '' -f "$work/host" && ssh-keygen -q -t ed25519 -N '' -f "$work/user"
    mkdir -p /run/sshd
    /usr/sbin/sshd -D -f /dev/null -h "$work/host" -p "$port" -o ListenAddress=127.0.0.1 -o UsePAM=no -o StrictModes=no \
        -o PermitRootLogin=yes -o AuthorizedKeysFile="$work/user.pub" -o PidFile=none >"$work/sshd" 2>&1 &
    server=$!
    sleep 0.5
    run=("$program" run --rsh "ssh -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null \
        -o LogLevel=ERROR -i $work/user -p $port" --hosts localhost:2,127.0.0.1:1)
    job "hocket run --hosts by ssh" "${run[@]}" -- "$ranks" rank 3
    timeout 60 "${run[@]}" -- sh -c 'echo "in $PWD"; exec sleep 71.5' >"$work/out" 2>"$work/err" &
    for _ in $(seq 50); do
        [ "$(grep -c "in $PWD" "$work/out")" -eq 3 ] && break
        sleep 0.1
    done
    said "ssh" "$work/out" "in $PWD"
    kill -KILL "$(pgrep -P $!)"
    sleep 1
    runs=$((runs + 1))
    pgrep -f 'sleep 71[.]5' >/dev/null && failed "something is left on the hosts after the launcher's death"
    kill $server
else
    echo "SKIPPED: ssh is not tried, since there is no sshd, or this is not root"
fi

echo "$runs checks, $failures failed"
[ $failures -eq 0 ]
