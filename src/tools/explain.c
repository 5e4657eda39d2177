/* hocket explain: which algorithm is chosen, and why. */
#include "tools/explain.h"
#include "tools/tools.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static hk_status write_json(FILE *out, const hki_explanation *explanation)
{
    hki_explain_json(out, explanation);
    return HK_OK;
}

/* Whether removing it removes what was written: a device is not ours. */
static bool is_regular(FILE *file)
{
    struct stat status;
    return fstat(fileno(file), &status) == 0 && S_ISREG(status.st_mode);
}

/* Writes one form to a file, if it is wanted; a file that could not be written whole is removed. */
static bool write_form(const char *path, hk_status (*form)(FILE *, const hki_explanation *),
                       const hki_explanation *explanation)
{
    if (!path || strcmp(path, "-") == 0)
        return true;
    FILE *out = fopen(path, "we");
    if (!out) {
        fprintf(stderr, "hocket explain: %s: %s\n", path, strerror(errno));
        return false;
    }
    bool regular = is_regular(out);
    hk_status status = form(out, explanation);
    bool written = !ferror(out);
    written = fclose(out) == 0 && written;
    if (status == HK_OK && written)
        return true;
    fprintf(stderr, "hocket explain: %s: %s\n", path, status != HK_OK ? hk_last_error() : strerror(errno));
    if (regular)
        (void)unlink(path);
    return false;
}

static int show(const hki_explanation *explanation)
{
    const hki_explain_request *request = explanation->request;
    bool good = true;
    if (request->json && strcmp(request->json, "-") == 0) {
        hki_explain_json(stdout, explanation);
    } else {
        hki_explain_report(stdout, explanation);
        if (request->schedule && hki_explain_schedule(stdout, explanation) != HK_OK) {
            fprintf(stderr, "hocket explain: %s\n", hk_last_error());
            good = false;
        }
    }
    good = write_form(request->json, write_json, explanation) && good;
    good = write_form(request->plot, hki_explain_plot, explanation) && good;
    if (ferror(stdout) || fflush(stdout) != 0) {
        fprintf(stderr, "hocket explain: standard output: %s\n", strerror(errno));
        good = false;
    }
    return good ? 0 : 1;
}

int hki_tool_explain(int argc, char **argv)
{
    hki_explain_request request;
    hki_explanation explanation;
    bool help;
    if (!hki_explain_command_line(argc, argv, &request, &help))
        return 2;
    if (help) {
        hki_explain_usage(stdout);
        return 0;
    }
    hk_status status = hki_explain_ports(&request);
    if (status == HK_OK)
        status = hki_explain(&request, &explanation);
    if (status != HK_OK) {
        fprintf(stderr, "hocket explain: %s\n", hk_last_error());
        return status == HK_ERR_ARGUMENT || status == HK_ERR_SETTING ? 2 : 1;
    }
    int result = show(&explanation);
    hki_explanation_free(&explanation);
    return result;
}
