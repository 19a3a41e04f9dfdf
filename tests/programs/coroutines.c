/* coroutines.c - stacks that come and go, a smaller one where a larger one was, so that what was readable above it is not.
 *
 *     coroutines unmap|protect|replace|remap [THREAD]
 *
 * How the larger one is taken away; with a word more a thread of its own does it. Prints how often it allocated, opened and
 * came by. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "truth.h"

enum { LARGE = 256 * 1024, SMALL = 16 * 1024, BETWEEN = 8192, DEEP = 60, FLAT = 1, ROUNDS = 50 };

static ucontext_t outside, inside;
static int depth;
static unsigned came_by;
static char *area, *elsewhere, how;

void come_by(void);

TRUTH_FUNCTION void come_by(void)
{
    void *volatile block = malloc(100);
    free(block);
    close(open("/dev/null", O_RDONLY | O_CLOEXEC));
    came_by++;
}

static void descend(int levels)
{
    volatile char room[512];
    room[0] = (char)levels;
    if (levels > 0)
        descend(levels - 1);
    else
        for (int i = 0; i < 3; i++)
            TRUTH_CALL(come_by());
    room[1] = room[0];
}

static void begin(void)
{
    descend(depth);
}

static void run(char *stack, size_t size, int levels)
{
    depth = levels;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = size;
    inside.uc_link = &outside;
    makecontext(&inside, begin, 0);
    swapcontext(&outside, &inside);
}

static void *take_away(void *given)
{
    (void)given;
    if (how == 'p')
        mprotect(area, LARGE, PROT_NONE);
    else if (how == 'm')
        mremap(area, LARGE, LARGE, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere);
    else if (how == 'u')
        munmap(area, LARGE);
    else
        mmap(area, LARGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    const int usual = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS;
    how = argc < 2 ? 'u' : !strcmp(argv[1], "remap") ? 'm' : argv[1][0];
    area = mmap(NULL, 4 * LARGE, PROT_NONE, kind, -1, 0);
    area += LARGE;
    elsewhere = mmap(NULL, LARGE, PROT_NONE, kind, -1, 0);
    char *small = area + LARGE - BETWEEN - SMALL;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t other;
        mmap(area, LARGE, usual, kind | MAP_FIXED, -1, 0);
        run(area, LARGE, DEEP);
        if (argc > 2 && pthread_create(&other, NULL, take_away, NULL) == 0)
            pthread_join(other, NULL);
        else
            take_away(NULL);
        mmap(small, SMALL, usual, kind | MAP_FIXED, -1, 0);
        run(small, SMALL, FLAT);
    }
    printf("%u\n", came_by);
    return 0;
}
