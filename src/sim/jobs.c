/* What ranks do: a queue of messages' steps to be made for each, and one of what its core has to do beside that. */
#include <stdlib.h>

#include "sched/intervals.h"
#include "sim/engine_internal.h"

static uint32_t new_job(engine *run)
{
    uint32_t number = run->free_job;
    if (number != NONE) {
        run->free_job = run->jobs[number].next;
        return number;
    }
    job *jobs = hki_grow(run->jobs, &run->job_capacity, run->job_count + UINT64_C(1), sizeof *jobs);
    if (!jobs) {
        run->no_memory = true;
        return NONE;
    }
    run->jobs = jobs;
    return run->job_count++;
}

/* Begins with the first job of a list. */
static void start_job(engine *run, uint32_t rank, const list *jobs)
{
    const hki_sim_costs *costs = &run->sim->costs;
    const job *first = &run->jobs[jobs->head];
    const hki_sim_step *step = &run->steps[first->step];
    uint64_t ps = 0;
    if (first->kind == MAKE)
        ps = hki_sim_make_ps(costs, rank, step);
    else if (first->kind == REDUCE)
        ps = hki_sim_reduce_ps(costs, rank, step);
    else
        ps = hki_sim_move_ps(costs, rank, step);
    at(run, run->now + ps, jobs == &run->ranks[rank].posts ? POSTED : JOB_DONE, rank);
}

void hki_sim_job_add(engine *run, uint32_t rank, uint32_t step, job_kind kind)
{
    bool posts = kind == MAKE && hki_sim_is_message(&run->steps[step]);
    list *jobs = posts ? &run->ranks[rank].posts : &run->ranks[rank].jobs;
    uint32_t number = new_job(run);
    if (number == NONE)
        return;
    run->jobs[number] = (job){step, NONE, kind};
    if (jobs->tail != NONE)
        run->jobs[jobs->tail].next = number;
    jobs->tail = number;
    if (jobs->head != NONE)
        return;
    jobs->head = number;
    start_job(run, rank, jobs);
}

void hki_sim_job_next(engine *run, uint32_t rank, list *jobs)
{
    uint32_t number = jobs->head;
    jobs->head = run->jobs[number].next;
    if (jobs->head == NONE)
        jobs->tail = NONE;
    else
        start_job(run, rank, jobs);
    run->jobs[number].next = run->free_job;
    run->free_job = number;
}
