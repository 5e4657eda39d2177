# shellcheck shell=dash source=tests/vm/guest/common.sh disable=SC2317
# shows: ranks that leave, that stop, and that never come: who is harmed, what is kept, who is named
# seconds: 240
. /test/common.sh
make_host 10.0.0.1 || exit 1

check "ranks may leave after their last collective; nothing is left, and waiting costs no CPU" test_leave
check "a stopped leaf costs no memory" env TEST_FILTER='*stopped_leaf*' test_in_flight
check "a missing rank is named through trees" env TEST_FILTER='*through_trees*' test_time_out
check "nothing is left of the device" left
finish
