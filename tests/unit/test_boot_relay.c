/*
 * Many ranks, as threads, that meet in a store over TCP: most get the results of exchanges from one another, and
 * whoever cannot gets them from rank 0; a rank that is missing is named to all.
 */
#include "boot/boot.h"
#include "boot/relay.h"

#include <hocket/store.h>

#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 80, BYTES = 20000, RELAYED = RANKS - 9 /* all but rank 0 and its eight */ };
static const char key[] = "thirty-two bytes of a good key..";

typedef struct member {
    int rank;
    uint16_t port;
    bool plain;  /* its store does not show that it is one over TCP */
    bool absent; /* joins, and misses the exchange */
    double timeout;
    hk_status status;
    bool right;
    char error[512];
} member;

static atomic_int relayed; /* log lines that say so */

static void count_relayed(hk_log_level level, const char *line, void *context)
{
    (void)level;
    (void)context;
    bool said = strstr(line, "gets the results of exchanges from rank") != NULL && strstr(line, "since") == NULL;
    atomic_fetch_add(&relayed, said);
}

static hk_status plain_set(void *context, const char *name, const void *value, size_t bytes)
{
    const hk_store *inner = context;
    return inner->set(inner->context, name, value, bytes);
}

static hk_status plain_get(void *context, const char *name, void *value, size_t *bytes, double timeout)
{
    const hk_store *inner = context;
    return inner->get(inner->context, name, value, bytes, timeout);
}

static void exchange(member *self, hki_boot *boot)
{
    char *mine = malloc(BYTES), *all = malloc((size_t)RANKS * BYTES);
    memset(mine, self->rank + 1, BYTES);
    self->status = hki_boot_exchange(boot, mine, BYTES, all, self->timeout);
    self->right = self->status == HK_OK;
    for (size_t i = 0; self->status == HK_OK && i < (size_t)RANKS * BYTES; i++)
        self->right &= all[i] == (char)(i / BYTES + 1);
    snprintf(self->error, sizeof self->error, "%s", self->status == HK_OK ? "" : hk_last_error());
    free(mine);
    free(all);
}

static void *be_member(void *argument)
{
    member *self = argument;
    hk_store *store;
    hki_boot *boot;
    hk_options options = HK_OPTIONS_INIT;
    self->status = hk_store_tcp("127.0.0.1", self->port, self->rank == 0, key, sizeof key - 1, 20, &store);
    if (self->status != HK_OK)
        return NULL;
    hk_store plain = {.size = sizeof plain, .context = store, .set = plain_set, .get = plain_get};
    options.rank = self->rank;
    options.ranks = RANKS;
    options.store = self->plain ? &plain : store;
    self->status = hki_boot_join(&options, &boot);
    if (self->status == HK_OK) {
        if (!self->absent)
            exchange(self, boot);
        hki_boot_leave(boot);
    } else {
        snprintf(self->error, sizeof self->error, "%s", hk_last_error());
    }
    hk_store_free(store);
    return NULL;
}

static uint16_t free_port(void)
{
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof where;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&where, sizeof where), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&where, &length), 0);
    close(fd);
    return ntohs(where.sin_port);
}

/* plain, absent: of which rank; -1: of none. */
static void meet(member members[RANKS], int plain, int absent)
{
    pthread_t threads[RANKS];
    uint16_t port = free_port();
    atomic_store(&relayed, 0);
    hk_set_log(count_relayed, HK_LOG_DEBUG, NULL);
    for (int rank = 0; rank < RANKS; rank++) {
        members[rank] = (member){.rank = rank,
                                 .port = port,
                                 .plain = rank == plain,
                                 .absent = rank == absent,
                                 .timeout = absent >= 0 ? 4 : 30};
        assert_int_equal(pthread_create(&threads[rank], NULL, be_member, &members[rank]), 0);
    }
    for (int rank = 0; rank < RANKS; rank++)
        pthread_join(threads[rank], NULL);
    hk_set_log(NULL, HK_LOG_NONE, NULL);
}

static void assert_all_right(const member members[RANKS])
{
    for (int rank = 0; rank < RANKS; rank++)
        if (!members[rank].right)
            fail_msg("rank %d: %s", rank, members[rank].error);
}

static void results_come_from_one_another(void **state)
{
    (void)state;
    static member members[RANKS];
    meet(members, -1, -1);
    assert_all_right(members);
    assert_int_equal(atomic_load(&relayed), RELAYED);
}

static void ranks_below_one_that_is_no_relay_are_served_by_rank_0(void **state)
{
    (void)state;
    static member members[RANKS];
    meet(members, 1, -1);
    assert_all_right(members);
    assert_int_equal(atomic_load(&relayed), RELAYED - 8);
}

static void a_missing_rank_is_named_to_all(void **state)
{
    (void)state;
    static member members[RANKS];
    meet(members, -1, 9); /* itself a relay */
    for (int rank = 0; rank < RANKS; rank++) {
        if (rank == 9)
            continue;
        if (members[rank].status != HK_ERR_BOOTSTRAP || !strstr(members[rank].error, "rank 9 of 80 did not arrive"))
            fail_msg("rank %d: %s", rank, members[rank].error);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_come_from_one_another),
        cmocka_unit_test(ranks_below_one_that_is_no_relay_are_served_by_rank_0),
        cmocka_unit_test(a_missing_rank_is_named_to_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
