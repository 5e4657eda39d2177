/* hocket sim: simulates collectives on clusters of any size. */
#include "tools/sim.h"
#include "tools/tools.h"

#include "base/error.h"
#include "base/settings.h"

#include <errno.h>
#include <string.h>

static hk_status write_json(FILE *out, const hki_sim_study *study)
{
    hki_sim_json(out, study);
    return HK_OK;
}

/* Writes one form to a file ("-": standard output), if it is wanted. */
static bool write_form(const char *path, hk_status (*form)(FILE *, const hki_sim_study *), const hki_sim_study *study)
{
    if (!path)
        return true;
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!out) {
        fprintf(stderr, "hocket sim: %s: %s\n", path, strerror(errno));
        return false;
    }
    hk_status status = form(out, study);
    bool written = !ferror(out);
    int error_number = errno;
    if (out == stdout)
        written = fflush(out) == 0 && written;
    else if (fclose(out) != 0) {
        error_number = errno;
        written = false;
    }
    if (status != HK_OK)
        fprintf(stderr, "hocket sim: %s: %s\n", path, hk_last_error());
    else if (!written)
        fprintf(stderr, "hocket sim: %s: %s\n", path, strerror(error_number));
    return status == HK_OK && written;
}

static bool to_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static int show(const hki_sim_study *study)
{
    const hki_sim_request *request = study->request;
    if (!to_stdout(request->json) && !to_stdout(request->timeline) && !to_stdout(request->svg))
        hki_sim_report(stdout, study);
    bool written = write_form(request->json, write_json, study);
    if (study->sim) {
        written = write_form(request->timeline, hki_sim_timeline, study) && written;
        written = write_form(request->svg, hki_sim_picture, study) && written;
    }
    if (ferror(stdout) || fflush(stdout) != 0) {
        fprintf(stderr, "hocket sim: standard output: %s\n", strerror(errno));
        written = false;
    }
    if (!study->sim)
        fprintf(stderr, "hocket sim: no algorithm could be simulated\n");
    return written && study->sim ? 0 : 1;
}

int hki_tool_sim(int argc, char **argv)
{
    hki_sim_request request;
    hki_sim_study study;
    bool help;
    if (!hki_sim_command_line(argc, argv, &request, &help))
        return 2;
    if (help) {
        hki_sim_usage(stdout);
        return 0;
    }
    if (hki_setting_given(HKI_SET_ALGORITHM))
        fputs("hocket sim: HOCKET_ALGORITHM is not looked at, since algorithms are compared; --algorithm names some\n",
              stderr);
    hk_status status = hki_sim_study_run(&request, &study);
    if (status != HK_OK) {
        fprintf(stderr, "hocket sim: %s\n", hk_last_error());
        return status == HK_ERR_ARGUMENT ? 2 : 1;
    }
    int result = show(&study);
    hki_sim_study_free(&study);
    return result;
}
