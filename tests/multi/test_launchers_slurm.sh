#!/bin/bash
# Ranks started by Slurm's srun, by PMIx and by PMI-2's server: a Slurm of one node that exists for this test only.
# Needs root, since munge and Slurm do, and the packages slurm-wlm and munge; without, it is skipped.
set -u
export PATH=$PATH:/usr/sbin:/sbin
if [ "$(id -u)" -ne 0 ] || ! command -v munged >/dev/null || ! command -v slurmctld >/dev/null; then
    echo "SKIPPED: srun is not tried, since $([ "$(id -u)" -ne 0 ] && echo 'this is not root' ||
        echo 'slurm-wlm and munge are not installed')"
    exit 77
fi
work=$(mktemp -d)
pids=()
# Processes that have a file of this test open: its daemons, and the steps of jobs, which end a little after those.
holders() {
    find /proc/[0-9]*/fd -lname "$work/*" 2>/dev/null | cut -d/ -f3 | sort -u
}
finish() {
    local _ pid
    for _ in $(seq 30); do
        [ "$(holders | wc -l)" -le ${#pids[@]} ] && break
        sleep 0.1
    done
    for pid in "${pids[@]}"; do
        kill "$pid" 2>/dev/null
    done
    for _ in $(seq 30); do
        [ -z "$(jobs -r)" ] && break
        sleep 0.1
    done
    for pid in "${pids[@]}" $(holders); do
        kill -KILL "$pid" 2>/dev/null
    done
    wait 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
ranks="$BUILD_DIR/tests/multi/test_contexts"
host=$(hostname -s)
chmod 755 "$work"
mkdir "$work/state" "$work/spool"
dd if=/dev/urandom of="$work/munge.key" bs=1024 count=1 status=none
chmod 600 "$work/munge.key"
base=$((20000 + RANDOM % 10000))

cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmdPort=$((base + 1))
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=$work/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SwitchType=switch/none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
export SLURM_CONF=$work/slurm.conf

# Started in the foreground, so that each can be ended by its own number.
munged --foreground --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed" --force >"$work/munged.out" 2>&1 &
pids+=($!)
for _ in $(seq 50); do
    [ -S "$work/munge.socket" ] && break
    sleep 0.1
done
slurmctld -D -f "$SLURM_CONF" -c >"$work/slurmctld.out" 2>&1 &
pids+=($!)
slurmd -D -f "$SLURM_CONF" >"$work/slurmd.out" 2>&1 &
pids+=($!)
for _ in $(seq 100); do
    [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break
    sleep 0.2
done
if [ "$(sinfo -h -o %T 2>/dev/null)" != idle ]; then
    echo "SKIPPED: Slurm does not start here:"
    tail -n 5 "$work"/*.log "$work"/*.out
    exit 77
fi

# libpmix 4.2 itself loses a few bytes, which the leak sanitizer would hold against the ranks.
echo 'leak:libpmix' >"$work/suppressions"
export LSAN_OPTIONS=suppressions=$work/suppressions:print_suppressions=0
failures=0
for mpi in pmix pmi2; do
    if ! srun --mpi=list 2>&1 | grep -qw $mpi; then
        echo "SKIPPED: this Slurm has no $mpi"
        continue
    fi
    if timeout 60 srun --mpi=$mpi -n 3 "$ranks" rank 3 >"$work/out" 2>"$work/err" </dev/null &&
        grep -q '3 ranks, three contexts' "$work/out" &&
        timeout 60 srun --mpi=$mpi -n 4 "$HOCKET_PROGRAM" bench allreduce --max 1K --check >"$work/out" 2>"$work/err" \
            </dev/null && grep -q '4 ranks' "$work/out" && grep -q yes "$work/out"; then
        echo "ok: srun --mpi=$mpi"
    else
        failures=$((failures + 1))
        echo "FAILED: srun --mpi=$mpi"
        tail -n 20 "$work/out" "$work/err"
        tail -n 5 "$work/slurmd.log"
    fi
done
# Slurm's variables alone are no place: each is rank 0 of 1.
if ! timeout 60 srun --mpi=none -n 2 "$ranks" alone >"$work/out" 2>&1 </dev/null; then
    failures=$((failures + 1))
    echo "FAILED: srun --mpi=none"
    tail -n 20 "$work/out"
fi
echo "$failures failed"
[ $failures -eq 0 ]
