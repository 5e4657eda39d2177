#include "bench/bench_json.h"

#include <math.h>

static void quoted(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(out, "\\%c", byte);
        else if (byte < 0x20)
            fprintf(out, "\\u%04x", byte);
        else
            fputc(byte, out);
    }
    fputc('"', out);
}

static void name_of(FILE *out, const char *name)
{
    quoted(out, name);
    fputs(": ", out);
}

void hki_bench_json_text(FILE *out, const char *name, const char *value)
{
    name_of(out, name);
    quoted(out, value);
}

void hki_bench_json_integer(FILE *out, const char *name, int64_t value)
{
    name_of(out, name);
    fprintf(out, "%lld", (long long)value);
}

void hki_bench_json_number(FILE *out, const char *name, double value)
{
    name_of(out, name);
    if (isfinite(value))
        fprintf(out, "%.6g", value);
    else
        fputs("null", out);
}

void hki_bench_json_truth(FILE *out, const char *name, int value)
{
    name_of(out, name);
    fputs(value == 1 ? "true" : value == 0 ? "false" : "null", out);
}
