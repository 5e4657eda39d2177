/*
 * The builder: generators call it to write a schedule. It numbers messages, derives dependencies from the bytes that
 * steps touch (as aliased by in-place use), and owns the memory. Generators never number dependencies by hand.
 */
#ifndef HKI_SCHED_BUILDER_H
#define HKI_SCHED_BUILDER_H

#include <hocket/hocket.h>

#include "sched/ir.h"

typedef struct hki_builder hki_builder;

/* A group of ranks that a generator runs on: member i is rank first + i·stride, or map[i]. Generators know member
 * indices only. */
typedef struct hki_group {
    uint32_t size, rank; /* rank = this process's member index */
    uint32_t first, stride;
    const uint32_t *map; /* NULL: affine */
} hki_group;

static inline uint32_t hki_group_rank(const hki_group *group, uint32_t member)
{
    return group->map ? group->map[member] : group->first + member * group->stride;
}

/* A view of consecutive blocks of a buffer as `shares` shares, one a member: share i is blocks
 * [first + i·blocks_per_share, …), or [edges[i], edges[i+1]). In SCRATCH every block has a slot of its own, from `slot`
 * for the first block on, so that shares, segments and recuts of a scratch view are views as well. */
typedef struct hki_region {
    hki_buffer buffer;
    hki_buffer of;  /* whose grid the blocks are of (== buffer unless SCRATCH) */
    uint32_t slot;  /* SCRATCH: slot of the first block */
    uint32_t first; /* first block (edges[0] where there are edges) */
    uint32_t shares;
    uint32_t blocks_per_share;
    const uint32_t *edges; /* NULL: even; must live while the generator runs */
} hki_region;

/* What is built: the shape of one collective as the entry points know it. `segments` is the pipelining factor. A grid
 * whose blocks only pass through SCRATCH (an inner rank of a gather tree) is given although its buffer is unused. */
typedef struct hki_shape {
    hki_collective collective;
    uint32_t ranks, rank, root, segments;
    hki_grid grid[2];
    hki_alias alias;
} hki_shape;

/* The shape is copied, the edges of its grids included. NULL: out of memory. */
hki_builder *hki_builder_new(const hki_shape *shape);
/* Ends building: returns the schedule, or NULL and *status (HK_ERR_NO_MEMORY, HK_ERR_INTERNAL) when any call failed.
 * Frees the builder. */
hki_schedule *hki_builder_finish(hki_builder *builder, hk_status *status);
/* For whoever only looks at schedules, of one rank after the other: what has been built, but for its list of peers,
 * valid until the builder is renewed or freed; NULL and *status as of finish. renew() begins another schedule in the
 * same memory; false: out of memory, to be freed. */
const hki_schedule *hki_builder_view(const hki_builder *builder, hk_status *status);
bool hki_builder_renew(hki_builder *builder, const hki_shape *shape);
void hki_builder_free(hki_builder *builder);
/* For whoever asks what is sent to whom: the schedule that is about to be built gets neither dependencies nor ordinals,
 * which take most of the time. */
void hki_builder_loose(hki_builder *builder);
const hki_shape *hki_builder_shape(const hki_builder *builder);
/* For a generator that could not get memory for its own use: finish will return HK_ERR_NO_MEMORY. */
void hki_builder_no_memory(hki_builder *builder);

/* Regions. whole(): the buffer's whole grid as `shares` equal shares. */
hki_region hki_whole(const hki_builder *builder, hki_buffer buffer, uint32_t shares);
/* A new scratch region whose share i can hold what share i of `like` holds. */
hki_region hki_scratch_like(hki_builder *builder, const hki_region *like);
/* One new scratch slot; returns its number. Its size follows from its use. */
uint32_t hki_scratch_slot(hki_builder *builder);
/* `count` consecutive new slots; returns the number of the first. */
uint32_t hki_scratch_slots(hki_builder *builder, uint32_t count);

/* Spans of a region. */
hki_span hki_share(const hki_region *region, uint32_t share);
/* Shares first … first+count-1, wrapping round after the last: one span when contiguous modulo the region. */
hki_span hki_shares(const hki_region *region, uint32_t first, uint32_t count); /* first < shares, count <= shares */
/* Segment `segment` of `segments` of a share, consecutive blocks (the share's block count is a multiple of segments).
 */
hki_span hki_share_segment(const hki_region *region, uint32_t share, uint32_t segment, uint32_t segments);
/* Everything in the region. */
hki_span hki_all(const hki_region *region);
/* The same content as `span`, lying packed in a scratch slot. */
hki_span hki_in_slot(uint32_t slot, hki_span span);
/* The region as another number of equal shares (its block count must be a multiple). */
hki_region hki_recut(const hki_region *region, uint32_t shares);
/* Share i of a region as a region of its own with `shares` equal shares. */
hki_region hki_subregion(const hki_region *region, uint32_t share, uint32_t shares);

/* The five verbs. peer is a member index of group. finish marks the last writing of result blocks. */
void hki_send(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span source);
void hki_recv(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span destination);
void hki_recv_reduce(hki_builder *builder, const hki_group *group, uint32_t peer, hki_span destination, hki_span local,
                     bool incoming_left, bool finish);
void hki_copy(hki_builder *builder, hki_span destination, hki_span source, bool finish);
void hki_reduce(hki_builder *builder, hki_span destination, const hki_span *sources, uint32_t count, bool finish);

/* A dependency that bytes do not show: the next step (that one only) waits for all steps so far (barriers). */
void hki_fence(hki_builder *builder);
/* Limits in flight: the next step waits for the step `back` (≥ 1) steps earlier with the same verb (windows); for none
 * while there are fewer. */
void hki_window(hki_builder *builder, uint32_t back);

#endif
