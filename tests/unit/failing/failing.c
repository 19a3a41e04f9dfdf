#include "failing.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);

static struct {
    pid_t pid;              /* only there */
    uint64_t which;         /* 0: none */
    _Atomic uint64_t calls; /* of all threads */
} failing;

static bool fails(void)
{
    if (!failing.which || getpid() != failing.pid || ++failing.calls != failing.which)
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

void failing_begin(uint64_t which)
{
    failing.pid = getpid();
    failing.calls = 0;
    failing.which = which;
}

uint64_t failing_end(void)
{
    failing.which = 0;
    return failing.calls;
}
