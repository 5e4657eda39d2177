#include "comm/scratch.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Blocks from MAPPABLE_BYTES on come from the transport; no more than KEPT_BYTES lie idle (guessed: twice the largest
 * message of the benchmark). */
enum { SMALLEST_CLASS = 8, MAPPABLE_BYTES = 64 << 10, KEPT_BYTES = 128 << 20, LINE = 64 };

/* Lies in the cache line before the block. */
typedef struct header {
    hki_node node;
    uint32_t class;
    bool mappable;
} header;

static header *header_of(void *memory)
{
    return (header *)(void *)((char *)memory - LINE);
}

void hki_scratch_open(hki_scratch_pool *pool, const hk_transport_ops *const *ops, hk_transport *const *transports,
                      uint32_t count)
{
    memset(pool, 0, sizeof *pool);
    if (count > 0 && ops[0]->alloc) {
        pool->ops = ops[0];
        pool->transport = transports[0];
    }
    for (uint32_t i = 1; i < count && pool->ops && !pool->also_ops; i++) {
        if (ops[i]->register_memory && ops[i]->unregister_memory) {
            pool->also_ops = ops[i];
            pool->also = transports[i];
        }
    }
    pool->cap = KEPT_BYTES;
    for (int class = 0; class < HKI_SCRATCH_CLASSES; class ++)
        hki_list_init(&pool->spare[class]);
}

static void release(hki_scratch_pool *pool, header *block)
{
    if (block->mappable && pool->also_ops)
        pool->also_ops->unregister_memory(pool->also, block);
    if (block->mappable)
        pool->ops->free(pool->transport, block);
    else
        free(block);
}

void hki_scratch_close(hki_scratch_pool *pool)
{
    for (int class = 0; class < HKI_SCRATCH_CLASSES; class ++) {
        while (!hki_list_empty(&pool->spare[class])) {
            header *block = hki_list_entry(pool->spare[class].next, header, node);
            hki_list_remove(&block->node);
            release(pool, block);
        }
    }
    pool->held = 0;
}

static header *make(hki_scratch_pool *pool, uint32_t class)
{
    size_t bytes = ((size_t)1 << class) + LINE;
    header *block = NULL;
    bool mappable = false;
    if (pool->ops && bytes >= MAPPABLE_BYTES)
        block = pool->ops->alloc(pool->transport, bytes);
    if (block && pool->also_ops)
        (void)pool->also_ops->register_memory(pool->also, block, bytes);
    if (block)
        mappable = true;
    else if (posix_memalign((void **)&block, LINE, bytes) != 0)
        return NULL;
    hki_list_init(&block->node);
    block->class = class;
    block->mappable = mappable;
    return block;
}

void *hki_scratch_take(hki_scratch_pool *pool, size_t bytes)
{
    uint32_t class = SMALLEST_CLASS;
    while (class < HKI_SCRATCH_CLASSES && ((size_t)1 << class) < bytes)
        class ++;
    if (class == HKI_SCRATCH_CLASSES)
        return NULL;
    header *block;
    if (hki_list_empty(&pool->spare[class])) {
        block = make(pool, class);
        if (!block)
            return NULL;
    } else {
        block = hki_list_entry(pool->spare[class].next, header, node);
        hki_list_remove(&block->node);
        pool->held -= (size_t)1 << class;
    }
    return (char *)block + LINE;
}

void hki_scratch_give(hki_scratch_pool *pool, void *memory)
{
    if (!memory)
        return;
    header *block = header_of(memory);
    size_t bytes = (size_t)1 << block->class;
    if (pool->held + bytes > pool->cap) {
        release(pool, block);
        return;
    }
    pool->held += bytes;
    hki_list_append(&pool->spare[block->class], &block->node);
}
