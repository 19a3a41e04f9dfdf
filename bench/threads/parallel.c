#include "parallel.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 1024 };

struct start {
    parallel_slice *slice;
    void *work;
    unsigned part, parts;
};

struct parallel_request parallel_read(int argc, char **argv)
{
    struct parallel_request request = {0, 1};
    if (argc > 1)
        request.threads = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        request.scale = (unsigned)strtoul(argv[2], NULL, 10);
    if (!request.threads || request.threads > THREADS_MAX || !request.scale) {
        fprintf(stderr, "usage: %s THREADS [SCALE]\n", argv[0]);
        exit(2);
    }
    return request;
}

static void *begin(void *argument)
{
    const struct start *start = argument;
    start->slice(start->work, start->part, start->parts);
    return NULL;
}

void parallel_run(unsigned threads, parallel_slice *slice, void *work)
{
    pthread_t ids[THREADS_MAX];
    struct start starts[THREADS_MAX];
    for (unsigned i = 0; i < threads; i++) {
        starts[i] = (struct start){slice, work, i, threads};
        if (pthread_create(&ids[i], NULL, begin, &starts[i])) {
            fprintf(stderr, "no thread %u\n", i);
            exit(1);
        }
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(ids[i], NULL);
}

void parallel_range(size_t count, unsigned part, unsigned parts, size_t *from, size_t *to)
{
    *from = count * part / parts;
    *to = count * (part + 1) / parts;
}

uint64_t parallel_number(uint64_t index)
{
    uint64_t value = index + 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}
