/*
 * What the machine can do at this moment, in a few hundredths of a second: how long a cache line takes from one CPU to
 * another, and how fast memory is copied. bench/compare runs it between its legs and drops pairs of legs between which
 * these have moved: other tenants of the host, not the libraries, differ then.
 *
 * Prints {"handover_ns": …, "copy_gbs": …}. Exit status 0, or 1 when the machine has fewer than two CPUs for us.
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 2000, BURSTS = 15, COPIES = 101, COPY_BYTES = 8 << 20, LINE = 128 };

/* One word each way, each on a line of its own (and not on its neighbour, which the prefetcher brings along). */
typedef struct table {
    _Alignas(LINE) _Atomic unsigned ping;
    _Alignas(LINE) _Atomic unsigned pong;
} table;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Binds to the n-th CPU that the process may use. */
static int bind_to(int n, const cpu_set_t *usable)
{
    cpu_set_t one;
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, usable) || n-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        return sched_setaffinity(0, sizeof one, &one);
    }
    return -1;
}

static void answer(table *t)
{
    for (unsigned i = 1; i <= ROUNDS * BURSTS; i++) {
        while (atomic_load_explicit(&t->ping, memory_order_acquire) != i)
            ;
        atomic_store_explicit(&t->pong, i, memory_order_release);
    }
}

static int ascending(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Median over bursts of the time one way, in ns. */
static double handover(table *t)
{
    double bursts[BURSTS];
    unsigned i = 0;
    for (int burst = 0; burst < BURSTS; burst++) {
        double start = now();
        for (int round = 0; round < ROUNDS; round++) {
            atomic_store_explicit(&t->ping, ++i, memory_order_release);
            while (atomic_load_explicit(&t->pong, memory_order_acquire) != i)
                ;
        }
        bursts[burst] = (now() - start) * 1e9 / (2.0 * ROUNDS);
    }
    qsort(bursts, BURSTS, sizeof *bursts, ascending);
    return bursts[BURSTS / 2];
}

/* Median bandwidth of memcpy between buffers larger than a private cache, in GB/s of bytes copied; 0: no memory. */
static double copying(void)
{
    double rates[COPIES];
    char *from = malloc(COPY_BYTES), *to = malloc(COPY_BYTES);
    if (from == NULL || to == NULL)
        return 0.0;
    memset(from, 1, COPY_BYTES);
    memset(to, 2, COPY_BYTES);
    for (int i = 0; i < COPIES; i++) {
        from[i] = (char)i; /* keeps the compiler from seeing the same copy twice */
        double start = now();
        memcpy(to, from, COPY_BYTES);
        __asm__ volatile("" : : "r"(to) : "memory");
        rates[i] = COPY_BYTES / (now() - start) * 1e-9;
    }
    free(from);
    free(to);
    qsort(rates, COPIES, sizeof *rates, ascending);
    return rates[COPIES / 2];
}

int main(void)
{
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable) != 0 || CPU_COUNT(&usable) < 2) {
        fprintf(stderr, "probe: needs two CPUs\n");
        return 1;
    }
    table *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t == MAP_FAILED || bind_to(0, &usable) != 0) {
        perror("probe");
        return 1;
    }
    pid_t child = fork();
    if (child == 0) {
        if (bind_to(1, &usable) != 0)
            _exit(1);
        answer(t);
        _exit(0);
    }
    if (child < 0) {
        perror("probe: fork");
        return 1;
    }
    double ns = handover(t);
    waitpid(child, NULL, 0);
    printf("{\"handover_ns\": %.1f, \"copy_gbs\": %.2f}\n", ns, copying());
    return 0;
}
