# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: 2 and 4 ranks on one device: every algorithm, every type, much at once, 64 MiB in place
# seconds: 240
. /test/common.sh
make_host 10.0.0.1 || exit 1

# One process group runs all cells: starting a job takes longer than most of them.
check "every algorithm and type, 2 and 4 ranks" env CONFORMANCE_WAYS=emulated test_collectives
check "64 MiB in place" hocket bench allreduce -n 2 --in-place --min 64M --max 64M --iters 1 --warmup 0 --check
check "16 MiB in place, in memory from hk_alloc" \
    hocket bench allreduce -n 2 --alloc --in-place --min 16M --max 16M --iters 1 --warmup 0 --check
is_verbs && check "what messages cost" env HOCKET_VERBS_REGISTER=256K verbs_work
check "nothing is left of the device" left
finish
