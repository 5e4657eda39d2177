#include "sched/verify.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "sched/dump.h"
#include "sched/verify_internal.h"

const char *hki_fault_name(hki_fault fault)
{
    static const char *const names[] = {
#define HKI_X(NAME, text) #NAME,
        HKI_FAULT_LIST(HKI_X)
#undef HKI_X
    };
    return (size_t)fault < sizeof names / sizeof *names ? names[fault] : "?";
}

static const char *fault_text(hki_fault fault)
{
    static const char *const texts[] = {
#define HKI_X(NAME, text) text,
        HKI_FAULT_LIST(HKI_X)
#undef HKI_X
    };
    return texts[fault];
}

hk_status hki_verify_fail(hki_verifier *verifier, hki_fault fault, uint32_t rank, uint32_t step, uint32_t block,
                          const char *format, ...)
{
    hki_verify_report *report = verifier->report;
    report->fault = fault;
    report->rank = rank;
    report->step = step;
    report->block = block;
    char detail[640], where_rank[24] = "", where_block[24] = "", where_step[320] = "";
    va_list list;
    va_start(list, format);
    vsnprintf(detail, sizeof detail, format, list);
    va_end(list);
    if (rank != HKI_NOWHERE)
        snprintf(where_rank, sizeof where_rank, ", rank %" PRIu32, rank);
    if (block != HKI_NOWHERE)
        snprintf(where_block, sizeof where_block, ", block %" PRIu32, block);
    if (step != HKI_NOWHERE) {
        char text[280];
        hki_step_text(verifier->schedules[rank], step, text, sizeof text);
        snprintf(where_step, sizeof where_step, ", step {%s}", text);
    }
    return hki_error(HK_ERR_INTERNAL, "schedule of %s%s%s for %" PRIu32 " ranks%s%s%s: %s: %s",
                     hki_promise_name(verifier->schedules[0]->collective), verifier->algorithm ? " by " : "",
                     verifier->algorithm ? verifier->algorithm : "", verifier->ranks, where_rank, where_step,
                     where_block, fault_text(fault), detail);
}

hk_status hki_verify_no_memory(hki_verifier *verifier)
{
    return hki_error(HK_ERR_NO_MEMORY, "no memory to verify %s for %" PRIu32 " ranks",
                     hki_promise_name(verifier->schedules[0]->collective), verifier->ranks);
}

/* Numbers all steps. */
static hk_status number_steps(hki_verifier *verifier)
{
    verifier->base = malloc(((size_t)verifier->ranks + 1) * sizeof *verifier->base);
    if (!verifier->base)
        return hki_verify_no_memory(verifier);
    size_t total = 0;
    for (uint32_t rank = 0; rank < verifier->ranks; rank++) {
        verifier->base[rank] = total;
        total += verifier->schedules[rank]->step_count;
    }
    verifier->base[verifier->ranks] = total;
    verifier->report->steps = total;
    verifier->partner = malloc((total + 1) * sizeof *verifier->partner);
    return verifier->partner ? HK_OK : hki_verify_no_memory(verifier);
}

hk_status hki_verify(const hki_schedule *const *schedules, uint32_t ranks, const char *algorithm,
                     hki_verify_report *report)
{
    *report = (hki_verify_report){.rank = HKI_NOWHERE, .step = HKI_NOWHERE, .block = HKI_NOWHERE};
    if (ranks == 0)
        return hki_error(HK_ERR_ARGUMENT, "nothing to verify: no ranks");
    hki_verifier verifier = {.schedules = schedules,
                             .ranks = ranks,
                             .algorithm = algorithm,
                             .promise = hki_promise_of(schedules[0]->collective),
                             .report = report};
    hk_status status = number_steps(&verifier);
    if (status == HK_OK)
        status = hki_verify_structure(&verifier);
    if (status == HK_OK)
        status = hki_verify_messages(&verifier);
    if (status == HK_OK)
        status = hki_verify_hazards(&verifier);
    if (status == HK_OK)
        status = hki_verify_run(&verifier);
    free(verifier.base);
    free(verifier.partner);
    return status;
}
