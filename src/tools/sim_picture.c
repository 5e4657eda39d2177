/*
 * hocket sim --svg: one picture of a simulation. From the top: what each candidate takes; the critical path; what some
 * ranks' cores and ways did; the busiest links. One scale of time for all but the candidates.
 */
#include "base/error.h"
#include "bench/bench_cell.h"
#include "bench/bench_report.h"
#include "tools/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1200, LEFT = 230, RIGHT = 40, PLOT = WIDTH - LEFT - RIGHT, ROWS = 16, LINKS = 8, TEXT = 96 };
enum { STEPS_MOST = 2000000, LANE = 7, ROW = 3 * LANE + 8, BAR = 18 };

/* Okabe and Ito's colours, told apart by every eye. */
#define INK "#303030"
#define PALE "#707070"
#define GRID "#E4E4E4"

static const char *const leg_colours[] = {
    [HKI_SIM_LEG_MESSAGE] = "#0072B2", [HKI_SIM_LEG_WAY] = "#56B4E9",    [HKI_SIM_LEG_MAKE] = "#999999",
    [HKI_SIM_LEG_MOVE] = "#F0C808",    [HKI_SIM_LEG_REDUCE] = "#D55E00", [HKI_SIM_LEG_TURN] = "#CC79A7"};
static const char *const way_colours[HKI_SIM_LANES] = {[HKI_SIM_OUT] = "#0072B2", [HKI_SIM_IN] = "#009E73"};

typedef struct picture {
    FILE *out;
    const hki_sim_study *study;
    const hki_sim *sim;
    uint32_t ranks[ROWS], rank_count;
    hki_sim_link links[LINKS];
    uint32_t link_count;
    double y; /* where the next part begins */
} picture;

static double x_of(const picture *to, uint64_t ps)
{
    return LEFT + (to->sim->total_ps ? (double)ps / (double)to->sim->total_ps * PLOT : 0);
}

static void put_text(FILE *out, double x, double y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    for (; *text; text++)
        switch (*text) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(*text, out);
        }
    fputs("</text>\n", out);
}

static void put_bar(FILE *out, double x, double y, double width, double height, const char *colour)
{
    fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n", x, y,
            width > 0.3 ? width : 0.3, height, colour);
}

static void put_section(picture *to, const char *title, const char *note)
{
    to->y += 30;
    put_text(to->out, 20, to->y, "class=\"section\"", title);
    put_text(to->out, LEFT, to->y, "class=\"pale\"", note);
    to->y += 12;
}

/* ---- the parts ---- */

static void put_title(picture *to)
{
    const hki_sim_request *request = to->study->request;
    char size[TEXT], time[TEXT], text[3 * TEXT];
    hki_bench_size_text(request->bytes, size, sizeof size);
    hki_sim_time_text(to->sim->total_ps, time, sizeof time);
    snprintf(text, sizeof text, "%s of %s bytes by %s: %s", hki_collective_name(request->collective), size,
             to->sim->algorithm->name, time);
    put_text(to->out, 20, 34, "class=\"title\"", text);
    snprintf(text, sizeof text, "simulated: %u rank%s on %u host%s (%s), %s, figures %s", to->sim->call.ranks,
             to->sim->call.ranks == 1 ? "" : "s", to->study->cluster->host_count,
             to->study->cluster->host_count == 1 ? "" : "s", to->study->cluster->source,
             hki_bench_type_name(request->type), request->figures_name);
    put_text(to->out, 20, 54, "class=\"pale\"", text);
    to->y = 58;
}

/* Logarithmic, so that what differs by powers of ten can be compared: from half the best to the slowest. */
static void put_candidates(picture *to)
{
    const hki_sim_study *study = to->study;
    const hki_sim_candidate **shown = malloc((study->count + 1) * sizeof *shown);
    size_t count = shown ? hki_sim_ranking(study, shown) : 0;
    double best = count ? (double)shown[0]->total_ps + 1 : 1, slowest = 2 * best;
    for (size_t i = 0; i < count; i++)
        slowest = fmax(slowest, (double)shown[i]->total_ps);
    put_section(to, "algorithms", "time, logarithmic");
    for (size_t i = 0; i < count; i++) {
        char time[TEXT];
        double width = log(2 * ((double)shown[i]->total_ps + 1) / best) / log(2 * slowest / best) * (PLOT - 90);
        put_text(to->out, LEFT - 8, to->y + BAR - 6, "class=\"name\"", shown[i]->algorithm->name);
        put_bar(to->out, LEFT, to->y + 2, width, BAR - 5, i == 0 ? "#009E73" : "#B8C4CC");
        put_text(to->out, LEFT + width + 6, to->y + BAR - 6, "class=\"pale\"",
                 hki_sim_time_text(shown[i]->total_ps, time, sizeof time));
        to->y += BAR;
    }
    free(shown);
}

/* A round time, without zeros that say nothing. */
static const char *tick_text(uint64_t ps, char *text, size_t room)
{
    char unit[8] = "";
    double value = 0;
    hki_sim_time_text(ps, text, room);
    if (sscanf(text, "%lf %7s", &value, unit) == 2)
        snprintf(text, room, value > 0 ? "%g %s" : "%g", value, unit);
    return text;
}

/* Vertical lines at round times, over the height of a part. */
static void put_grid(const picture *to, double height)
{
    double total = (double)to->sim->total_ps, step = pow(10, floor(log10(total > 1 ? total : 1)));
    step = total / step < 2 ? step / 5 : total / step < 5 ? step / 2 : step;
    for (uint32_t i = 0; step >= 1 && i * step <= total; i++) {
        char time[TEXT];
        double x = x_of(to, (uint64_t)(i * step));
        fprintf(to->out, "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"" GRID "\"/>\n", x, x, to->y,
                to->y + height);
        put_text(to->out, x, to->y + height + 12, "class=\"tick\"", tick_text((uint64_t)(i * step), time, sizeof time));
    }
}

/* A band of stretches of time. Where there are many, what each pixel mostly shows decides its colour, and how much of
 * it is filled its height. */
enum { KINDS = HKI_SIM_LEG_TURN + 1, SHADES = 4, MANY = 400 };

typedef struct band {
    const picture *to;
    double y, height;
    const char *const *colours; /* by kind of leg; … */
    const char *colour;         /* … or one for all */
    double (*filled)[KINDS];    /* by pixel; NULL: draw each by itself */
} band;

static const char *colour_of(const band *in, uint32_t kind)
{
    return in->colour ? in->colour : in->colours[kind];
}

static void fill_pixels(const band *in, hki_sim_leg_kind kind, double begin, double end)
{
    for (int pixel = (int)begin; pixel < PLOT && pixel < end; pixel++)
        in->filled[pixel][kind] += fmin(end, pixel + 1) - fmax(begin, pixel);
}

static void put_in_band(const band *in, hki_sim_leg_kind kind, uint64_t begin_ps, uint64_t end_ps)
{
    double begin = x_of(in->to, begin_ps), end = x_of(in->to, end_ps);
    if (in->filled)
        fill_pixels(in, kind, begin - LEFT, end - LEFT);
    else
        put_bar(in->to->out, begin, in->y, end - begin, in->height, colour_of(in, kind));
}

/* The kind that fills most of a pixel, and in *shade how much all do, from 0 to SHADES. */
static uint32_t look_at(const band *in, int pixel, int *shade)
{
    double all = 0;
    uint32_t most = 0;
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        all += in->filled[pixel][kind];
        if (in->filled[pixel][kind] > in->filled[pixel][most])
            most = kind;
    }
    *shade = all > 0.002 ? (int)fmax(1, fmin(ceil(all * SHADES - 0.3), SHADES)) : 0;
    return most;
}

static void finish_band(const band *in)
{
    for (int first = 0, behind; in->filled && first < PLOT; first = behind) {
        int shade, next;
        uint32_t kind = look_at(in, first, &shade);
        for (behind = first + 1; behind < PLOT && look_at(in, behind, &next) == kind && next == shade;)
            behind++;
        double height = in->height * shade / SHADES;
        if (shade)
            put_bar(in->to->out, LEFT + first, in->y + in->height - height, behind - first, height,
                    colour_of(in, kind));
    }
    free(in->filled);
}

/* `count`: of the stretches that will be put there. */
static band new_band(const picture *to, double height, const char *colour, uint32_t count)
{
    band in = {.to = to, .y = to->y, .height = height, .colours = leg_colours, .colour = colour};
    if (count > MANY)
        in.filled = calloc(PLOT, sizeof *in.filled);
    return in;
}

static void put_path(picture *to)
{
    const hki_sim_path *path = &to->study->candidates[to->study->best].path;
    char note[2 * TEXT];
    snprintf(note, sizeof note, "what the end waited for: %u messages, and between them what ranks did",
             path->messages);
    put_section(to, "critical path", note);
    put_grid(to, BAR + 4);
    band in = new_band(to, BAR, NULL, path->count);
    for (uint32_t i = 0; i < path->count; i++)
        put_in_band(&in, path->legs[i].kind, path->legs[i].begin_ps, path->legs[i].end_ps);
    finish_band(&in);
    to->y += BAR + 18;
}

static hk_status put_rank(picture *to, uint32_t rank)
{
    hki_sim_stretch *stretches;
    uint32_t count, next = 0;
    char name[TEXT];
    HK_TRY(hki_sim_stretches(to->sim, rank, &stretches, &count));
    snprintf(name, sizeof name, "rank %u", rank);
    put_text(to->out, LEFT - 8, to->y + 2 * LANE, "class=\"name\"", name);
    double top = to->y;
    for (int lane = 0; lane < HKI_SIM_LANES; lane++) {
        band in = new_band(to, LANE - 1.5, way_colours[lane], count);
        for (; next < count && stretches[next].lane == (hki_sim_lane)lane; next++)
            put_in_band(&in, stretches[next].kind, stretches[next].begin_ps, stretches[next].end_ps);
        finish_band(&in);
        to->y += LANE;
    }
    free(stretches);
    to->y = top + ROW;
    return HK_OK;
}

static hk_status put_ranks(picture *to)
{
    char note[2 * TEXT];
    snprintf(note, sizeof note, "%u of %u; each: what its core does, its way out, its way in", to->rank_count,
             to->sim->call.ranks);
    put_section(to, "ranks", note);
    put_grid(to, to->rank_count * (double)ROW);
    for (uint32_t i = 0; i < to->rank_count; i++)
        HK_TRY(put_rank(to, to->ranks[i]));
    to->y += 14;
    return HK_OK;
}

static void put_links(picture *to)
{
    if (to->link_count == 0)
        return;
    put_section(to, "busiest links", "part of the time during which something passes");
    for (uint32_t i = 0; i < to->link_count; i++) {
        const hki_sim_load *load = &to->sim->loads[to->links[i].resource];
        char text[TEXT];
        double part = to->sim->total_ps ? (double)load->busy_ps / (double)to->sim->total_ps : 0;
        hki_sim_link_text(to->study, &to->links[i], text, sizeof text);
        put_text(to->out, LEFT - 8, to->y + BAR - 6, "class=\"name\"", text);
        put_bar(to->out, LEFT, to->y + 2, part * (PLOT - 250), BAR - 5, "#E69F00");
        snprintf(text, sizeof text, "%.0f %%, %.4g MB, up to %u flows at once", 100 * part, (double)load->bytes * 1e-6,
                 load->most);
        put_text(to->out, LEFT + part * (PLOT - 250) + 6, to->y + BAR - 6, "class=\"pale\"", text);
        to->y += BAR;
    }
}

static void put_legend(picture *to)
{
    static const struct {
        const char *colour, *text;
    } entries[] = {{"#0072B2", "message, way out"},
                   {"#009E73", "way in"},
                   {"#56B4E9", "behind another message"},
                   {"#999999", "making steps, copies"},
                   {"#F0C808", "core moves bytes"},
                   {"#D55E00", "reduction"},
                   {"#CC79A7", "turns"}};
    double x = LEFT;
    to->y += 26;
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        put_bar(to->out, x, to->y - 9, 12, 10, entries[i].colour);
        put_text(to->out, x + 17, to->y, "class=\"pale\"", entries[i].text);
        x += 34 + 6.6 * (double)strlen(entries[i].text);
    }
    to->y += 20;
}

/* ---- the whole ---- */

static double height_of(const picture *to)
{
    double height = 58 + 46; /* title and legend */
    size_t shown = 0;
    for (size_t i = 0; i < to->study->count; i++)
        shown += !to->study->candidates[i].skipped;
    height += 42 + (double)shown * BAR + 42 + BAR + 18 + 42 + to->rank_count * (double)ROW + 14;
    return height + (to->link_count ? 42 + to->link_count * (double)BAR : 0);
}

hk_status hki_sim_picture(FILE *out, const hki_sim_study *study)
{
    picture to = {.out = out, .study = study, .sim = study->sim};
    to.rank_count = hki_sim_sample(study->sim, STEPS_MOST, to.ranks, ROWS);
    to.link_count = hki_sim_busiest(study, to.links, LINKS);
    while (to.link_count && study->sim->loads[to.links[to.link_count - 1].resource].busy_ps == 0)
        to.link_count--;
    double height = height_of(&to);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
            "font-family=\"DejaVu Sans, Helvetica, sans-serif\" font-size=\"11\">\n"
            "<style>.title{font-size:17px;font-weight:bold;fill:" INK "}.section{font-weight:bold;fill:" INK
            "}.pale{fill:" PALE "}.name{fill:" INK ";text-anchor:end}.tick{fill:" PALE
            ";font-size:9px;text-anchor:middle}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#FFFFFF\"/>\n",
            WIDTH, height, WIDTH, height);
    put_title(&to);
    put_candidates(&to);
    put_path(&to);
    hk_status status = put_ranks(&to);
    put_links(&to);
    put_legend(&to);
    fputs("</svg>\n", out);
    return status;
}
