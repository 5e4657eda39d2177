/* Schedules as text, for people: one line a step. */
#ifndef HKI_SCHED_DUMP_H
#define HKI_SCHED_DUMP_H

#include <stdio.h>

#include "sched/ir.h"

/* "send", "recv_reduce" …; "?" for none. */
const char *hki_verb_name(unsigned verb);

/* Writes a step as a line without newline, such as
 *     7: recv_reduce from 3 #1: output[4..5] = input[4..5] op incoming, finish; after 2 5
 * Writes at most `size` bytes with the final 0; returns the whole length, as snprintf does. */
size_t hki_step_text(const hki_schedule *schedule, uint32_t step, char *text, size_t size);

/* The whole schedule of one rank, grids first. */
void hki_schedule_dump(const hki_schedule *schedule, FILE *file);

#endif
