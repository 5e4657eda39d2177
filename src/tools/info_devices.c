/* Transports that use devices, as each of them describes what it finds here. */
#include "base/settings.h"
#include "comm/probe.h"
#include "comm/transports.h"
#include "tools/info.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Names of transports, in the first column. */
static const char *current;

/* "verbs: rank 0 on host: text": there are no ranks here. */
static void print_line(const char *text)
{
    const char *host = strstr(text, " on "), *rest = host ? strchr(host + 4, ' ') : NULL;
    printf("%-11s %s\n", current, rest ? rest + 1 : text);
}

static void __attribute__((format(printf, 3, 4))) print_log(void *core, hk_log_level level, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    (void)core;
    if (level > HK_LOG_INFO)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    print_line(text);
}

static void describe(const hk_transport_ops *ops)
{
    hk_transport_limits limits;
    current = ops->name;
    if (hki_probe(ops, print_log, &limits) != HK_OK)
        print_line(hk_last_error());
}

static bool is_built_in(const hk_transport_ops *ops)
{
    bool found = false;
    for (const hk_transport_ops *const *one = hki_transports_all(); *one; one++)
        found |= *one == ops;
    return found;
}

void info_devices(void)
{
    if (hki_settings_check() != HK_OK) { /* an error in every job: what follows would not be what they see */
        printf("settings    %s\n", hk_last_error());
        return;
    }
    if (hki_transports_check() != HK_OK) {
        printf("transports  %s\n", hk_last_error());
        return;
    }
    for (const hk_transport_ops *const *ops = hki_transports_usable(); *ops; ops++)
        if (!is_built_in(*ops))
            describe(*ops);
}
