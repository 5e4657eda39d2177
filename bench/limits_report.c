#include "bench/bench_json.h"
#include "bench/limits.h"

#include <math.h>
#include <stdio.h>

const char *const hki_limits_way_names[HKI_LIMITS_WAYS] = {"slots", "get", "mapped", "tcp", "stream"};

void hki_limits_report_json(const hki_limits *result)
{
    printf("{\"limits\": {");
    hki_bench_json_number(stdout, "handover_ns", result->handover_ns);
    printf(", ");
    hki_bench_json_number(stdout, "copy_gbs", result->copy_gbs);
    printf(", \"cells\": [");
    for (size_t i = 0; i < result->count; i++) {
        const hki_limits_cell *c = &result->cells[i];
        printf("%s\n  {", i == 0 ? "" : ",");
        hki_bench_json_integer(stdout, "bytes", (int64_t)c->bytes);
        for (int way = 0; way < HKI_LIMITS_WAYS; way++) {
            char name[16];
            snprintf(name, sizeof name, "%s_us", hki_limits_way_names[way]);
            printf(", ");
            hki_bench_json_number(stdout, name, c->time[way]);
        }
        printf("}");
    }
    printf("\n]}}\n");
}

static void print_time(double time)
{
    if (isnan(time))
        printf(" %12s", "-");
    else
        printf(" %12.2f", time);
}

void hki_limits_report_text(const hki_limits *result)
{
    printf("cache-line hand-over %.0f ns, memory copy %.1f GB/s\n", result->handover_ns, result->copy_gbs);
    printf("all-reduce of two processes, float32 sum (tcp: only moved; stream: one way), us:\n%12s", "bytes");
    for (int way = 0; way < HKI_LIMITS_WAYS; way++)
        printf(" %12s", hki_limits_way_names[way]);
    printf("\n");
    for (size_t i = 0; i < result->count; i++) {
        const hki_limits_cell *c = &result->cells[i];
        printf("%12zu", c->bytes);
        for (int way = 0; way < HKI_LIMITS_WAYS; way++)
            print_time(c->time[way]);
        printf("\n");
    }
}
