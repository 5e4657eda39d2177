/*
 * What the machine can do at best, without any library: a cache line handed over, memory copied, and the bytes of a
 * two-rank all-reduce (float32 sum) moved in the ways that two processes of one host have:
 *
 *   slots    through small shared buffers, in both directions at once; payloads of up to 48 bytes in a cache line
 *   get      the peer's private memory copied by process_vm_readv, half reduced by each, halves then exchanged
 *   mapped   the same halves, read straight from memory that both have mapped
 *   tcp      two exchanges of halves over one loopback connection, not reduced: what a reduction over TCP must move
 *   stream   no all-reduce: the bytes, one way, over that connection
 *
 * Two processes, each bound to a CPU of its own. Inputs are rewritten before every sample: a peer that reads what it
 * read before finds it in its cache, and flatters itself. A time is that of the slower process; medians.
 */
#include "bench/limits.h"
#include "bench/bench.h"
#include "bench/bench_stats.h"
#include "bench/limits_tcp.h"

#include "base/clock.h"
#include "base/settings.h"
#include "dtype/dtype.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    APART = 128,
    SLOTS = 4,
    SLOT_BYTES = 32768,      /* of 4, 16, 32, 64 and 128 KiB, four of these came within 10 % of the best at 1 MiB */
    PIECE_BYTES = 256 << 10, /* a call of process_vm_readv costs 2–3 µs */
    STREAM_BYTES = 1 << 20,  /* results from here on are also tried with non-temporal stores */
    SAMPLES_MAX = 400,
    SPINS = 10000
};

typedef struct counter {
    _Alignas(APART) _Atomic uint64_t value;
} counter;

/* One direction of slots: written by one rank, read by the other. */
typedef struct pipe_of_slots {
    counter filled, emptied;
    _Alignas(4096) unsigned char slot[SLOTS][SLOT_BYTES];
} pipe_of_slots;

typedef struct arena {
    counter arrived[2];
    struct {
        _Alignas(APART) _Atomic uint64_t sequence;
        unsigned char payload[48];
    } line[2][2];          /* by writer; in turn, so that the one is read while the other is written */
    pipe_of_slots pipe[2]; /* by writer */
    double elapsed[2];
    uint64_t address[2][2]; /* of each rank's input and output, for get */
    pid_t pid[2];
    _Atomic bool get_fails, tcp_fails;
} arena;

typedef struct side {
    arena *shared;
    int me, other;
    uint64_t meetings, lines;
    size_t bytes;          /* of the all-reduce */
    float *input, *output; /* private */
    float *mapped[2][2];   /* by rank: input, output, seen by both */
    unsigned char *bounce; /* PIECE_BYTES */
    int tcp[2];            /* ends of a connection, by rank */
    hki_reducer sum;
    bool stream;
} side;

/* ---- meeting ---- */

static void await(const _Atomic uint64_t *word, uint64_t least)
{
    for (unsigned spins = 0; atomic_load_explicit(word, memory_order_acquire) < least; spins++)
        if (spins > SPINS)
            sched_yield(); /* one CPU for two processes */
}

static void meet(side *s)
{
    atomic_store_explicit(&s->shared->arrived[s->me].value, ++s->meetings, memory_order_release);
    await(&s->shared->arrived[s->other].value, s->meetings);
}

/* ---- the ways ---- */

static void reduce(const side *s, float *out, const float *left, const float *right, size_t bytes)
{
    hki_reduce_two(&s->sum, out, left, right, bytes / sizeof(float), s->stream);
}

static void by_line(side *s)
{
    uint64_t turn = ++s->lines;
    memcpy(s->shared->line[s->me][turn % 2].payload, s->input, s->bytes);
    atomic_store_explicit(&s->shared->line[s->me][turn % 2].sequence, turn, memory_order_release);
    await(&s->shared->line[s->other][turn % 2].sequence, turn);
    const float *theirs = (const float *)(const void *)s->shared->line[s->other][turn % 2].payload;
    for (size_t i = 0; i < s->bytes / sizeof(float); i++)
        s->output[i] = s->input[i] + theirs[i];
}

/* Sends `sent` bytes through the own pipe and takes `taken` from the other's, into out: left + incoming, or as they are
 * when left is out itself. */
static void exchange(side *s, const float *from, size_t sent, const float *left, float *out, size_t taken)
{
    pipe_of_slots *to_them = &s->shared->pipe[s->me], *to_me = &s->shared->pipe[s->other];
    uint64_t filled = atomic_load(&to_them->filled.value), emptied = atomic_load(&to_me->emptied.value);
    size_t out_at = 0, in_at = 0;
    for (unsigned idle = 0; out_at < sent || in_at < taken;) {
        idle++;
        if (out_at < sent && filled - atomic_load_explicit(&to_them->emptied.value, memory_order_acquire) < SLOTS) {
            size_t bytes = sent - out_at < SLOT_BYTES ? sent - out_at : SLOT_BYTES;
            memcpy(to_them->slot[filled % SLOTS], (const char *)from + out_at, bytes);
            atomic_store_explicit(&to_them->filled.value, ++filled, memory_order_release);
            out_at += bytes;
            idle = 0;
        }
        if (in_at < taken && atomic_load_explicit(&to_me->filled.value, memory_order_acquire) > emptied) {
            const float *slot = (const float *)(const void *)to_me->slot[emptied % SLOTS];
            size_t bytes = taken - in_at < SLOT_BYTES ? taken - in_at : SLOT_BYTES;
            if (left != out)
                reduce(s, out + in_at / sizeof(float), left + in_at / sizeof(float), slot, bytes);
            else
                memcpy((char *)out + in_at, slot, bytes);
            atomic_store_explicit(&to_me->emptied.value, ++emptied, memory_order_release);
            in_at += bytes;
            idle = 0;
        }
        if (idle > SPINS)
            sched_yield();
    }
}

/* Elements of the first rank's half; the second has the rest. */
static size_t half(const side *s, int rank, size_t *start)
{
    size_t count = s->bytes / sizeof(float), first = (count / 2 + 15) / 16 * 16;
    if (first > count)
        first = count;
    *start = rank == 0 ? 0 : first;
    return rank == 0 ? first : count - first;
}

static void by_slots_whole(side *s)
{
    exchange(s, s->input, s->bytes, s->input, s->output, s->bytes);
}

static void by_slots_halves(side *s)
{
    size_t mine, theirs, my_count = half(s, s->me, &mine), their_count = half(s, s->other, &theirs);
    size_t my_bytes = my_count * sizeof(float), their_bytes = their_count * sizeof(float);
    exchange(s, s->input + theirs, their_bytes, s->input + mine, s->output + mine, my_bytes);
    exchange(s, s->output + mine, my_bytes, s->output + theirs, s->output + theirs, their_bytes);
}

/* Copies from the peer's input (0) or output (1); notes a refusal. */
static void pull(const side *s, int which, size_t element, void *to, size_t bytes)
{
    struct iovec local = {to, bytes};
    struct iovec remote = {(void *)(uintptr_t)(s->shared->address[s->other][which] + element * sizeof(float)), bytes};
    if (process_vm_readv(s->shared->pid[s->other], &local, 1, &remote, 1, 0) != (ssize_t)bytes)
        atomic_store(&s->shared->get_fails, true);
}

static void by_get(side *s)
{
    size_t mine, theirs, my_count = half(s, s->me, &mine), their_count = half(s, s->other, &theirs);
    for (size_t at = 0; at < my_count; at += PIECE_BYTES / sizeof(float)) {
        size_t bytes = (my_count - at) * sizeof(float) < PIECE_BYTES ? (my_count - at) * sizeof(float) : PIECE_BYTES;
        pull(s, 0, mine + at, s->bounce, bytes);
        reduce(s, s->output + mine + at, s->input + mine + at, (const float *)(const void *)s->bounce, bytes);
    }
    meet(s);
    for (size_t at = 0; at < their_count; at += PIECE_BYTES / sizeof(float)) {
        size_t left = (their_count - at) * sizeof(float);
        pull(s, 1, theirs + at, s->output + theirs + at, left < PIECE_BYTES ? left : PIECE_BYTES);
    }
    meet(s);
}

static void by_mapped(side *s)
{
    size_t mine, theirs, my_count = half(s, s->me, &mine), their_count = half(s, s->other, &theirs);
    float *out = s->mapped[s->me][1];
    reduce(s, out + mine, s->mapped[s->me][0] + mine, s->mapped[s->other][0] + mine, my_count * sizeof(float));
    meet(s);
    hki_copy_bytes(out + theirs, s->mapped[s->other][1] + theirs, their_count * sizeof(float), s->stream);
    meet(s);
}

static void exchange_tcp(side *s, const float *from, size_t sent, float *into, size_t taken)
{
    if (!hki_limits_tcp_exchange(s->tcp[s->me], from, sent * sizeof(float), into, taken * sizeof(float)))
        atomic_store(&s->shared->tcp_fails, true);
}

static void by_tcp(side *s)
{
    size_t mine, theirs, my_count = half(s, s->me, &mine), their_count = half(s, s->other, &theirs);
    exchange_tcp(s, s->input + theirs, their_count, s->output + mine, my_count);
    exchange_tcp(s, s->output + mine, my_count, s->output + theirs, their_count);
}

static void by_tcp_stream(side *s)
{
    size_t count = s->bytes / sizeof(float);
    exchange_tcp(s, s->input, s->me == 0 ? count : 0, s->output, s->me == 0 ? 0 : count);
}

/* ---- measuring ---- */

typedef struct method {
    void (*run)(side *s);
    hki_limits_way way;
    bool stream;        /* non-temporal stores */
    size_t least, most; /* bytes for which it is tried */
} method;

enum { METHODS = 9 };
static const method methods[METHODS] = {
    {by_line, HKI_LIMITS_SLOTS, false, 0, 48},
    {by_slots_whole, HKI_LIMITS_SLOTS, false, 0, SIZE_MAX},
    {by_slots_halves, HKI_LIMITS_SLOTS, false, 4096, SIZE_MAX},
    {by_get, HKI_LIMITS_GET, false, 4096, SIZE_MAX},
    {by_get, HKI_LIMITS_GET, true, STREAM_BYTES, SIZE_MAX},
    {by_mapped, HKI_LIMITS_MAPPED, false, 256, SIZE_MAX},
    {by_mapped, HKI_LIMITS_MAPPED, true, STREAM_BYTES, SIZE_MAX},
    {by_tcp, HKI_LIMITS_TCP, false, 0, SIZE_MAX},
    {by_tcp_stream, HKI_LIMITS_STREAM, false, 0, SIZE_MAX},
};

static void rewrite(const side *s, const method *m, uint64_t sample)
{
    float *input = m->way == HKI_LIMITS_MAPPED ? s->mapped[s->me][0] : s->input;
    for (size_t i = 0; i < s->bytes / sizeof(float); i++)
        input[i] = (float)((sample + i) & 255);
}

static bool as_expected(const side *s, const method *m, uint64_t sample)
{
    const float *output = m->way == HKI_LIMITS_MAPPED ? s->mapped[s->me][1] : s->output;
    float ranks = m->way == HKI_LIMITS_TCP || m->way == HKI_LIMITS_STREAM ? 1.0F : 2.0F; /* reduced or only moved */
    if (m->way == HKI_LIMITS_STREAM && s->me == 0)
        return true;
    for (size_t i = 0; i < s->bytes / sizeof(float); i++)
        if (output[i] != ranks * (float)((sample + i) & 255))
            return false;
    return true;
}

/* One sample: a batch for what is too short for the clock. Returns the slower rank's µs an operation. */
static double sample(side *s, const method *m, uint64_t number)
{
    int batch = s->bytes < 8192 ? 200 : 1;
    rewrite(s, m, number);
    meet(s);
    uint64_t start = hki_now();
    for (int i = 0; i < batch; i++)
        m->run(s);
    s->shared->elapsed[s->me] = (double)(hki_now() - start) * 1e-3 / batch;
    meet(s);
    return fmax(s->shared->elapsed[0], s->shared->elapsed[1]);
}

/* Both ranks run this and agree on when to stop: the times that they compare are shared. */
static double measure(side *s, const method *m, double seconds)
{
    double times[SAMPLES_MAX], spent = 0;
    size_t count = 0;
    if (s->bytes < m->least || s->bytes > m->most)
        return NAN;
    s->stream = m->stream;
    sample(s, m, 0); /* warms */
    bool right = as_expected(s, m, 0);
    meet(s);
    while (count < SAMPLES_MAX && (count < 5 || spent < seconds * 1e6)) {
        times[count] = sample(s, m, count + 1);
        spent += times[count++] * (s->bytes < 8192 ? 200 : 3); /* rewriting takes about as long again */
        meet(s);
    }
    if (!right)
        return NAN;
    return hki_bench_summarise(times, count).p50;
}

static void better(double *best, double time)
{
    if (isnan(*best) || time < *best)
        *best = time;
}

/* A way that has failed once says nothing any more. */
static bool fails(const side *s, hki_limits_way way)
{
    if (way == HKI_LIMITS_GET)
        return atomic_load(&s->shared->get_fails);
    return (way == HKI_LIMITS_TCP || way == HKI_LIMITS_STREAM) && atomic_load(&s->shared->tcp_fails);
}

static hki_limits_cell measure_size(side *s, size_t bytes, const bool *wanted, double seconds)
{
    hki_limits_cell c = {bytes, {NAN, NAN, NAN, NAN, NAN}};
    s->bytes = bytes;
    for (int i = 0; i < METHODS; i++) {
        const method *m = &methods[i];
        if (!wanted[m->way] || fails(s, m->way))
            continue;
        double time = measure(s, m, seconds);
        if (!isnan(time) && !fails(s, m->way))
            better(&c.time[m->way], time);
    }
    return c;
}

/* One way, ns. */
static double handover(side *s)
{
    enum { BURSTS = 15, ROUNDS = 2000 };
    double times[BURSTS];
    for (int burst = 0; burst < BURSTS; burst++) {
        uint64_t start = hki_now();
        for (int i = 0; i < ROUNDS; i++)
            meet(s); /* two hand-overs, at the same time */
        times[burst] = (double)(hki_now() - start) / ROUNDS;
    }
    return hki_bench_summarise(times, BURSTS).p50;
}

/* GB/s of bytes copied by one process while the other rests, between buffers larger than its own caches. */
static double copying(side *s, size_t bytes)
{
    enum { COPIES = 25 };
    double times[COPIES];
    for (int i = 0; i < COPIES && s->me == 0; i++) {
        s->input[i] += 1.0F;
        uint64_t start = hki_now();
        memcpy(s->output, s->input, bytes);
        __asm__ volatile("" : : "r"(s->output) : "memory");
        times[i] = (double)(hki_now() - start);
    }
    meet(s);
    return s->me == 0 ? (double)bytes / hki_bench_summarise(times, COPIES).p50 : 0;
}

/* ---- two processes ---- */

enum { COPY_BYTES = 8 << 20 };

static void bind_to(int n)
{
    cpu_set_t usable, one;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0)
        return;
    n %= CPU_COUNT(&usable);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &usable) || n-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof one, &one); /* unbound, the figures are only less steady */
        return;
    }
}

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* Private memory, as an application's malloc gives it; touched, so that no sample pays for a first touch. */
static bool prepare_private(side *s, size_t bytes)
{
    s->input = malloc(bytes);
    s->output = malloc(bytes);
    s->bounce = malloc(PIECE_BYTES);
    if (s->input == NULL || s->output == NULL || s->bounce == NULL)
        return false;
    memset(s->input, 1, bytes);
    memset(s->output, 1, bytes);
    memset(s->bounce, 1, PIECE_BYTES);
    s->shared->address[s->me][0] = (uintptr_t)s->input;
    s->shared->address[s->me][1] = (uintptr_t)s->output;
    s->shared->pid[s->me] = getpid();
    for (int rank = 0; rank < 2; rank++) /* each process pays for each page of each mapping once */
        for (int which = 0; which < 2; which++)
            for (size_t at = 0; at < bytes / sizeof(float); at += 1024)
                s->mapped[rank][which][at] = 0;
    return hki_reducer_find(HK_FLOAT32, HK_SUM, &s->sum) == HK_OK;
}

static void free_private(side *s)
{
    free(s->input);
    free(s->output);
    free(s->bounce);
}

/* What each of the two does. The sizes are in result->cells. */
static bool play(side *s, size_t largest, double seconds, hki_limits *result)
{
    bind_to(s->me);
    if (!prepare_private(s, largest)) {
        free_private(s);
        return false;
    }
    meet(s);
    result->handover_ns = handover(s);
    result->copy_gbs = copying(s, COPY_BYTES);
    for (size_t i = 0; i < result->count; i++)
        result->cells[i] = measure_size(s, result->cells[i].bytes, result->wanted, seconds);
    free_private(s);
    return true;
}

static int run_both(side *s, size_t largest, double seconds, hki_limits *result)
{
    int status;
    pid_t child = fork();
    if (child < 0) {
        fprintf(stderr, "hocket bench limits: fork: %s\n", strerror(errno));
        return 1;
    }
    s->me = child == 0;
    s->other = 1 - s->me;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(play(s, largest, seconds, result) ? 0 : 1);
    }
    bool played = play(s, largest, seconds, result);
    if (!played) {
        kill(child, SIGKILL);
        fprintf(stderr, "hocket bench limits: no memory for %zu bytes\n", largest);
    }
    return waitpid(child, &status, 0) == child && status == 0 && played ? 0 : 1;
}

static int measure_all(hki_limits *result, double seconds)
{
    size_t largest = COPY_BYTES;
    for (size_t i = 0; i < result->count; i++)
        largest = result->cells[i].bytes > largest ? result->cells[i].bytes : largest;
    side s = {.shared = shared_memory(sizeof(arena))};
    bool ready = s.shared != NULL;
    if (ready && !hki_limits_tcp_pair(s.tcp))
        atomic_store(&s.shared->tcp_fails, true);
    for (int rank = 0; rank < 2; rank++)
        for (int which = 0; which < 2; which++) {
            s.mapped[rank][which] = shared_memory(largest);
            ready = ready && s.mapped[rank][which] != NULL;
        }
    if (!ready) {
        fprintf(stderr, "hocket bench limits: no shared memory for four buffers of %zu bytes\n", largest);
        return 1;
    }
    return run_both(&s, largest, seconds, result);
}

/* ---- options ---- */

static void usage(FILE *out)
{
    fprintf(out, "usage: hocket bench limits [options]\n\n"
                 "Measures what two processes of this machine can do at best, without any library.\n\n"
                 "  --bytes N  one size; may be given again (default 8, 1K, 8K, 64K, 256K, 1M, 4M, 64M)\n"
                 "  --way W    slots, get, mapped, tcp or stream; may be given again (default all)\n"
                 "  --time S   seconds for each size and way (default 0.1)\n"
                 "  --json     one JSON object on standard output\n");
}

static bool add_size(hki_limits *result, const char *text)
{
    uint64_t bytes;
    if (!hki_parse_bytes(text, &bytes) || bytes < sizeof(float) || result->count == HKI_LIMITS_SIZES) {
        fprintf(stderr, "hocket bench limits: --bytes %s: not a size of at least 4 bytes, or too many of them\n", text);
        return false;
    }
    result->cells[result->count++].bytes = (size_t)(bytes / sizeof(float) * sizeof(float));
    return true;
}

static bool add_way(hki_limits *result, const char *text)
{
    for (int way = 0; way < HKI_LIMITS_WAYS; way++) {
        if (strcmp(text, hki_limits_way_names[way]) == 0)
            return result->wanted[way] = true;
    }
    fprintf(stderr, "hocket bench limits: --way %s: slots, get, mapped, tcp or stream\n", text);
    return false;
}

/* What was not said. */
static void add_defaults(hki_limits *result)
{
    static const char *const standard[] = {"8", "1K", "8K", "64K", "256K", "1M", "4M", "64M"};
    bool any = false;
    for (size_t i = 0, own = result->count; own == 0 && i < sizeof standard / sizeof standard[0]; i++)
        (void)add_size(result, standard[i]);
    for (int way = 0; way < HKI_LIMITS_WAYS; way++)
        any |= result->wanted[way];
    for (int way = 0; way < HKI_LIMITS_WAYS; way++)
        result->wanted[way] |= !any;
}

int hki_bench_limits(int argc, char **argv)
{
    static const struct option known[] = {
        {"bytes", required_argument, NULL, 'b'}, {"way", required_argument, NULL, 'w'},
        {"time", required_argument, NULL, 't'},  {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},        {NULL, 0, NULL, 0}};
    hki_limits result = {0};
    double seconds = 0.1;
    bool json = false;
    int option;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'b' && add_size(&result, optarg))
            continue;
        if (option == 'w' && add_way(&result, optarg))
            continue;
        if (option == 't' && (seconds = atof(optarg)) > 0)
            continue;
        if (option == 'j')
            json = true;
        else {
            usage(option == 'h' ? stdout : stderr);
            return option == 'h' ? 0 : 2;
        }
    }
    add_defaults(&result);
    int status = measure_all(&result, seconds);
    if (status == 0)
        (json ? hki_limits_report_json : hki_limits_report_text)(&result);
    return status;
}
