/* The ranks' memory during a symbolic run: what each block of OUTPUT and SCRATCH holds, read and written by spans. */
#ifndef HKI_SCHED_VERIFY_MEMORY_H
#define HKI_SCHED_VERIFY_MEMORY_H

#include "sched/verify_internal.h"

/* What a block holds. */
typedef struct hki_cell {
    uint32_t block;  /* logical identity */
    uint32_t value;  /* HKI_NO_VALUE: never written */
    uint32_t length; /* length class, of what was packed into a slot */
} hki_cell;

/* One rank's memory. */
typedef struct hki_rank_memory {
    hki_cell *output, *scratch;
    size_t *slots; /* slot k is scratch[slots[k]] up to slots[k + 1] */
    bool output_written;
} hki_rank_memory;

/* A step's span during the run, walked block by block. */
typedef struct hki_operand {
    hki_verifier *verifier;
    hki_rank_memory *memory; /* of the rank */
    const hki_schedule *schedule;
    const hki_span *span;
    uint32_t rank, step;
    hki_walk walk;
} hki_operand;

/* Allocates and fills a rank's memory as it is before the collective starts; adds its cells to *cells.
 * HK_ERR_NO_MEMORY: also when all ranks' together would exceed 8 GiB. */
hk_status hki_memory_init(hki_verifier *verifier, uint32_t rank, hki_rank_memory *memory, uint64_t *cells);
void hki_memory_free(hki_rank_memory *memory);

uint32_t hki_output_blocks(const hki_schedule *schedule);

hki_operand hki_operand_begin(hki_verifier *verifier, hki_rank_memory *memories, uint32_t rank, uint32_t step,
                              const hki_span *span);
/* Reads the next block; *more is false at the end. */
hk_status hki_operand_read(hki_operand *at, hki_cell *content, bool *more);
/* Writes the next block. */
hk_status hki_operand_write(hki_operand *at, hki_cell content);

#endif
