/*
 * PMI-1, which MPICH's mpiexec (Hydra) offers its processes, and `srun --mpi=pmi2` as well: lines of text
 * "cmd=… key=value …" over the descriptor in PMI_FD. Order and number of fields differ between them, so each is looked
 * for by its name. An MPI in this process owns the connection once it is initialised.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/settings.h"
#include "boot/kvs.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LINE_MOST = 4096, NAME_MOST = 256, VALUE_MOST = 1024 };
static const char key_of_meeting[] = "hocket.meeting";

static struct {
    int fd;
    char space[NAME_MOST + 1]; /* name of the key-value space */
    char in[LINE_MOST];        /* bytes not yet looked at */
    size_t in_bytes;
} pmi = {.fd = -1};

bool hki_pmi_field(const char *line, const char *key, char *value, size_t capacity)
{
    size_t length = strlen(key);
    for (const char *at = line; *at != '\0'; at += strcspn(at, " \n")) {
        at += strspn(at, " \n");
        if (strncmp(at, key, length) != 0 || at[length] != '=')
            continue;
        at += length + 1;
        size_t bytes = strcspn(at, " \n");
        if (bytes >= capacity)
            return false;
        memcpy(value, at, bytes);
        value[bytes] = '\0';
        return true;
    }
    return false;
}

static bool field_number(const char *line, const char *key, long *number)
{
    char text[32], *end;
    if (!hki_pmi_field(line, key, text, sizeof text) || *text == '\0')
        return false;
    *number = strtol(text, &end, 10);
    return *end == '\0';
}

/* ---- lines ---- */

static hk_status lost(const char *how)
{
    return hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher %s (descriptor %d, PMI_FD)", how, pmi.fd);
}

/* HK_ERR_TIMEOUT (no text recorded) at the deadline. */
static hk_status await(short events, uint64_t deadline)
{
    for (;;) {
        uint64_t now = hki_now();
        if (now >= deadline)
            return HK_ERR_TIMEOUT;
        uint64_t ms = (deadline - now) / 1000000 + 1;
        struct pollfd descriptor = {.fd = pmi.fd, .events = events};
        int ready = poll(&descriptor, 1, ms < 60000 ? (int)ms : 60000);
        if (ready > 0)
            return HK_OK;
        if (ready < 0 && errno != EINTR)
            return lost("cannot be waited for");
    }
}

static hk_status send_line(const char *line, uint64_t deadline)
{
    for (size_t sent = 0, bytes = strlen(line); sent < bytes;) {
        HK_TRY(await(POLLOUT, deadline));
        ssize_t once = write(pmi.fd, line + sent, bytes - sent);
        if (once < 0 && errno != EINTR && errno != EAGAIN)
            return lost("hung up");
        sent += once > 0 ? (size_t)once : 0;
    }
    return HK_OK;
}

/* The next line, without its newline. */
static hk_status receive_line(char line[LINE_MOST], uint64_t deadline)
{
    for (;;) {
        char *newline = memchr(pmi.in, '\n', pmi.in_bytes);
        if (newline) {
            size_t bytes = (size_t)(newline - pmi.in);
            memcpy(line, pmi.in, bytes);
            line[bytes] = '\0';
            pmi.in_bytes -= bytes + 1;
            memmove(pmi.in, newline + 1, pmi.in_bytes);
            return HK_OK;
        }
        if (pmi.in_bytes == sizeof pmi.in)
            return lost("sent a line that is too long");
        HK_TRY(await(POLLIN, deadline));
        ssize_t got = read(pmi.fd, pmi.in + pmi.in_bytes, sizeof pmi.in - pmi.in_bytes);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return lost("hung up");
        pmi.in_bytes += got > 0 ? (size_t)got : 0;
    }
}

/* Sends a command and takes the answer, whose command must be `wanted` and whose rc, if there is one, 0. */
static hk_status ask(const char *question, const char *wanted, char answer[LINE_MOST], uint64_t deadline)
{
    char command[64] = "";
    long code = 0;
    HK_TRY(send_line(question, deadline));
    HK_TRY(receive_line(answer, deadline));
    if (!hki_pmi_field(answer, "cmd", command, sizeof command) || strcmp(command, wanted) != 0)
        return hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher answered \"%.80s\" where %s was expected", answer,
                         wanted);
    if (field_number(answer, "rc", &code) && code != 0)
        return hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher answered \"%.200s\"", answer);
    return HK_OK;
}

/* ---- the space ---- */

static bool present(void)
{
    return hki_environment("PMI_FD") != NULL && hki_environment("PMI_RANK") != NULL;
}

static void mark(char text[HKI_MARK_TEXT])
{
    const char *job = hki_environment("PMI_JOBID");
    snprintf(text, HKI_MARK_TEXT, "PMI %.20s %.20s %.100s", hki_environment("PMI_FD"), hki_environment("PMI_RANK"),
             job ? job : "");
}

static bool mpi_runs(void)
{
    int (*initialized)(int *flag);
    void *symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");
    int flag = 0;
    if (!symbol)
        return false;
    memcpy(&initialized, &symbol, sizeof initialized);
    return initialized(&flag) == 0 && flag != 0;
}

static hk_status take_descriptor(void)
{
    char *end;
    const char *text = hki_environment("PMI_FD");
    long number = strtol(text, &end, 10);
    int type;
    socklen_t bytes = sizeof type;
    if (mpi_runs())
        return hki_error(
            HK_ERR_BOOTSTRAP,
            "the MPI in this process owns the connection to the launcher (PMI_FD): give hk_comm_create rank "
            "and ranks, and a store or an id to meet by (or call hk_init before MPI_Init)");
    if (end == text || *end != '\0' || number < 0 || number > 1 << 24 ||
        getsockopt((int)number, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0)
        return hki_error(HK_ERR_BOOTSTRAP, "PMI_FD is \"%s\", which is not a connection to a launcher", text);
    pmi.fd = (int)number;
    (void)fcntl(pmi.fd, F_SETFD, FD_CLOEXEC);
    return HK_OK;
}

/* Hydra and Slurm say in the environment how many ranks are here, and on how many nodes. */
static bool on_one_host(long ranks)
{
    const char *local = hki_environment("MPI_LOCALNRANKS"), *nodes = hki_environment("SLURM_STEP_NUM_NODES");
    if (local)
        return strtol(local, NULL, 10) == ranks;
    return nodes && strcmp(nodes, "1") == 0;
}

static hk_status ask_place(hki_kvs_place *place, uint64_t deadline)
{
    char answer[LINE_MOST];
    const char *rank_text = hki_environment("PMI_RANK"), *ranks_text = hki_environment("PMI_SIZE");
    long rank = strtol(rank_text, NULL, 10), ranks = ranks_text ? strtol(ranks_text, NULL, 10) : 0, room = VALUE_MOST;
    HK_TRY(ask("cmd=init pmi_version=1 pmi_subversion=1\n", "response_to_init", answer, deadline));
    HK_TRY(ask("cmd=get_maxes\n", "maxes", answer, deadline));
    if (field_number(answer, "vallen_max", &room) && room < VALUE_MOST / 2)
        return hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher stores values of %ld characters only", room);
    HK_TRY(ask("cmd=get_my_kvsname\n", "my_kvsname", answer, deadline));
    if (!hki_pmi_field(answer, "kvsname", pmi.space, sizeof pmi.space))
        return hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher answered \"%.200s\" without a kvsname", answer);
    if (rank < 0 || ranks < 1 || rank >= ranks || ranks > INT32_MAX)
        return hki_error(HK_ERR_BOOTSTRAP, "PMI_RANK=%s PMI_SIZE=%s make no sense together", rank_text,
                         ranks_text ? ranks_text : "");
    *place = (hki_kvs_place){.rank = (int)rank, .ranks = (int)ranks, .one_host = on_one_host(ranks)};
    return HK_OK;
}

static hk_status named(hk_status status, const char *what)
{
    return status == HK_ERR_TIMEOUT
               ? hki_error(HK_ERR_BOOTSTRAP, "PMI: %s within the time of this rank (HOCKET_JOIN_TIMEOUT)", what)
               : status;
}

static hk_status open_pmi(hki_kvs_place *place, uint64_t deadline)
{
    HK_TRY(take_descriptor());
    return named(ask_place(place, deadline), "the launcher did not answer");
}

static hk_status share(const hki_kvs_place *place, char *text, size_t capacity, uint64_t deadline)
{
    char line[LINE_MOST], answer[LINE_MOST];
    if (place->rank == 0) {
        snprintf(line, sizeof line, "cmd=put kvsname=%s key=%s value=%s\n", pmi.space, key_of_meeting, text);
        HK_TRY(named(ask(line, "put_result", answer, deadline), "the launcher did not answer"));
    }
    /* The space is common knowledge only after a barrier, which cannot tell who is missing: until it is over, Hydra
     * does not know any key that a rank has put, not even for ranks of the same host. */
    HK_TRY(named(ask("cmd=barrier_in\n", "barrier_out", answer, deadline),
                 "some rank did not join (PMI cannot tell which)"));
    if (place->rank == 0)
        return HK_OK;
    snprintf(line, sizeof line, "cmd=get kvsname=%s key=%s\n", pmi.space, key_of_meeting);
    HK_TRY(named(ask(line, "get_result", answer, deadline), "the launcher did not answer"));
    return hki_pmi_field(answer, "value", text, capacity)
               ? HK_OK
               : hki_error(HK_ERR_BOOTSTRAP, "PMI: the launcher answered \"%.200s\" without a value", answer);
}

static void close_pmi(void)
{
    char answer[LINE_MOST];
    (void)ask("cmd=finalize\n", "finalize_ack", answer, hki_now() + UINT64_C(2000000000));
    close(pmi.fd);
    pmi.fd = -1;
}

const hki_kvs hki_kvs_pmi1 = {
    .name = "PMI", .present = present, .mark = mark, .open = open_pmi, .share = share, .close = close_pmi};
