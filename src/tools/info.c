/* `hocket info`: what this build and machine offer. */
#include "tools/info.h"

#include "base/settings.h"
#include "dtype/dtype.h"
#include "net/interfaces.h"
#include "tools/tools.h"

#include <hocket/hocket.h>

#include <getopt.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char usage[] =
    "usage: hocket info [--settings | --algorithms [COLLECTIVE] | --topology [FILE] [--svg F]] [--json]\n"
    "\n"
    "Without options: version, machine, reduction kernels, which network addresses tcp uses for ranks of\n"
    "other hosts (see HOCKET_INTERFACE), and the RDMA device: rate, latency, and from which size on memory\n"
    "is registered, as measured.\n"
    "\n"
    "  --settings    the HOCKET_* variables: default, what is set now, meaning\n"
    "  --algorithms  the algorithms: cost, constraints, source\n"
    "  --topology    packages, memory, caches and cores of this host, and which CPUs are usable;\n"
    "                or of the host that lstopo wrote FILE (XML) on; or hosts, switches and ranks of the cluster\n"
    "                that FILE (JSON) describes, or of the job that this is a part of\n"
    "  --svg F       the topology as a picture in F\n"
    "  --json        the listing as a JSON array (settings and algorithms)\n";

static int usable_cpus(void)
{
    cpu_set_t usable;
    return sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 0;
}

/* Which addresses tcp would use for ranks of other hosts, and why. */
static void print_network(void)
{
    const char *choice = hki_setting_text(HKI_SET_INTERFACE);
    hki_interface all[HKI_INTERFACES_MOST], list[HKI_INTERFACES_MOST];
    char reason[HKI_INTERFACES_REASON];
    int count = hki_interfaces_survey(all, HKI_INTERFACES_MOST), up = hki_interfaces_list(list, HKI_INTERFACES_MOST);
    bool outward = false;
    for (int i = 0; i < up; i++)
        outward |= !list[i].loopback;
    if (up >= 0 && hki_interfaces_choose(choice, list, up, reason) <= 0)
        printf("network     HOCKET_INTERFACE=%s cannot be used: %s\n", choice, reason);
    for (int i = 0; i < count; i++) {
        char address[HKI_ADDRESS_TEXT], verdict[HKI_INTERFACE_VERDICT];
        hki_address_text(&all[i].address, address);
        hki_interface_verdict(&all[i], choice, outward, true, verdict);
        printf("network     %s %s: %s\n", all[i].name, address, verdict);
    }
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
    print_network();
    info_devices();
    return 0;
}

/* subject: what the listing is limited to, or about; NULL: nothing said. */
static int print_listing(int listing, const char *subject, const char *picture, bool json)
{
    if (picture && listing != 't') {
        fprintf(stderr, "hocket info: --svg is for --topology; see hocket info --help\n");
        return 2;
    }
    if (listing == 'a')
        return info_algorithms(subject, json);
    if (listing == 's')
        return info_settings(json);
    if (listing == 't' && !json)
        return info_topology(subject, picture);
    if (!json)
        return print_summary();
    fprintf(stderr, "hocket info: --json is for --settings and --algorithms; see hocket info --help\n");
    return 2;
}

int hki_tool_info(int argc, char **argv)
{
    static const struct option names[] = {{"settings", no_argument, NULL, 's'},
                                          {"algorithms", no_argument, NULL, 'a'},
                                          {"topology", no_argument, NULL, 't'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"svg", required_argument, NULL, 'g'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
    bool json = false;
    int listing = 0;
    const char *picture = NULL;
    optind = 1;
    for (int option = getopt_long(argc, argv, "h", names, NULL); option != -1;
         option = getopt_long(argc, argv, "h", names, NULL)) {
        if (option == 'h')
            return fputs(usage, stdout) < 0;
        if (option == '?')
            return 2;
        if (option == 'j')
            json = true;
        else if (option == 'g')
            picture = optarg;
        else
            listing = option;
    }
    if (optind + (listing == 'a' || listing == 't') < argc) {
        fprintf(stderr, "hocket info: unexpected \"%s\"; see hocket info --help\n", argv[argc - 1]);
        return 2;
    }
    return print_listing(listing, argv[optind], picture, json);
}
