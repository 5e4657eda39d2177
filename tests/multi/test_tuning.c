/* Rank 0's figures are everybody's: a tuning file that only rank 0 sees changes all ranks' choices alike. */
#include "../support/ranks.h"

#include "base/json.h"
#include "base/settings.h"
#include "comm/inspect.h"
#include "cost/tuning.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { RANKS = 4, COUNT = 1024, NAME = 64 };

typedef struct job {
    hk_store *store;
    const char *tuning; /* what rank 0 is told */
    char names[RANKS][NAME];
} job;

static char file[] = "/tmp/hocket-tuning-XXXXXX";

/* Notes what serves an all-reduce of 4 KiB. */
static int note_choice(hk_comm *comm, int rank, void *argument)
{
    job *of = argument;
    static float in[COUNT], out[COUNT];
    hk_options options = ranks_join(rank, RANKS, of->store);
    setenv("HOCKET_TUNING", rank == 0 ? of->tuning : "none", 1);
    hki_settings_reset();
    EXPECT_OK(hk_comm_create(&options, &comm));
    in[0] = 1;
    EXPECT_OK(hk_allreduce(in, out, COUNT, HK_FLOAT32, HK_SUM, comm));
    EXPECT(out[0] == RANKS);
    snprintf(of->names[rank], NAME, "%s", hki_comm_last_algorithm(comm));
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void run(job *of, const char *tuning)
{
    const ranks_options options = {.no_context = true};
    of->tuning = tuning;
    assert_int_equal(ranks_run(RANKS, &options, note_choice, of), 0);
    ranks_store_clear(of->store);
    for (int rank = 1; rank < RANKS; rank++)
        assert_string_equal(of->names[rank], of->names[0]);
}

static void rank_0_decides_for_all(void **state)
{
    (void)state;
    /* What costs is bytes, and messages nothing: whole vectors are not sent to everyone. */
    hki_tuning tuning = {.figures = hki_figures_built_in};
    for (int link = 0; link <= HKI_LINK_LOOPBACK; link++)
        tuning.figures.link[link] = (hki_link_figures){
            .ranges = 1, .range = {{.upto = UINT64_MAX, .beta_ps = 1000000000}}, .origin = HKI_TUNED};
    tuning.figures.host_origin = HKI_TUNED;
    tuning.figures.switch_ps = 0;
    int descriptor = mkstemp(file);
    assert_true(descriptor >= 0);
    close(descriptor);
    assert_int_equal(hki_tuning_write(&tuning, file), HK_OK);
    job *of = ranks_shared(sizeof *of);
    char untuned[NAME];
    of->store = ranks_store_new();
    run(of, "none");
    snprintf(untuned, sizeof untuned, "%s", of->names[0]);
    run(of, file);
    assert_string_not_equal(of->names[0], untuned);
    ranks_store_free(of->store);
    unlink(file);
}

/* A build or a host without jansson reads no files. */
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(rank_0_decides_for_all)};
    return have_jansson() ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
