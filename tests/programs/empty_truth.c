/* empty_truth WAY - blocks with pages that it knows: in functions called own_*, and prints what of them a
 * profile must have, a line "pid zero init unused", for itself and, before it, for each child.
 *
 *   exit, return   it has live blocks when it ends by _exit, by return from main
 *   exec           ... when it becomes another program
 *   kill           ... when it is killed; what lives then is not in the line. Before, a child of vfork ends,
 *                  and an exec fails
 *   children       a child by fork that ends by _exit, and children by vfork that end, or run another program
 *   hooked         it begins when malloc was changed by somebody, and ends when its input does. Blocks do not
 *                  grow: how large they are usable is found out only while it runs
 *
 * Blocks of PAGES_MAPPED pages or more are mapped anew: they are zeros before anything is written. */
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES_MAPPED = 256 };

static uint64_t zero, init, unused;
static char name_of_true[] = "true";
static char *const arguments[] = {name_of_true, NULL};

#define KEPT __attribute__((noinline, noclone))

KEPT static char *own_malloc(size_t size)
{
    char *volatile block = malloc(size);
    return block;
}

KEPT static char *own_calloc(size_t size)
{
    char *volatile block = calloc(size, 1);
    return block;
}

KEPT static char *own_memalign(size_t size)
{
    char *volatile block = memalign(PAGE, size);
    return block;
}

KEPT static char *own_realloc(char *old, size_t size)
{
    char *volatile block = realloc(old, size);
    return block;
}

static void must(int holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    exit(3);
}

/* Whole pages in [block + from, block + to). */
static size_t pages(const char *block, size_t from, size_t to)
{
    uintptr_t first = ((uintptr_t)block + from + PAGE - 1) / PAGE, end = ((uintptr_t)block + to) / PAGE;
    return end > first ? end - first : 0;
}

/* Of large blocks, whose memory is mapped anew, a part that was never touched, which is zeros; one of written
 * zeros; one in use. */
static char *mixed(char *block, size_t part)
{
    memset(block + part, 0, part);
    memset(block + 2 * part, 'x', part);
    zero += pages(block, 0, 2 * part) * PAGE;
    init += pages(block, part, 2 * part) * PAGE;
    unused += pages(block, 0, part) * PAGE;
    return block;
}

/* calloc's are zeros in every mode, and asked for. */
static char *zeros(char *block, size_t size)
{
    for (size_t i = 0; i < size; i++)
        must(block[i] == 0, "calloc gave something else than zeros");
    zero += pages(block, 0, size) * PAGE;
    init += pages(block, 0, size) * PAGE;
    return block;
}

/* What a program has beyond its request belongs to it, and what it wrote there is kept by realloc. */
static void use_all(void)
{
    char *block = own_malloc(5 * PAGE + 1);
    size_t usable = malloc_usable_size(block);
    memset(block, 'u', usable);
    block = own_realloc(block, 40 * PAGE);
    for (size_t i = 0; i < usable; i++)
        must(block[i] == 'u', "realloc lost what was written in the usable part");
    memset(block + usable, 'v', 40 * PAGE - usable);
    free(block);
}

/* What realloc adds is unused until somebody writes to it, but for what was usable before; each of the two
 * blocks counts when it goes. */
static void grow(void)
{
    size_t old = 300 * PAGE, size = 700 * PAGE;
    char *block = own_malloc(old);
    memset(block, 'g', old / 2);
    zero += pages(block, old / 2, old) * PAGE;
    unused += pages(block, old / 2, old) * PAGE;
    size_t usable = malloc_usable_size(block);
    block = own_realloc(block, size);
    zero += pages(block, old / 2, size) * PAGE;
    unused += (pages(block, old / 2, old) + pages(block, usable, size)) * PAGE;
    must(own_realloc(block, PTRDIFF_MAX - PAGE) == NULL, "realloc gave too much");
    free(block);
}

/* A page in the middle may not be read when the block goes: free unmaps it unseen. */
static void guard(void)
{
    size_t size = 400 * PAGE;
    char *block = own_memalign(size);
    memset(block, 0, size);
    must(mprotect(block + 200 * PAGE, PAGE, PROT_NONE) == 0, "mprotect");
    zero += 399 * PAGE;
    init += 399 * PAGE;
    free(block);
}

/* Small memory that was in use: zeros are there only where they were written. */
static void reuse(void)
{
    char *block = own_malloc(20 * PAGE), *barrier = own_malloc(8);
    memset(block, 'r', 20 * PAGE);
    free(block);
    block = own_malloc(18 * PAGE);
    memset(block, 'r', 3 * PAGE);
    memset(block + 3 * PAGE, 0, 9 * PAGE);
    zero += pages(block, 3 * PAGE, 12 * PAGE) * PAGE;
    init += pages(block, 3 * PAGE, 12 * PAGE) * PAGE;
    unused += pages(block, 12 * PAGE, 18 * PAGE) * PAGE;
    free(block);
    block = own_calloc(18 * PAGE);
    zeros(block, 18 * PAGE);
    free(block);
    free(barrier);
}

/* Blocks below a page have none; those of one page seldom a whole one. */
static void small(void)
{
    for (size_t i = 0; i < 1000; i++) {
        char *block = own_malloc(i * 5);
        memset(block, 's', i * 5);
        free(block);
    }
}

static char *kept[4];

static void work(int grows)
{
    small();
    reuse();
    use_all();
    if (grows)
        grow();
    guard();
    free(mixed(own_malloc(600 * PAGE + 100), 200 * PAGE));
    free(zeros(own_calloc(300 * PAGE), 300 * PAGE));
    free(mixed(own_memalign(300 * PAGE), 100 * PAGE));
}

static void keep(void)
{
    kept[0] = mixed(own_malloc(900 * PAGE), 300 * PAGE);
    kept[1] = zeros(own_calloc(200 * PAGE), 200 * PAGE);
    kept[2] = own_malloc(100);
    kept[3] = own_memalign(300 * PAGE);
    memset(kept[3], 0, 300 * PAGE);
    zero += 299 * PAGE;
    init += 299 * PAGE;
    must(mprotect(kept[3] + 7 * PAGE, PAGE, PROT_NONE) == 0, "mprotect");
}

static void say(void)
{
    char line[200];
    int length = snprintf(line, sizeof line, "%d %llu %llu %llu\n", (int)getpid(), (unsigned long long)zero,
                          (unsigned long long)init, (unsigned long long)unused);
    must(write(1, line, (size_t)length) == length, "write");
}

/* Neither is the end of this process, nor is its memory theirs. */
static void run_in_our_memory(void)
{
    for (int i = 0; i < 2; i++) {
        pid_t child = vfork();
        if (child == 0) {
            if (i == 0)
                execv("/bin/true", arguments);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static void have_child(void)
{
    pid_t child = fork();
    if (child == 0) {
        zero = init = unused = 0;
        work(1);
        keep();
        say();
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void die(void)
{
    say();
    keep();
    run_in_our_memory();
    execv("/nonexistent/none", arguments);
    kill(getpid(), SIGKILL);
}

int main(int argc, char **argv)
{
    const char *way = argc > 1 ? argv[1] : "return";
    must(mallopt(M_MMAP_THRESHOLD, PAGES_MAPPED * PAGE), "mallopt");
    int hooked = strcmp(way, "hooked") == 0;
    while (hooked && *(const volatile unsigned char *)(uintptr_t)malloc != 0xe9)
        usleep(1000);
    work(!hooked);
    if (strcmp(way, "kill") == 0)
        die();
    keep();
    if (strcmp(way, "children") == 0) {
        have_child();
        run_in_our_memory();
        memset(kept[1], 'k', 200 * PAGE); /* in use from here on: nobody was to look before */
        zero -= pages(kept[1], 0, 200 * PAGE) * PAGE;
        init -= pages(kept[1], 0, 200 * PAGE) * PAGE;
    }
    say();
    if (strcmp(way, "exit") == 0)
        _exit(0);
    if (strcmp(way, "exec") == 0)
        execv("/bin/true", arguments);
    if (hooked)
        poll(&(struct pollfd){.fd = 0, .events = POLLIN}, 1, -1);
    return 0;
}
