#include "sim/world.h"

#include <stdlib.h>

#include "base/error.h"
#include "sched/intervals.h"

/* Messages from one rank to another whose other ends have not been seen yet: all SENDs or all RECVs, oldest first,
 * linked by `match`. */
typedef struct channel {
    uint64_t key; /* sender and receiver; 0, which is nobody's: free */
    uint32_t first, last;
} channel;

/* Working memory while a world is made. */
typedef struct making {
    hki_sim_world *world;
    const hki_cluster *cluster;
    channel *channels; /* hash table; capacity is a power of two, at most half full */
    size_t channel_count, channel_capacity;
    uint32_t unmatched;
    uint64_t most_steps;
} making;

/* ---- channels ---- */

static channel *channel_place(channel *channels, size_t capacity, uint64_t key)
{
    size_t at = (size_t)((key * UINT64_C(0x9E3779B97F4A7C15)) >> 20) & (capacity - 1);
    while (channels[at].key && channels[at].key != key)
        at = (at + 1) & (capacity - 1);
    return &channels[at];
}

static bool grow_channels(making *make)
{
    size_t capacity = make->channel_capacity ? 2 * make->channel_capacity : 1024;
    channel *channels = calloc(capacity, sizeof *channels);
    if (!channels)
        return false;
    for (size_t i = 0; i < make->channel_capacity; i++)
        if (make->channels[i].key)
            *channel_place(channels, capacity, make->channels[i].key) = make->channels[i];
    free(make->channels);
    make->channels = channels;
    make->channel_capacity = capacity;
    return true;
}

/* NULL: out of memory. */
static channel *channel_of(making *make, uint32_t from, uint32_t to)
{
    if (2 * make->channel_count >= make->channel_capacity && !grow_channels(make))
        return NULL;
    uint64_t key = (uint64_t)from << 32 | to;
    channel *found = channel_place(make->channels, make->channel_capacity, key);
    if (!found->key) {
        *found = (channel){key, HKI_SIM_NO_STEP, HKI_SIM_NO_STEP};
        make->channel_count++;
    }
    return found;
}

static bool sends(const hki_sim_step *step)
{
    return step->verb == HKI_VERB_SEND;
}

/* Finds the other end of a message, or leaves this one to be found. Messages between two ranks match in order. */
static hk_status match_message(making *make, uint32_t rank, uint32_t index)
{
    hki_sim_step *steps = make->world->steps, *step = &steps[index];
    channel *way = sends(step) ? channel_of(make, rank, step->peer) : channel_of(make, step->peer, rank);
    if (!way)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to simulate %u ranks", make->world->ranks);
    uint32_t other = way->first;
    if (other == HKI_SIM_NO_STEP || sends(&steps[other]) == sends(step)) {
        step->match = HKI_SIM_NO_STEP;
        if (other == HKI_SIM_NO_STEP)
            way->first = index;
        else
            steps[way->last].match = index;
        way->last = index;
        make->unmatched++;
        return HK_OK;
    }
    if (steps[other].work != step->work)
        return hki_error(HK_ERR_INTERNAL,
                         "a message between ranks %u and %u has %llu bytes at one end, %llu at another", rank,
                         step->peer, (unsigned long long)make->world->works[step->work].bytes,
                         (unsigned long long)make->world->works[steps[other].work].bytes);
    way->first = steps[other].match;
    step->match = other;
    steps[other].match = index;
    make->unmatched--;
    return HK_OK;
}

/* ---- steps ---- */

/* The number of a work; HKI_SIM_NO_STEP: out of memory. The latest are looked at first: they repeat. */
static uint32_t work_of(hki_sim_world *world, uint64_t bytes, uint32_t operands)
{
    for (uint32_t i = world->work_count; i-- > 0;)
        if (world->works[i].bytes == bytes && world->works[i].operands == operands)
            return i;
    if (world->work_count >> 20)
        return HKI_SIM_NO_STEP;
    hki_sim_work *works = hki_grow(world->works, &world->work_capacity, world->work_count + UINT64_C(1), sizeof *works);
    if (!works)
        return HKI_SIM_NO_STEP;
    world->works = works;
    world->works[world->work_count] = (hki_sim_work){bytes, operands};
    return world->work_count++;
}

static hk_status no_memory(const hki_sim_world *world)
{
    return hki_error(HK_ERR_NO_MEMORY, "no memory to simulate %u ranks: %u steps so far", world->ranks,
                     world->step_count);
}

static hk_status reserve_for(making *make, const hki_bound *bound)
{
    hki_sim_world *world = make->world;
    if (world->step_count + (uint64_t)bound->step_count > make->most_steps)
        return hki_error(HK_ERR_COUNT, "more than %llu steps", (unsigned long long)make->most_steps);
    uint64_t links = world->successor_count, count = world->step_count + UINT64_C(1) + bound->step_count;
    for (uint32_t i = 0; i < bound->step_count; i++)
        links += bound->steps[i].successor_count;
    hki_sim_step *steps = hki_grow(world->steps, &world->step_capacity, count, sizeof *steps);
    world->steps = steps ? steps : world->steps;
    uint32_t *successors = hki_grow(world->successors, &world->successor_capacity, links + 1, sizeof *successors);
    world->successors = successors ? successors : world->successors;
    return steps && successors ? HK_OK : no_memory(world);
}

static hk_status add_step(making *make, uint32_t rank, const hki_bound *bound, const hki_bound_step *from)
{
    hki_sim_world *world = make->world;
    uint32_t base = world->first[rank], index = world->step_count;
    uint32_t work = work_of(world, from->bytes, from->verb == HKI_VERB_REDUCE ? from->operands : 1);
    if (work == HKI_SIM_NO_STEP)
        return no_memory(world);
    world->steps[index] = (hki_sim_step){.peer = from->peer,
                                         .match = HKI_SIM_NO_STEP,
                                         .successor = world->successor_count,
                                         .next = from->waits,
                                         .previous = HKI_SIM_NO_STEP,
                                         .work = work & 0xfffffu,
                                         .verb = from->verb & 7u};
    for (uint32_t i = 0; i < from->successor_count; i++)
        world->successors[world->successor_count++] = base + bound->successors[from->first_successor + i];
    world->step_count++;
    if (hki_sim_is_message(&world->steps[index])) {
        world->steps[index].link = hki_cluster_link(make->cluster, rank, from->peer) & 0xfu;
        return match_message(make, rank, index);
    }
    world->steps[index].peer = rank;
    return HK_OK;
}

static hk_status add_rank(making *make, uint32_t rank, const hki_bound *bound)
{
    hki_sim_world *world = make->world;
    uint64_t sent = 0;
    world->first[rank] = world->step_count;
    HK_TRY(reserve_for(make, bound));
    for (uint32_t i = 0; i < bound->step_count; i++) {
        HK_TRY(add_step(make, rank, bound, &bound->steps[i]));
        if (bound->steps[i].verb != HKI_VERB_SEND)
            continue;
        world->messages++;
        sent += bound->steps[i].bytes;
    }
    world->steps[world->step_count].successor = world->successor_count;
    world->first[rank + 1] = world->step_count;
    world->bytes += sent;
    if (world->busiest_bytes < sent)
        world->busiest_bytes = sent;
    return HK_OK;
}

static hk_status bind_rank(const hki_algorithm *algorithm, const hki_call *given, const hki_sizes *sizes, uint32_t rank,
                           hki_bound **bound)
{
    hki_call call = *given;
    call.rank = rank;
    call.in_place = HKI_SEPARATE;
    hki_schedule *schedule = NULL;
    HK_TRY(hki_algorithm_schedule(algorithm, &call, &schedule));
    hk_status status = hki_bind(schedule, sizes, bound);
    hki_schedule_free(schedule);
    return status;
}

static hk_status add_ranks(making *make, const hki_algorithm *algorithm, const hki_call *call, const hki_sizes *sizes)
{
    make->world->first = calloc((size_t)call->ranks + 1, sizeof *make->world->first);
    if (!make->world->first)
        return no_memory(make->world);
    for (uint32_t rank = 0; rank < call->ranks; rank++) {
        hki_bound *bound = NULL;
        HK_TRY(bind_rank(algorithm, call, sizes, rank, &bound));
        hk_status status = add_rank(make, rank, bound);
        hki_bound_free(bound);
        if (status != HK_OK)
            return status;
    }
    if (make->unmatched)
        return hki_error(HK_ERR_INTERNAL, "%u messages of %s among %u ranks have no counterpart", make->unmatched,
                         algorithm->name, call->ranks);
    return HK_OK;
}

hk_status hki_sim_world_make(const hki_cluster *cluster, const hki_algorithm *algorithm, const hki_call *call,
                             const hki_sizes *sizes, uint64_t most_steps, hki_sim_world *world)
{
    *world = (hki_sim_world){.ranks = call->ranks};
    making make = {
        .world = world, .cluster = cluster, .most_steps = most_steps < UINT32_MAX - 1 ? most_steps : UINT32_MAX - 1};
    hk_status status = add_ranks(&make, algorithm, call, sizes);
    free(make.channels);
    if (status != HK_OK)
        hki_sim_world_free(world);
    return status;
}

void hki_sim_world_free(hki_sim_world *world)
{
    free(world->first);
    free(world->steps);
    free(world->successors);
    free(world->works);
    *world = (hki_sim_world){0};
}

static uint64_t pieces(const hki_range *blocks)
{
    return blocks->run ? blocks->count / blocks->run : 0;
}

/* Steps of a schedule, and what its blocks add to them. */
static uint64_t effort(const hki_schedule *schedule)
{
    enum { PIECES_A_STEP = 8 };
    uint64_t sum = 0;
    for (uint32_t i = 0; i < schedule->step_count; i++)
        sum += pieces(&schedule->steps[i].source.blocks) / PIECES_A_STEP +
               pieces(&schedule->steps[i].destination.blocks) / PIECES_A_STEP;
    return schedule->step_count + sum;
}

hk_status hki_sim_world_estimate(const hki_algorithm *algorithm, const hki_call *given, uint64_t most, uint64_t *steps)
{
    enum { SAMPLES = 8 };
    uint64_t sum = 0, root = 0;
    uint32_t others = 0;
    hki_call call = *given;
    call.in_place = HKI_SEPARATE;
    for (uint32_t i = 0; i <= SAMPLES; i++) {
        call.rank = i == SAMPLES ? call.root : (uint32_t)((uint64_t)(call.ranks - 1) * i / (SAMPLES - 1));
        if (i < SAMPLES && call.rank == call.root)
            continue;
        hki_schedule *schedule = NULL;
        HK_TRY(hki_algorithm_schedule(algorithm, &call, &schedule));
        uint64_t found = effort(schedule);
        hki_schedule_free(schedule);
        if (i == SAMPLES) {
            root = found;
            break;
        }
        sum += found;
        others++;
        if (sum * (call.ranks - 1) / SAMPLES > most)
            break;
    }
    *steps = root + (others ? sum * (call.ranks - 1) / others : 0);
    return HK_OK;
}

uint32_t hki_sim_world_rank(const hki_sim_world *world, uint32_t step)
{
    uint32_t low = 0, high = world->ranks;
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (world->first[middle] <= step)
            low = middle;
        else
            high = middle;
    }
    return low;
}
