/* allocator_truth single|threads - for a program that has its allocator linked in: allocates in functions
 * called own_*, and prints what it knows of that, and what the allocator says of itself, each number behind
 * its name. Bytes are those that blocks take (malloc_usable_size), but for `asked`.
 *
 *   asked taken blocks live live-blocks peak     the program's own; the peak where one thread allocates
 *   said-total                                   jemalloc: thread.allocated, of all threads
 *   said-live                                    jemalloc: stats.allocated; tcmalloc:
 *                                                generic.current_allocated_bytes
 *   said-peak                                    jemalloc, one thread: thread.peak.read, which lags behind by
 *                                                up to 64 KiB
 *
 * All of them are differences between two moments at which the caches of threads are as empty as they can be
 * made. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, SLOTS = 400, ROUNDS = 20000 };

static uint64_t asked, taken, blocks, live, live_blocks, peak, said_total, said_peak;

/* --- what the allocator says --- */

#ifdef JEMALLOC
extern int mallctl(const char *name, void *old, size_t *old_size, void *fresh, size_t fresh_size);

static uint64_t ask(const char *name)
{
    uint64_t value = 0;
    size_t size = sizeof value;
    if (mallctl(name, &value, &size, NULL, 0) || size != sizeof value) {
        fprintf(stderr, "allocator_truth: mallctl(%s)\n", name);
        exit(3);
    }
    return value;
}

static void order(const char *name)
{
    if (mallctl(name, NULL, NULL, NULL, 0))
        _exit(3);
}

static uint64_t allocated_now(void)
{
    uint64_t epoch = 1;
    order("thread.tcache.flush");
    if (mallctl("epoch", NULL, NULL, &epoch, sizeof epoch))
        _exit(3);
    return ask("stats.allocated");
}

static uint64_t thread_total(void)
{
    return ask("thread.allocated");
}

static void begin_peak(void)
{
    order("thread.peak.reset");
}

static uint64_t end_peak(void)
{
    return ask("thread.peak.read");
}

static void empty_cache(void)
{
    order("thread.tcache.flush");
}
#else
extern int MallocExtension_GetNumericProperty(const char *name, size_t *value);
extern void MallocExtension_MarkThreadIdle(void);

static uint64_t allocated_now(void)
{
    size_t value = 0;
    if (!MallocExtension_GetNumericProperty("generic.current_allocated_bytes", &value))
        _exit(3);
    return value;
}

static uint64_t thread_total(void)
{
    return 0;
}

static void begin_peak(void)
{
}

static uint64_t end_peak(void)
{
    return 0;
}

static void empty_cache(void)
{
    MallocExtension_MarkThreadIdle();
}
#endif

/* --- the program's own --- */

#define KEPT __attribute__((noinline, noclone))

KEPT char *own_malloc(size_t size)
{
    char *volatile block = malloc(size);
    return block;
}

KEPT char *own_calloc(size_t size)
{
    char *volatile block = calloc(size, 1);
    return block;
}

KEPT char *own_aligned(size_t size)
{
    void *block = NULL;
    if (posix_memalign(&block, 256, size))
        return NULL;
    __asm__ volatile("" : : "r"(block) : "memory");
    return block;
}

KEPT char *own_realloc(char *old, size_t size)
{
    char *volatile block = realloc(old, size);
    return block;
}

static void add(char *block, size_t size)
{
    uint64_t bytes = malloc_usable_size(block);
    if (!block || bytes < size)
        _exit(4);
    block[0] = block[size - 1] = 'x';
    __atomic_fetch_add(&asked, size, __ATOMIC_RELAXED);
    __atomic_fetch_add(&taken, bytes, __ATOMIC_RELAXED);
    __atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&live_blocks, 1, __ATOMIC_RELAXED);
    uint64_t now = __atomic_add_fetch(&live, bytes, __ATOMIC_RELAXED);
    if (now > peak)
        peak = now; /* races where several threads allocate: nobody looks then */
}

static void sub(char *block)
{
    __atomic_fetch_sub(&live_blocks, 1, __ATOMIC_RELAXED);
    __atomic_fetch_sub(&live, malloc_usable_size(block), __ATOMIC_RELAXED);
}

static uint32_t next(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 8;
}

/* Small ones mostly; one in sixteen up to 200 kB, which no cache of a thread keeps. */
static void churn(char **slots, uint32_t random)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        char **slot = &slots[next(&random) % SLOTS];
        size_t size = 1 + next(&random) % (next(&random) % 16 ? 1500 : 200000);
        unsigned kind = next(&random) % 8;
        if (kind == 7 && *slot) {
            sub(*slot);
            add(*slot = own_realloc(*slot, size), size);
        } else if (*slot) {
            sub(*slot);
            free(*slot);
            *slot = NULL;
        } else {
            add(*slot = kind < 3 ? own_malloc(size) : kind < 5 ? own_calloc(size) : own_aligned(size), size);
        }
    }
}

static char *all_slots[THREADS][SLOTS];
static pthread_barrier_t begun, counted, done, read_out;

static void own_work(char **slots, uint32_t random)
{
    uint64_t before = thread_total();
    churn(slots, random);
    __atomic_fetch_add(&said_total, thread_total() - before, __ATOMIC_RELAXED);
    empty_cache();
}

/* What an allocator takes for a new thread is taken before anything is counted. */
static void *thread(void *number)
{
    void *volatile first = malloc(1);
    free(first);
    empty_cache();
    pthread_barrier_wait(&begun);
    pthread_barrier_wait(&counted);
    own_work(all_slots[(uintptr_t)number], 77 + (uint32_t)(uintptr_t)number);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&read_out);
    return NULL;
}

static uint64_t in_threads(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_t *const barriers[] = {&begun, &counted, &done, &read_out};
    for (unsigned i = 0; i < 4; i++)
        pthread_barrier_init(barriers[i], NULL, THREADS + 1);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread, (void *)i))
            _exit(5);
    pthread_barrier_wait(&begun);
    uint64_t before = allocated_now();
    pthread_barrier_wait(&counted);
    pthread_barrier_wait(&done);
    uint64_t after = allocated_now();
    pthread_barrier_wait(&read_out);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return after - before;
}

static uint64_t alone(void)
{
    uint64_t before = allocated_now();
    begin_peak();
    own_work(all_slots[0], 5);
    said_peak = end_peak();
    return allocated_now() - before;
}

int main(int argc, char **argv)
{
    char line[400];
    int many = argc > 1 && !strcmp(argv[1], "threads");
    uint64_t said_live = many ? in_threads() : alone();
    int length = snprintf(line, sizeof line,
                          "asked %llu taken %llu blocks %llu live %llu live-blocks %llu peak %llu "
                          "said-total %llu said-live %llu said-peak %llu\n",
                          (unsigned long long)asked, (unsigned long long)taken, (unsigned long long)blocks,
                          (unsigned long long)live, (unsigned long long)live_blocks, (unsigned long long)peak,
                          (unsigned long long)said_total, (unsigned long long)said_live,
                          (unsigned long long)said_peak);
    return write(1, line, (size_t)length) != length;
}
