/* Tuning files, and figures as a peer packs them: whatever is read is in order, or refused with a text. */
#include "base/error.h"
#include "cost/pack.h"
#include "cost/tuning.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const hki_figures *figures)
{
    for (int link = 0; link < HKI_LINK_CLASSES; link++) {
        const hki_link_figures *of = &figures->link[link];
        if (of->ranges == 0 || of->ranges > HKI_FIGURE_RANGES || of->range[of->ranges - 1].upto != UINT64_MAX)
            abort();
        for (uint32_t i = 1; i < of->ranges; i++)
            if (of->range[i].upto <= of->range[i - 1].upto)
                abort();
    }
    if (!memchr(figures->source, '\0', sizeof figures->source))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static hki_tuning tuning;
    static hki_figures figures;
    hk_status status = hki_tuning_parse((const char *)data, size, "input", &tuning);
    if (status == HK_OK)
        check(&tuning.figures);
    else if (!strstr(hk_last_error(), "input"))
        abort();
    if (hki_figures_unpack(data, size, &figures))
        check(&figures);
    return 0;
}
