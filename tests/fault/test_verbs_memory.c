/*
 * Memory that the verbs transport registers, over the fake libibverbs: kept, for one message, refused; from which size
 * on it is worth it; and what is said of rings that cannot be.
 */
#include "verbs_pair.h"

/* ---- refused registrations ---- */

static bool refused_body(pair_end *end)
{
    enum { BYTES = 1 << 20 };
    unsigned char *memory = calloc(1, BYTES);
    hk_remote remote;
    uint32_t protocols = HK_TRANSPORT_PUT;
    CHECK(come_up(end));
    if (end->index == 0) {
        atomic_store(&faults->refuse_registrations, 2);
        CHECK(end->ops->describe(end->link, memory, BYTES, &remote, &protocols) == HK_TRANSPORT_REFUSED);
        atomic_store(&faults->refuse_registrations, 1000);
        CHECK(end->ops->register_memory(end->transport, memory, BYTES) == HK_ERR_NO_MEMORY);
        CHECK(strstr(end->error, "ulimit -l") != NULL && end->ops->alloc(end->transport, BYTES) == NULL);
        atomic_store(&faults->refuse_registrations, 0);
        CHECK(end->ops->register_memory(end->transport, memory, BYTES) == HK_OK);
        uint64_t registrations = count(end, "registrations");
        for (int i = 0; i < 3; i++) { /* what is kept is registered once */
            protocols = HK_TRANSPORT_PUT;
            CHECK(end->ops->describe(end->link, memory + 4096, 4096, &remote, &protocols) == HK_TRANSPORT_OK);
            end->ops->withdraw(end->link, &remote, false);
        }
        CHECK(count(end, "registrations") == registrations);
        end->ops->unregister_memory(end->transport, memory);
        protocols = HK_TRANSPORT_PUT;
        CHECK(end->ops->describe(end->link, memory, 4096, &remote, &protocols) == HK_TRANSPORT_REFUSED);
    }
    free(memory);
    return pair_meet(end);
}

static void a_refused_registration_leaves_another_way(void **state)
{
    (void)state;
    run(refused_body, false);
}

/* Whether the memory, which is too short to be registered for one message, is registered. */
static bool is_known(pair_end *end, const unsigned char *memory)
{
    hk_remote remote;
    uint32_t protocols = HK_TRANSPORT_PUT;
    if (end->ops->describe(end->link, memory, 4096, &remote, &protocols) != HK_TRANSPORT_OK)
        return false;
    end->ops->withdraw(end->link, &remote, false);
    return true;
}

/* Pages that two registrations share, the same address twice, nothing at all, and memory of the transport's own. */
static bool registrations_body(pair_end *end)
{
    enum { PAGE = 4096 };
    const hk_transport_ops *ops = end->ops;
    hk_transport *transport = end->transport;
    CHECK(come_up(end));
    if (end->index == 0) {
        unsigned char *memory = aligned_alloc(PAGE, 4 * PAGE), *own;
        int64_t before = atomic_load(&faults->regions);
        ops->unregister_memory(transport, memory);
        CHECK(ops->register_memory(transport, memory, PAGE + 100) == HK_OK);
        CHECK(ops->register_memory(transport, memory + PAGE + 104, 2 * PAGE) == HK_OK);
        ops->unregister_memory(transport, memory + PAGE + 104);
        CHECK(is_known(end, memory) && !is_known(end, memory + 2 * PAGE));
        ops->unregister_memory(transport, memory + 1); /* nobody registered that */
        CHECK(is_known(end, memory));
        ops->unregister_memory(transport, memory);
        CHECK(!is_known(end, memory) && atomic_load(&faults->regions) == before);

        CHECK(ops->register_memory(transport, memory, PAGE) == HK_OK);
        CHECK(ops->register_memory(transport, memory, 4 * PAGE) == HK_OK);
        CHECK(ops->register_memory(transport, memory, PAGE) == HK_OK);
        ops->unregister_memory(transport, memory);
        ops->unregister_memory(transport, memory);
        CHECK(is_known(end, memory) && !is_known(end, memory + 2 * PAGE));
        ops->unregister_memory(transport, memory);
        CHECK(atomic_load(&faults->regions) == before);

        /* A part of what is registered: it stays when the whole goes, and the rest does not. */
        CHECK(ops->register_memory(transport, memory, 4 * PAGE) == HK_OK);
        CHECK(ops->register_memory(transport, memory + PAGE, PAGE) == HK_OK);
        ops->unregister_memory(transport, memory);
        CHECK(is_known(end, memory + PAGE) && !is_known(end, memory) && !is_known(end, memory + 2 * PAGE));
        ops->unregister_memory(transport, memory + PAGE);
        CHECK(atomic_load(&faults->regions) == before);

        CHECK((own = ops->alloc(transport, 4 * PAGE)) != NULL);
        CHECK(ops->register_memory(transport, own + PAGE, PAGE) == HK_OK);
        ops->unregister_memory(transport, own + PAGE);
        CHECK(is_known(end, own + PAGE) && ops->free(transport, own) && atomic_load(&faults->regions) == before);
        free(memory);
    }
    return pair_meet(end);
}

static void registrations_end_one_by_one(void **state)
{
    (void)state;
    run(registrations_body, false);
}

/* ---- when registering pays ---- */

static uint64_t found_from;

static bool from_body(pair_end *end)
{
    if (end->index == 0)
        found_from = count(end, "register_from");
    return pair_meet(end);
}

/* From which size on, with a device and a setting. */
static uint64_t from_of(const char *settings)
{
    const char *before = verbs.settings;
    verbs.settings = settings;
    run(from_body, false);
    verbs.settings = before;
    return found_from;
}

/* Whether devices are told apart by what registering takes there. */
static bool dear_is_told_from_cheap(void)
{
    uint64_t cheap = from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=fake0"),
             dear = from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=dear"),
             both = from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=dear,fake0 VERBS_REGISTER=0"),
             late = from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=late");
    /* A put waits for an acknowledgement where a stream goes on. */
    return late > cheap && cheap < dear && cheap < both && dear != UINT64_MAX && both != UINT64_MAX && dear % 4096 == 0;
}

/* It is measured: on a busy machine once may not be enough. */
static void registering_pays_from_where_it_is_measured_to(void **state)
{
    enum { ATTEMPTS = 5 };
    (void)state;
    bool told = false;
    for (int attempt = 0; attempt < ATTEMPTS && !told; attempt++)
        told = dear_is_told_from_cheap();
    assert_true(told);
    assert_true(from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=endless") == UINT64_MAX);
    assert_int_equal(from_of(VERBS_PAIR_LIBRARY "VERBS_DEVICE=dear VERBS_REGISTER=12345"), 12345);
}

/* Bytes of fresh memory that can be described for one message. */
static bool edge_body(pair_end *end)
{
    uint64_t from = count(end, "register_from");
    unsigned char *memory = calloc(1, from);
    hk_remote remote;
    uint32_t protocols = HK_TRANSPORT_PUT;
    CHECK(come_up(end) && memory != NULL);
    CHECK(end->ops->describe(end->link, memory, from - 1, &remote, &protocols) == HK_TRANSPORT_REFUSED);
    protocols = HK_TRANSPORT_PUT;
    CHECK(end->ops->describe(end->link, memory, from, &remote, &protocols) == HK_TRANSPORT_OK);
    end->ops->withdraw(end->link, &remote, false);
    free(memory);
    return pair_meet(end);
}

static void smaller_messages_are_copied(void **state)
{
    (void)state;
    const char *before = verbs.settings;
    run(edge_body, false);
    verbs.settings = VERBS_PAIR_LIBRARY "VERBS_DEVICE=fake0"; /* measured */
    run(edge_body, false);
    verbs.settings = before;
}

/* ---- rings ---- */

static void a_ring_that_cannot_be_is_refused(void **state)
{
    (void)state;
    const char *const wrong[] = {"1", "20000", "16384000", "much"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char settings[512];
        snprintf(settings, sizeof settings, VERBS_PAIR_LIBRARY "VERBS_DEVICE=fake0 VERBS_RING=%s", wrong[i]);
        pair_end end = {.settings = settings};
        assert_false(pair_open(&end, verbs.ops, 0, 2, "auto"));
        assert_int_equal(end.status, HK_ERR_SETTING);
        assert_non_null(strstr(end.error, wrong[i]));
        assert_non_null(strstr(end.error, "HOCKET_VERBS_RING"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refused_registration_leaves_another_way, fabric_whole),
        cmocka_unit_test_setup(registrations_end_one_by_one, fabric_whole),
        cmocka_unit_test_setup(registering_pays_from_where_it_is_measured_to, fabric_whole),
        cmocka_unit_test_setup(smaller_messages_are_copied, fabric_whole),
        cmocka_unit_test_setup(a_ring_that_cannot_be_is_refused, fabric_whole),
    };
    if (!fabric_there())
        return 77;
    fabric_devices = "fake0,fake1,dear/register=2000000,endless/page=1000000,late/latency=3000000";
    setenv("HOCKET_TRANSPORT_PATH", HOCKET_BUILD "/lib/hocket", 1);
    return cmocka_run_group_tests_name("verbs_memory", tests, start, fabric_end);
}
