/* Ports for tests. */
#ifndef HKI_TESTS_PORTS_H
#define HKI_TESTS_PORTS_H

#include <stdint.h>

/* One of 127.0.0.1 that was free a moment ago; 0: there is none. */
uint16_t free_port(void);

#endif
