# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: a port that goes down in the midst of a job: its machine says so, the other one that the peer does not answer
# guests: 2
# seconds: 120
. /test/common.sh
make_peer 10.2.0.$((number + 1)) || exit 1
make_key
export HOCKET_RANKS=2 HOCKET_RANK="$number" HOCKET_STORE=tcp://10.2.0.1:7777

start_job() {
    hocket bench allreduce --min 64K --max 64K --seconds 60 >/tmp/job 2>&1 &
    job=$!
    patiently sent_more rxe0 200
}

# ended TEXT…: the job has failed, and its error has all the TEXTs.
ended() {
    wait "$job" && return 1
    cat /tmp/job
    for text in "$@"; do
        grep -q "^hocket: rank $number: .*$text" /tmp/job || return 1
    done
}

check "a job starts" start_job
if [ "$number" = 1 ]; then
    /bin/ip link set eth0 down
    check "the error names the device and its port" ended "rxe0 port 1"
else
    check "the error names the rank that does not answer" ended "rank 1 on" "rxe0 port 1"
fi
check "nothing is left of the device" left
finish
