/* NICs of made-up hosts. */
#include "topo/nics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/hocket-nics-XXXXXX";
static char path[300];

static const char *below_root(const char *name)
{
    snprintf(path, sizeof path, "%s%s", root, name);
    return path;
}

static void make_folders(void)
{
    static const char *const folders[] = {"/sys",
                                          "/sys/class",
                                          "/sys/class/net",
                                          "/sys/class/net/eth0",
                                          "/sys/class/net/eth1",
                                          "/sys/class/net/veth0",
                                          "/sys/class/net/ib0",
                                          "/sys/class/infiniband",
                                          "/sys/class/infiniband/mlx5_0",
                                          "/sys/class/infiniband/mlx5_0/ports",
                                          "/sys/class/infiniband/mlx5_0/ports/1"};
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        assert_int_equal(mkdir(below_root(folders[i]), 0700), 0);
}

static void put_file(const char *name, const char *text)
{
    FILE *file = fopen(below_root(name), "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    fclose(file);
}

static void put_device(const char *name, const char *target)
{
    assert_int_equal(symlink(target, below_root(name)), 0);
}

/* A card with a network and an RDMA side counts once, at the faster of what they say; an end of a virtual pair, and a
 * guest's device without a speed, do not count. */
static void nics_are_hardware_with_a_rate(void **state)
{
    (void)state;
    make_folders();
    hki_nics nics = hki_nics_find_below(root);
    assert_int_equal(nics.count, 1);
    assert_int_equal(nics.rate, 0);
    put_device("/sys/class/net/eth0/device", "../../../0000:01:00.0");
    put_file("/sys/class/net/eth0/speed", "25000");
    put_device("/sys/class/net/eth1/device", "../../../0000:02:00.0");
    put_file("/sys/class/net/eth1/speed", "-1");
    put_file("/sys/class/net/veth0/speed", "10000");
    put_device("/sys/class/net/ib0/device", "../../../0000:03:00.0");
    put_file("/sys/class/net/ib0/speed", "100000");
    put_device("/sys/class/infiniband/mlx5_0/device", "../../../0000:03:00.0");
    put_file("/sys/class/infiniband/mlx5_0/ports/1/rate", "200.5 Gb/sec (4X HDR)");
    nics = hki_nics_find_below(root);
    assert_int_equal(nics.count, 2);
    assert_int_equal(nics.rate, (UINT64_C(250) + 2005) * 12500000);
    char command[320];
    snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

static void a_host_without_any_has_one_of_unknown_rate(void **state)
{
    (void)state;
    hki_nics nics = hki_nics_find_below("/nonexistent");
    assert_int_equal(nics.count, 1);
    assert_int_equal(nics.rate, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics_are_hardware_with_a_rate),
        cmocka_unit_test(a_host_without_any_has_one_of_unknown_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
