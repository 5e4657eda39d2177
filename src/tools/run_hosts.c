/*
 * `hocket run --hosts a:2,b:2`: one agent on each host, whose output comes back through the command that started it.
 * For the rest an agent is to this launcher what a rank is to one on a single host.
 */
#include "tools/run.h"

#include "base/settings.h"
#include "net/resolve.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    HOSTS_MOST = 256,
    FIRST_PORT = 20000, /* below those that systems give out by themselves (32768 on Linux) */
    LAST_PORT = 32000,
    PORTS = 16,
    WORDS_MOST = 32
};
static const double agents_grace = 2; /* beyond that of the ranks, which the agents keep */

typedef struct job {
    const run_options *options;
    run_host hosts[HOSTS_MOST];
    int count, ranks;
    char *rsh; /* its words, in one block */
    char *words[WORDS_MOST];
    char program[PATH_MAX];
    char directory[PATH_MAX];
    char **settings;
    uint8_t key[HKI_LAUNCH_KEY_BYTES];
    uint16_t port;
} job;

static bool wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool wrong(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "hocket run: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return false;
}

/* ---- the command line ---- */

/* A remote shell may read what it is given once more. */
static bool plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (!isalnum((unsigned char)*text) && !strchr("/._-+:@%[]", *text))
            return false;
    return true;
}

/* "a:2", "user@a", "[fd00::1]:2", "fd00::1". */
static bool add_host(job *self, const char *item, size_t length)
{
    char text[HKI_HOST_TEXT], name[HKI_HOST_TEXT];
    uint16_t ranks = 0;
    hki_address address;
    if (length == 0 || length >= sizeof text)
        return wrong("--hosts: a name is missing, or too long");
    memcpy(text, item, length);
    text[length] = '\0';
    bool bare = hki_address_parse(text, &address);
    if (!bare && !hki_host_port_parse(text, name, &ranks))
        return wrong("--hosts: \"%s\" is not a host and its number of ranks, as in node1:4", text);
    if (bare)
        snprintf(name, sizeof name, "%s", text);
    if (!plain(name) || name[0] == '-')
        return wrong("--hosts: \"%s\" cannot be a host's name", name);
    if (self->count == HOSTS_MOST)
        return wrong("--hosts: more than %d hosts; a resource manager (Slurm, PRRTE) serves so many better",
                     (int)HOSTS_MOST);
    run_host *host = &self->hosts[self->count];
    *host = (run_host){.name = strdup(name), .first = self->ranks, .ranks = ranks == 0 ? 1 : ranks};
    if (!host->name || host->ranks > RUN_RANKS_MAX)
        return wrong("--hosts: %s: 1 to %d ranks are possible on a host", name, (int)RUN_RANKS_MAX);
    self->count++;
    self->ranks += host->ranks;
    return true;
}

static bool add_hosts(job *self, const char *list)
{
    for (;; list++) {
        size_t length = strcspn(list, ",");
        if (!add_host(self, list, length))
            return false;
        list += length;
        if (*list == '\0')
            return true;
    }
}

static bool split_rsh(job *self, const char *command)
{
    int count = 0;
    char *rest;
    self->rsh = strdup(command);
    for (char *word = self->rsh ? strtok_r(self->rsh, " \t", &rest) : NULL; word; word = strtok_r(NULL, " \t", &rest)) {
        if (count == WORDS_MOST - 5)
            return wrong("--rsh: more than %d words", WORDS_MOST - 5);
        self->words[count++] = word;
    }
    return count > 0 ? true : wrong("--rsh: no command");
}

static bool find_program(job *self, const char *given)
{
    if (given) {
        snprintf(self->program, sizeof self->program, "%s", given);
    } else {
        ssize_t length = readlink("/proc/self/exe", self->program, sizeof self->program - 1);
        if (length < 0)
            return wrong("/proc/self/exe: %s", strerror(errno));
        self->program[length] = '\0';
    }
    return plain(self->program) ? true
                                : wrong("--remote %s: a path without special characters is needed", self->program);
}

/* ---- what the agents get ---- */

/* Settings of Hocket's go to all hosts; places, and what names a file here, do not. */
static bool collect_settings(job *self)
{
    static const char *const kept_back[] = {"HOCKET_LAUNCH=", "HOCKET_RANK=", "HOCKET_RANKS=", "HOCKET_STORE=",
                                            "HOCKET_JOINED=", "HOCKET_RSH=",  "HOCKET_HOST="};
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    self->settings = calloc(count + 1, sizeof *self->settings);
    if (!self->settings)
        return false;
    for (size_t i = 0; i < count; i++) {
        bool goes = strncmp(environ[i], "HOCKET_", strlen("HOCKET_")) == 0;
        for (size_t k = 0; goes && k < sizeof kept_back / sizeof *kept_back; k++)
            goes = strncmp(environ[i], kept_back[k], strlen(kept_back[k])) != 0;
        if (goes)
            self->settings[kept++] = environ[i];
    }
    return true;
}

static bool make_record(job *self, run_host *host, const char *meeting)
{
    run_record record = {.options = *self->options,
                         .share = {.host = host->name,
                                   .first = host->first,
                                   .total = self->ranks,
                                   .meeting = meeting,
                                   .port = self->port,
                                   .ports = PORTS},
                         .directory = self->directory,
                         .settings = self->settings};
    record.options.ranks = host->ranks;
    memcpy(record.share.key, self->key, sizeof self->key);
    host->record = run_record_write(&record, &host->record_bytes);
    explicit_bzero(record.share.key, sizeof record.share.key);
    return host->record ? true : wrong("the command and the settings are too long for the other hosts, or no memory");
}

static bool make_command(job *self, run_host *host)
{
    int count = 0;
    host->command = calloc(WORDS_MOST, sizeof *host->command);
    if (!host->command)
        return wrong("no memory");
    while (self->words[count]) {
        host->command[count] = self->words[count];
        count++;
    }
    host->command[count++] = host->name;
    host->command[count++] = self->program;
    host->command[count++] = (char *)(uintptr_t) "run";
    host->command[count] = (char *)(uintptr_t) "--agent";
    return true;
}

/* The ranks meet at the first host, whose name must mean the same everywhere. */
static bool prepare(job *self)
{
    const char *at = strchr(self->hosts[0].name, '@'), *meeting = at ? at + 1 : self->hosts[0].name;
    uint16_t random = 0;
    if (getrandom(self->key, sizeof self->key, 0) != (ssize_t)sizeof self->key ||
        getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return wrong("the kernel has no random bytes");
    int64_t given = hki_setting_integer(HKI_SET_PORT);
    self->port = given > 0 ? (uint16_t)given : (uint16_t)(FIRST_PORT + random % (LAST_PORT - FIRST_PORT));
    if (!getcwd(self->directory, sizeof self->directory))
        snprintf(self->directory, sizeof self->directory, "/");
    if (!collect_settings(self))
        return wrong("no memory");
    for (int i = 0; i < self->count; i++)
        if (!make_record(self, &self->hosts[i], meeting) || !make_command(self, &self->hosts[i]))
            return false;
    return true;
}

static void release(job *self)
{
    for (int i = 0; i < self->count; i++) {
        free(self->hosts[i].name);
        free(self->hosts[i].command);
        if (self->hosts[i].record)
            explicit_bzero(self->hosts[i].record, self->hosts[i].record_bytes);
        free(self->hosts[i].record);
    }
    free(self->rsh);
    free(self->settings);
    explicit_bzero(self->key, sizeof self->key);
}

int run_over_hosts(const run_options *options, const run_hosts *hosts)
{
    static job self;
    int status = 2;
    self = (job){.options = options};
    if (add_hosts(&self, hosts->list) && split_rsh(&self, hosts->rsh ? hosts->rsh : hki_setting_text(HKI_SET_RSH)) &&
        find_program(&self, hosts->program) && prepare(&self)) {
        run_options front = *options;
        front.ranks = self.count;
        front.hosts = self.hosts;
        front.bind = RUN_BIND_NONE;
        front.grace += agents_grace;
        front.command = self.hosts[0].command;
        status = run_guarded(&front, run_job);
    }
    release(&self);
    return status;
}
