/* heap_overhead glibc|usable - allocates in functions called own_*, and prints what that took: a line "pid
 * asked taken live-asked live-taken blocks" for itself, and one for a child that was forked and does the
 * same.
 *
 * What a block takes is found without the function that Tally asks: glibc has its chunk's size in the word
 * before it. Of other allocators it is malloc_usable_size, and no header. */
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 300, ROUNDS = 6000 };

static int by_chunk;
static uint64_t asked, taken, live_asked, live_taken, blocks;

struct slot {
    char *block;
    size_t asked;
};
static struct slot slots[SLOTS];

#define KEPT __attribute__((noinline, noclone))

static uint64_t taken_by(char *block)
{
    uint64_t chunk;
    if (!by_chunk)
        return malloc_usable_size(block);
    memcpy(&chunk, block - sizeof chunk, sizeof chunk);
    return chunk & ~UINT64_C(7);
}

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

KEPT char *own_memalign(size_t size)
{
    char *volatile block = memalign(256, size);
    return block;
}

KEPT char *own_realloc(char *old, size_t size)
{
    char *volatile block = realloc(old, size);
    return block;
}

static void add(struct slot *slot, char *block, size_t size)
{
    if (!block)
        _exit(3);
    *slot = (struct slot){block, size};
    asked += size, live_asked += size;
    taken += taken_by(block), live_taken += taken_by(block);
    blocks++;
}

static void sub(const struct slot *slot)
{
    live_asked -= slot->asked;
    live_taken -= taken_by(slot->block);
}

static void work(uint32_t random)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        random = random * 1664525u + 1013904223u;
        struct slot *slot = &slots[(random >> 8) % SLOTS];
        size_t size = random >> 28 == 0 ? 100000 + (random >> 12) % 500000 : (random >> 12) % 3000;
        unsigned kind = (random >> 5) % 5;
        if (kind == 4 && slot->block && size) {
            char *old = slot->block;
            sub(slot);
            add(slot, own_realloc(old, size), size);
            continue;
        }
        if (slot->block)
            sub(slot);
        free(slot->block);
        add(slot, kind == 1 ? own_calloc(size) : kind == 2 ? own_memalign(size) : own_malloc(size), size);
    }
}

static void say(void)
{
    char line[200];
    int length =
        snprintf(line, sizeof line, "%d %llu %llu %llu %llu %llu\n", (int)getpid(), (unsigned long long)asked,
                 (unsigned long long)taken, (unsigned long long)live_asked, (unsigned long long)live_taken,
                 (unsigned long long)blocks);
    if (write(1, line, (size_t)length) != length)
        _exit(4);
}

int main(int argc, char **argv)
{
    by_chunk = argc > 1 && strcmp(argv[1], "glibc") == 0;
    work(1);
    pid_t child = fork();
    if (child == 0) {
        memset(slots, 0, sizeof slots);
        asked = taken = live_asked = live_taken = blocks = 0;
        work(2);
        say();
        _exit(0);
    }
    waitpid(child, NULL, 0);
    say();
    return 0;
}
