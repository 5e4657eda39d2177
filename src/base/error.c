#include "base/error.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

#undef hki_error
#undef hki_error_errno
#undef hki_error_set

/* Long enough for two call descriptions and a list of ranks; a longer text is cut, and ends in "…". */
enum { ERROR_TEXT_BYTES = 1024 };

static _Thread_local char last_error[ERROR_TEXT_BYTES];

const char *hk_last_error(void)
{
    return last_error;
}

static void mark_cut(char *text, int wanted)
{
    static const char ellipsis[] = "…";
    if (wanted < ERROR_TEXT_BYTES)
        return;
    /* Never leave half of a UTF-8 sequence before the mark. */
    size_t end = ERROR_TEXT_BYTES - sizeof ellipsis;
    while (end > 0 && ((unsigned char)text[end] & 0xC0u) == 0x80u)
        end--;
    memcpy(text + end, ellipsis, sizeof ellipsis);
}

hk_status hki_verror(hk_status status, const char *format, va_list arguments)
{
    /* Formatted aside first: an argument may be hk_last_error() itself. */
    char text[ERROR_TEXT_BYTES];
    int wanted = vsnprintf(text, sizeof text, format, arguments);
    mark_cut(text, wanted);
    hki_log(HK_LOG_DEBUG, "%s: %s", hk_status_name(status), text);
    return hki_error_set(status, text);
}

hk_status hki_error(hk_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    hki_verror(status, format, arguments);
    va_end(arguments);
    return status;
}

hk_status hki_error_errno(hk_status status, int error_number, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES], reason[128];
    va_list arguments;
    va_start(arguments, format);
    mark_cut(text, vsnprintf(text, sizeof text, format, arguments));
    va_end(arguments);
    return hki_error(status, "%s: %s", text, strerror_r(error_number, reason, sizeof reason));
}

hk_status hki_error_set(hk_status status, const char *text)
{
    if (text == last_error)
        return status;
    size_t length = strnlen(text, ERROR_TEXT_BYTES - 1);
    memmove(last_error, text, length);
    last_error[length] = '\0';
    return status;
}
