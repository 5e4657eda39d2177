/* Steps of a graph that are ready at the same time start in program order, and so do graphs: a peer takes messages in
 * that order, and those that come before their time use up the credit of the one that it waits for. */
#include "exec/internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 6 };

/* Step 0 copies byte 0 of INPUT to byte 0 of OUTPUT and lets all others go; step k > 0 copies byte k to byte 1: which
 * of them came last can be seen there. */
static void fill(hki_bound *program, hki_bound_step *steps, hki_piece *pieces, uint32_t *successors)
{
    memset(steps, 0, STEPS * sizeof *steps);
    for (uint32_t i = 0; i < STEPS; i++) {
        pieces[2 * i] = (hki_piece){.offset = i > 0, .bytes = 1, .base = HKI_OUTPUT};
        pieces[2 * i + 1] = (hki_piece){.offset = i, .bytes = 1, .base = HKI_INPUT};
        steps[i] = (hki_bound_step){.verb = HKI_VERB_COPY,
                                    .bytes = 1,
                                    .destination = 2 * i,
                                    .destination_count = 1,
                                    .source = 2 * i + 1,
                                    .source_count = 1,
                                    .operands = 1,
                                    .waits = i > 0};
    }
    steps[0].successor_count = STEPS - 1;
    *program = (hki_bound){
        .step_count = STEPS, .piece_count = 2 * STEPS, .steps = steps, .pieces = pieces, .successors = successors};
}

/* Runs the program with the successors of step 0 listed in this order. */
static char last_of(uint32_t successors[STEPS - 1])
{
    hki_bound program;
    hki_bound_step steps[STEPS];
    hki_piece pieces[2 * STEPS];
    char input[STEPS + 1] = "012345", output[2] = "";
    hki_endpoint endpoint = {0};
    hki_engine engine;
    fill(&program, steps, pieces, successors);
    hki_engine_open(&engine, &endpoint, 1, 1);
    hki_task task = {.engine = &engine, .program = &program, .divisor = 1, .base = {input, output, NULL}};
    assert_int_equal(hki_task_start(&task), HK_OK);
    assert_true(task.ended);
    assert_int_equal(output[0], '0');
    hki_task_free_memory(&task);
    return output[1];
}

static void ready_steps_start_in_program_order(void **state)
{
    (void)state;
    assert_int_equal(last_of((uint32_t[]){1, 2, 3, 4, 5}), '5');
    assert_int_equal(last_of((uint32_t[]){5, 4, 3, 2, 1}), '5');
    assert_int_equal(last_of((uint32_t[]){3, 5, 1, 4, 2}), '5');
}

static void graphs_that_may_get_on_run_in_the_order_of_their_start(void **state)
{
    (void)state;
    static const uint32_t woken[] = {3, 0, 4, 4, 1, 2, 0};
    hki_engine engine;
    hki_task tasks[5];
    hki_engine_open(&engine, NULL, 1, 1);
    for (uint32_t i = 0; i < 5; i++) {
        tasks[i] = (hki_task){.engine = &engine, .number = i};
        hki_list_append(&engine.graphs, &tasks[i].node);
    }
    for (size_t i = 0; i < sizeof woken / sizeof *woken; i++)
        hki_task_wake(&tasks[woken[i]]);
    assert_true(hki_list_empty(&engine.graphs));
    uint64_t next = 0;
    hki_list_each (node, &engine.runnable)
        assert_int_equal(hki_list_entry(node, hki_task, node)->number, next++);
    assert_int_equal(next, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ready_steps_start_in_program_order),
        cmocka_unit_test(graphs_that_may_get_on_run_in_the_order_of_their_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
