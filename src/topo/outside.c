/*
 * Topologies from outside: files and descriptions. hwloc trusts what it reads (a file with one attribute misspelt makes
 * it follow a NULL pointer, lstopo as well), and takes seconds for what is huge. So a child process reads, and hands
 * the topology over as bytes, each of which is checked; if it crashes or does not come to an end, that is an error
 * about the file. Only programs get here: a job reads its own host, or what `hocket run` hands on.
 */
#include "topo/found.h"

#include "base/clock.h"
#include "base/error.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_S = 10, WORDS = 512 };
/* Bytes of a packed topology of as many PUs as there may be, and more. */
enum { REPLY_MOST = 1 << 20 };

/* What a child writes: this, and then the topology, or why there is none. */
typedef struct heading {
    hk_status status;
    uint32_t bytes;
} heading;

static bool write_all(int end, const void *data, size_t bytes)
{
    const char *from = data;
    while (bytes > 0) {
        ssize_t written = write(end, from, bytes);
        if (written < 0 && errno != EINTR)
            return false;
        from += written > 0 ? written : 0;
        bytes -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

/* The child: reads, answers, and ends without a trace, whatever happens. */
static _Noreturn void answer(hki_topology_loader *load, const char *from, int end)
{
    hki_topology *topology = NULL;
    void *packed = NULL;
    size_t bytes = 0;
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        (void)signal(crashes[i], SIG_DFL); /* a handler of the program's would take this for the program */
    (void)signal(SIGPIPE, SIG_IGN);
    (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    hk_status status = load(from, &topology);
    if (status == HK_OK)
        status = hki_topology_pack(topology, &packed, &bytes);
    const char *words = hk_last_error();
    heading head = {status, (uint32_t)(status == HK_OK ? bytes : strlen(words))};
    bool written = write_all(end, &head, sizeof head) && write_all(end, status == HK_OK ? packed : words, head.bytes);
    _exit(written ? 0 : 1);
}

/* Reads what the child writes until it ends, into room for REPLY_MOST bytes. False: it takes too long. */
static bool listen_to(int end, int seconds, unsigned char *reply, size_t *bytes)
{
    uint64_t until = hki_now() + (uint64_t)seconds * 1000000000u;
    struct pollfd readable = {.fd = end, .events = POLLIN};
    *bytes = 0;
    for (uint64_t now; (now = hki_now()) < until && *bytes < REPLY_MOST;) {
        int found = poll(&readable, 1, (int)((until - now) / 1000000) + 1);
        ssize_t got = found > 0 ? read(end, reply + *bytes, REPLY_MOST - *bytes) : -1;
        if (got == 0)
            return true;
        *bytes += got > 0 ? (size_t)got : 0;
        if (found < 0 && errno != EINTR)
            return true;
    }
    return false;
}

static hk_status take_reply(const unsigned char *reply, size_t bytes, const char *what, hki_topology **topology)
{
    heading head;
    char words[WORDS];
    if (bytes < sizeof head)
        return hki_error(HK_ERR_ARGUMENT, "%s: the hwloc library cannot read it: it crashes", what);
    memcpy(&head, reply, sizeof head);
    if (bytes != sizeof head + head.bytes)
        return hki_error(HK_ERR_ARGUMENT, "%s: the hwloc library cannot read it: it crashes", what);
    if (head.status == HK_OK)
        return hki_topology_unpack(reply + sizeof head, head.bytes, topology);
    snprintf(words, sizeof words, "%.*s", (int)head.bytes, (const char *)reply + sizeof head);
    return hki_error(head.status, "%s", words);
}

static void bury(pid_t child)
{
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

hk_status hki_topology_load_apart(hki_topology_loader *load, const char *from, int seconds, hki_topology **topology)
{
    int ends[2];
    size_t bytes = 0;
    unsigned char *reply = malloc(REPLY_MOST);
    if (!reply)
        return hki_error(HK_ERR_NO_MEMORY, "no memory for reading a topology");
    if (pipe2(ends, O_CLOEXEC) != 0) {
        free(reply);
        return hki_error_errno(HK_ERR_SYSTEM, errno, "no pipe to the process that reads a topology");
    }
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        answer(load, from, ends[1]);
    hk_status status = child < 0 ? hki_error_errno(HK_ERR_SYSTEM, errno, "no process that reads a topology") : HK_OK;
    close(ends[1]);
    bool ended = child < 0 || listen_to(ends[0], seconds, reply, &bytes);
    if (!ended)
        (void)kill(child, SIGKILL);
    if (child > 0)
        bury(child);
    close(ends[0]);
    if (!ended)
        status = hki_error(HK_ERR_ARGUMENT, "%s: the hwloc library cannot read it within %d s", from, seconds);
    if (status == HK_OK)
        status = take_reply(reply, bytes, from, topology);
    free(reply);
    return status;
}

/* ---- descriptions ---- */

/* How many hardware threads hwloc would make of a description: "package:2 core:4 pu:2", "2 4 2", with "(attributes)"
 * and "[memory]" between that count nothing. What is no number is left to hwloc. */
static double threads_of(const char *description)
{
    double threads = 1;
    int depth = 0;
    for (const char *at = description; *at; at++) {
        depth += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
        bool begins = at == description || at[-1] == ':' || isspace((unsigned char)at[-1]);
        if (depth == 0 && begins && isdigit((unsigned char)*at))
            threads *= (double)strtoul(at, NULL, 10);
    }
    return threads;
}

hk_status hki_topology_load_xml(const char *path, hki_topology **topology)
{
    return hki_topology_load_apart(hki_topology_load_xml_here, path, PATIENCE_S, topology);
}

hk_status hki_topology_load_synthetic(const char *description, hki_topology **topology)
{
    if (threads_of(description) > HKI_TOPOLOGY_PUS_MAX)
        return hki_error(HK_ERR_ARGUMENT, "\"%s\" has more than %d hardware threads", description,
                         (int)HKI_TOPOLOGY_PUS_MAX);
    return hki_topology_load_apart(hki_topology_load_synthetic_here, description, PATIENCE_S, topology);
}
