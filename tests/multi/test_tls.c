/*
 * Jobs over TLS: who is let in by certificate and who is not, ranks that differ in HOCKET_TLS, and leaving when the
 * program uses OpenSSL itself. (What collectives compute over TLS, conformance.collectives tries.)
 */
#include "../support/certificates.h"
#include "../support/ranks.h"

#include "base/settings.h"
#include "comm/comm.h"
#include "comm/transports.h"

#include <hocket/store.h>

#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>

#ifdef HKI_HAVE_OPENSSL
#include <openssl/crypto.h>
#endif

#include <cmocka.h>

static char directory[] = "/tmp/hocket-tls-XXXXXX";

/* What the last rank has; the others have "required", "good" and "ca". NULL: no certificates at all, but the key. */
typedef struct casting {
    const char *tls, *certificate, *authority;
    const char *transport; /* HOCKET_TRANSPORT, where that is not tcp */
    hk_store *store;
} casting;

static void set_path(const char *name, const char *file, const char *suffix)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s.%s", directory, file, suffix);
    setenv(name, path, 1);
}

static void set_up(const char *tls, const char *certificate, const char *authority)
{
    setenv("HOCKET_TRANSPORT", "tcp", 1);
    setenv("HOCKET_INTERFACE", "127.0.0.1", 1);
    setenv("HOCKET_CONNECT_TIMEOUT", "10", 1);
    setenv("HOCKET_TIMEOUT", "20", 1);
    setenv("HOCKET_TLS", tls, 1);
    if (certificate) {
        set_path("HOCKET_TLS_CERTIFICATE", certificate, "pem");
        set_path("HOCKET_TLS_KEY", certificate, "key");
        set_path("HOCKET_TLS_CA", authority, "pem");
    }
    hki_settings_reset();
}

static hk_status create(const casting *cast, int rank, int ranks, hk_comm **comm)
{
    if (rank == ranks - 1)
        set_up(cast->tls, cast->certificate, cast->authority);
    else
        set_up("required", cast->certificate ? "good" : NULL, "ca");
    hk_options options = ranks_join(rank, ranks, cast->store);
    return hk_comm_create(&options, comm);
}

static int run(int ranks, casting cast, ranks_body *body)
{
    static const ranks_options options = {.no_context = true};
    cast.store = ranks_store_new();
    int failed = ranks_run(ranks, &options, body, &cast);
    ranks_store_free(cast.store);
    return failed;
}

/* ---- who is let in ---- */

static hk_status add_up(hk_comm *comm, int rank, uint64_t count)
{
    int64_t *in = malloc(count * sizeof *in), *out = malloc(count * sizeof *out);
    int ranks = hk_comm_size(comm);
    EXPECT(in && out);
    for (uint64_t i = 0; i < count; i++)
        in[i] = (int64_t)i + rank;
    hk_status status = hk_allreduce(in, out, count, HK_INT64, HK_SUM, comm);
    for (uint64_t i = 0; i < count && status == HK_OK; i++)
        EXPECT(out[i] == (int64_t)i * ranks + ranks * (ranks - 1) / 2);
    free(in);
    free(out);
    return status;
}

static int work(hk_comm *none, int rank, void *argument)
{
    hk_comm *comm;
    (void)none;
    EXPECT_OK(create(argument, rank, 4, &comm));
    for (int i = 0; i < 10; i++) {
        EXPECT_OK(add_up(comm, rank, 3));
        EXPECT_OK(add_up(comm, rank, 200000));
    }
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void ranks_of_one_authority_work_together(void **state)
{
    (void)state;
    assert_int_equal(run(4, (casting){.tls = "required", .certificate = "good", .authority = "ca"}, work), 0);
    assert_int_equal(run(4, (casting){.tls = "required"}, work), 0);
}

/* The link between the two fails, long before HOCKET_TIMEOUT; the error names the reason and the peer. */
static int be_refused(hk_comm *none, int rank, void *argument)
{
    hk_comm *comm;
    (void)none;
    EXPECT_OK(create(argument, rank, 2, &comm));
    EXPECT_STATUS(add_up(comm, rank, 3), HK_ERR_PEER_LOST);
    EXPECT_ERROR_NAMES(rank == 0 ? "rank 1" : "rank 0");
    return RANKS_FREED;
}

static void ranks_of_another_authority_are_not_talked_to(void **state)
{
    (void)state;
    assert_int_equal(run(2, (casting){.tls = "required", .certificate = "stranger", .authority = "ca"}, be_refused), 0);
    assert_int_equal(run(2, (casting){.tls = "required", .certificate = "expired", .authority = "ca"}, be_refused), 0);
}

/* ---- settings ---- */

static int differ(hk_comm *none, int rank, void *argument)
{
    hk_comm *comm;
    (void)none;
    EXPECT_STATUS(create(argument, rank, 2, &comm), HK_ERR_SETTING);
    EXPECT_ERROR_NAMES("HOCKET_TLS is");
    EXPECT_ERROR_NAMES("off for rank 1");
    EXPECT_ERROR_NAMES("required for rank 0");
    return RANKS_FREED;
}

static void ranks_that_differ_in_tls_are_named(void **state)
{
    (void)state;
    assert_int_equal(run(2, (casting){.tls = "off"}, differ), 0);
}

static int misspell(hk_comm *none, int rank, void *argument)
{
    hk_comm *comm;
    const casting *cast = argument;
    (void)none;
    set_up("reqired", NULL, NULL);
    hk_options options = ranks_join(rank, 2, cast->store);
    EXPECT_STATUS(hk_comm_create(&options, &comm), HK_ERR_SETTING);
    EXPECT_ERROR_NAMES("HOCKET_TLS=reqired");
    return RANKS_FREED;
}

static void a_word_that_is_not_known_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run(2, (casting){0}, misspell), 0);
}

/* A transport to other hosts that does not encrypt: tcp under another name, without the promise. */
extern const hk_transport_ops hk_transport_tcp;
static hk_transport_ops bare;

static hk_status open_bare(const hk_transport_services *services, hk_transport **transport, hk_transport_limits *limits)
{
    hk_status status = hk_transport_tcp.open(services, transport, limits);
    limits->capabilities = 0;
    return status;
}

static int avoid_bare(hk_comm *none, int rank, void *argument)
{
    const casting *cast = argument;
    hk_comm *comm;
    (void)none;
    bare = hk_transport_tcp;
    bare.name = "bare";
    bare.open = open_bare;
    EXPECT(hki_transports_add(&bare));
    set_up("required", NULL, NULL);
    setenv("HOCKET_TRANSPORT", cast->transport, 1);
    setenv("HOCKET_HOST", rank == 0 ? "one" : "two", 1);
    hki_settings_reset();
    hk_options options = ranks_join(rank, 2, cast->store);
    if (*cast->transport != '\0') {
        EXPECT_STATUS(hk_comm_create(&options, &comm), HK_ERR_SETTING);
        EXPECT_ERROR_NAMES("transport bare does not encrypt");
        return RANKS_FREED;
    }
    EXPECT_OK(hk_comm_create(&options, &comm));
    EXPECT(hki_comm_channel(comm, rank == 0)->ops == &hk_transport_tcp);
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void transports_that_do_not_encrypt_are_not_used(void **state)
{
    (void)state;
    assert_int_equal(run(2, (casting){.transport = ""}, avoid_bare), 0);
    assert_int_equal(run(2, (casting){.transport = "bare,tcp"}, avoid_bare), 0);
}

/* ---- leaving ---- */

/* Rank 1 has initialised OpenSSL before the library does, so its tear-down at exit is OpenSSL's to order; it exits
 * without freeing. Rank 0 is told goodbye all the same. */
static int leave_at_exit(hk_comm *none, int rank, void *argument)
{
    static hk_comm *comm; /* as a program's own pointer would be: no leak */
    (void)none;
#ifdef HKI_HAVE_OPENSSL
    if (rank == 1)
        EXPECT(OPENSSL_init_crypto(0, NULL) == 1);
#endif
    EXPECT_OK(create(argument, rank, 2, &comm));
    EXPECT_OK(add_up(comm, rank, 1000));
    if (rank == 1)
        return RANKS_FREED;
    hki_context *context = comm->context;
    hki_channel *channel = &context->endpoint.channels[1];
    hk_link_state state = HK_LINK_UP;
    for (double end = ranks_seconds() + 10; state == HK_LINK_UP && ranks_seconds() < end; ranks_nap(0.001)) {
        hki_msg_progress(&context->endpoint);
        state = channel->ops->link_state(channel->link, NULL);
    }
    EXPECT(state == HK_LINK_GOODBYE);
    EXPECT_OK(hk_comm_free(comm));
    return RANKS_FREED;
}

static void a_program_with_openssl_of_its_own_leaves_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(run(2, (casting){.tls = "required"}, leave_at_exit), 0);
}

static int make_files(void **state)
{
    (void)state;
    return mkdtemp(directory) != NULL && certificates_make(directory) ? 0 : -1;
}

static int remove_files(void **state)
{
    (void)state;
    return certificates_remove(directory) ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_of_one_authority_work_together),
        cmocka_unit_test(ranks_of_another_authority_are_not_talked_to),
        cmocka_unit_test(ranks_that_differ_in_tls_are_named),
        cmocka_unit_test(a_word_that_is_not_known_is_an_error),
        cmocka_unit_test(transports_that_do_not_encrypt_are_not_used),
        cmocka_unit_test(a_program_with_openssl_of_its_own_leaves_in_order),
    };
#ifndef HKI_HAVE_OPENSSL
    fprintf(stderr, "built without OpenSSL\n");
    return 77;
#endif
    return cmocka_run_group_tests_name("tls", tests, make_files, remove_files);
}
