#include "sched/dump.h"

#include <inttypes.h>
#include <stdarg.h>

#include "sched/model.h"

/* Text that grows in a caller's buffer and only counts once that is full. */
typedef struct line {
    char *text;
    size_t size, length;
} line;

static void put(line *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(line *out, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    bool room = out->length < out->size;
    int length = vsnprintf(room ? out->text + out->length : NULL, room ? out->size - out->length : 0, format, list);
    va_end(list);
    if (length > 0)
        out->length += (size_t)length;
}

const char *hki_verb_name(unsigned verb)
{
    static const char *const names[] = {"send", "recv", "recv_reduce", "copy", "reduce"};
    return verb < sizeof names / sizeof *names ? names[verb] : "?";
}

/* Blocks as runs: 4..7,0..1. Long lists are cut short, since they are regular. Malformed steps are printed too: that is
 * when people want to see them. */
static void put_blocks(line *out, const hki_range *blocks)
{
    enum { SHOWN_RUNS = 6 };
    uint32_t shown = 0;
    put(out, "[");
    if (blocks->run == 0 || blocks->wrap == 0)
        put(out, "no run or no ring");
    for (uint32_t i = 0, first, count; blocks->run && blocks->wrap && hki_range_next(blocks, &i, &first, &count);
         shown++) {
        if (shown == SHOWN_RUNS) {
            put(out, ",… (%" PRIu32 " blocks)", blocks->count);
            break;
        }
        put(out, count == 1 ? "%s%" PRIu32 : "%s%" PRIu32 "..%" PRIu32, shown ? "," : "", first, first + count - 1);
    }
    put(out, "]");
}

static void put_span(line *out, const hki_span *span)
{
    static const char *const names[] = {"input", "output", "scratch"};
    if (span->blocks.count == 0) {
        put(out, "signal");
        return;
    }
    put(out, "%s", span->buffer <= HKI_SCRATCH ? names[span->buffer] : "?");
    if (span->buffer == HKI_SCRATCH)
        put(out, span->slots == 1 ? " slot %" PRIu32 " of %s" : " slots from %" PRIu32 " of %s", span->slot,
            span->of <= HKI_OUTPUT ? names[span->of] : "?");
    put_blocks(out, &span->blocks);
}

static void put_sources(line *out, const hki_schedule *schedule, const hki_step *step)
{
    for (uint32_t i = 0; i < step->source_count && step->first_source + i < schedule->source_count; i++) {
        put(out, "%s", i ? " op " : "");
        put_span(out, &schedule->sources[step->first_source + i]);
    }
}

static void put_operands(line *out, const hki_schedule *schedule, const hki_step *step)
{
    bool left = step->flags & HKI_INCOMING_LEFT;
    if (step->verb == HKI_VERB_SEND) {
        put_span(out, &step->source);
        return;
    }
    put_span(out, &step->destination);
    if (step->verb == HKI_VERB_RECV)
        return;
    put(out, " = %s", step->verb == HKI_VERB_RECV_REDUCE && left ? "incoming op " : "");
    if (step->verb == HKI_VERB_REDUCE)
        put_sources(out, schedule, step);
    else
        put_span(out, &step->source);
    if (step->verb == HKI_VERB_RECV_REDUCE && !left)
        put(out, " op incoming");
}

size_t hki_step_text(const hki_schedule *schedule, uint32_t index, char *text, size_t size)
{
    const hki_step *step = &schedule->steps[index];
    line out = {.text = text, .size = size};
    if (size)
        text[0] = 0;
    put(&out, "%" PRIu32 ": %s", index, hki_verb_name(step->verb));
    if (step->verb <= HKI_VERB_RECV_REDUCE)
        put(&out, " %s %" PRIu32 " #%" PRIu32, step->verb == HKI_VERB_SEND ? "to" : "from", step->peer, step->ordinal);
    put(&out, step->verb <= HKI_VERB_RECV_REDUCE ? ": " : " ");
    put_operands(&out, schedule, step);
    if (step->flags & HKI_FINISH)
        put(&out, ", finish");
    for (uint32_t i = 0; i < step->dep_count && step->first_dep + i < schedule->dep_count; i++)
        put(&out, "%s %" PRIu32, i ? "" : "; after", schedule->deps[step->first_dep + i]);
    return out.length;
}

static void dump_grid(const hki_schedule *schedule, unsigned buffer, FILE *file)
{
    static const char *const cuts[] = {"unused", "even", "fractions", "counts", "own share"};
    const hki_grid *grid = &schedule->grid[buffer];
    fprintf(file, "%s %s", buffer == HKI_INPUT ? "input" : ", output", cuts[grid->cut]);
    if (grid->cut != HKI_CUT_NONE)
        fprintf(file, " %" PRIu32 "×%" PRIu32, grid->parts, grid->segments);
}

void hki_schedule_dump(const hki_schedule *schedule, FILE *file)
{
    fprintf(file, "%s, rank %" PRIu32 " of %" PRIu32 ", root %" PRIu32 ": ", hki_promise_name(schedule->collective),
            schedule->rank, schedule->ranks, schedule->root);
    dump_grid(schedule, HKI_INPUT, file);
    dump_grid(schedule, HKI_OUTPUT, file);
    fprintf(file, ", %" PRIu32 " slots, %" PRIu32 " steps, %zu bytes\n", schedule->slots, schedule->step_count,
            schedule->bytes);
    if (schedule->alias.whole)
        fprintf(file, "in place: the buffers overlap\n");
    else if (schedule->alias.count)
        fprintf(file, "in place: input[%" PRIu32 "..] is output[%" PRIu32 "..], %" PRIu32 " blocks\n",
                schedule->alias.input, schedule->alias.output, schedule->alias.count);
    for (uint32_t i = 0; i < schedule->step_count; i++) {
        char text[512];
        size_t length = hki_step_text(schedule, i, text, sizeof text);
        fprintf(file, "  %s%s\n", text, length >= sizeof text ? " …" : "");
    }
}
