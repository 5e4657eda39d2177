/*
 * Tuning files: the figures of one machine, as `hocket tune` measured them, with how well they fit, when, and by which
 * version. JSON. Everybody's own machine has one in the user's cache; HOCKET_TUNING names another, or none.
 */
#ifndef HKI_COST_TUNING_H
#define HKI_COST_TUNING_H

#include "cost/figures.h"

enum { HKI_MACHINE_BYTES = 24, HKI_DATE_BYTES = 32 };

/* How well the figures of a range fit what was measured. */
typedef struct hki_fit_quality {
    double residual;   /* median of |measured / fitted - 1| */
    double confidence; /* half of the 95 % interval of β, in parts of β */
    uint32_t samples;  /* sizes that went into it */
} hki_fit_quality;

typedef struct hki_tuning {
    hki_figures figures; /* built in where the file says nothing */
    hki_fit_quality quality[HKI_LINK_CLASSES][HKI_FIGURE_RANGES];
    hki_fit_quality doubtful[HKI_LINK_CLASSES]; /* worst of what was measured of a link and contradicts itself, so that
                                                   a file is without. samples = 0: there is nothing such */
    bool bulk_doubtful[HKI_LINK_CLASSES];       /* the same of its bulk figures alone */
    char machine[HKI_MACHINE_BYTES];            /* hki_machine_id() there */
    char date[HKI_DATE_BYTES];                  /* ISO 8601 */
    char version[16];                           /* of Hocket */
} hki_tuning;

/* Reads a file, or a document in memory that `name` stands for. Every value is checked. HK_ERR_ARGUMENT (names file and
 * member), HK_ERR_SYSTEM (cannot be read), HK_ERR_UNSUPPORTED (no jansson), HK_ERR_NO_MEMORY. */
hk_status hki_tuning_read(const char *path, hki_tuning *tuning);
hk_status hki_tuning_parse(const char *text, size_t bytes, const char *name, hki_tuning *tuning);
/* Writes what is tuned: links, reduction and host figures whose origin is not "built in". machine, date and version are
 * filled in where they are empty. Folders are not made. HK_ERR_SYSTEM, HK_ERR_UNSUPPORTED, HK_ERR_NO_MEMORY. */
hk_status hki_tuning_write(hki_tuning *tuning, const char *path);

/* This machine: a hash of the model of its CPUs, their number, and the host's name, as text. */
void hki_machine_id(char id[HKI_MACHINE_BYTES]);
/* Where this machine's file is in the user's cache: $XDG_CACHE_HOME or $HOME/.cache, then hocket/tuning-<machine>.json.
 * make: makes the folder. False: there is no such place. */
bool hki_tuning_cache_path(char *path, size_t bytes, bool make);

/* The figures to use: those of the file that HOCKET_TUNING names (HK_ERR_SETTING: it cannot be read; another machine's
 * is used with a warning), with "none" the built-in ones, else those of this machine's file in the cache, if it is
 * there and right: what is wrong with it goes to the log, and the built-in ones are used. */
hk_status hki_tuning_find(hki_figures *figures);

#endif
