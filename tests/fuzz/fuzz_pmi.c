/* Lines of PMI-1: names and values are cut out of them within their bounds. The input is a line, a newline, a key. */
#include "boot/kvs.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t capacities[] = {1, 2, 64, 1025};
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    char *newline = strchr(text, '\n');
    const char *key = newline ? newline + 1 : "value";
    if (newline)
        *newline = '\0';
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        char *value = malloc(capacities[i]);
        if (hki_pmi_field(text, key, value, capacities[i]) && strlen(value) >= capacities[i])
            abort();
        free(value);
    }
    free(text);
    return 0;
}
