/* A picture of what all candidates take over sizes: gnuplot draws it from a script that holds the prices. */
#include "base/error.h"
#include "tools/explain.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SIZES = 24, LEAST_LOG2 = 3 }; /* 8 B … 64 MiB, each octave */

/* Prices of each of the collective's algorithms, by size; 0: not priced. */
typedef struct curves {
    const hki_algorithm *algorithm[HKI_CANDIDATES_MOST];
    double us[HKI_CANDIDATES_MOST][SIZES];
    uint32_t count;
} curves;

static hk_status price_all(const hki_explanation *explanation, curves *all)
{
    for (uint32_t i = 0; i < explanation->count; i++)
        if (explanation->candidates[i].candidacy < HKI_FORBIDDEN &&
            (i == 0 || explanation->candidates[i].algorithm != explanation->candidates[0].algorithm))
            all->algorithm[all->count++] = explanation->candidates[i].algorithm;
    for (uint32_t size = 0; size < SIZES; size++) {
        hki_candidate candidates[HKI_CANDIDATES_MOST];
        uint32_t count;
        HK_TRY(hki_explain_size(explanation, UINT64_C(1) << (LEAST_LOG2 + size), candidates, &count));
        for (uint32_t i = 0; i < count; i++)
            for (uint32_t k = 0; k < all->count; k++)
                if (candidates[i].algorithm == all->algorithm[k] && candidates[i].candidacy == HKI_PRICED)
                    all->us[k][size] = (double)candidates[i].price.total_ps / 1e6;
    }
    return HK_OK;
}

static void put_data(FILE *out, const curves *all)
{
    for (uint32_t k = 0; k < all->count; k++) {
        bool any = false;
        fprintf(out, "$c%u << EOD\n", k);
        for (uint32_t size = 0; size < SIZES; size++) {
            if (all->us[k][size] <= 0)
                continue;
            fprintf(out, "%llu %.6g\n", 1ULL << (LEAST_LOG2 + size), all->us[k][size]);
            any = true;
        }
        fputs(any ? "EOD\n" : "NaN NaN\nEOD\n", out); /* no data at all would be an error */
    }
}

/* Gnuplot's enhanced text would read "_" as a subscript, so the key does without. */
static void put_curves(FILE *out, const curves *all)
{
    /* Okabe and Ito's colours, told apart by every eye; then the same dashed, then dotted. */
    static const char *const colours[] = {"#D55E00", "#0072B2", "#009E73", "#CC79A7",
                                          "#E69F00", "#56B4E9", "#8A6D3B", "#666666"};
    enum { COLOURS = sizeof colours / sizeof *colours };
    fputs("plot ", out);
    for (uint32_t k = 0; k < all->count; k++)
        fprintf(out, "%s$c%u with lines lw 2 dt %u lc rgb '%s' title '%s' noenhanced", k ? ", \\\n  " : "", k,
                k / COLOURS + 1, colours[k % COLOURS], all->algorithm[k]->name);
    fputc('\n', out);
}

static void put_script(FILE *out, const hki_explanation *explanation, const curves *all)
{
    const hki_cluster *cluster = explanation->cluster;
    put_data(out, all);
    fprintf(out,
            "set terminal svg size 1100,700 font 'DejaVu Sans,13' background rgb '#FFFFFF'\nset encoding utf8\n"
            "set title \"%s among %u rank%s on %u host%s: predicted time in µs\" noenhanced tc rgb '#303030'\n"
            "set logscale xy\nset border 3 lc rgb '#909090'\nset tics nomirror out textcolor rgb '#404040'\n"
            "set grid xtics ytics lt 1 lc rgb '#E4E4E4'\nset xlabel 'bytes'\nset format y '%%g'\n"
            "set xtics ('8 B' 8, '64 B' 64, '512 B' 512, '4 KiB' 4096, '32 KiB' 32768, '256 KiB' 262144, "
            "'2 MiB' 2097152, '16 MiB' 16777216)\n"
            "set xrange [8:67108864]\nset key outside right top tc rgb '#303030'\n",
            hki_collective_name(explanation->request->collective), cluster->rank_count,
            cluster->rank_count == 1 ? "" : "s", cluster->host_count, cluster->host_count == 1 ? "" : "s");
    put_curves(out, all);
}

/* Runs gnuplot with the script as its input, and its output going to `out`. */
static hk_status draw(FILE *script, FILE *out)
{
    char *arguments[] = {(char[]){"gnuplot"}, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    int state = 0;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return hki_error(HK_ERR_NO_MEMORY, "no memory to start gnuplot");
    posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    int trouble = posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (trouble == ENOENT)
        return hki_error(HK_ERR_UNSUPPORTED, "gnuplot, which draws the picture, is not installed");
    if (trouble != 0)
        return hki_error(HK_ERR_SYSTEM, "gnuplot: %s", strerror(trouble));
    while (waitpid(child, &state, 0) < 0)
        if (errno != EINTR)
            return hki_error(HK_ERR_SYSTEM, "gnuplot: %s", strerror(errno));
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        return hki_error(HK_ERR_SYSTEM, "gnuplot failed");
    return HK_OK;
}

/* Gnuplot does not notice that what it writes goes nowhere, so that it writes to a file of ours first. A failure to
 * write to `out` is left in its state. */
static hk_status hand_on(FILE *picture, FILE *out)
{
    static const char last[] = "</svg>";
    char piece[4096], end[2 * sizeof last] = "";
    size_t bytes;
    rewind(picture);
    while ((bytes = fread(piece, 1, sizeof piece, picture)) > 0)
        fwrite(piece, 1, bytes, out);
    fseek(picture, -(long)sizeof end + 1, SEEK_END);
    bytes = fread(end, 1, sizeof end - 1, picture);
    end[bytes] = '\0';
    return strstr(end, last) ? HK_OK : hki_error(HK_ERR_SYSTEM, "gnuplot drew nothing, or not all: is a disk full?");
}

static hk_status draw_to(FILE *script, FILE *out)
{
    FILE *picture = tmpfile();
    if (!picture)
        return hki_error(HK_ERR_SYSTEM, "no room for gnuplot's picture: %s", strerror(errno));
    hk_status status = draw(script, picture);
    if (status == HK_OK)
        status = hand_on(picture, out);
    fclose(picture);
    return status;
}

hk_status hki_explain_plot(FILE *out, const hki_explanation *explanation)
{
    if (explanation->request->collective == HKI_COLL_BARRIER || hki_size_is_private(explanation->request->collective))
        return hki_error(HK_ERR_UNSUPPORTED, "no choice for %s depends on a size: there is nothing to draw",
                         hki_collective_name(explanation->request->collective));
    curves *all = calloc(1, sizeof *all);
    FILE *script = tmpfile();
    hk_status status = HK_OK;
    if (!all || !script)
        status = hki_error(HK_ERR_SYSTEM, "no room for gnuplot's script: %s", strerror(errno));
    if (status == HK_OK)
        status = price_all(explanation, all);
    if (status == HK_OK) {
        put_script(script, explanation, all);
        status = fflush(script) == 0 && lseek(fileno(script), 0, SEEK_SET) == 0
                     ? draw_to(script, out)
                     : hki_error(HK_ERR_SYSTEM, "gnuplot's script: %s", strerror(errno));
    }
    if (script)
        fclose(script);
    free(all);
    return status;
}
