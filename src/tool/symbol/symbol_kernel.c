#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "symbol.h"

struct kernel_symbol {
    uint64_t start;
    char *name;
    const char *module; /* one of `modules`, or "[kernel]" */
};

struct symbol_kernel {
    struct kernel_symbol *items;
    size_t count, capacity;
    char **modules;
    size_t module_count, module_capacity;
};

void symbol_kernel_close(struct symbol_kernel *kernel)
{
    if (!kernel)
        return;
    for (size_t i = 0; i < kernel->count; i++)
        free(kernel->items[i].name);
    for (size_t i = 0; i < kernel->module_count; i++)
        free(kernel->modules[i]);
    free(kernel->items);
    free(kernel->modules);
    free(kernel);
}

/* Modules come in runs: the last one is nearly always the one. */
static const char *module_of(struct symbol_kernel *kernel, const char *name)
{
    if (!*name)
        return "[kernel]";
    if (kernel->module_count && !strcmp(kernel->modules[kernel->module_count - 1], name))
        return kernel->modules[kernel->module_count - 1];
    char *copy = strdup(name);
    if (!copy || !base_array_room(kernel->modules, kernel->module_count, kernel->module_capacity)) {
        free(copy);
        return "[kernel]";
    }
    return kernel->modules[kernel->module_count++] = copy;
}

static bool add_line(struct symbol_kernel *kernel, const char *line)
{
    unsigned long long start;
    char type, name[512], module[128] = "";
    if (sscanf(line, "%llx %c %511s %127s", &start, &type, name, module) < 3 || !strchr("tTwW", type))
        return true;
    char *copy = strdup(name);
    if (!copy || !base_array_room(kernel->items, kernel->count, kernel->capacity)) {
        free(copy);
        return false;
    }
    kernel->items[kernel->count++] = (struct kernel_symbol){start, copy, module_of(kernel, module)};
    return true;
}

static int by_start(const void *left, const void *right)
{
    const struct kernel_symbol *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

int symbol_kernel_open(const char *path, struct symbol_kernel **opened, struct base_error *error)
{
    char line[1024];
    bool fits = true;
    path = path ? path : "/proc/kallsyms";
    FILE *file = fopen(path, "re");
    if (!file)
        return base_fail_errno(error, errno, "%s", path);
    struct symbol_kernel *kernel = calloc(1, sizeof *kernel);
    while (kernel && fits && fgets(line, sizeof line, file))
        fits = add_line(kernel, line);
    fclose(file);
    if (!kernel || !fits) {
        symbol_kernel_close(kernel);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    if (kernel->count)
        qsort(kernel->items, kernel->count, sizeof *kernel->items, by_start);
    if (!kernel->count || !kernel->items[kernel->count - 1].start) {
        symbol_kernel_close(kernel);
        return base_fail(error, BASE_EPERMISSION,
                         "the kernel hides its addresses from this user (kptr_restrict); as root: sysctl "
                         "kernel.kptr_restrict=0");
    }
    *opened = kernel;
    return BASE_OK;
}

bool symbol_kernel_find(const struct symbol_kernel *kernel, uint64_t address, const char **name,
                        const char **module, uint64_t *start)
{
    size_t low = 0, high = kernel->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (kernel->items[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low)
        return false;
    *name = kernel->items[low - 1].name;
    *module = kernel->items[low - 1].module;
    *start = kernel->items[low - 1].start;
    return true;
}
