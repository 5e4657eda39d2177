/* The listings of `hocket info`; each prints to standard output and returns the exit status. */
#ifndef HKI_TOOLS_INFO_H
#define HKI_TOOLS_INFO_H

#include <stdbool.h>

/* Algorithms of one collective, or of all (NULL). */
int info_algorithms(const char *collective, bool json);
int info_settings(bool json);

#endif
