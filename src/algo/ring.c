/* The ring, for reduce-scatter and all-gather: in every round each member sends one share to the next member. */
#include "algo/generators.h"

/* One segment's way round: its direction decides who is next and which share is due. */
typedef struct lane {
    uint32_t segment, next, previous;
    bool backwards;
} lane;

static lane find_lane(const hki_group *group, hki_ring ring, uint32_t segment)
{
    uint32_t ahead = hki_ahead(group->size, group->rank, 1), behind = hki_behind(group->size, group->rank, 1);
    bool backwards = ring.both && segment >= ring.segments / 2;
    return (lane){segment, backwards ? behind : ahead, backwards ? ahead : behind, backwards};
}

/* The share that starts `distance` members upstream of this one. */
static uint32_t upstream(const hki_group *group, const lane *way, uint32_t distance)
{
    return way->backwards ? hki_ahead(group->size, group->rank, distance)
                          : hki_behind(group->size, group->rank, distance);
}

/* Where the partial result received in a round lies. */
typedef struct partials {
    const hki_region *input, *output, *result;
    uint32_t rounds, segments, slots;
} partials;

static hki_span partial(const partials *where, uint32_t round, uint32_t share, uint32_t segment)
{
    if (round + 1 == where->rounds)
        return hki_share_segment(where->result, 0, segment, where->segments);
    if (where->output)
        return hki_share_segment(where->output, share, segment, where->segments);
    hki_span content = hki_share_segment(where->input, share, segment, where->segments);
    return hki_in_slot(where->slots + round % 2 * where->segments + segment, content);
}

/* Share s sets out from member s+1 and collects operands on its way to member s, where it is complete. Two scratch
 * shares suffice: what was received in one round is sent in the next, while the other takes what comes. */
void hki_ring_reduce_scatter(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *input,
                             const hki_region *output, const hki_region *result, bool finish)
{
    partials where = {input, output, result, group->size - 1, ring.segments, 0};
    if (group->size == 1)
        hki_place(builder, hki_all(result), hki_share(input, 0), finish);
    if (!output && group->size > 2)
        where.slots = hki_scratch_slots(builder, 2 * ring.segments);
    for (uint32_t round = 0; round < where.rounds; round++) {
        for (uint32_t segment = 0; segment < ring.segments; segment++) {
            lane way = find_lane(group, ring, segment);
            uint32_t share = upstream(group, &way, round + 1);
            hki_send(builder, group, way.next,
                     round == 0 ? hki_share_segment(input, share, segment, ring.segments)
                                : partial(&where, round - 1, share, segment));
        }
        for (uint32_t segment = 0; segment < ring.segments; segment++) {
            lane way = find_lane(group, ring, segment);
            uint32_t share = upstream(group, &way, round + 2);
            hki_recv_reduce(builder, group, way.previous, partial(&where, round, share, segment),
                            hki_share_segment(input, share, segment, ring.segments), way.previous < group->rank,
                            finish && round + 1 == where.rounds);
        }
    }
}

void hki_ring_allgather(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *own,
                        const hki_region *output)
{
    for (uint32_t round = 0; round + 1 < group->size; round++) {
        for (uint32_t segment = 0; segment < ring.segments; segment++) {
            lane way = find_lane(group, ring, segment);
            hki_send(builder, group, way.next,
                     round == 0 ? hki_share_segment(own, 0, segment, ring.segments)
                                : hki_share_segment(output, upstream(group, &way, round), segment, ring.segments));
        }
        if (round == 0)
            hki_place(builder, hki_share(output, group->rank), hki_all(own), false);
        for (uint32_t segment = 0; segment < ring.segments; segment++) {
            lane way = find_lane(group, ring, segment);
            uint32_t share = upstream(group, &way, round + 1);
            hki_recv(builder, group, way.previous, hki_share_segment(output, share, segment, ring.segments));
        }
    }
    if (group->size == 1)
        hki_place(builder, hki_share(output, 0), hki_all(own), false);
}

void hki_ring_allreduce(hki_builder *builder, const hki_group *group, hki_ring ring, const hki_region *input,
                        const hki_region *output, bool finish)
{
    hki_region own = hki_subregion(output, group->rank, 1);
    hki_ring_reduce_scatter(builder, group, ring, input, output, &own, finish);
    hki_ring_allgather(builder, group, ring, &own, output);
}
