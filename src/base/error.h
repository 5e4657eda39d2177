/* The thread's last error. The function that first knows a cause records it; callers only pass the status on. */
#ifndef HKI_BASE_ERROR_H
#define HKI_BASE_ERROR_H

#include <hocket/hocket.h>

#include <stdarg.h>

/* Records text for hk_last_error and returns status, so that `return hki_error(HK_ERR_X, "…")` reads well. */
hk_status hki_error(hk_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
hk_status hki_verror(hk_status status, const char *format, va_list arguments);
/* The same with ": strerror(error_number)" appended. */
hk_status hki_error_errno(hk_status status, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts text back (a communicator's own copy) as the thread's last error; returns status. */
hk_status hki_error_set(hk_status status, const char *text);

#ifdef __clang_analyzer__
/* Tells the static analyser what it cannot see: these return the status that they are given, so never HK_OK. */
#define hki_error(status, ...) ((hki_error)(status, __VA_ARGS__), (status))
#define hki_error_errno(status, ...) ((hki_error_errno)(status, __VA_ARGS__), (status))
#define hki_error_set(status, text) ((hki_error_set)(status, text), (status))
#endif

/* The one macro that hides a return: passes a failure on. */
#define HK_TRY(expression)                                                                                             \
    do {                                                                                                               \
        hk_status hk_try_status = (expression);                                                                        \
        if (hk_try_status != HK_OK)                                                                                    \
            return hk_try_status;                                                                                      \
    } while (0)

#endif
