/* `hocket info`: what this build and machine offer. */
#include "base/settings.h"
#include "dtype/dtype.h"
#include "tools/tools.h"

#include <hocket/hocket.h>

#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char usage[] = "usage: hocket info [--settings]\n"
                            "\n"
                            "Without options: version, machine, reduction kernels.\n"
                            "\n"
                            "  --settings    the HOCKET_* variables: default, what is set now, meaning\n";

/* What a number may be, as "0 to 1e+06"; "" for texts and flags. */
static void range_text(const hki_setting *setting, char *text, size_t capacity)
{
    text[0] = '\0';
    if (setting->type != HKI_SETTING_TEXT && setting->type != HKI_SETTING_FLAG)
        snprintf(text, capacity, ", %g to %g", setting->low, setting->high);
}

static int print_settings(void)
{
    static const char *const types[] = {[HKI_SETTING_TEXT] = "text",
                                        [HKI_SETTING_INTEGER] = "integer",
                                        [HKI_SETTING_SECONDS] = "seconds",
                                        [HKI_SETTING_BYTES] = "bytes",
                                        [HKI_SETTING_FLAG] = "flag"};
    size_t count;
    const hki_setting *settings = hki_settings(&count);
    for (size_t i = 0; i < count; i++) {
        char range[64];
        const hki_setting *setting = &settings[i];
        range_text(setting, range, sizeof range);
        printf("%s (%s%s; default \"%s\"%s)\n    %s\n", setting->name, types[setting->type], range, setting->standard,
               setting->agree ? "; equal on all ranks" : "", setting->help);
        if (hki_setting_given((hki_setting_id)i))
            printf("    now: %s\n", hki_setting_text((hki_setting_id)i));
    }
    hk_status status = hki_settings_check();
    if (status != HK_OK)
        printf("\n%s: %s\n", hk_status_string(status), hk_last_error());
    return status != HK_OK;
}

static int usable_cpus(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
}

static int print_summary(void)
{
    struct utsname machine;
    if (uname(&machine) != 0)
        memset(&machine, 0, sizeof machine);
    printf("hocket      %s\n", hk_version(NULL, NULL, NULL));
    printf("host        %s (%s %s, %s)\n", machine.nodename, machine.sysname, machine.release, machine.machine);
    printf("CPUs        %ld online, %d usable by this process\n", sysconf(_SC_NPROCESSORS_ONLN), usable_cpus());
    printf("kernels     %s (HOCKET_KERNELS=%s)\n", hki_kernels_name(), hki_setting_text(HKI_SET_KERNELS));
    return 0;
}

int hki_tool_info(int argc, char **argv)
{
    static const struct option names[] = {
        {"settings", no_argument, NULL, 's'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool settings = false;
    optind = 1;
    for (int option = getopt_long(argc, argv, "h", names, NULL); option != -1;
         option = getopt_long(argc, argv, "h", names, NULL)) {
        if (option == 'h')
            return fputs(usage, stdout) < 0;
        if (option == '?')
            return 2;
        settings |= option == 's';
    }
    if (optind < argc) {
        fprintf(stderr, "hocket info: unexpected \"%s\"; see hocket info --help\n", argv[optind]);
        return 2;
    }
    return settings ? print_settings() : print_summary();
}
