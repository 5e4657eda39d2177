/* Settings: each type of them gets the input as its value, and is then in its range, or refused with a text. */
#include "base/error.h"
#include "base/settings.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256];
    size_t count;
    uint64_t bytes;
    const hki_setting *table = hki_settings(&count);
    if (size < 2 || size >= sizeof text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (hki_parse_bytes(text, &bytes) && bytes > UINT64_C(1) << 62)
        abort();
    hki_setting_id id = (hki_setting_id)(data[0] % count);
    setenv(table[id].name, text, 1);
    hki_settings_reset();
    hk_status status = hki_settings_check();
    if (status != HK_OK && (status != HK_ERR_SETTING || !strstr(hk_last_error(), table[id].name)))
        abort();
    double number = hki_setting_seconds(id);
    if (table[id].type != HKI_SETTING_TEXT && !(number >= table[id].low && number <= table[id].high))
        abort();
    unsetenv(table[id].name);
    return 0;
}
