/* Trees: see index.h. */
#include "algo/index.h"

#include <assert.h>

static void add_child(hki_tree *tree, uint32_t child)
{
    assert(tree->count < HKI_MAX_CHILDREN);
    tree->child[tree->count++] = child;
}

/* The largest power of radix that divides distance; for the root, the smallest that is ≥ size. */
static uint64_t knomial_span(uint32_t size, uint32_t distance, uint32_t radix)
{
    uint64_t span = 1;
    while (span < size && distance % (span * radix) == 0)
        span *= radix;
    return span;
}

hki_tree hki_tree_knomial(uint32_t size, uint32_t root, uint32_t member, uint32_t radix)
{
    uint32_t distance = hki_behind(size, member, root);
    uint64_t span = knomial_span(size, distance, radix);
    hki_tree tree = {.parent = HKI_NOBODY};
    if (distance)
        tree.parent = hki_ahead(size, root, distance - (uint32_t)(distance % (span * radix)));
    for (uint64_t step = span / radix; step > 0; step /= radix)
        for (uint32_t digit = 1; digit < radix && distance + digit * step < size; digit++)
            add_child(&tree, hki_ahead(size, root, distance + digit * (uint32_t)step));
    return tree;
}

uint32_t hki_tree_knomial_members(uint32_t size, uint32_t root, uint32_t member, uint32_t radix)
{
    uint32_t distance = hki_behind(size, member, root);
    uint64_t span = knomial_span(size, distance, radix);
    return span < size - distance ? (uint32_t)span : size - distance;
}

/* Every digit that is not zero is one edge, so the deepest member is the one below size with most such digits. */
uint32_t hki_tree_knomial_depth(uint32_t size, uint32_t radix)
{
    uint32_t digits = 0, depth = 0;
    uint64_t power = 1;
    while (power < size) {
        power *= radix;
        digits++;
    }
    /* Keep the leading digits of size - 1, lower one of them, and make the rest non-zero. */
    uint64_t last = size - 1;
    uint32_t leading = 0;
    for (uint32_t left = digits; left-- > 0;) {
        power /= radix;
        uint32_t digit = (uint32_t)(last / power % radix);
        if (digit >= 1 && leading + (digit > 1) + left > depth)
            depth = leading + (digit > 1) + left;
        leading += digit >= 1;
    }
    return leading > depth ? leading : depth;
}

hki_tree hki_tree_ordered(uint32_t size, uint32_t root, uint32_t member)
{
    hki_tree tree = {.parent = HKI_NOBODY};
    for (unsigned side = 0; side < 2; side++) {
        bool above = side == 0;
        if (above ? member < root : member > root)
            continue;
        uint32_t distance = above ? member - root : root - member;
        uint32_t members = above ? size - root : root + 1;
        uint64_t span = knomial_span(members, distance, 2);
        if (distance)
            tree.parent = above ? member - (uint32_t)span : member + (uint32_t)span;
        for (uint32_t step = (uint32_t)(span / 2); step > 0; step /= 2)
            if (distance + step < members)
                add_child(&tree, above ? member + step : member - step);
    }
    return tree;
}

uint32_t hki_tree_ordered_depth(uint32_t size, uint32_t root)
{
    uint32_t above = hki_tree_knomial_depth(size - root, 2), below = hki_tree_knomial_depth(root + 1, 2);
    return above > below ? above : below;
}

hki_tree hki_tree_chain(uint32_t size, uint32_t root, uint32_t member)
{
    hki_tree tree = {.parent = HKI_NOBODY};
    uint32_t distance = hki_behind(size, member, root);
    if (distance)
        tree.parent = hki_behind(size, member, 1);
    if (distance + 1 < size)
        add_child(&tree, hki_ahead(size, member, 1));
    return tree;
}

hki_tree hki_tree_inorder(uint32_t size, uint32_t root, uint32_t member)
{
    hki_tree tree = {.parent = HKI_NOBODY};
    uint32_t low = 0, high = size, node = root; /* members low … high - 1 are the subtree of node */
    while (node != member) {
        tree.parent = node;
        if (member < node)
            high = node;
        else
            low = node + 1;
        node = low + (high - low) / 2;
    }
    uint32_t below = node - low, above = high - node - 1;
    for (unsigned i = 0; i < 2; i++) {
        bool left = (i == 0) == (below > above);
        if (left && below > 0)
            add_child(&tree, low + below / 2);
        if (!left && above > 0)
            add_child(&tree, node + 1 + above / 2);
    }
    return tree;
}

uint32_t hki_tree_inorder_depth(uint32_t size, uint32_t root)
{
    uint32_t above = size - root - 1, larger = above > root ? above : root;
    return larger ? hki_log2_floor(larger) + 1 : 0;
}

/* The place of node (1 … nodes) in the tree where even numbers are inner nodes, by the lowest bit of the number. */
static uint32_t bit_tree_parent(uint32_t nodes, uint32_t node)
{
    uint32_t bit = node & (~node + 1);
    uint64_t up = (uint64_t)(node ^ bit) | (uint64_t)bit << 1;
    return up <= nodes ? (uint32_t)up : node ^ bit; /* 0: the root of the tree */
}

static uint32_t bit_tree_children(uint32_t nodes, uint32_t node, uint32_t children[2])
{
    uint32_t count = 0, half = (node & (~node + 1)) / 2;
    if (half == 0)
        return 0;
    children[count++] = node - half;
    while (half > 0 && (uint64_t)node + half > nodes)
        half /= 2;
    if (half > 0)
        children[count++] = node + half;
    return count;
}

/* The second tree is the first one mirrored or, for an odd number of nodes, shifted by one: leaves become inner. */
static uint32_t other_tree(uint32_t nodes, uint32_t node, bool back)
{
    if (nodes % 2 == 0)
        return nodes + 1 - node;
    if (back)
        return node == 1 ? nodes : node - 1;
    return node % nodes + 1;
}

hki_tree hki_tree_double(uint32_t size, uint32_t root, uint32_t member, unsigned which)
{
    hki_tree tree = {.parent = HKI_NOBODY};
    uint32_t nodes = size - 1, distance = hki_behind(size, member, root);
    uint32_t children[2], count = 0, parent = 0;
    if (distance == 0 && nodes > 0) {
        children[count++] = 1u << hki_log2_floor(nodes);
    } else if (distance > 0) {
        uint32_t node = which ? other_tree(nodes, distance, false) : distance;
        parent = bit_tree_parent(nodes, node);
        count = bit_tree_children(nodes, node, children);
        if (parent && which)
            parent = other_tree(nodes, parent, true);
        tree.parent = hki_ahead(size, root, parent);
    }
    for (uint32_t i = 0; i < count; i++)
        add_child(&tree, hki_ahead(size, root, which ? other_tree(nodes, children[i], true) : children[i]));
    return tree;
}
