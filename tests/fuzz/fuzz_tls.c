/* Whatever comes over a connection that begins with TLS: to a server, and to a client. */
#include "stranger.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static hki_tls_context *shared_context(void)
{
    static const uint8_t secret[HKI_TLS_SECRET] = "a key that the input cannot know";
    static const hki_tls_settings settings = {"required", "", "", ""};
    static hki_tls_context *context;
    char reason[HKI_TLS_REASON];
    if (context == NULL && hki_tls_context_make(&settings, secret, &context, reason) != HKI_TLS_MADE) {
        fprintf(stderr, "nothing to try: %s\n", reason);
        exit(0);
    }
    return context;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size <= 4096)
        stranger_meets(data, size, 8, shared_context());
    return 0;
}
