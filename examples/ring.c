/*
 * Messages: a token goes round the ring of ranks, and each rank adds its own number to it. Then all ranks tell rank 0
 * something at once, which takes the messages in the order of their arrival.
 */
#include "check.h"

enum { TOKEN = 1, GREETING = 2 };

static void pass_token(hk_comm *comm)
{
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    int64_t token = 0;
    if (size == 1)
        return;
    if (rank == 0) {
        check(hk_send(&token, 1, HK_INT64, next, TOKEN, comm));
        check(hk_recv(&token, 1, HK_INT64, previous, TOKEN, comm, NULL));
        printf("the token came back with %lld\n", (long long)token);
        expect(token == (int64_t)size * (size - 1) / 2, "the token");
    } else {
        check(hk_recv(&token, 1, HK_INT64, previous, TOKEN, comm, NULL));
        token += rank;
        check(hk_send(&token, 1, HK_INT64, next, TOKEN, comm));
    }
}

/* Lengths differ, so rank 0 looks at a message before it takes it. */
static void greet(hk_comm *comm)
{
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);
    char text[64];
    if (rank != 0) {
        int length = snprintf(text, sizeof text, "greetings from rank %d", rank);
        check(hk_send(text, (uint64_t)length, HK_BYTE, 0, GREETING, comm));
        return;
    }
    for (int i = 1; i < size; i++) {
        hk_message message;
        check(hk_probe(HK_ANY_SOURCE, GREETING, comm, &message));
        expect(message.bytes < sizeof text, "the length of a greeting");
        check(hk_recv(text, message.bytes, HK_BYTE, message.source, message.tag, comm, NULL));
        text[message.bytes] = '\0';
        printf("%s\n", text);
    }
}

/* Everyone shifts a block to the right at the same time. */
static void shift(hk_comm *comm)
{
    enum { COUNT = 100000 };
    static int32_t mine[COUNT], theirs[COUNT];
    int rank = hk_comm_rank(comm), size = hk_comm_size(comm);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++)
        mine[i] = rank * COUNT + i;
    check(hk_sendrecv(mine, COUNT, next, TOKEN, theirs, COUNT, previous, TOKEN, HK_INT32, comm, NULL));
    expect(theirs[COUNT - 1] == previous * COUNT + COUNT - 1, "the shifted block");
}

int main(void)
{
    hk_comm *comm;
    check(hk_init(&comm));
    pass_token(comm);
    greet(comm);
    shift(comm);
    check(hk_comm_free(comm));
    return 0;
}
