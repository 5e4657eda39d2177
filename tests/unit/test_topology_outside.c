/* Topologies from files and descriptions of other machines. */
#include "topo/found.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[] = "/tmp/hocket-topology-XXXXXX";

static int make_file(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void put_file(const char *text)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void need_hwloc(void)
{
    hki_topology *topology = NULL;
    if (hki_topology_load_synthetic("core:1 pu:1", &topology) == HK_ERR_UNSUPPORTED)
        skip();
    assert_non_null(topology);
    hki_topology_free(topology);
}

/* As lstopo writes it, cut down to what matters. */
static const char xml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology "
    "version=\"2.0\">\n"
    "<object type=\"Machine\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x2\" "
    "nodeset=\"0x20\" complete_nodeset=\"0x20\" allowed_nodeset=\"0x20\" gp_index=\"1\">\n"
    "<object type=\"Package\" os_index=\"0\" cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x20\" "
    "complete_nodeset=\"0x20\" gp_index=\"2\">\n"
    "<object type=\"NUMANode\" os_index=\"5\" cpuset=\"0x3\" complete_cpuset=\"0x3\" nodeset=\"0x20\" "
    "complete_nodeset=\"0x20\" gp_index=\"3\" local_memory=\"1073741824\"/>\n"
    "<object type=\"Core\" os_index=\"0\" cpuset=\"0x1\" complete_cpuset=\"0x1\" nodeset=\"0x20\" "
    "complete_nodeset=\"0x20\" gp_index=\"4\"><object type=\"PU\" os_index=\"0\" cpuset=\"0x1\" "
    "complete_cpuset=\"0x1\" nodeset=\"0x20\" complete_nodeset=\"0x20\" gp_index=\"5\"/></object>\n"
    "<object type=\"Core\" os_index=\"1\" cpuset=\"0x2\" complete_cpuset=\"0x2\" nodeset=\"0x20\" "
    "complete_nodeset=\"0x20\" gp_index=\"6\"><object type=\"PU\" os_index=\"1\" cpuset=\"0x2\" "
    "complete_cpuset=\"0x2\" nodeset=\"0x20\" complete_nodeset=\"0x20\" gp_index=\"7\"/></object>\n"
    "</object>\n</object>\n</topology>";

static void a_file_of_another_machine_can_be_read(void **state)
{
    (void)state;
    need_hwloc();
    put_file(xml);
    hki_topology *topology;
    assert_int_equal(hki_topology_load_xml(path, &topology), HK_OK);
    assert_int_equal(topology->core_count, 2);
    assert_int_equal(topology->package_count, 1);
    assert_int_equal(topology->numas[0].os, 5);
    assert_int_equal(topology->numas[0].bytes, 1073741824);
    assert_false(topology->pus[0].usable); /* allowed_cpuset */
    assert_true(topology->pus[1].usable);
    hki_topology_free(topology);
}

/* hwloc itself crashes on some of these. Each attribute in turn is misspelt. */
static void a_damaged_file_is_an_error_or_harmless(void **state)
{
    (void)state;
    need_hwloc();
    char damaged[sizeof xml];
    uint32_t refused = 0, all = 0;
    memcpy(damaged, xml, sizeof xml);
    for (char *at = strstr(strstr(damaged, "<object"), "=\""); at; at = strstr(at + 1, "=\"")) {
        char letter = at[-1];
        at[-1] = '_';
        put_file(damaged);
        at[-1] = letter;
        hki_topology *topology = NULL;
        hk_status status = hki_topology_load_xml(path, &topology);
        assert_true(status == HK_OK ? topology != NULL : status == HK_ERR_ARGUMENT || status == HK_ERR_UNSUPPORTED);
        refused += status != HK_OK;
        all++;
        hki_topology_free(topology);
    }
    assert_in_range(refused, 1, all - 1);
}

static hk_status crash(const char *from, hki_topology **topology)
{
    (void)from;
    *topology = NULL;
    abort();
}

static hk_status wait_for_ever(const char *from, hki_topology **topology)
{
    (void)from;
    *topology = NULL;
    while (pause() < 0)
        ;
    return HK_OK;
}

/* Whatever the library does that reads it. */
static void a_reader_that_crashes_or_hangs_is_an_error(void **state)
{
    (void)state;
    hki_topology *topology = NULL;
    assert_int_equal(hki_topology_load_apart(crash, "some.xml", 60, &topology), HK_ERR_ARGUMENT);
    assert_string_equal(hk_last_error(), "some.xml: the hwloc library cannot read it: it crashes");
    assert_int_equal(hki_topology_load_apart(wait_for_ever, "some.xml", 1, &topology), HK_ERR_ARGUMENT);
    assert_string_equal(hk_last_error(), "some.xml: the hwloc library cannot read it within 1 s");
    assert_int_equal(hki_topology_load_synthetic("package:2 core:5000 pu:2", &topology), HK_ERR_ARGUMENT);
    assert_non_null(strstr(hk_last_error(), "more than 8192"));
    assert_int_equal(hki_topology_load_synthetic("2 [numa(memory=9999999)] 5000 2", &topology), HK_ERR_ARGUMENT);
    assert_null(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_of_another_machine_can_be_read),
        cmocka_unit_test(a_damaged_file_is_an_error_or_harmless),
        cmocka_unit_test(a_reader_that_crashes_or_hangs_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_file, remove_file);
}
