/* The listings of `hocket info`; each prints to standard output, and returns the exit status unless it has none. */
#ifndef HKI_TOOLS_INFO_H
#define HKI_TOOLS_INFO_H

#include <stdbool.h>

/* Algorithms of one collective, or of all (NULL). */
int info_algorithms(const char *collective, bool json);
int info_settings(bool json);
/* The devices of transports that are not built in. Opens them for a moment. */
void info_devices(void);
/* This host; the host or cluster in a file; or, as ranks of a job, what the job runs on (printed by rank 0). picture: a
 * file for an SVG instead of text, or NULL. */
int info_topology(const char *file, const char *picture);

#endif
