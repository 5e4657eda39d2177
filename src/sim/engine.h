/* The event loop: of all ranks, with records of what they did. README.md says why cost/walk.c is another. */
#ifndef HKI_SIM_ENGINE_H
#define HKI_SIM_ENGINE_H

#include "sim/sim.h"

/* Bits of a step's state: its rank has made it; a SEND is gone, a message has arrived; its rank's core has moved it;
 * a SEND had left before the receiver's way in was free. */
enum { HKI_SIM_MADE = 1, HKI_SIM_GONE = 2, HKI_SIM_MOVED = 4, HKI_SIM_HELD = 8 };

/* Runs sim->world to its end by sim->costs; fills what depends on time. The world's queues are used up: once only.
 * HK_ERR_NO_MEMORY; HK_ERR_INTERNAL: the schedules wait for each other. */
hk_status hki_sim_engine_run(hki_sim *sim);

#endif
