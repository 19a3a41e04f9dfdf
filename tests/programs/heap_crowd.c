/* Many threads, that allocate by own_*: heap_crowd AT_ONCE ROUNDS [stay]. With `stay` all threads of a round live, with what they
 * allocated, until the last one has come; else each may end at once. Says in the file TRUTH what it did: pid, bytes, blocks, live
 * bytes, live blocks, peak (0: not known). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 50, STACK = 65536 };

static pthread_barrier_t together;
static int stays;

__attribute__((noinline, noclone)) static void *own_malloc(size_t size)
{
    void *volatile block = malloc(size);
    return block;
}

static void *work(void *argument)
{
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = own_malloc((size_t)i + 1);
    if (stays)
        pthread_barrier_wait(&together);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    return argument;
}

static int round_of(pthread_t *threads, int count)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attributes, work, NULL))
            return 1;
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&together);
    return 0;
}

int main(int argc, char **argv)
{
    long at_once = argc > 2 ? strtol(argv[1], NULL, 10) : 0,
         rounds = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    pthread_t *threads = calloc((size_t)at_once, sizeof *threads);
    const char *path = getenv("TRUTH");
    stays = argc > 3;
    for (long i = 0; i < rounds; i++)
        if (!threads || round_of(threads, (int)at_once))
            return 77; /* more threads than may be */
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        long made = at_once * rounds;
        fprintf(file, "%d %ld %ld 0 0 0\n", (int)getpid(), made * BLOCKS * (BLOCKS + 1) / 2, made * BLOCKS);
        fclose(file);
    }
    free(threads);
    return 0;
}
