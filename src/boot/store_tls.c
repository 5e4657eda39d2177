/* TLS for stores, as HOCKET_TLS says. */
#include "base/error.h"
#include "base/settings.h"
#include "boot/store_tcp.h"

hk_status hki_store_tls(const hki_store_identity *identity, hki_tls_context **context)
{
    const hki_tls_settings settings = {.mode = hki_setting_text(HKI_SET_TLS),
                                       .certificate = hki_setting_text(HKI_SET_TLS_CERTIFICATE),
                                       .key = hki_setting_text(HKI_SET_TLS_KEY),
                                       .authority = hki_setting_text(HKI_SET_TLS_CA)};
    char reason[HKI_TLS_REASON];
    hki_tls_made made = hki_tls_context_make(&settings, identity->key, context, reason);
    return made == HKI_TLS_MADE || made == HKI_TLS_OFF ? HK_OK : hki_error(HK_ERR_SETTING, "%s", reason);
}
