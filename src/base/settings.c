#include "base/settings.h"

#include "base/error.h"
#include "base/log.h"
#include "base/words.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const hki_setting table[HKI_SETTING_COUNT] = {
#define HKI_SETTING(ID, NAME, TYPE, DEFAULT, LOW, HIGH, AGREE, HELP)                                                   \
    [HKI_SET_##ID] = {NAME, HKI_SETTING_##TYPE, DEFAULT, LOW, HIGH, AGREE, HELP},
#include "base/settings.def"
#undef HKI_SETTING
};

typedef struct setting_value {
    const char *text;
    double number; /* of everything but text */
    bool given;    /* set in the environment, if only to nothing */
    bool bad;      /* given, but not usable: text and number are the default's */
} setting_value;

/* Copies of what the environment said. They live as long as the process, since callers keep the pointers; chained, so
 * that a leak checker sees them. */
typedef struct kept_text {
    struct kept_text *next;
    char text[];
} kept_text;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool loaded;
static setting_value values[HKI_SETTING_COUNT];
static kept_text *kept_texts;

/* Digits with an optional fraction and exponent, read without the locale, whose decimal point may be a comma. Returns
 * the first character after the number, or NULL when there is none. */
static const char *parse_decimal(const char *text, double *number)
{
    double value = 0, scale = 1;
    bool negative = *text == '-', digits = false, point = false;
    for (text += negative; (*text >= '0' && *text <= '9') || (*text == '.' && !point); text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        digits = true;
        value = value * 10 + (*text - '0');
        scale *= point ? 10 : 1;
    }
    if (!digits)
        return NULL;
    int exponent = 0;
    if ((*text == 'e' || *text == 'E') && text[1] >= '0' && text[1] <= '9') {
        for (text++; *text >= '0' && *text <= '9'; text++)
            exponent = exponent < 1000 ? exponent * 10 + (*text - '0') : exponent;
    }
    *number = (negative ? -value : value) / scale * pow(10, exponent);
    return text;
}

bool hki_parse_bytes(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    double number;
    const char *rest = parse_decimal(text, &number);
    if (rest == NULL || number < 0)
        return false;
    const char *unit = *rest >= 'A' ? strchr(units, *rest & ~0x20) : NULL; /* in either case */
    if (unit != NULL) {
        number *= (double)(UINT64_C(1) << (10 * (unit - units + 1)));
        rest++;
        rest += *rest == 'i';
    }
    rest += *rest == 'B';
    if (*rest != '\0' || !(number <= 0x1p62))
        return false;
    *bytes = (uint64_t)number;
    return true;
}

bool hki_parse_seconds(const char *text, double *seconds)
{
    double number;
    const char *rest = parse_decimal(text, &number);
    if (rest == NULL || *rest != '\0')
        return false;
    *seconds = number;
    return true;
}

static bool parse_flag(const char *text, double *number)
{
    static const char *const words[2][4] = {{"0", "no", "off", "false"}, {"1", "yes", "on", "true"}};
    for (int flag = 0; flag < 2; flag++) {
        for (int i = 0; i < 4; i++) {
            if (strcasecmp(text, words[flag][i]) == 0) {
                *number = flag;
                return true;
            }
        }
    }
    return false;
}

/* False when malformed or out of the setting's range. */
static bool parse_number(const hki_setting *setting, const char *text, double *number)
{
    if (setting->type == HKI_SETTING_FLAG)
        return parse_flag(text, number);
    if (setting->type == HKI_SETTING_BYTES) {
        uint64_t bytes;
        if (!hki_parse_bytes(text, &bytes))
            return false;
        *number = (double)bytes;
    } else {
        const char *rest = parse_decimal(text, number);
        if (rest == NULL || *rest != '\0')
            return false;
    }
    if (setting->type == HKI_SETTING_INTEGER && *number != floor(*number))
        return false;
    return *number >= setting->low && *number <= setting->high;
}

static const char *keep(const char *text)
{
    size_t bytes = strlen(text) + 1;
    kept_text *kept = malloc(sizeof *kept + bytes);
    if (kept == NULL)
        return NULL;
    memcpy(kept->text, text, bytes);
    kept->next = kept_texts;
    kept_texts = kept;
    return kept->text;
}

static void load_one(const hki_setting *setting, setting_value *value)
{
    hk_log_level level;
    *value = (setting_value){.text = setting->standard};
    if (setting->type != HKI_SETTING_TEXT)
        parse_number(setting, setting->standard, &value->number);
    const char *given = getenv(setting->name);
    if (given == NULL)
        return;
    value->given = true;
    if (*given == '\0')
        return; /* set to nothing: the default */
    double number = 0;
    if (setting->type != HKI_SETTING_TEXT)
        value->bad = !parse_number(setting, given, &number);
    else if (setting == &table[HKI_SET_LOG])
        value->bad = !hki_log_level_parse(given, &level);
    const char *text = value->bad ? NULL : keep(given);
    if (text == NULL) {
        value->bad = true;
        return;
    }
    value->text = text;
    value->number = number;
}

static void load(void)
{
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&loaded, memory_order_relaxed)) {
        for (size_t i = 0; i < HKI_SETTING_COUNT; i++)
            load_one(&table[i], &values[i]);
        atomic_store_explicit(&loaded, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

static const setting_value *value_of(hki_setting_id id)
{
    if (!atomic_load_explicit(&loaded, memory_order_acquire))
        load();
    return &values[id];
}

const hki_setting *hki_settings(size_t *count)
{
    *count = HKI_SETTING_COUNT;
    return table;
}

const char *hki_setting_text(hki_setting_id id)
{
    return value_of(id)->text;
}

int64_t hki_setting_integer(hki_setting_id id)
{
    return (int64_t)value_of(id)->number;
}

double hki_setting_seconds(hki_setting_id id)
{
    return value_of(id)->number;
}

bool hki_setting_given(hki_setting_id id)
{
    return value_of(id)->given;
}

const char *hki_environment(const char *name)
{
    return getenv(name);
}

void hki_settings_reset(void)
{
    atomic_store_explicit(&loaded, false, memory_order_release);
    hki_log_forget();
}

static void report_unknown(const char *name, size_t length)
{
    size_t nearest = 0, distance = SIZE_MAX;
    for (size_t i = 0; i < HKI_SETTING_COUNT; i++) {
        size_t candidate = hki_word_distance(name, length, table[i].name);
        if (candidate == 0)
            return;
        if (candidate < distance) {
            nearest = i;
            distance = candidate;
        }
    }
    /* Beyond three slips of the finger another name is no help. */
    if (distance <= 3)
        hki_log(HK_LOG_WARN, "unknown setting %.*s: did you mean %s?", (int)length, name, table[nearest].name);
    else
        hki_log(HK_LOG_WARN, "unknown setting %.*s (`hocket info --settings` lists them)", (int)length, name);
}

static hk_status describe_bad(const hki_setting *setting)
{
    const char *given = getenv(setting->name);
    given = given != NULL ? given : "";
    switch (setting->type) {
    case HKI_SETTING_TEXT:
        return hki_error(HK_ERR_SETTING, "%s=%s is not usable: %s", setting->name, given, setting->help);
    case HKI_SETTING_FLAG:
        return hki_error(HK_ERR_SETTING, "%s=%s is neither 0 nor 1 (%s)", setting->name, given, setting->help);
    case HKI_SETTING_INTEGER:
    case HKI_SETTING_SECONDS:
    case HKI_SETTING_BYTES:
        break;
    }
    const char *kind = setting->type == HKI_SETTING_INTEGER   ? "a whole number"
                       : setting->type == HKI_SETTING_SECONDS ? "a number of seconds"
                                                              : "a number of bytes (100, 64K, 1.5M)";
    return hki_error(HK_ERR_SETTING, "%s=%s is not %s between %.15g and %.15g (%s)", setting->name, given, kind,
                     setting->low, setting->high, setting->help);
}

hk_status hki_settings_check(void)
{
    static const char prefix[] = "HOCKET_";
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *end = strchr(*entry, '=');
        if (end != NULL && strncmp(*entry, prefix, sizeof prefix - 1) == 0)
            report_unknown(*entry, (size_t)(end - *entry));
    }
    for (size_t i = 0; i < HKI_SETTING_COUNT; i++) {
        if (value_of((hki_setting_id)i)->bad)
            return describe_bad(&table[i]);
    }
    return HK_OK;
}

/* FNV-1a. */
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Numbers by value. */
static uint64_t hash_value(const hki_setting *setting, const setting_value *value)
{
    const uint64_t start = UINT64_C(0xcbf29ce484222325);
    if (setting->type == HKI_SETTING_TEXT)
        return hash_bytes(start, value->text, strlen(value->text));
    return hash_bytes(start, &(int64_t){(int64_t)(value->number * 1000)}, sizeof(int64_t));
}

void hki_settings_tell(hki_agreed_setting all[HKI_SETTINGS_AGREED])
{
    memset(all, 0, HKI_SETTINGS_AGREED * sizeof *all); /* whole records are sent */
    for (size_t i = 0; i < HKI_SETTING_COUNT; i++) {
        const setting_value *value = value_of((hki_setting_id)i);
        if (!table[i].agree)
            continue;
        all->hash = hash_value(&table[i], value);
        int length = snprintf(all->text, sizeof all->text, "%s", value->text);
        if (length >= (int)sizeof all->text)
            memcpy(all->text + sizeof all->text - 4, "...", 4);
        all++;
    }
}

const hki_setting *hki_settings_differ(const hki_agreed_setting *own, const hki_agreed_setting *other, size_t *at)
{
    *at = 0;
    for (size_t i = 0; i < HKI_SETTING_COUNT; i++) {
        if (!table[i].agree)
            continue;
        if (own[*at].hash != other[*at].hash)
            return &table[i];
        ++*at;
    }
    return NULL;
}
