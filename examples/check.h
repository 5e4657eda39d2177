/* What the examples share: end the program when a call fails, with the reason. A library would pass it on instead. */
#ifndef EXAMPLES_CHECK_H
#define EXAMPLES_CHECK_H

#include <hocket/hocket.h>

#include <stdio.h>
#include <stdlib.h>

static inline void check(hk_status status)
{
    if (status != HK_OK) {
        fprintf(stderr, "%s: %s\n", hk_status_string(status), hk_last_error());
        exit(EXIT_FAILURE);
    }
}

/* Ends the program when a result is not what it should be: the examples are tests, too. */
static inline void expect(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "wrong: %s\n", what);
        exit(EXIT_FAILURE);
    }
}

#endif
