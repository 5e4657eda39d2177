/* Log lines: nothing is printed unless asked (HOCKET_LOG, or hk_set_log). */
#ifndef HKI_BASE_LOG_H
#define HKI_BASE_LOG_H

#include <hocket/hocket.h>

#include <stdarg.h>
#include <stdbool.h>

/* Whether a line of this level would go anywhere: one relaxed load once HOCKET_LOG has been read. */
bool hki_log_wants(hk_log_level level);
void hki_log(hk_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hki_vlog(hk_log_level level, const char *format, va_list arguments);
/* Prefix of this process's lines ("rank 3 @ host"); copied. */
void hki_log_identity(const char *identity);
/* "warn" → HK_LOG_WARN. False when it is no level's name. */
bool hki_log_level_parse(const char *text, hk_log_level *level);
/* Reads HOCKET_LOG anew at the next line (hki_settings_reset). */
void hki_log_forget(void);

#endif
