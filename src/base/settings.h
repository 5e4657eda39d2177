/*
 * Settings: HOCKET_* from the environment, one typed table (settings.def) with default, range and help. The only place
 * that calls getenv. Read once per process, at first use; an unknown HOCKET_ name is reported (log, and an error from
 * hk_init naming the nearest known one only as a warning).
 */
#ifndef HKI_BASE_SETTINGS_H
#define HKI_BASE_SETTINGS_H

#include <hocket/hocket.h>

#include <stdbool.h>
#include <stdint.h>

typedef enum hki_setting_id {
#define HKI_SETTING(ID, NAME, TYPE, DEFAULT, LOW, HIGH, AGREE, HELP) HKI_SET_##ID,
#include "base/settings.def"
#undef HKI_SETTING
    HKI_SETTING_COUNT
} hki_setting_id;

typedef enum hki_setting_type {
    HKI_SETTING_TEXT,
    HKI_SETTING_INTEGER,
    HKI_SETTING_SECONDS,
    HKI_SETTING_BYTES,
    HKI_SETTING_FLAG
} hki_setting_type;

typedef struct hki_setting {
    const char *name; /* "HOCKET_TIMEOUT" */
    hki_setting_type type;
    const char *standard; /* default, as text */
    double low, high;     /* of numbers */
    bool agree;           /* compared between ranks at creation */
    const char *help;
} hki_setting;

const hki_setting *hki_settings(size_t *count);
const char *hki_setting_text(hki_setting_id id); /* never NULL */
int64_t hki_setting_integer(hki_setting_id id);  /* also bytes ("64K") and flags (0, 1) */
double hki_setting_seconds(hki_setting_id id);
bool hki_setting_given(hki_setting_id id); /* set in the environment */
/* HK_ERR_SETTING with the name, the value and what is allowed, if any setting has a bad value. */
hk_status hki_settings_check(void);
/* The settings that must be equal on all ranks, as one rank tells the others; in the order of the table. */
enum {
    HKI_SETTINGS_AGREED = 0
#define HKI_SETTING(ID, NAME, TYPE, DEFAULT, LOW, HIGH, AGREE, HELP) +(AGREE)
#include "base/settings.def"
#undef HKI_SETTING
};
typedef struct hki_agreed_setting {
    uint64_t hash; /* of the value: "1M" and "1048576" have the same */
    char text[56]; /* its beginning, for errors */
} hki_agreed_setting;
void hki_settings_tell(hki_agreed_setting all[HKI_SETTINGS_AGREED]);
/* The first one that differs, and *at where it is in both; NULL when all agree. Texts may come from a peer: what is
 * printed of them is at most their size. */
const hki_setting *hki_settings_differ(const hki_agreed_setting *own, const hki_agreed_setting *other, size_t *at);
/* Any other variable of the environment (PMIX_RANK, RANK …): NULL when unset. */
const char *hki_environment(const char *name);
/* Tests only: reads the environment anew. */
void hki_settings_reset(void);
/* "64K", "1.5M", "2G", "100" → bytes. False when malformed or above 2^62. */
bool hki_parse_bytes(const char *text, uint64_t *bytes);
/* "30", "0.5". False when malformed, or empty. */
bool hki_parse_seconds(const char *text, double *seconds);

#endif
