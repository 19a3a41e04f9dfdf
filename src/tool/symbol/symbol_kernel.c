/* The kernel's symbols as /proc/kallsyms lists them, unsorted and without sizes: a function ends where the
 * next symbol begins, data and markers (_etext) included. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "base_text.h"
#include "symbol.h"

struct kernel_symbol {
    uint64_t start;
    uint32_t name, module; /* offsets into the text */
    bool function;
};

struct symbol_kernel {
    struct kernel_symbol *items;
    size_t count, capacity;
    struct base_text text; /* names, each terminated; first "[kernel]" */
    uint32_t last_module;
};

void symbol_kernel_close(struct symbol_kernel *kernel)
{
    if (!kernel)
        return;
    base_text_free(&kernel->text);
    free(kernel->items);
    free(kernel);
}

static uint32_t add_text(struct symbol_kernel *kernel, const char *text, size_t length)
{
    uint32_t at = (uint32_t)kernel->text.length;
    base_text_add_bytes(&kernel->text, text, length);
    base_text_add_bytes(&kernel->text, "", 1);
    return at;
}

/* Modules come in runs: the last one is nearly always the one. */
static uint32_t module_of(struct symbol_kernel *kernel, const char *name)
{
    if (!*name)
        return 0;
    if (strcmp(kernel->text.data + kernel->last_module, name))
        kernel->last_module = add_text(kernel, name, strlen(name));
    return kernel->last_module;
}

/* "ADDRESS TYPE NAME", and for a module's "\t[MODULE]". A type of t or w, in either case, is code. */
static bool add_line(struct symbol_kernel *kernel, char *line)
{
    char *end;
    uint64_t start = strtoull(line, &end, 16);
    if (end == line || end[0] != ' ' || !end[1] || end[2] != ' ')
        return true;
    char *name = end + 3;
    size_t length = strcspn(name, "\t\n ");
    char *module = name + length + strspn(name + length, "\t ");
    module[strcspn(module, "\n")] = '\0';
    if (!length)
        return true;
    if (!base_array_room(kernel->items, kernel->count, kernel->capacity))
        return false;
    bool marker =
        (length == 6 && !memcmp(name, "_etext", 6)) || (length == 10 && !memcmp(name, "_einittext", 10));
    bool function = strchr("tTwW", end[1]) && !marker;
    kernel->items[kernel->count++] = (struct kernel_symbol){.start = start,
                                                            .name = add_text(kernel, name, length),
                                                            .module = module_of(kernel, module),
                                                            .function = function};
    return true;
}

static int by_start_then_worth(const void *left, const void *right, void *text)
{
    const struct kernel_symbol *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->function != b->function)
        return a->function ? -1 : 1;
    const char *name_a = (const char *)text + a->name, *name_b = (const char *)text + b->name;
    size_t lead_a = strspn(name_a, "_"), lead_b = strspn(name_b, "_");
    if (lead_a != lead_b)
        return lead_a < lead_b ? -1 : 1;
    size_t length_a = strlen(name_a), length_b = strlen(name_b);
    if (length_a != length_b)
        return length_a < length_b ? -1 : 1;
    return strcmp(name_a, name_b);
}

/* Sorts; of several names for one address the best stays (as in symbol_table.h). */
static void finish_table(struct symbol_kernel *kernel)
{
    size_t kept = 0;
    if (kernel->count)
        qsort_r(kernel->items, kernel->count, sizeof *kernel->items, by_start_then_worth, kernel->text.data);
    for (size_t i = 0; i < kernel->count; i++) {
        if (!kept || kernel->items[kept - 1].start != kernel->items[i].start)
            kernel->items[kept++] = kernel->items[i];
    }
    kernel->count = kept;
}

static int read_symbols(struct symbol_kernel *kernel, FILE *file)
{
    char line[1024];
    add_text(kernel, "[kernel]", 8);
    while (fgets(line, sizeof line, file)) {
        if (!add_line(kernel, line) || kernel->text.failed || kernel->text.length > UINT32_MAX / 2)
            return BASE_ENOMEM;
    }
    return BASE_OK;
}

int symbol_kernel_open(const char *path, struct symbol_kernel **opened, struct base_error *error)
{
    path = path ? path : "/proc/kallsyms";
    FILE *file = fopen(path, "re");
    if (!file)
        return base_fail_errno(error, errno, "%s", path);
    struct symbol_kernel *kernel = calloc(1, sizeof *kernel);
    int result = kernel ? read_symbols(kernel, file) : BASE_ENOMEM;
    fclose(file);
    if (result < 0) {
        symbol_kernel_close(kernel);
        return base_fail(error, result, "out of memory");
    }
    finish_table(kernel);
    if (!kernel->count || !kernel->items[kernel->count - 1].start) {
        symbol_kernel_close(kernel);
        return base_fail(
            error, BASE_EPERMISSION,
            "the kernel hides its addresses (kernel.kptr_restrict); run as root, or as root: sysctl "
            "kernel.kptr_restrict=0 kernel.perf_event_paranoid=1");
    }
    *opened = kernel;
    return BASE_OK;
}

bool symbol_kernel_find(const struct symbol_kernel *kernel, uint64_t address, const char **name,
                        const char **module, uint64_t *start)
{
    size_t count = base_search_up_to(kernel->items, kernel->count, start, address);
    if (!count || !kernel->items[count - 1].function)
        return false;
    *name = kernel->text.data + kernel->items[count - 1].name;
    *module = kernel->text.data + kernel->items[count - 1].module;
    *start = kernel->items[count - 1].start;
    return true;
}
