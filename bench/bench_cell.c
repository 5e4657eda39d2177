#include "bench/bench_cell.h"

#include <stdlib.h>
#include <string.h>

static const hki_bench_traits traits[] = {
#define HKI_X(NAME, name, input, output, rooted, reduces, uneven, in_place, bus)                                       \
    {#name, HKI_BENCH_##input, HKI_BENCH_##output, rooted, reduces, uneven, in_place, HKI_BENCH_##bus},
    HKI_BENCH_LIST(HKI_X)
#undef HKI_X
};

static const char *const type_names[] = {
#define HK_X(NAME, name, storage, bytes) #name,
    HK_TYPE_LIST(HK_X)
#undef HK_X
};

static const size_t type_bytes[] = {
#define HK_X(NAME, name, storage, bytes) bytes,
    HK_TYPE_LIST(HK_X)
#undef HK_X
};

static const char *const op_names[] = {
#define HK_X(NAME, name) #name,
    HK_OP_LIST(HK_X)
#undef HK_X
};

const hki_bench_traits *hki_bench_traits_of(hki_bench_kind kind)
{
    return &traits[kind];
}

int hki_bench_kind_find(const char *name)
{
    for (int i = 0; i < HKI_BENCH_COUNT; i++)
        if (strcmp(traits[i].name, name) == 0)
            return i;
    return -1;
}

bool hki_bench_is_message(hki_bench_kind kind)
{
    return kind == HKI_BENCH_SENDRECV || hki_bench_is_pair(kind);
}

bool hki_bench_is_pair(hki_bench_kind kind)
{
    return kind == HKI_BENCH_PINGPONG || kind == HKI_BENCH_STREAM;
}

static int find(const char *const *names, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

int hki_bench_type_find(const char *name)
{
    return find(type_names, HK_TYPE_COUNT, name);
}

int hki_bench_op_find(const char *name)
{
    return find(op_names, HK_OP_COUNT, name);
}

const char *hki_bench_type_name(hk_type type)
{
    return type < HK_TYPE_COUNT ? type_names[type] : "unknown";
}

const char *hki_bench_op_name(hk_op op)
{
    return op < HK_OP_COUNT ? op_names[op] : "unknown";
}

/* Are there blocks per rank, so that the whole is P shares? */
static bool is_shared_out(const hki_bench_traits *t, hki_bench_kind kind)
{
    return t->input == HKI_BENCH_SHARE || t->output == HKI_BENCH_SHARE || kind == HKI_BENCH_ALLTOALL ||
           kind == HKI_BENCH_ALLTOALLV;
}

/* Elements of the whole vector: at least one (a share) unless nothing was asked for. */
static uint64_t whole_elements(const hki_bench_request *request)
{
    const hki_bench_traits *t = &traits[request->kind];
    if (t->input == HKI_BENCH_NONE || request->bytes == 0)
        return 0;
    uint64_t elements = request->bytes / type_bytes[request->type];
    uint64_t unit = is_shared_out(t, request->kind) ? (uint64_t)request->ranks : 1;
    return elements < unit ? unit : elements / unit * unit;
}

uint64_t hki_bench_actual_bytes(const hki_bench_request *request)
{
    return whole_elements(request) * type_bytes[request->type];
}

/* Uneven shares: rank r gets r + 1 parts of 1 + 2 + … + P, the last one what is left. */
static uint64_t share_of(uint64_t whole, int rank, int ranks, bool uneven)
{
    if (!uneven)
        return whole / (uint64_t)ranks;
    uint64_t parts = (uint64_t)ranks * (uint64_t)(ranks + 1) / 2;
    uint64_t before = (uint64_t)rank * (uint64_t)(rank + 1) / 2;
    uint64_t begin = whole / parts * before + whole % parts * before / parts;
    uint64_t after = before + (uint64_t)rank + 1;
    uint64_t end = whole / parts * after + whole % parts * after / parts;
    return end - begin;
}

/* All-to-all: rank i and rank j exchange share (i + j) mod P, which is symmetric, as the in-place form demands. */
static bool set_counts(const hki_bench_request *request, uint64_t whole, hki_bench_cell *cell)
{
    size_t ranks = (size_t)request->ranks;
    cell->counts = (uint64_t *)calloc(2 * ranks, sizeof *cell->counts);
    if (cell->counts == NULL)
        return false;
    cell->displacements = cell->counts + ranks;
    uint64_t at = 0;
    for (int r = 0; r < request->ranks; r++) {
        int share = request->kind == HKI_BENCH_ALLTOALLV ? (request->rank + r) % request->ranks : r;
        cell->counts[r] = share_of(whole, share, request->ranks, request->uneven);
        cell->displacements[r] = at;
        at += cell->counts[r];
    }
    return true;
}

uint64_t hki_bench_block(const hki_bench_cell *cell, int from, int to, uint64_t *begin)
{
    if (cell->counts == NULL) {
        *begin = cell->count * (uint64_t)to;
        return cell->count;
    }
    /* counts holds share (rank + i) mod P at i, so share s is at (s − rank) mod P. */
    uint64_t at = 0;
    for (int r = 0; r <= to; r++) {
        uint64_t count = cell->counts[((from + r - cell->rank) % cell->ranks + cell->ranks) % cell->ranks];
        if (r == to) {
            *begin = at;
            return count;
        }
        at += count;
    }
    return 0;
}

static uint64_t elements_of(const hki_bench_cell *cell, hki_bench_extent extent, bool here, uint64_t whole)
{
    if (extent == HKI_BENCH_NONE || !here)
        return 0;
    if (extent == HKI_BENCH_WHOLE)
        return whole;
    return cell->counts != NULL ? cell->counts[cell->rank] : cell->count;
}

static bool input_here(const hki_bench_cell *cell, const hki_bench_traits *t)
{
    if (hki_bench_is_pair(cell->kind))
        return cell->rank == 0 || (cell->rank == 1 && cell->kind == HKI_BENCH_PINGPONG);
    return !t->rooted || t->reduces || t->input == HKI_BENCH_SHARE || cell->rank == cell->root;
}

static bool output_here(const hki_bench_cell *cell, const hki_bench_traits *t)
{
    if (hki_bench_is_pair(cell->kind))
        return cell->rank == 1 || (cell->rank == 0 && cell->kind == HKI_BENCH_PINGPONG);
    return !t->rooted || t->output == HKI_BENCH_SHARE || cell->rank == cell->root || cell->kind == HKI_BENCH_BROADCAST;
}

static void place_in_place(hki_bench_cell *cell, const hki_bench_traits *t, uint64_t whole)
{
    bool at_root = !t->rooted || cell->rank == cell->root;
    cell->shared = at_root;
    if (!at_root)
        return;
    uint64_t own = cell->counts != NULL ? cell->displacements[cell->rank] : cell->count * (uint64_t)cell->rank;
    cell->extent = whole;
    if (t->rooted && t->output == HKI_BENCH_SHARE) { /* scatter: the root's share stays where it lies */
        cell->recv_in_place = true;
        cell->output_at = own;
        return;
    }
    cell->send_in_place = true;
    if (t->input == HKI_BENCH_SHARE) /* gathers: the own share lies at its place in the result */
        cell->input_at = own;
}

bool hki_bench_cell_make(const hki_bench_request *request, hki_bench_cell *cell)
{
    const hki_bench_traits *t = &traits[request->kind];
    memset(cell, 0, sizeof *cell);
    cell->kind = request->kind;
    cell->type = request->type;
    cell->op = request->op;
    cell->rank = request->rank;
    cell->ranks = request->ranks;
    cell->root = request->root;
    cell->in_place = request->in_place && t->in_place;
    cell->element = type_bytes[request->type];

    uint64_t whole = whole_elements(request);
    cell->bytes = whole * cell->element;
    cell->count = is_shared_out(t, request->kind) ? whole / (uint64_t)request->ranks : whole;
    if (t->uneven) {
        if (!set_counts(request, whole, cell))
            return false;
        cell->count = cell->counts[cell->rank];
    }
    cell->input = elements_of(cell, t->input, input_here(cell, t), whole);
    cell->output = elements_of(cell, t->output, output_here(cell, t), whole);
    cell->extent = cell->input;
    if (cell->kind == HKI_BENCH_BROADCAST) {
        cell->shared = true;
        cell->extent = whole;
    } else if (cell->in_place) {
        place_in_place(cell, t, whole);
    }
    return true;
}

void hki_bench_cell_clear(hki_bench_cell *cell)
{
    free(cell->counts);
    cell->counts = cell->displacements = NULL;
}

double hki_bench_algorithm_bandwidth(const hki_bench_cell *cell, double microseconds)
{
    return microseconds > 0.0 ? (double)cell->bytes / microseconds * 1e-3 : 0.0;
}

double hki_bench_bus_bandwidth(const hki_bench_cell *cell, double microseconds)
{
    double bandwidth = hki_bench_algorithm_bandwidth(cell, microseconds);
    double others = (double)(cell->ranks - 1) / (double)cell->ranks;
    switch (traits[cell->kind].bus) {
    case HKI_BENCH_OTHERS:
        return bandwidth * others;
    case HKI_BENCH_BOTH_WAYS:
        return bandwidth * 2.0 * others;
    default:
        return bandwidth;
    }
}
