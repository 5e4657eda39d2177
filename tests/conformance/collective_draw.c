#include "collective_draw.h"

#include <string.h>

enum { LINE = 64 };

uint64_t draw(draw_source *source, uint64_t below)
{
    return values_noise(source->seed, 1, source->drawn++) % below;
}

bool draw_serves(const hki_algorithm *algorithm, int ranks, const hki_levels *levels, int op)
{
    bool prefix = algorithm->collective == HKI_COLL_SCAN || algorithm->collective == HKI_COLL_EXSCAN;
    hki_call call = {.collective = algorithm->collective,
                     .ranks = (uint32_t)ranks,
                     .segments = 1,
                     .commutative = values_op_commutes(op),
                     .levels = levels};
    return hki_algorithm_refuses(algorithm, &call) == NULL && !(prefix && op == HK_AVG);
}

static uint64_t draw_count(draw_source *source, int ranks, draw_size size, size_t element, size_t eager)
{
    uint64_t p = (uint64_t)ranks, line = element < LINE ? LINE / element : 1, edge = eager / element;
    switch (size) {
    case DRAW_NOTHING:
        return 0;
    case DRAW_ONE:
        return 1;
    case DRAW_BELOW_RANKS:
        return ranks > 2 ? 1 + draw(source, p - 1) : 1;
    case DRAW_AROUND_RANKS:
        return p + draw(source, 2 * p + 1);
    case DRAW_LINES:
        return line * (1 + draw(source, 2 * p)) + draw(source, 3) - 1;
    case DRAW_SMALL:
        return draw(source, 300);
    case DRAW_EAGER:
        return edge + draw(source, 5) - (edge >= 2 ? 2 : 0);
    case DRAW_SLOTS:
        return (70000 + draw(source, 230000)) / element;
    default:
        return ((1 << 20) + 1 + draw(source, 1 << 20)) / element;
    }
}

/* Per-rank counts: some zero, some near one another, one sometimes far larger. */
static void draw_counts(draw_source *source, call_case *drawn)
{
    int ranks = drawn->values.ranks;
    bool symmetric = drawn->form != CALL_SEPARATE;
    int rows = drawn->algorithm->collective == HKI_COLL_ALLTOALLV ? ranks : 1;
    for (int from = 0; from < rows; from++) {
        for (int to = 0; to < ranks; to++) {
            uint64_t *count = &drawn->counts[from][to];
            if (rows > 1 && symmetric && to < from)
                *count = drawn->counts[to][from];
            else
                *count = draw(source, 4) == 0 ? 0 : draw(source, drawn->count + 1);
        }
    }
}

void draw_case_of(draw_source *source, const hki_algorithm *algorithm, int ranks, uint32_t segments, draw_size size,
                  size_t eager, hk_type type, int op, call_case *drawn)
{
    hki_collective collective = algorithm->collective;
    memset(drawn, 0, sizeof *drawn);
    drawn->algorithm = algorithm;
    drawn->segments = segments;
    drawn->values = (values_of){.seed = values_noise(source->seed, 2, source->drawn),
                                .type = type,
                                .op = op,
                                .reduces = hki_collective_reduces(collective),
                                .ranks = ranks};
    drawn->form = (call_form)draw(source, CALL_FORMS);
    drawn->root = call_is_rooted(collective) ? (int)draw(source, (uint64_t)ranks) : 0;
    drawn->blocking = draw(source, 2) != 0;
    drawn->displaced = draw(source, 2) != 0;
    drawn->count = draw_count(source, ranks, size, hk_type_size(type), eager);
    if (call_varies(collective))
        draw_counts(source, drawn);
}

static hk_type draw_type(draw_source *source)
{
    static const hk_type odd[] = {HK_OPAQUE(1), HK_OPAQUE(3), HK_OPAQUE(24), HK_OPAQUE(100)};
    uint64_t which = draw(source, HK_TYPE_COUNT + sizeof odd / sizeof *odd);
    return which < HK_TYPE_COUNT ? (hk_type)which : odd[which - HK_TYPE_COUNT];
}

void draw_case(draw_source *source, const hki_algorithm *algorithm, int ranks, uint32_t segments, draw_size size,
               size_t eager, call_case *drawn)
{
    hk_type type = draw_type(source);
    int op = 0;
    if (hki_collective_reduces(algorithm->collective)) {
        do {
            op = (int)draw(source, VALUES_OPERATORS);
            type = op == VALUES_AFFINE       ? HK_OPAQUE(8)
                   : op == VALUES_TRIANGULAR ? HK_OPAQUE(3)
                   : op == VALUES_COUNTING   ? HK_UINT64
                                             : (hk_type)draw(source, HK_TYPE_COUNT);
        } while (!values_op_fits(op, type) || !draw_serves(algorithm, ranks, source->levels, op));
    }
    draw_case_of(source, algorithm, ranks, segments, size, eager, type, op, drawn);
}
