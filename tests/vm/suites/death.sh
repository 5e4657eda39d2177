# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: ranks that are killed: the others say which one, their buffers are quiet, the device is freed
# seconds: 180
. /test/common.sh
make_host 10.0.0.1 || exit 1
ranks=4
victim=2

# A job whose ranks say their process's number, and then measure until one is killed.
start_job() {
    # shellcheck disable=SC2016
    hocket run -n "$ranks" --keep-going --tag-output -- sh -c 'echo "pid $$"; exec "$@"' sh \
        hocket bench allreduce --min 64K --max 64K --seconds 60 --progress >/tmp/job 2>&1 &
    job=$!
    patiently grep -q allreduce /tmp/job
}

uses_device() {
    [ "$(count qp)" -ge "$ranks" ] && [ "$(count mr)" -ge "$ranks" ]
}

is_named() {
    cat /tmp/job
    for rank in 0 1 3; do
        grep -q "^\[$rank\] hocket: rank $rank: .*rank $victim on" /tmp/job || return 1
    done
}

check "a job starts" start_job
is_verbs && check "it has queue pairs and memory registered" patiently uses_device
kill -9 "$(sed -n "s/^\[$victim\] pid //p" /tmp/job)"
wait "$job"
check "the others name the rank that was killed" is_named
check "nothing is left of the device" left
check "deaths, aborts and what survivors do then" env -u HOCKET_LOG test_lost
check "nothing is left of the device after those" left
finish
