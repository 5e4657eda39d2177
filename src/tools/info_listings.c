#include "tools/info.h"

#include "algo/algo.h"
#include "base/settings.h"

#include <hocket/hocket.h>

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------------------------------
 * JSON
 * ------------------------------------------------------------------------------------------------------------- */

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        unsigned char letter = (unsigned char)*text;
        if (letter == '"' || letter == '\\')
            printf("\\%c", letter);
        else if (letter < ' ')
            printf("\\u%04x", letter);
        else
            putchar(letter);
    }
    putchar('"');
}

static void print_member(const char *name, const char *value)
{
    printf(", \"%s\": ", name);
    print_text(value ? value : "");
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* ---------------------------------------------------------------------------------------------------------------
 * Algorithms
 * ------------------------------------------------------------------------------------------------------------- */

static const char *or_none(const char *text)
{
    return text && *text ? text : "none";
}

/* Which operators it serves; nothing where the collective has none. */
static const char *order_text(const hki_algorithm *algorithm)
{
    if (!hki_collective_reduces(algorithm->collective))
        return "";
    return algorithm->keeps_order ? "keeps rank order; " : "commutative operators only; ";
}

static void print_algorithm(const hki_algorithm *algorithm)
{
    printf("%s:%s  %s\n", hki_collective_name(algorithm->collective), algorithm->name, algorithm->summary);
    printf("    rounds %s; sent by the busiest rank %s; scratch %s\n", or_none(algorithm->rounds_text),
           or_none(algorithm->sent_text), or_none(algorithm->scratch_text));
    printf("    ranks: %s; %s%s\n", algorithm->constraint && *algorithm->constraint ? algorithm->constraint : "any",
           order_text(algorithm), algorithm->segmented ? "pipelined in segments" : "not segmented");
    printf("    %s\n", or_none(algorithm->source));
}

static void print_algorithm_json(const hki_algorithm *algorithm)
{
    printf("  {\"collective\": ");
    print_text(hki_collective_name(algorithm->collective));
    print_member("name", algorithm->name);
    print_member("summary", algorithm->summary);
    print_member("constraint", algorithm->constraint);
    print_member("rounds", algorithm->rounds_text);
    print_member("sent", algorithm->sent_text);
    print_member("scratch", algorithm->scratch_text);
    printf(", \"keeps_order\": %s",
           hki_collective_reduces(algorithm->collective) ? truth(algorithm->keeps_order) : "null");
    printf(", \"segmented\": %s", truth(algorithm->segmented));
    print_member("source", algorithm->source);
    printf("}");
}

int info_algorithms(const char *collective, bool json)
{
    size_t count, printed = 0;
    const hki_algorithm *algorithms = hki_algorithms(&count);
    if (collective && hki_collective_find(collective) < 0) {
        fprintf(stderr, "hocket info: there is no collective \"%s\"\n", collective);
        return 2;
    }
    if (json)
        printf("[\n");
    for (size_t i = 0; i < count; i++) {
        if (collective && strcmp(hki_collective_name(algorithms[i].collective), collective) != 0)
            continue;
        if (json && printed++ > 0)
            printf(",\n");
        if (json)
            print_algorithm_json(&algorithms[i]);
        else
            print_algorithm(&algorithms[i]);
    }
    if (json)
        printf("\n]\n");
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------------
 * Settings
 * ------------------------------------------------------------------------------------------------------------- */

static const char *const type_names[] = {[HKI_SETTING_TEXT] = "text",
                                         [HKI_SETTING_INTEGER] = "integer",
                                         [HKI_SETTING_SECONDS] = "seconds",
                                         [HKI_SETTING_BYTES] = "bytes",
                                         [HKI_SETTING_FLAG] = "flag"};

static bool is_number(const hki_setting *setting)
{
    return setting->type != HKI_SETTING_TEXT && setting->type != HKI_SETTING_FLAG;
}

static void print_setting(const hki_setting *setting, hki_setting_id id)
{
    printf("%s (%s", setting->name, type_names[setting->type]);
    if (is_number(setting))
        printf(", %.15g to %.15g", setting->low, setting->high);
    printf("; default \"%s\"%s)\n    %s\n", setting->standard, setting->agree ? "; equal on all ranks" : "",
           setting->help);
    if (hki_setting_given(id))
        printf("    now: %s\n", hki_setting_text(id));
}

static void print_setting_json(const hki_setting *setting, hki_setting_id id)
{
    printf("  {\"name\": ");
    print_text(setting->name);
    print_member("type", type_names[setting->type]);
    print_member("default", setting->standard);
    if (is_number(setting))
        printf(", \"low\": %.17g, \"high\": %.17g", setting->low, setting->high);
    printf(", \"equal_on_all_ranks\": %s", truth(setting->agree));
    print_member("help", setting->help);
    if (hki_setting_given(id))
        print_member("now", hki_setting_text(id));
    printf("}");
}

int info_settings(bool json)
{
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    if (json)
        printf("[\n");
    for (size_t i = 0; i < count; i++) {
        if (json)
            print_setting_json(&settings[i], (hki_setting_id)i);
        else
            print_setting(&settings[i], (hki_setting_id)i);
        if (json)
            printf(i + 1 < count ? ",\n" : "\n]\n");
    }
    if (hki_settings_check() == HK_OK)
        return 0;
    fprintf(stderr, "hocket info: %s\n", hk_last_error());
    return 1;
}
