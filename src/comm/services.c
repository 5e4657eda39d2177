#include "comm/services.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/settings.h"

#include <string.h>

static void service_log(void *core, hk_log_level level, const char *format, ...)
{
    (void)core;
    va_list arguments;
    va_start(arguments, format);
    hki_vlog(level, format, arguments);
    va_end(arguments);
}

static void service_error(void *core, hk_status status, const char *format, ...)
{
    (void)core;
    va_list arguments;
    va_start(arguments, format);
    hki_verror(status, format, arguments);
    va_end(arguments);
}

static const char *service_setting(void *core, const char *name)
{
    (void)core;
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(settings[i].name + strlen("HOCKET_"), name) == 0)
            return hki_setting_text((hki_setting_id)i);
    }
    return "";
}

static uint64_t service_now(void *core)
{
    (void)core;
    return hki_now();
}

void hki_services_fill(hk_transport_services *services, void *core, const hk_peer *self, uint32_t ranks,
                       const uint8_t *token)
{
    *services = (hk_transport_services){.size = sizeof(hk_transport_services),
                                        .abi = HK_TRANSPORT_ABI,
                                        .core = core,
                                        .log = service_log,
                                        .setting = service_setting,
                                        .now = service_now,
                                        .error = service_error,
                                        .self = self,
                                        .ranks = ranks,
                                        .token = token};
}
