/* heap_rollcall [others] - calls every function of the C library that allocates or releases, rightly and
 * wrongly, and prints what each returned, what errno was, and whether the contents are what they must be: the
 * same lines with Tally as without. In two threads beside the first. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int others;
static size_t volatile most = PTRDIFF_MAX; /* more than there is, and nobody is to know */

/* errno is left as it was where nothing failed. */
static void reported(FILE *out, const char *name, const void *block, size_t alignment)
{
    int number = errno;
    fprintf(out, "%s: %s, aligned %d, errno %d\n", name, block ? "a block" : "NULL",
            block && (uintptr_t)block % alignment == 0, number);
    errno = 77;
}

static int holds(const char *block, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (block[i] != byte)
            return 0;
    return 1;
}

/* Some allocators put large blocks at the start of mappings: there is nothing before them to look at. */
static void resize_large(FILE *out)
{
    enum { COUNT = 40 };
    char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        size_t size = 10000 * (i + 1);
        blocks[i] = reallocarray(NULL, size, 3);
        memset(blocks[i], 'l', 3 * size);
        blocks[i] = reallocarray(blocks[i], size, 5);
        fprintf(out, "large, kept: %d\n", holds(blocks[i], 'l', 3 * size));
    }
    for (size_t i = 0; i < COUNT; i++)
        free(blocks[i]);
}

static void resize(FILE *out)
{
    char *block = realloc(NULL, 100);
    reported(out, "realloc(NULL, 100)", block, 8);
    memset(block, 'r', 100);
    block = realloc(block, 300000);
    reported(out, "realloc(block, 300000)", block, 8);
    fprintf(out, "kept: %d\n", holds(block, 'r', 100));
    errno = 77;
    reported(out, "realloc(block, too much)", realloc(block, most), 8);
    fprintf(out, "kept: %d\n", holds(block, 'r', 100));
    errno = 77;
    block = realloc(block, 50);
    reported(out, "realloc(block, 50)", block, 8);
    fprintf(out, "kept: %d\n", holds(block, 'r', 50));
    errno = 77;
    char *other = reallocarray(block, most, 4);
    reported(out, "reallocarray(block, overflow)", other, 8);
    block = reallocarray(other ? other : block, 100, 30);
    reported(out, "reallocarray(block, 100, 30)", block, 8);
    fprintf(out, "kept: %d, usable: %d\n", holds(block, 'r', 50), malloc_usable_size(block) >= 3000);
    errno = 77;
    reported(out, "realloc(block, 0)", realloc(block, 0), 8);
    resize_large(out);
    free(reallocarray(NULL, 3, 5));
    reported(out, "reallocarray(NULL, 3, 5)", NULL, 8);
}

static void align(FILE *out)
{
    void *block = aligned_alloc(4096, 8192), *other = &block;
    reported(out, "aligned_alloc(4096, 8192)", block, 4096);
    free(block);
    block = memalign(512, 3);
    reported(out, "memalign(512, 3)", block, 512);
    free(block);
    reported(out, "memalign(64, too much)", memalign(64, most), 64);
    fprintf(out, "posix_memalign(3): %d, left alone: %d\n", posix_memalign(&other, 3, 10), other == &block);
    fprintf(out, "posix_memalign(too much): %d\n", posix_memalign(&other, 64, most));
    fprintf(out, "posix_memalign(64, 10): %d\n", posix_memalign(&block, 64, 10));
    errno = 77;
    reported(out, "posix_memalign(64, 10)", block, 64);
    free(block);
    block = valloc(10);
    reported(out, "valloc(10)", block, 4096);
    free(block);
    if (others)
        return;
    block = pvalloc(10);
    reported(out, "pvalloc(10)", block, 4096);
    fprintf(out, "usable: %d\n", malloc_usable_size(block) >= 4096);
    free(block);
}

static void *call_all(void *context)
{
    FILE *out = context;
    errno = 77;
    void *block = malloc(0);
    reported(out, "malloc(0)", block, 8);
    free(block);
    reported(out, "free(block)", NULL, 8);
    free(NULL);
    reported(out, "free(NULL)", NULL, 8);
    reported(out, "malloc(too much)", malloc(most), 8);
    block = calloc(1000, 77);
    reported(out, "calloc(1000, 77)", block, 8);
    fprintf(out, "zeros: %d\n", holds(block, 0, 77000));
    memset(block, 'c', 77000);
    free(block);
    errno = 77;
    block = calloc(77, 1000);
    fprintf(out, "zeros again: %d\n", holds(block, 0, 77000));
    free(block);
    errno = 77;
    reported(out, "calloc(overflow)", calloc(most, 4), 8);
    fprintf(out, "malloc_usable_size(NULL): %zu\n", malloc_usable_size(NULL));
    resize(out);
    align(out);
    return NULL;
}

int main(int argc, char **argv)
{
    others = argc > 1 && !strcmp(argv[1], "others"); /* allocators that have not all of it */
    char *texts[3] = {NULL, NULL, NULL};
    size_t sizes[3];
    FILE *files[3];
    pthread_t threads[2];
    for (int i = 0; i < 3; i++)
        if (!(files[i] = open_memstream(&texts[i], &sizes[i])))
            return 3;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, call_all, files[i + 1]))
            return 3;
    call_all(files[0]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) {
        fclose(files[i]);
        fputs(texts[i], stdout);
        free(texts[i]);
    }
    return 0;
}
