/* Index arithmetic of the algorithms, without schedules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algo/index.h"
#include "algo/nodes.h"

enum { MANY = 300 };

static void logarithms_round_down_and_up(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 5000; n++) {
        uint32_t down = hki_log2_floor(n), up = hki_log2_ceil(n);
        assert_true(1u << down <= n && n < 2u << down);
        assert_true(1u << up >= n && (up == 0 || 1u << (up - 1) < n));
    }
    assert_int_equal(hki_log2_ceil(UINT32_MAX), 32);
}

static bool is_smooth(uint32_t n, uint32_t radix)
{
    for (uint32_t factor = 2; factor <= 3 && factor <= radix; factor++)
        while (n % factor == 0)
            n /= factor;
    return n == 1;
}

static void smooth_numbers_are_the_largest_below(void **state)
{
    (void)state;
    for (uint32_t radix = 2; radix <= 4; radix++)
        for (uint32_t size = 1; size < 3000; size++) {
            uint32_t wanted = size;
            while (!is_smooth(wanted, radix))
                wanted--;
            assert_int_equal(hki_smooth_floor(size, radix), wanted);
            hki_radices radices = hki_factors(wanted, radix);
            uint32_t product = 1;
            for (uint32_t i = 0; i < radices.count; i++) {
                assert_in_range(radices.radix[i], 2, radix);
                product *= radices.radix[i];
            }
            assert_int_equal(product, wanted);
        }
}

static void folding_covers_every_member_once_and_in_order(void **state)
{
    (void)state;
    for (uint32_t size = 1; size < MANY; size++) {
        uint32_t core = hki_smooth_floor(size, 2), next = 0;
        hki_fold any = hki_fold_to(size, core, 0);
        assert_int_equal(hki_fold_member(&any, core), size);
        for (uint32_t member = 0; member < size; member++) {
            hki_fold fold = hki_fold_to(size, core, member);
            if (fold.index == HKI_NOBODY) {
                assert_int_equal(fold.partner, member - 1);
                continue;
            }
            assert_int_equal(fold.index, next++);
            assert_int_equal(hki_fold_member(&fold, fold.index), member);
            uint32_t behind = hki_fold_member(&fold, fold.index + 1);
            assert_int_equal(behind, fold.partner == HKI_NOBODY ? member + 1 : member + 2);
        }
        assert_int_equal(next, core);
    }
}

typedef hki_tree tree_function(uint32_t size, uint32_t root, uint32_t member);

static hki_tree binomial(uint32_t size, uint32_t root, uint32_t member)
{
    return hki_tree_knomial(size, root, member, 2);
}

static hki_tree quaternary(uint32_t size, uint32_t root, uint32_t member)
{
    return hki_tree_knomial(size, root, member, 4);
}

static hki_tree octal(uint32_t size, uint32_t root, uint32_t member)
{
    return hki_tree_knomial(size, root, member, 8);
}

static hki_tree first_of_two(uint32_t size, uint32_t root, uint32_t member)
{
    return hki_tree_double(size, root, member, 0);
}

static hki_tree second_of_two(uint32_t size, uint32_t root, uint32_t member)
{
    return hki_tree_double(size, root, member, 1);
}

/* Walks down from the root: every member is reached once, by an edge that it calls its parent. Returns the depth, and
 * the range of members below each one. */
static uint32_t walk(tree_function *tree_of, uint32_t size, uint32_t root, uint32_t *low, uint32_t *high)
{
    uint32_t depth[MANY], order[MANY], count = 0, deepest = 0;
    order[count++] = root;
    depth[root] = 0;
    assert_int_equal(tree_of(size, root, root).parent, HKI_NOBODY);
    for (uint32_t i = 0; i < count; i++) {
        hki_tree tree = tree_of(size, root, order[i]);
        for (uint32_t k = 0; k < tree.count; k++) {
            uint32_t child = tree.child[k];
            assert_in_range(child, 0, size - 1);
            assert_true(count < size);
            assert_int_equal(tree_of(size, root, child).parent, order[i]);
            depth[child] = depth[order[i]] + 1;
            deepest = depth[child] > deepest ? depth[child] : deepest;
            order[count++] = child;
        }
    }
    assert_int_equal(count, size);
    for (uint32_t i = 0; i < size; i++)
        low[i] = high[i] = i;
    for (uint32_t i = count; i-- > 1;) {
        uint32_t parent = tree_of(size, root, order[i]).parent, member = order[i];
        low[parent] = low[member] < low[parent] ? low[member] : low[parent];
        high[parent] = high[member] > high[parent] ? high[member] : high[parent];
    }
    return deepest;
}

static void trees_reach_everyone_once(void **state)
{
    (void)state;
    static tree_function *const trees[] = {binomial,       quaternary,       octal,        hki_tree_ordered,
                                           hki_tree_chain, hki_tree_inorder, first_of_two, second_of_two};
    uint32_t low[MANY], high[MANY];
    for (size_t t = 0; t < sizeof trees / sizeof *trees; t++)
        for (uint32_t size = 1; size < 80; size++)
            for (uint32_t root = 0; root < size; root++)
                walk(trees[t], size, root, low, high);
    for (size_t t = 0; t < sizeof trees / sizeof *trees; t++)
        walk(trees[t], 256, 100, low, high);
}

static void trees_are_as_deep_as_they_say(void **state)
{
    (void)state;
    uint32_t low[MANY], high[MANY];
    for (uint32_t size = 1; size < 150; size++)
        for (uint32_t root = 0; root < size; root += 1 + size / 7) {
            assert_int_equal(walk(binomial, size, root, low, high), hki_tree_knomial_depth(size, 2));
            assert_int_equal(walk(quaternary, size, root, low, high), hki_tree_knomial_depth(size, 4));
            assert_int_equal(walk(octal, size, root, low, high), hki_tree_knomial_depth(size, 8));
            assert_int_equal(walk(hki_tree_ordered, size, root, low, high), hki_tree_ordered_depth(size, root));
            assert_int_equal(walk(hki_tree_inorder, size, root, low, high), hki_tree_inorder_depth(size, root));
            if (size > 1)
                assert_int_equal(walk(second_of_two, size, root, low, high), 1 + hki_log2_floor(size - 1));
        }
}

/* A subtree that is a contiguous range with its root at the edge where the parent joins can be reduced in rank order.
 */
static void ordered_trees_have_contiguous_subtrees(void **state)
{
    (void)state;
    static tree_function *const trees[] = {hki_tree_ordered, hki_tree_inorder};
    uint32_t low[MANY], high[MANY], members[MANY];
    for (size_t t = 0; t < 2; t++)
        for (uint32_t size = 1; size < 70; size++)
            for (uint32_t root = 0; root < size; root++) {
                walk(trees[t], size, root, low, high);
                for (uint32_t i = 0; i < size; i++)
                    members[i] = 1;
                for (uint32_t width = 1; width <= size; width++) /* children have narrower ranges than parents */
                    for (uint32_t i = 0; i < size; i++)
                        if (i != root && high[i] - low[i] + 1 == width)
                            members[trees[t](size, root, i).parent] += members[i];
                for (uint32_t i = 0; i < size; i++)
                    assert_int_equal(members[i], high[i] - low[i] + 1);
            }
}

static void knomial_subtrees_have_the_size_they_say(void **state)
{
    (void)state;
    for (uint32_t size = 1; size < 100; size++) {
        uint32_t root = size / 3;
        for (uint32_t member = 0; member < size; member++) {
            hki_tree tree = binomial(size, root, member);
            uint32_t members = 1;
            for (uint32_t i = 0; i < tree.count; i++)
                members += hki_tree_knomial_members(size, root, tree.child[i], 2);
            assert_int_equal(hki_tree_knomial_members(size, root, member, 2), members);
        }
    }
}

static void nobody_has_children_in_both_trees(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < MANY; size++)
        for (uint32_t member = 1; member < size; member++)
            assert_true(first_of_two(size, 0, member).count == 0 || second_of_two(size, 0, member).count == 0);
}

static void everybody_meets_everybody_once(void **state)
{
    (void)state;
    for (uint32_t size = 2; size < 130; size++)
        for (uint32_t member = 0; member < size; member++) {
            bool sent[MANY] = {false}, met[MANY] = {false};
            for (uint32_t round = 1; round < size; round++) {
                hki_turn turn = hki_turn_of(size, round, member);
                assert_in_range(turn.to, 0, size - 1);
                assert_in_range(turn.from, 0, size - 1);
                assert_false(sent[turn.to] || met[turn.from]);
                sent[turn.to] = met[turn.from] = true;
                assert_int_equal(hki_turn_of(size, round, turn.to).from, member);
            }
            assert_false(sent[member] || met[member]);
        }
}

/* What is received in a round replaces what is sent in it or in the other of two in a row. */
static void two_turns_in_a_row_are_of_the_same_two(void **state)
{
    (void)state;
    for (uint32_t size = 3; size < 130; size++)
        for (uint32_t round = 1; round + 1 < size; round += 2) {
            hki_turn first = hki_turn_of(size, round, 1), second = hki_turn_of(size, round + 1, 1);
            bool same = first.to == first.from && second.to == second.from;
            assert_true(same || (first.to == second.from && first.from == second.to));
        }
}

/* The four conditions of the paper: sends and receives agree; each phase brings every block but one of the phase
 * before, and one new; and only what has been received is sent. */
static void check_circulant(uint32_t size)
{
    hki_circulant *graph = malloc(size * sizeof *graph);
    assert_non_null(graph);
    for (uint32_t distance = 0; distance < size; distance++)
        hki_circulant_schedule(size, distance, &graph[distance]);
    int32_t rounds = (int32_t)graph[0].rounds;
    for (uint32_t distance = 1; distance < size; distance++) {
        uint64_t got = 0, earlier = 0;
        int32_t fresh = -1;
        for (int32_t k = 0; k < rounds; k++) {
            int32_t block = graph[distance].receive[k];
            assert_in_range(block + rounds, 0, 2 * rounds - 1);
            assert_false(got >> (block + rounds) & 1);
            got |= UINT64_C(1) << (block + rounds);
            fresh = block >= 0 ? block : fresh;
        }
        assert_true(fresh >= 0);
        uint64_t all = ((UINT64_C(1) << rounds) - 1) & ~(UINT64_C(1) << fresh);
        assert_true(got == (all | UINT64_C(1) << (fresh + rounds)));
        for (int32_t k = 0; k < rounds; k++) {
            uint32_t to = hki_ahead(size, distance, graph[0].skip[k]);
            int32_t block = graph[distance].send[k];
            if (to != 0) {
                assert_int_equal(block, graph[to].receive[k]);
                assert_true(block == fresh - rounds || (earlier >> (block + rounds) & 1));
            }
            earlier |= UINT64_C(1) << (graph[distance].receive[k] + rounds);
        }
    }
    for (int32_t k = 0; k < rounds; k++)
        assert_int_equal(graph[0].send[k], graph[hki_ahead(size, 0, graph[0].skip[k])].receive[k]);
    free(graph);
}

static void circulant_schedules_meet_their_conditions(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 600; size++)
        check_circulant(size);
    check_circulant(1000);
    check_circulant(1024);
    check_circulant(4099);
}

static void circulant_schedules_exist_for_many_members(void **state)
{
    (void)state;
    hki_circulant graph;
    for (uint32_t distance = 0; distance < 65536; distance += 97)
        hki_circulant_schedule(65536, distance, &graph);
    hki_circulant_schedule(65535, 40000, &graph);
    assert_int_equal(graph.rounds, 16);
}

static void nodes_of_three_and_two_are_cut_at_both(void **state)
{
    (void)state;
    const uint32_t node_of[] = {0, 0, 0, 1, 1};
    const hki_fraction wanted[] = {{0, 1}, {1, 3}, {1, 2}, {2, 3}, {1, 1}};
    const uint32_t first[] = {0, 1, 1, 2}, second[] = {3, 3, 4, 4};
    hki_levels *levels;
    assert_true(hki_levels_new(5, (const uint32_t *const[]){node_of}, 1, 0, &levels));
    hki_call call = {.collective = HKI_COLL_ALLREDUCE, .ranks = 5, .rank = 4, .levels = levels};
    hki_nodes nodes = hki_nodes_of(&call);
    uint32_t parts;
    assert_int_equal(nodes.count, 2);
    assert_int_equal(nodes.own, 1);
    assert_int_equal(nodes.member, 1);
    hki_fraction *edges = hki_nodes_refine(&nodes, 1, &parts);
    assert_non_null(edges);
    assert_int_equal(parts, 4);
    for (uint32_t i = 0; i <= parts; i++)
        assert_int_equal(edges[i].numerator * wanted[i].denominator, wanted[i].numerator * edges[i].denominator);
    for (uint32_t i = 0; i < parts; i++) {
        assert_int_equal(hki_nodes_owner(&nodes, 0, edges[i]), first[i]);
        assert_int_equal(hki_nodes_owner(&nodes, 1, edges[i]), second[i]);
    }
    assert_int_equal(hki_nodes_block(edges, parts, 1, 2), 2);
    assert_int_equal(hki_nodes_block(edges, parts, 2, 3), 3);
    assert_int_equal(hki_nodes_block(edges, parts, 3, 3), 4);
    free(edges);
    hki_levels_free(levels);
}

static void nodes_may_be_interleaved(void **state)
{
    (void)state;
    const uint32_t node_of[] = {0, 1, 0, 2, 1, 0};
    const uint32_t wanted[] = {0, 2, 5, 1, 4, 3};
    hki_levels *levels;
    assert_true(hki_levels_new(6, (const uint32_t *const[]){node_of}, 1, 0, &levels));
    hki_call call = {.collective = HKI_COLL_ALLREDUCE, .ranks = 6, .rank = 2, .levels = levels};
    hki_nodes nodes = hki_nodes_of(&call);
    assert_memory_equal(levels->rank_at, wanted, sizeof wanted);
    assert_int_equal(nodes.member, 1);
    assert_int_equal(hki_node_size(&nodes, 0), 3);
    assert_int_equal(hki_node_size(&nodes, 2), 1);
    assert_int_equal(hki_node_rank(&nodes, 1, 1), 4);
    assert_false(hki_nodes_even(&nodes));
    hki_levels_free(levels);
}

/* Every part of a refinement is cut into as many pieces of equal length. */
static void refinements_are_cut_again(void **state)
{
    (void)state;
    const uint32_t node_of[] = {0, 0, 0, 1, 1, 2, 2, 2, 2, 2};
    hki_levels *levels;
    assert_true(hki_levels_new(10, (const uint32_t *const[]){node_of}, 1, 0, &levels));
    hki_call call = {.collective = HKI_COLL_ALLREDUCE, .ranks = 10, .levels = levels};
    hki_nodes nodes = hki_nodes_of(&call);
    uint32_t parts, coarse_parts;
    hki_fraction *coarse = hki_nodes_refine(&nodes, 1, &coarse_parts), *edges = hki_nodes_refine(&nodes, 3, &parts);
    assert_non_null(coarse);
    assert_non_null(edges);
    assert_int_equal(parts, 3 * coarse_parts);
    for (uint32_t i = 0; i < parts; i++) {
        double begin = (double)coarse[i / 3].numerator / coarse[i / 3].denominator;
        double end = (double)coarse[i / 3 + 1].numerator / coarse[i / 3 + 1].denominator;
        double wanted = begin + (end - begin) * (i % 3) / 3;
        assert_true(fabs((double)edges[i].numerator / edges[i].denominator - wanted) < 1e-12);
    }
    free(coarse);
    free(edges);
    hki_levels_free(levels);
}

static void refinements_have_limits(void **state)
{
    (void)state;
    hki_level level = {.groups = 2, .smallest = 65535, .largest = 65536};
    hki_levels levels = {.count = 1, .level = {level}};
    hki_nodes nodes = {.levels = &levels};
    assert_true(hki_nodes_refinable(&nodes, 1));
    assert_false(hki_nodes_refinable(&nodes, 2));
    levels.level[0].smallest = 65536;
    assert_true(hki_nodes_refinable(&nodes, 65535));
    assert_false(hki_nodes_refinable(&nodes, 65536));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logarithms_round_down_and_up),
        cmocka_unit_test(smooth_numbers_are_the_largest_below),
        cmocka_unit_test(folding_covers_every_member_once_and_in_order),
        cmocka_unit_test(trees_reach_everyone_once),
        cmocka_unit_test(trees_are_as_deep_as_they_say),
        cmocka_unit_test(ordered_trees_have_contiguous_subtrees),
        cmocka_unit_test(knomial_subtrees_have_the_size_they_say),
        cmocka_unit_test(nobody_has_children_in_both_trees),
        cmocka_unit_test(everybody_meets_everybody_once),
        cmocka_unit_test(two_turns_in_a_row_are_of_the_same_two),
        cmocka_unit_test(circulant_schedules_meet_their_conditions),
        cmocka_unit_test(circulant_schedules_exist_for_many_members),
        cmocka_unit_test(nodes_of_three_and_two_are_cut_at_both),
        cmocka_unit_test(nodes_may_be_interleaved),
        cmocka_unit_test(refinements_are_cut_again),
        cmocka_unit_test(refinements_have_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
