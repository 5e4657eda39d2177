/* The benchmark's own arithmetic: statistics, cells, the serial reference, and the loop over a library that can lie. */
#include "bench/bench_loop.h"
#include "bench/bench_options.h"
#include "bench/bench_report.h"
#include "bench/bench_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define near(a, b) assert_true((a) - (b) < 1e-9 && (b) - (a) < 1e-9)

static hki_bench_cell cell_of(hki_bench_kind kind, hk_type type, hk_op op, int rank, int ranks, uint64_t bytes,
                              bool in_place)
{
    hki_bench_request request = {.kind = kind,
                                 .type = type,
                                 .op = op,
                                 .rank = rank,
                                 .ranks = ranks,
                                 .root = ranks - 1,
                                 .in_place = in_place,
                                 .uneven = true,
                                 .bytes = bytes};
    hki_bench_cell cell;
    assert_true(hki_bench_cell_make(&request, &cell));
    return cell;
}

static void quantiles_lie_between_neighbours(void **state)
{
    (void)state;
    double samples[] = {5.0, 1.0, 4.0, 2.0, 3.0};
    hki_bench_times times = hki_bench_summarise(samples, 5);
    near(times.min, 1.0);
    near(times.p50, 3.0);
    near(times.avg, 3.0);
    near(times.p99, 4.96);
    near(hki_bench_quantile(samples, 5, 0.0), 1.0);
    near(hki_bench_quantile(samples, 5, 1.0), 5.0);
    near(hki_bench_quantile(samples, 4, 0.5), 2.5);
}

static void summaries_of_few_samples_are_defined(void **state)
{
    (void)state;
    double one = 7.0;
    hki_bench_times times = hki_bench_summarise(&one, 1);
    near(times.min, 7.0);
    near(times.p99, 7.0);
    times = hki_bench_summarise(NULL, 0);
    near(times.p50, 0.0);
}

static void sizes_round_to_whole_shares(void **state)
{
    (void)state;
    const struct {
        hki_bench_kind kind;
        int ranks;
        uint64_t wanted, actual, count;
    } cases[] = {{HKI_BENCH_ALLREDUCE, 3, 8, 8, 2},        {HKI_BENCH_ALLREDUCE, 3, 2, 4, 1},
                 {HKI_BENCH_ALLGATHER, 3, 8, 12, 1},       {HKI_BENCH_ALLGATHER, 3, 1000, 996, 83},
                 {HKI_BENCH_REDUCE_SCATTER, 4, 64, 64, 4}, {HKI_BENCH_ALLTOALL, 4, 0, 0, 0},
                 {HKI_BENCH_BARRIER, 4, 64, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_bench_cell cell = cell_of(cases[i].kind, HK_FLOAT32, HK_SUM, 1, cases[i].ranks, cases[i].wanted, false);
        assert_int_equal(cell.bytes, cases[i].actual);
        assert_int_equal(cell.count, cases[i].count);
        hki_bench_cell_clear(&cell);
    }
}

static void uneven_shares_add_up_to_the_whole(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 9; ranks++) {
        hki_bench_cell cell = cell_of(HKI_BENCH_ALLGATHERV, HK_INT32, HK_SUM, 0, ranks, 4 * 997, false);
        uint64_t sum = 0;
        for (int r = 0; r < ranks; r++) {
            assert_int_equal(cell.displacements[r], sum);
            sum += cell.counts[r];
        }
        assert_int_equal(sum, cell.output);
        assert_int_equal(sum * 4, cell.bytes);
        hki_bench_cell_clear(&cell);
    }
}

static void bandwidths_follow_the_convention(void **state)
{
    (void)state;
    const struct {
        hki_bench_kind kind;
        double bus;
    } cases[] = {{HKI_BENCH_ALLREDUCE, 1.5}, {HKI_BENCH_ALLGATHER, 0.75}, {HKI_BENCH_REDUCE_SCATTER, 0.75},
                 {HKI_BENCH_ALLTOALL, 0.75}, {HKI_BENCH_BROADCAST, 1.0},  {HKI_BENCH_REDUCE, 1.0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hki_bench_cell cell = cell_of(cases[i].kind, HK_FLOAT32, HK_SUM, 0, 4, 4000, false);
        near(hki_bench_algorithm_bandwidth(&cell, 2.0), 2.0);
        near(hki_bench_bus_bandwidth(&cell, 2.0), 2.0 * cases[i].bus);
        hki_bench_cell_clear(&cell);
    }
}

/* Ranks 0 … P−1 of an all-reduce, done by hand in double, checked by the reference. */
static void reference_agrees_with_a_plain_sum(void **state)
{
    (void)state;
    enum { RANKS = 5, COUNT = 1500 };
    static float inputs[RANKS][COUNT], output[COUNT];
    for (int r = 0; r < RANKS; r++) {
        hki_bench_cell cell = cell_of(HKI_BENCH_ALLREDUCE, HK_FLOAT32, HK_SUM, r, RANKS, sizeof output, false);
        hki_bench_fill(&cell, 42, inputs[r]);
    }
    for (int i = 0; i < COUNT; i++) {
        double sum = 0.0;
        for (int r = 0; r < RANKS; r++)
            sum += (double)inputs[r][i];
        output[i] = (float)sum;
    }
    hki_bench_cell cell = cell_of(HKI_BENCH_ALLREDUCE, HK_FLOAT32, HK_SUM, 2, RANKS, sizeof output, false);
    hki_bench_wrong wrong;
    assert_true(hki_bench_check(&cell, 42, inputs[2], output, &wrong));
    assert_false(hki_bench_check(&cell, 43, inputs[2], output, &wrong));

    output[1234] += 1.0f;
    assert_false(hki_bench_check(&cell, 42, inputs[2], output, &wrong));
    assert_int_equal(wrong.index, 1234);
    assert_false(wrong.in_input);
    output[1234] -= 1.0f;
    inputs[2][7] += 1.0f;
    assert_false(hki_bench_check(&cell, 42, inputs[2], output, &wrong));
    assert_true(wrong.in_input);
    assert_int_equal(wrong.index, 7);
}

/* Blocks that went to the wrong place must not look right, whatever the type. */
static void exchanged_blocks_are_noticed(void **state)
{
    (void)state;
    enum { RANKS = 4, COUNT = 16 };
    for (hk_type type = 0; type < HK_TYPE_COUNT; type++) {
        unsigned char output[RANKS * COUNT * 8];
        uint64_t bytes = 0;
        for (int r = 0; r < RANKS; r++) {
            hki_bench_request request = {.kind = HKI_BENCH_ALLGATHER, .type = type, .rank = r, .ranks = RANKS};
            hki_bench_cell probe;
            request.bytes = 1 << 20;
            assert_true(hki_bench_cell_make(&request, &probe));
            request.bytes = RANKS * COUNT * probe.element;
            assert_true(hki_bench_cell_make(&request, &probe));
            bytes = COUNT * probe.element;
            hki_bench_fill(&probe, 1, output + (size_t)r * bytes);
        }
        hki_bench_cell cell = cell_of(HKI_BENCH_ALLGATHER, type, HK_SUM, 0, RANKS, RANKS * bytes, false);
        cell.input = 0;
        hki_bench_wrong wrong;
        assert_true(hki_bench_check(&cell, 1, NULL, output, &wrong));
        unsigned char block[COUNT * 8];
        memcpy(block, output, bytes);
        memcpy(output, output + bytes, bytes);
        memcpy(output + bytes, block, bytes);
        assert_false(hki_bench_check(&cell, 1, NULL, output, &wrong));
    }
}

static void all_to_all_blocks_are_symmetric(void **state)
{
    (void)state;
    enum { RANKS = 5 };
    for (int here = 0; here < RANKS; here++) {
        hki_bench_cell cell = cell_of(HKI_BENCH_ALLTOALLV, HK_INT32, HK_SUM, here, RANKS, 4000, false);
        for (int i = 0; i < RANKS; i++) {
            for (int j = 0; j < RANKS; j++) {
                uint64_t begin;
                assert_int_equal(hki_bench_block(&cell, i, j, &begin), hki_bench_block(&cell, j, i, &begin));
            }
            uint64_t begin;
            assert_int_equal(hki_bench_block(&cell, here, i, &begin), cell.counts[i]);
            assert_int_equal(begin, cell.displacements[i]);
        }
        hki_bench_cell_clear(&cell);
    }
}

/* ---- a library of one rank, honest or not -------------------------------------------------------------------- */

typedef struct fake {
    long calls;
    bool lies, fails;
} fake;

static int fake_call(void *context, const hki_bench_cell *cell, void *send, void *recv)
{
    fake *f = (fake *)context;
    f->calls++;
    if (f->fails)
        return 1;
    if (send != NULL && recv != NULL && send != recv)
        memcpy(recv, send, cell->output * cell->element);
    if (f->lies)
        *(unsigned char *)recv ^= 0xffu;
    return 0;
}

static int fake_barrier(void *context)
{
    (void)context;
    return 0;
}

static int fake_maximum(void *context, double *values, int count)
{
    (void)context;
    (void)values;
    (void)count;
    return 0;
}

static const char *fake_error(void *context)
{
    (void)context;
    return "made to fail";
}

static int measure(fake *f, long iterations, hki_bench_result *result)
{
    hki_bench_library library = {.name = "fake",
                                 .context = f,
                                 .ranks = 1,
                                 .call = fake_call,
                                 .barrier = fake_barrier,
                                 .maximum = fake_maximum,
                                 .error = fake_error};
    hki_bench_effort effort = {.box = 0.01, .iterations = iterations, .warmup = 0, .check = true};
    hki_bench_cell cell = cell_of(HKI_BENCH_ALLREDUCE, HK_FLOAT32, HK_SUM, 0, 1, 4096, false);
    hki_bench_buffers buffers;
    assert_true(hki_bench_buffers_make(&library, 4096, 4096, &buffers));
    int status = hki_bench_measure(&library, &cell, &effort, &buffers, result);
    hki_bench_buffers_free(&library, &buffers);
    return status;
}

static void honest_results_are_measured(void **state)
{
    (void)state;
    fake f = {0};
    hki_bench_result result;
    assert_int_equal(measure(&f, 0, &result), 0);
    assert_int_equal(result.correct, 1);
    assert_true(result.time.min > 0.0 && result.time.min <= result.time.p50 && result.time.p50 <= result.time.p99);
    assert_true(result.batch > 1); /* copying 4 KiB is far below the batch limit */
    assert_true(result.samples >= 3);
}

static void few_iterations_are_taken_exactly(void **state)
{
    (void)state;
    fake f = {0};
    hki_bench_result result;
    assert_int_equal(measure(&f, 3, &result), 0);
    assert_int_equal(result.samples * result.batch, 3);
    assert_int_equal(f.calls, 3 + 2); /* and a checked call before and after */
}

static void silenced(int (*what)(fake *, long, hki_bench_result *), fake *f, hki_bench_result *result, int expected)
{
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_non_null(freopen("/dev/null", "w", stderr));
    int status = what(f, 1, result);
    fflush(stderr);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_int_equal(status, expected);
}

static void wrong_results_are_noticed(void **state)
{
    (void)state;
    fake f = {.lies = true};
    hki_bench_result result;
    silenced(measure, &f, &result, 0);
    assert_int_equal(result.correct, 0);
}

static void failures_are_passed_on(void **state)
{
    (void)state;
    fake f = {.fails = true};
    hki_bench_result result;
    silenced(measure, &f, &result, 1);
}

static void size_texts_are_exact(void **state)
{
    (void)state;
    char text[32];
    hki_bench_size_text(64u << 20, text, sizeof text);
    assert_string_equal(text, "64M");
    hki_bench_size_text(1536, text, sizeof text);
    assert_string_equal(text, "1536");
    hki_bench_size_text(0, text, sizeof text);
    assert_string_equal(text, "0");
}

static void options_are_read(void **state)
{
    (void)state;
    char *arguments[] = {"bench", "allreduce", "--min", "64K", "-n", "4", "barrier", "--op", "max", "--check", NULL};
    hki_bench_options options;
    assert_true(hki_bench_options_parse(10, arguments, &options));
    assert_true(options.wanted[HKI_BENCH_ALLREDUCE] && options.wanted[HKI_BENCH_BARRIER]);
    assert_false(options.wanted[HKI_BENCH_BROADCAST]);
    assert_int_equal(options.min, 65536);
    assert_int_equal(options.ranks, 4);
    assert_int_equal(options.request.op, HK_MAX);
    assert_true(options.effort.check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_lie_between_neighbours),
        cmocka_unit_test(summaries_of_few_samples_are_defined),
        cmocka_unit_test(sizes_round_to_whole_shares),
        cmocka_unit_test(uneven_shares_add_up_to_the_whole),
        cmocka_unit_test(bandwidths_follow_the_convention),
        cmocka_unit_test(reference_agrees_with_a_plain_sum),
        cmocka_unit_test(exchanged_blocks_are_noticed),
        cmocka_unit_test(all_to_all_blocks_are_symmetric),
        cmocka_unit_test(honest_results_are_measured),
        cmocka_unit_test(few_iterations_are_taken_exactly),
        cmocka_unit_test(wrong_results_are_noticed),
        cmocka_unit_test(failures_are_passed_on),
        cmocka_unit_test(size_texts_are_exact),
        cmocka_unit_test(options_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
