/*
 * The record that tells an agent what to run: strings, each with a NUL at its end, in the order of write_fields. Before
 * it, on the agent's standard input, go 8 bytes: "HKR" and the version, and its length (32 bits, little-endian).
 */
#include "net/wire.h"
#include "tools/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- writing ---- */

typedef struct writer {
    char *bytes;
    size_t used, capacity;
    bool failed;
} writer;

static void put(writer *out, const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (out->failed || out->used + bytes > RUN_RECORD_MAX) {
        out->failed = true;
        return;
    }
    if (out->used + bytes > out->capacity) {
        size_t capacity = (out->used + bytes) * 2;
        char *grown = realloc(out->bytes, capacity);
        if (!grown) {
            out->failed = true;
            return;
        }
        out->bytes = grown;
        out->capacity = capacity;
    }
    memcpy(out->bytes + out->used, text, bytes);
    out->used += bytes;
}

static void put_number(writer *out, long long number)
{
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    put(out, text);
}

static void put_list(writer *out, char *const *list)
{
    long long count = 0;
    while (list[count])
        count++;
    put_number(out, count);
    for (long long i = 0; i < count; i++)
        put(out, list[i]);
}

static void put_key(writer *out, const uint8_t key[HKI_LAUNCH_KEY_BYTES])
{
    char text[2 * HKI_LAUNCH_KEY_BYTES + 1];
    for (int i = 0; i < HKI_LAUNCH_KEY_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", (unsigned)key[i]);
    put(out, text);
    explicit_bzero(text, sizeof text);
}

char *run_record_write(const run_record *record, size_t *bytes)
{
    writer out = {0};
    const run_options *options = &record->options;
    const run_share *share = &record->share;
    put(&out, "HKR1len"); /* room for the 8 bytes in front */
    put(&out, share->host);
    put_number(&out, options->ranks);
    put_number(&out, share->first);
    put_number(&out, share->total);
    put(&out, share->meeting);
    put_number(&out, share->port);
    put_number(&out, share->ports);
    put_key(&out, share->key);
    put_number(&out, options->bind);
    put_number(&out, (long long)(options->grace * 1000));
    put_number(&out, options->tag_output);
    put_number(&out, options->keep_going);
    put(&out, record->directory);
    put_list(&out, record->settings);
    put_list(&out, options->command);
    if (out.failed) {
        free(out.bytes);
        return NULL;
    }
    hki_wire_put32((unsigned char *)out.bytes + 4, (uint32_t)(out.used - 8));
    *bytes = out.used;
    return out.bytes;
}

/* ---- reading ---- */

typedef struct reader {
    char *next, *end;
    bool failed;
} reader;

static char *take(reader *in)
{
    static char nothing[1];
    if (in->failed || in->next >= in->end) {
        in->failed = true;
        return nothing;
    }
    char *text = in->next;
    in->next += strlen(text) + 1; /* the last byte of all is a NUL */
    return text;
}

static int take_number(reader *in, int low, int high)
{
    const char *text = take(in);
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < low || number > high) {
        in->failed = true;
        return low;
    }
    return (int)number;
}

static void take_key(reader *in, uint8_t key[HKI_LAUNCH_KEY_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    const char *text = take(in);
    if (strlen(text) != 2 * HKI_LAUNCH_KEY_BYTES || strspn(text, digits) != strlen(text)) {
        in->failed = true;
        return;
    }
    for (int i = 0; i < HKI_LAUNCH_KEY_BYTES; i++)
        key[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 | (strchr(digits, text[2 * i + 1]) - digits));
}

/* A list goes to at[0 … count], NULL at the end; returns the place after it. */
static char **take_list(reader *in, char **at)
{
    int count = take_number(in, 0, (int)(in->end - in->next));
    for (int i = 0; i < count && !in->failed; i++)
        *at++ = take(in);
    *at++ = NULL;
    return at;
}

static void take_share(reader *in, run_record *record)
{
    run_share *share = &record->share;
    share->host = take(in);
    record->options.ranks = take_number(in, 1, RUN_RANKS_MAX);
    share->first = take_number(in, 0, 1 << 24);
    share->total = take_number(in, 1, 1 << 24);
    share->meeting = take(in);
    share->port = (uint16_t)take_number(in, 1, UINT16_MAX);
    share->ports = (uint16_t)take_number(in, 1, 64);
    take_key(in, share->key);
    in->failed |= share->first + record->options.ranks > share->total || strlen(share->meeting) >= HKI_LAUNCH_HOST_MAX;
}

bool run_record_read(char *bytes, size_t length, run_record *record)
{
    reader in = {.failed = length == 0};
    size_t most = 4; /* a NULL for each list, and a little */
    memset(record, 0, sizeof *record);
    if (length == 0 || bytes[length - 1] != '\0')
        return false;
    in.next = bytes;
    in.end = bytes + length;
    for (size_t i = 0; i < length; i++)
        most += bytes[i] == '\0';
    record->strings = calloc(most, sizeof *record->strings);
    if (!record->strings)
        return false;
    take_share(&in, record);
    record->options.bind = (run_bind)take_number(&in, RUN_BIND_NONE, RUN_BIND_CORE);
    record->options.grace = take_number(&in, 0, 1000000000) * 1e-3;
    record->options.tag_output = take_number(&in, 0, 1) == 1;
    record->options.keep_going = take_number(&in, 0, 1) == 1;
    record->directory = take(&in);
    record->settings = record->strings;
    record->options.command = take_list(&in, record->settings);
    char **end = take_list(&in, record->options.command);
    record->options.share = &record->share;
    if (!in.failed && in.next == in.end && end - record->options.command > 1)
        return true;
    run_record_free(record);
    return false;
}

void run_record_free(run_record *record)
{
    free(record->strings);
    explicit_bzero(record->share.key, sizeof record->share.key);
    record->strings = NULL;
}
