/* bench_heap.c - allocates at stacks of 17 frames.
 *
 *     bench_heap mix|churn|hold THREADS PAIRS
 *
 * mix: a pair of malloc and free each 770 ns or so, with work between them, sizes of all kinds, from some
 * hundred stacks that share their outer half. churn: nothing but pairs of a few sizes, from few stacks, as
 * fast as they go. hold: blocks from the stacks of mix, never freed. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 14, SLOTS = 1024, WORK = 570 }; /* DEPTH and what is above and below it: 17 frames */

struct job {
    uint64_t seed, pairs;
    char kind; /* the first letter of mix, churn or hold */
    void *slots[SLOTS];
    volatile uint64_t result;
};

static uint64_t next(struct job *job)
{
    job->seed = job->seed * 6364136223846793005u + 1442695040888963407u;
    return job->seed >> 33;
}

__attribute__((noinline)) static void work(struct job *job)
{
    uint64_t value = job->seed;
    for (int i = 0; i < WORK; i++)
        value = value * 2862933555777941757u + 3037000493u;
    job->result = value;
}

__attribute__((noinline)) static void leaf(struct job *job, uint64_t path)
{
    if (job->kind != 'm') {
        void *block = malloc(16 + path % 4 * 16);
        __asm__ volatile("" : : "r"(block) : "memory");
        if (job->kind == 'c')
            free(block);
        return;
    }
    uint64_t random = next(job);
    void **slot = &job->slots[random % SLOTS];
    free(*slot);
    *slot = malloc(8 + (random >> 12) % (random & 1024 ? 120 : 2000));
    work(job);
}

#define LEVEL(name, other, last)                                                                             \
    __attribute__((noinline)) static void name(struct job *job, uint64_t path, int depth)                    \
    {                                                                                                        \
        if (depth == 0)                                                                                      \
            leaf(job, path);                                                                                 \
        else if (path >> depth & 1)                                                                          \
            other(job, path, depth - 1);                                                                     \
        else                                                                                                 \
            last(job, path, depth - 1);                                                                      \
        __asm__ volatile("" : : : "memory"); /* no tail call */                                              \
    }

static void left(struct job *job, uint64_t path, int depth);
static void right(struct job *job, uint64_t path, int depth);
LEVEL(left, right, left)
LEVEL(right, left, right)

static void *run(void *context)
{
    struct job *job = context;
    for (uint64_t i = 0; i < job->pairs; i++)
        left(job, job->kind == 'c' ? i & 3 : next(job) & 0xff, DEPTH - 1);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: bench_heap mix|churn|hold THREADS PAIRS\n");
        return 2;
    }
    int count = atoi(argv[2]);
    pthread_t threads[64];
    static struct job jobs[64];
    for (int i = 0; i < count && i < 64; i++) {
        jobs[i] =
            (struct job){.seed = 77 + (uint64_t)i, .pairs = strtoull(argv[3], NULL, 10), .kind = argv[1][0]};
        if (i && pthread_create(&threads[i], NULL, run, &jobs[i]))
            return 1;
    }
    run(&jobs[0]);
    for (int i = 1; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
