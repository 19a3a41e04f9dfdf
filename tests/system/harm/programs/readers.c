/* What sees its caller inside of functions that are hooked: an allocator of the program's own, as those that profile themselves, walks
 * the stack by every unwinder there is. Printed is, of each walk, which functions of the program it came through; with "on" it is done
 * again and again until the standard input ends, and must not change. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unwind.h>
#ifdef LIBUNWIND
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#endif

#define AWAY __attribute__((noipa))

enum { FRAMES = 64, WALKS = 64 };

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void __libc_free(void *block);

struct walk {
    const char *function, *reader;
    void *frames[FRAMES];
    int count;
};

static struct walk walks[WALKS];
static int walk_count;
static __thread int looking;
static void *volatile block;

static struct walk *begin(const char *function, const char *reader)
{
    struct walk *walk = &walks[walk_count++ % WALKS];
    *walk = (struct walk){.function = function, .reader = reader};
    return walk;
}

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *argument)
{
    struct walk *walk = argument;
    if (walk->count < FRAMES)
        walk->frames[walk->count++] = (void *)_Unwind_GetIP(context);
    return _URC_NO_REASON;
}

static AWAY void walk_by_libunwind(const char *function)
{
#ifdef LIBUNWIND
    unw_context_t context;
    unw_cursor_t cursor;
    struct walk *walk = begin(function, "libunwind");
    unw_getcontext(&context);
    unw_init_local(&cursor, &context);
    do {
        unw_word_t pc;
        unw_get_reg(&cursor, UNW_REG_IP, &pc);
        walk->frames[walk->count++] = (void *)pc;
    } while (walk->count < FRAMES && unw_step(&cursor) > 0);
#else
    (void)function;
#endif
}

static AWAY void look(const char *function)
{
    if (!looking)
        return;
    looking = 0;
    struct walk *walk = begin(function, "backtrace");
    walk->count = backtrace(walk->frames, FRAMES);
    _Unwind_Backtrace(step, begin(function, "unwind"));
    walk_by_libunwind(function);
    looking = 1;
}

AWAY void *malloc(size_t size)
{
    look("malloc");
    return __libc_malloc(size);
}

AWAY void *calloc(size_t count, size_t size)
{
    look("calloc");
    return __libc_calloc(count, size);
}

AWAY void *realloc(void *old, size_t size)
{
    look("realloc");
    return __libc_realloc(old, size);
}

AWAY void free(void *old)
{
    look("free");
    __libc_free(old);
}

AWAY int timed(int x)
{
    look("timed");
    return x + 1;
}

AWAY void allocate(void)
{
    looking = 1;
    block = malloc(100);
    block = realloc(block, 5000);
    free(block);
    block = calloc(3, 40);
    free(block);
    timed(3);
    looking = 0;
}

AWAY int outer(int depth)
{
    int result = depth ? outer(depth - 1) + depth : 0;
    if (depth == 0)
        allocate();
    return result;
}

/* Rounds begin at several places in main. */
static void tell(char *text, size_t size, const void *address)
{
    Dl_info found, own;
    if (!dladdr(address, &found) || !dladdr((void *)outer, &own) || found.dli_fbase != own.dli_fbase ||
        !found.dli_sname)
        return;
    size_t used = strlen(text);
    unsigned long distance = strcmp(found.dli_sname, "main")
                                 ? (unsigned long)((const char *)address - (const char *)found.dli_saddr)
                                 : 0;
    snprintf(text + used, size - used, " %s+%lu", found.dli_sname, distance);
}

static void round_of(char *text, size_t size)
{
    walk_count = 0;
    outer(2);
    *text = 0;
    for (int i = 0; i < walk_count; i++) {
        size_t used = strlen(text);
        snprintf(text + used, size - used, "%s%s %s:", i ? "\n" : "", walks[i].function, walks[i].reader);
        for (int k = 0; k < walks[i].count; k++)
            tell(text, size, walks[i].frames[k]);
    }
}

static void *in_thread(void *text)
{
    round_of(text, 1 << 14);
    return NULL;
}

int main(int count, char **arguments)
{
    static char first[1 << 14], next[1 << 14], threads[1 << 14];
    struct pollfd input = {0, POLLIN, 0};
    unsigned different = 0;
    pthread_t thread;
    round_of(first, sizeof first);
    if (count > 1 && !strcmp(arguments[1], "on")) {
        puts("begun");
        fflush(stdout);
        while (poll(&input, 1, 5) == 0) {
            round_of(next, sizeof next);
            different += strcmp(first, next) != 0;
        }
    }
    pthread_create(&thread, NULL, in_thread, threads);
    pthread_join(thread, NULL);
    printf("%s\n%s\n%u different\n", first, threads, different);
    return 0;
}
