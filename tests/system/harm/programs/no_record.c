/* While Tally is there, the program has no more addresses (RLIMIT_AS) from time to time, and begins threads then: the agent
 * has no room to count for them. It says so by a line, and ends when its standard input does. */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { THREADS = 6, STACK = 256 << 10, BLOCKS = 500, SETTLED = 8 /* looks */, LOOK_MS = 30 };

static char stacks[THREADS][STACK] __attribute__((aligned(4096)));
static pthread_barrier_t together;

/* All of them at once. Mapping is refused, and unmapping does nothing. */
static void *work(void *argument)
{
    void *blocks[BLOCKS];
    pthread_barrier_wait(&together);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(i % 200 + 1);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    munmap(mmap(NULL, (size_t)1 << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), (size_t)1 << 30);
    pthread_barrier_wait(&together);
    return argument;
}

static int with_threads(void)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    for (int i = 0; i < THREADS; i++) {
        pthread_attr_init(&attributes);
        pthread_attr_setstack(&attributes, stacks[i], STACK);
        if (pthread_create(&threads[i], &attributes, work, NULL))
            return 1;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

/* Bytes of addresses; 0 where nobody else has mapped anything. */
static rlim_t visited(void)
{
    unsigned long pages = 0;
    char line[512];
    int found = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lu", &pages) != 1)
        return 0;
    fclose(file);
    file = fopen("/proc/self/maps", "r");
    while (file && fgets(line, sizeof line, file))
        found |= strstr(line, "/memfd:tally") != NULL;
    if (file)
        fclose(file);
    return found ? (rlim_t)pages * 4096 : 0;
}

static int without_addresses(rlim_t bytes)
{
    struct rlimit before, now;
    getrlimit(RLIMIT_AS, &before);
    now = (struct rlimit){bytes, before.rlim_max};
    setrlimit(RLIMIT_AS, &now);
    int failed = with_threads();
    setrlimit(RLIMIT_AS, &before);
    return failed;
}

int main(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int looks = 0, failed = 0;
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
    mallopt(M_TOP_PAD, 4 << 20);
    pthread_barrier_init(&together, NULL, THREADS);
    failed |= with_threads();
    puts("ready");
    fflush(stdout);
    while (poll(&input, 1, LOOK_MS) == 0) {
        rlim_t bytes = visited();
        looks = bytes ? looks + 1 : 0;
        if (looks > SETTLED)
            failed |= without_addresses(bytes);
    }
    puts(failed ? "threads failed" : "fine");
    return failed;
}
