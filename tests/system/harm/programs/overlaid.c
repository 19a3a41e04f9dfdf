/* overlaid work|malloc: something in the program that hooks functions, as many tools do: it takes over the function's first jump and
 * goes on where that led. Its standard input says what to do, a letter each, and it answers a line:
 *   o   takes over; "none" when no jump stands there
 *   b   puts back what it found, but keeps its own way to where that led
 *   c   calls the function, and what it kept */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { JUMP = 5, PAGE = 4096 };

__attribute__((noinline, noclone)) void *work(size_t size)
{
    static volatile size_t sum;
    sum += size;
    return (void *)&sum;
}

static void *(*volatile function)(size_t);
static uint8_t *entry, *way, found[JUMP];

static void write_entry(const uint8_t bytes[JUMP])
{
    uint8_t *page = (uint8_t *)((uintptr_t)entry & -(uintptr_t)PAGE);
    if (mprotect(page, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
        exit(3);
    memcpy(entry, bytes, JUMP);
    if (mprotect(page, 2 * PAGE, PROT_READ | PROT_EXEC))
        exit(4);
}

/* Near the function: some page in its reach is free. */
static uint8_t *make_way(void)
{
    for (uintptr_t at = (uintptr_t)entry & -(uintptr_t)PAGE, i = 1; i < 4096; i++) {
        void *want = (void *)(at - i * 16 * PAGE);
        void *got = mmap(want, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (got == want)
            return got;
    }
    exit(5);
}

static const char *take_over(void)
{
    int32_t distance;
    uint8_t far[14] = {0xff, 0x25}, near[JUMP] = {0xe9};
    if (entry[0] != 0xe9)
        return "none";
    memcpy(found, entry, JUMP);
    memcpy(&distance, found + 1, sizeof distance);
    uint64_t target = (uint64_t)(uintptr_t)entry + JUMP + (uint64_t)(int64_t)distance;
    memcpy(far + 6, &target, sizeof target);
    way = way ? way : make_way();
    memcpy(way, far, sizeof far);
    distance = (int32_t)(way - (entry + JUMP));
    memcpy(near + 1, &distance, sizeof distance);
    write_entry(near);
    return "taken";
}

static void call(void)
{
    void *volatile one = function(24), *volatile other = way ? ((void *(*)(size_t))(uintptr_t)way)(24) : NULL;
    if (function == malloc) {
        free(one);
        free(other);
    }
}

int main(int argc, char **argv)
{
    char letter;
    function = argc > 1 && !strcmp(argv[1], "malloc") ? malloc : work;
    entry = (uint8_t *)(uintptr_t)function;
    while (read(0, &letter, 1) == 1) {
        const char *answer = letter == 'o' ? take_over() : "done";
        if (letter == 'b')
            write_entry(found);
        call();
        dprintf(1, "%s\n", answer);
    }
    return 0;
}
