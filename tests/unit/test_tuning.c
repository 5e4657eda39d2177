/* Tuning files: written, read, refused, found; figures as bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "base/settings.h"
#include "cost/pack.h"
#include "cost/tuning.h"

static char folder[] = "/tmp/hocket-tuning-XXXXXX";
static char path[512];

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
    hki_settings_reset();
}

static int begin(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    set("XDG_CACHE_HOME", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static hki_tuning example(void)
{
    hki_tuning tuning = {.figures = hki_figures_built_in, .date = "2026-01-02T03:04:05Z"};
    tuning.figures.link[HKI_LINK_L3] = (hki_link_figures){.ranges = 2, .origin = HKI_TUNED};
    tuning.figures.link[HKI_LINK_L3].range[0] = (hki_range_figures){4096, 123456, 78910, 1112, 1314, false};
    tuning.figures.link[HKI_LINK_L3].range[1] = (hki_range_figures){UINT64_MAX, 2223334, 5556, 777, 0, true};
    tuning.figures.link[HKI_LINK_L3].bulk = (hki_bulk_figures){16 << 20, 64 << 20, 4321, 1234};
    tuning.figures.copy_far_ps = 23456;
    tuning.figures.copy_bulk_ps = 34567;
    tuning.figures.counts_ps = 345678;
    tuning.doubtful[HKI_LINK_HOST] = (hki_fit_quality){0.75, 4, 8};
    tuning.quality[HKI_LINK_L3][1] = (hki_fit_quality){0.25, 0.125, 9};
    tuning.figures.gamma_ps[HK_FLOAT64][HKI_OPS_COMPARE] = 4321;
    tuning.figures.reduce_origin = HKI_TUNED;
    tuning.figures.switch_ps = 987654;
    tuning.figures.host_origin = HKI_TUNED;
    return tuning;
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    hki_tuning made = example(), found;
    char id[HKI_MACHINE_BYTES];
    assert_true(hki_tuning_cache_path(path, sizeof path, true));
    assert_int_equal(hki_tuning_write(&made, path), HK_OK);
    assert_int_equal(hki_tuning_read(path, &found), HK_OK);
    hki_machine_id(id);
    assert_string_equal(found.machine, id);
    assert_string_equal(found.date, made.date);
    assert_memory_equal(&found.figures.link, &made.figures.link, sizeof made.figures.link);
    assert_memory_equal(&found.figures.gamma_ps, &made.figures.gamma_ps, sizeof made.figures.gamma_ps);
    assert_int_equal(found.figures.switch_ps, 987654);
    assert_int_equal(found.figures.counts_ps, 345678);
    assert_int_equal(found.figures.copy_far_ps, 23456);
    assert_int_equal(found.figures.copy_bulk_ps, 34567);
    assert_int_equal(found.figures.link[HKI_LINK_TCP].origin, HKI_BUILT_IN);
    assert_int_equal(found.quality[HKI_LINK_L3][1].samples, 9);
    assert_true(found.quality[HKI_LINK_L3][1].confidence == 0.125);
    assert_non_null(strstr(found.figures.source, made.date));
}

static void the_right_file_is_found(void **state)
{
    (void)state;
    hki_figures figures;
    set("HOCKET_TUNING", NULL);
    assert_int_equal(hki_tuning_find(&figures), HK_OK);
    assert_int_equal(figures.switch_ps, 987654); /* of the cache, from the test before */
    set("HOCKET_TUNING", "none");
    assert_int_equal(hki_tuning_find(&figures), HK_OK);
    assert_int_equal(figures.switch_ps, hki_figures_built_in.switch_ps);
    hki_tuning other = example();
    char named[600];
    snprintf(named, sizeof named, "%s/other.json", folder);
    strcpy(other.machine, "another");
    other.figures.switch_ps = 5;
    assert_int_equal(hki_tuning_write(&other, named), HK_OK);
    assert_int_equal(rename(named, path), 0); /* into the cache: another machine's is not used there */
    set("HOCKET_TUNING", NULL);
    assert_int_equal(hki_tuning_find(&figures), HK_OK);
    assert_int_equal(figures.switch_ps, hki_figures_built_in.switch_ps);
    set("HOCKET_TUNING", path); /* but when it is named */
    assert_int_equal(hki_tuning_find(&figures), HK_OK);
    assert_int_equal(figures.switch_ps, 5);
    set("HOCKET_TUNING", "/nonexistent/file.json");
    assert_int_equal(hki_tuning_find(&figures), HK_ERR_SETTING);
    assert_non_null(strstr(hk_last_error(), "/nonexistent/file.json"));
    set("HOCKET_TUNING", NULL);
}

static void nonsense_is_refused_by_name(void **state)
{
    (void)state;
#define HEAD "{\"format\": \"hocket-tuning-1\", \"machine\": \"m\", \"date\": \"d\", \"version\": \"v\""
#define RANGE "\"alpha_ps\": 1, \"beta_ps_per_kib\": 1, \"overhead_ps\": 1, \"core_ps_per_kib\": 1, \"rendezvous\": 0"
    static const char *const texts[][2] = {
        {"{}", "format"},
        {"{\"format\": \"hocket-tuning-9\"}", "format"},
        {"{\"format\": \"hocket-tuning-1\"}", "machine"},
        {"{\"format\": \"hocket-tuning-1\", \"machine\": \"m\", \"date\": \"\\u001b[2J\", \"version\": \"v\"}", "date"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{" RANGE "}], \"bulk\": {\"from\": 9, \"full\": 9,"
              " \"beta_ps_per_kib\": 1, \"core_ps_per_kib\": 1}}]}",
         "full"},
        {HEAD ", \"links\": \"zz\"}", "links"},
        {HEAD ", \"links\": {}}", "links"},
        {HEAD ", \"links\": [{\"class\": \"warp\"}]}", "class"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": []}]}", "ranges"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{" RANGE ", \"upto\": 5}]}]}", "upto"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{" RANGE "}, {" RANGE "}]}]}", "upto"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{\"alpha_ps\": -1}]}]}", "alpha_ps"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{\"alpha_ps\": 1.5}]}]}", "alpha_ps"},
        {HEAD ", \"links\": [{\"class\": \"tcp\", \"ranges\": [{" RANGE "}]},"
              "{\"class\": \"tcp\", \"ranges\": [{" RANGE "}]}]}",
         "\"tcp\" is there twice"},
        {HEAD ", \"gamma_ps_per_kib\": [{\"type\": \"float33\"}]}", "type"},
        {HEAD ", \"gamma_ps_per_kib\": \"fast\"}", "gamma_ps_per_kib"},
        {HEAD ", \"host\": {}}", "step_ps"},
        {HEAD ", \"host\": {\"step_ps\": 1, \"switch_ps\": 1125899906842624}}", "switch_ps"},
        {HEAD ", \"host\": {\"step_ps\": 1, \"switch_ps\": 1, \"memory_rate\": 1, \"nic_rate\": 0}}", "memory_rate"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        hki_tuning tuning;
        assert_int_equal(hki_tuning_parse(texts[i][0], strlen(texts[i][0]), "some.json", &tuning), HK_ERR_ARGUMENT);
        assert_non_null(strstr(hk_last_error(), "some.json"));
        assert_non_null(strstr(hk_last_error(), texts[i][1]));
    }
    hki_tuning tuning;
    assert_int_equal(hki_tuning_parse(HEAD "}", strlen(HEAD "}"), "some.json", &tuning), HK_OK);
}

static void packed_figures_come_out_again(void **state)
{
    (void)state;
    hki_figures figures = example().figures, once, twice;
    unsigned char packed[HKI_PACKED_FIGURES_MOST], again[HKI_PACKED_FIGURES_MOST];
    strcpy(figures.source, "a file");
    size_t bytes = hki_figures_pack(&figures, packed);
    assert_true(hki_figures_unpack(packed, bytes, &once));
    assert_int_equal(once.link[HKI_LINK_L3].range[0].alpha_ps, 123456);              /* what has 18 bits is kept, */
    assert_in_range(once.link[HKI_LINK_L3].range[1].alpha_ps, 2223334 - 8, 2223334); /* the rest nearly */
    assert_int_equal(once.link[HKI_LINK_L3].range[1].upto, UINT64_MAX);
    assert_string_equal(once.source, "a file");
    assert_int_equal(hki_figures_pack(&once, again), bytes); /* and nothing more is lost */
    assert_memory_equal(packed, again, bytes);
    assert_true(hki_figures_unpack(again, bytes, &twice));
    assert_memory_equal(&once.gamma_ps, &twice.gamma_ps, sizeof once.gamma_ps);
    for (size_t i = 0; i < bytes; i++) /* beginnings are refused */
        assert_false(hki_figures_unpack(packed, i, &twice));
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        figures.link[link].origin = HKI_TUNED;
        figures.link[link].ranges = HKI_FIGURE_RANGES;
    }
    memset(figures.source, 'x', sizeof figures.source - 1);
    assert_true(hki_figures_pack(&figures, packed) <= HKI_PACKED_FIGURES_MOST);
}

/* A build or a host without jansson says so; nothing to test then. */
static bool have_jansson(void)
{
    hki_json *made = NULL;
    hk_status status = hki_json_new(&made);
    if (status == HK_OK)
        hki_json_free(made);
    return status == HK_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(the_right_file_is_found),
        cmocka_unit_test(nonsense_is_refused_by_name),
        cmocka_unit_test(packed_figures_come_out_again),
    };
    return have_jansson() ? cmocka_run_group_tests(tests, begin, end) : 77;
}
