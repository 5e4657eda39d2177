/*
 * Kinds of devices that the machines which build this do not have, over the fake libibverbs: InfiniBand, addressed by
 * LID, or by GID across subnets; several ports of one device; paging on demand; devices of another NUMA node. The fake
 * carries nothing that is addressed wrongly.
 */
#include "verbs_pair.h"

#include <sched.h>

static char settings[512];

/* The devices that there are, and what HOCKET_VERBS_DEVICE says. */
static void use(const char *devices, const char *chosen)
{
    assert_int_equal(setenv("FAKE_VERBS_DEVICES", devices, 1), 0);
    snprintf(settings, sizeof settings, VERBS_PAIR_LIBRARY "VERBS_REGISTER=256K VERBS_DEVICE=%s", chosen);
    verbs.settings = settings;
}

/* Frames, a put over all ports, a get: both ways. */
static bool talk_body(pair_end *end)
{
    enum { BYTES = 3 << 20 };
    unsigned char *memory = calloc(1, BYTES);
    hk_remote remote;
    hk_arrival arrival;
    CHECK(come_up(end));
    for (int writer = 0; writer < 2; writer++) {
        if (end->index != writer) {
            CHECK(be_written(end, memory, BYTES, &remote, &arrival) && arrival.frame.kind == 11);
            CHECK(memory[0] == 5 + writer && memory[BYTES - 1] == 5 + writer);
            end->ops->consume(end->link);
            end->ops->withdraw(end->link, &remote, false);
        } else {
            hk_frame frame = {.kind = 11};
            unsigned char *copy = malloc(BYTES);
            CHECK(hear_where(end, &remote));
            memset(memory, 5 + writer, BYTES);
            CHECK(end->ops->get(end->link, &remote, 0, copy, BYTES) == HK_TRANSPORT_OK && copy[BYTES - 1] == 0);
            CHECK(end->ops->put(end->link, &remote, 0, memory, BYTES, &frame) == HK_TRANSPORT_OK);
            CHECK(put_ends(end, 1) == HK_TRANSPORT_OK);
            free(copy);
        }
    }
    free(memory);
    return pair_meet(end);
}

static void talk(const char *devices, const char *chosen)
{
    use(devices, chosen);
    run(talk_body, false);
    run(talk_body, true);
}

static void infiniband_is_addressed_by_lid(void **state)
{
    (void)state;
    talk("mlx0/ib", "mlx0");
    talk("mlx0/ib,mlx1/ib", ""); /* a device for each rank, by turns */
}

static void infiniband_is_addressed_by_gid_across_subnets(void **state)
{
    (void)state;
    talk("mlx0/ib/subnet=1,mlx1/ib/subnet=2", "");
}

static void ports_of_one_device_share_large_messages(void **state)
{
    (void)state;
    talk("mlx0/ib/ports=2", "mlx0");
    talk("mlx0/ib/ports=2", "mlx0:2");
    talk("roce0/ports=2", "roce0:1,roce0:2");
    talk("roce0/ports=2", ""); /* a port for each rank */
}

/* What `open` reports: time for a byte over all ports, in picoseconds. */
static int byte_ps, want_ports;
static double latency_ns; /* and for a small message */

static bool rate_body(pair_end *end)
{
    if (end->index == 0) {
        byte_ps = (int)(end->limits.beta_ns * 1000 + 0.5);
        latency_ns = end->limits.alpha_ns;
    }
    CHECK(end->limits.capabilities & HK_TRANSPORT_COSTED);
    CHECK(end->limits.alpha_ns > 0);
    CHECK(end->address[1] == want_ports);
    return pair_meet(end);
}

static int rate_of(const char *devices, const char *chosen, int ports)
{
    want_ports = ports;
    use(devices, chosen);
    run(rate_body, false);
    return byte_ps;
}

static void a_port_reports_its_width_times_its_speed(void **state)
{
    (void)state;
    assert_int_equal(rate_of("a/width=2/speed=4", "a", 1), 200);         /* QDR: 4 × 10 Gbit/s */
    assert_int_equal(rate_of("a/width=2/speed=64", "a", 1), 38);         /* HDR: 4 × 53.125 */
    assert_int_equal(rate_of("a/width=16/speed=128", "a", 1), 38);       /* NDR, two lanes */
    assert_int_equal(rate_of("a/width=1/speed=1", "a", 1), 3200);        /* SDR, one lane */
    assert_int_equal(rate_of("a/width=2/speed=4/ports=2", "a", 2), 100); /* both ports together */
    assert_int_equal(rate_of("a/width=2/speed=77", "a", 1), 0);          /* a code that is not known yet */
}

/* Which device was taken shows in its latency. */
static bool near_is_taken(const char *first, const char *second)
{
    char devices[256];
    snprintf(devices, sizeof devices, "%s,%s", first, second);
    assert_int_equal(rate_of(devices, "", 1), 200);
    return latency_ns < 5e6;
}

static void the_device_of_the_own_numa_node_is_taken(void **state)
{
    (void)state;
    unsigned cpu, node;
    char near[64], far[64], devices[256];
    assert_int_equal(getcpu(&cpu, &node), 0);
    snprintf(near, sizeof near, "near/node=%u/width=2/speed=4", node);
    snprintf(far, sizeof far, "far/node=%u/width=2/speed=4/latency=10000000", node + 7);
    assert_true(near_is_taken(near, far));
    assert_true(near_is_taken(far, near));
    snprintf(devices, sizeof devices, "%s,%s", near, far);
    assert_int_equal(rate_of(devices, "far", 1), 200);
    assert_true(latency_ns >= 1e7);
    talk(devices, "");
}

/* Whoever has both takes InfiniBand, as everybody does then; of a kind, ranks take the fast ones by turns. */
static void infiniband_comes_before_roce_and_fast_before_near(void **state)
{
    (void)state;
    unsigned cpu, node;
    char devices[256];
    assert_int_equal(getcpu(&cpu, &node), 0);
    talk("mlx0/ib,roce0", "");
    assert_int_equal(rate_of("eth/width=2/speed=64,inf/ib/width=2/speed=4", "", 1), 200);
    assert_int_equal(rate_of("inf/ib/width=2/speed=4,eth/width=2/speed=64", "", 1), 200);
    snprintf(devices, sizeof devices, "slow/node=%u/width=1/speed=1,fast/node=%u/width=2/speed=4", node, node + 7);
    assert_int_equal(rate_of(devices, "", 1), 200);
    assert_int_equal(rate_of("a/width=2/speed=4,slow/width=1/speed=1,b/width=2/speed=4", "", 1), 200);
    assert_int_equal(rate_of("slow/width=1/speed=1,new/width=2/speed=77", "", 1), 0);
}

static void memory_for_one_message_is_not_pinned_where_pages_come_on_demand(void **state)
{
    (void)state;
    talk("pager/odp", "pager");
    assert_true(atomic_load(&faults->on_demand) > 0);
    atomic_store(&faults->on_demand, 0);
    talk("fake0", "fake0");
    assert_int_equal(atomic_load(&faults->on_demand), 0);
}

static void infiniband_does_not_reach_roce(void **state)
{
    (void)state;
    pair_end *ends = calloc(2, sizeof *ends);
    hk_link *link;
    for (int i = 0; i < 2; i++) {
        use("mlx0/ib,roce0", i == 0 ? "mlx0" : "roce0");
        ends[i].settings = settings;
        assert_true(pair_open(&ends[i], verbs.ops, i, 2, "auto"));
    }
    for (int i = 0; i < 2; i++) {
        const pair_end *other = &ends[1 - i];
        assert_int_equal(
            verbs.ops->connect(ends[i].transport, &other->self, other->address, other->address_bytes, &link),
            HK_ERR_UNSUPPORTED);
        assert_non_null(strstr(ends[i].error, "InfiniBand"));
    }
    for (int i = 0; i < 2; i++)
        verbs.ops->close(ends[i].transport, 0);
    free(ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(infiniband_is_addressed_by_lid, fabric_whole),
        cmocka_unit_test_setup(infiniband_is_addressed_by_gid_across_subnets, fabric_whole),
        cmocka_unit_test_setup(ports_of_one_device_share_large_messages, fabric_whole),
        cmocka_unit_test_setup(a_port_reports_its_width_times_its_speed, fabric_whole),
        cmocka_unit_test_setup(the_device_of_the_own_numa_node_is_taken, fabric_whole),
        cmocka_unit_test_setup(infiniband_comes_before_roce_and_fast_before_near, fabric_whole),
        cmocka_unit_test_setup(memory_for_one_message_is_not_pinned_where_pages_come_on_demand, fabric_whole),
        cmocka_unit_test_setup(infiniband_does_not_reach_roce, fabric_whole),
    };
    if (!fabric_there())
        return 77;
    setenv("HOCKET_TRANSPORT_PATH", HOCKET_BUILD "/lib/hocket", 1);
    return cmocka_run_group_tests_name("verbs_devices", tests, start, fabric_end);
}
