/* Log lines: nothing is printed unless asked (HOCKET_LOG, or hk_set_log). */
#ifndef HKI_BASE_LOG_H
#define HKI_BASE_LOG_H

#include <hocket/hocket.h>

#include <stdarg.h>
#include <stdbool.h>

bool hki_log_wants(hk_log_level level);
void hki_log(hk_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hki_vlog(hk_log_level level, const char *format, va_list arguments);
/* Prefix of this process's lines ("rank 3 @ host"); copied. */
void hki_log_identity(const char *identity);

#endif
