/* Names for one image. Everything is read when it is first asked for: symbol tables at the first function,
 * FDE bounds at the first address without a symbol, DWARF at the first question about lines, a demangled name
 * when its function is looked up. Where the symbols come from: .symtab; else the .symtab of the separate
 * debug file; else .gnu_debugdata and .dynsym, which together make up what .symtab was. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "base_search.h"
#include "cfi.h"
#include "symbol.h"
#include "symbol_debug.h"
#include "symbol_lines.h"
#include "symbol_table.h"

struct symbol_file {
    const struct elf_image *image;
    bool debuginfod;
    char *root, *debug_directory; /* or NULL */
    struct symbol_table table;
    struct elf_image *debug, *mini; /* the separate debug file; what .gnu_debugdata holds */
    struct cfi_range *ranges;
    size_t range_count;
    struct symbol_lines *lines;
    char **names; /* made here: demangled, cut, or made up; NULL: the raw name will do */
    size_t name_count, name_capacity;
    struct base_map name_of; /* start of a function -> index in names */
    bool table_read, ranges_read, debug_sought;
};

int symbol_file_open(const struct elf_image *image, const struct symbol_options *options,
                     struct symbol_file **opened, struct base_error *error)
{
    struct symbol_file *file = calloc(1, sizeof *file);
    if (!file)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    file->image = image;
    if (options) {
        file->debuginfod = options->debuginfod;
        file->root = options->root ? strdup(options->root) : NULL;
        file->debug_directory = options->debug_directory ? strdup(options->debug_directory) : NULL;
    }
    *opened = file;
    return BASE_OK;
}

void symbol_file_close(struct symbol_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->name_count; i++)
        free(file->names[i]);
    free(file->names);
    base_map_free(&file->name_of);
    symbol_table_free(&file->table);
    symbol_lines_close(file->lines);
    elf_image_close(file->debug);
    elf_image_close(file->mini);
    free(file->ranges);
    free(file->root);
    free(file->debug_directory);
    free(file);
}

/* --- functions --- */

static const struct elf_image *debug_image(struct symbol_file *file)
{
    if (!file->debug_sought) {
        file->debug_sought = true;
        const struct symbol_options options = {file->debuginfod, file->root, file->debug_directory};
        file->debug = symbol_debug_open(file->image, &options);
    }
    return file->debug;
}

static void read_table(struct symbol_file *file)
{
    struct symbol_table *table = &file->table;
    file->table_read = true;
    bool full = symbol_table_add(table, file->image, ".symtab") ||
                (debug_image(file) && symbol_table_add(table, file->debug, ".symtab"));
    if (!full) {
        file->mini = symbol_debug_mini(file->image);
        if (file->mini)
            symbol_table_add(table, file->mini, ".symtab");
        symbol_table_add(table, file->image, ".dynsym");
    }
    symbol_table_add_plt(table, file->image);
    symbol_table_finish(table);
}

/* The name made for the function at `start`, or NULL; false when none was made yet. */
static bool known_name(const struct symbol_file *file, uint64_t start, const char **name)
{
    uint32_t known = base_map_find(&file->name_of, start);
    if (known != BASE_MAP_NONE)
        *name = file->names[known];
    return known != BASE_MAP_NONE;
}

/* Takes over `name`, which may be NULL. */
static const char *keep_name(struct symbol_file *file, uint64_t start, char *name)
{
    if (!base_array_room(file->names, file->name_count, file->name_capacity) ||
        !base_map_set(&file->name_of, start, (uint32_t)file->name_count)) {
        free(name);
        return NULL;
    }
    return file->names[file->name_count++] = name;
}

/* Linkers write a symbol's version into .symtab: memcpy@@GLIBC_2.14. */
static char *without_version(const char *name)
{
    const char *at = strchr(name, '@');
    return at && at != name && strcmp(at, "@plt") ? strndup(name, (size_t)(at - name)) : NULL;
}

static char *make_readable(const char *raw)
{
    char *plain = without_version(raw);
    char *readable = symbol_demangle(plain ? plain : raw);
    if (!readable)
        return plain;
    free(plain);
    return readable;
}

static const char *readable_name(struct symbol_file *file, const struct symbol_entry *entry)
{
    const char *name;
    if (!known_name(file, entry->start, &name))
        name = keep_name(file, entry->start, make_readable(entry->name));
    return name ? name : entry->name;
}

static const struct cfi_range *range_at(struct symbol_file *file, uint64_t address)
{
    if (!file->ranges_read) {
        file->ranges_read = true;
        if (cfi_ranges(file->image, &file->ranges, &file->range_count, NULL) < 0)
            file->range_count = 0;
    }
    size_t count = base_search_up_to(file->ranges, file->range_count, start, address);
    return count && address < file->ranges[count - 1].end ? &file->ranges[count - 1] : NULL;
}

static char *made_up_name(const struct symbol_file *file, uint64_t start)
{
    const char *path = elf_image_name(file->image), *slash = strrchr(path, '/');
    char *text;
    return asprintf(&text, "%s+0x%lx", slash ? slash + 1 : path, start) < 0 ? NULL : text;
}

/* What no symbol covers may still be in an FDE. Its start may bear a symbol whose size is too small. */
static bool function_of_range(struct symbol_file *file, uint64_t address, struct symbol_function *function)
{
    const struct cfi_range *range = range_at(file, address);
    if (!range)
        return false;
    const struct symbol_entry *entry = symbol_table_find(&file->table, range->start);
    *function = (struct symbol_function){.start = range->start, .end = range->end};
    if (entry && entry->start == range->start) {
        function->name = readable_name(file, entry);
        function->raw_name = entry->name;
        return true;
    }
    if (!known_name(file, range->start, &function->name))
        function->name = keep_name(file, range->start, made_up_name(file, range->start));
    function->raw_name = function->name;
    function->from_fde = true;
    return function->name;
}

/* A symbol without a size may seem to hold nameless functions that follow it: their FDEs decide. */
static bool begins_later(struct symbol_file *file, uint64_t address, uint64_t start)
{
    const struct cfi_range *range = range_at(file, address);
    return range && range->start > start;
}

bool symbol_file_function(struct symbol_file *file, uint64_t address, struct symbol_function *function)
{
    if (!file->table_read)
        read_table(file);
    const struct symbol_entry *entry = symbol_table_find(&file->table, address);
    if (!entry || (!entry->sized && begins_later(file, address, entry->start)))
        return function_of_range(file, address, function);
    *function = (struct symbol_function){.name = readable_name(file, entry),
                                         .raw_name = entry->name,
                                         .start = entry->start,
                                         .end = entry->end};
    return true;
}

/* --- lines --- */

static const struct symbol_lines *open_lines(struct symbol_file *file)
{
    if (file->lines)
        return file->lines;
    if (!symbol_lines_open(file->image, &file->lines))
        return NULL;
    if (!symbol_lines_present(file->lines) && debug_image(file)) {
        symbol_lines_close(file->lines);
        file->lines = NULL;
        symbol_lines_open(file->debug, &file->lines);
    }
    return file->lines;
}

bool symbol_file_has_lines(struct symbol_file *file)
{
    return open_lines(file) && symbol_lines_present(file->lines);
}

size_t symbol_file_lines(struct symbol_file *file, uint64_t address, struct symbol_line *lines, size_t max)
{
    return open_lines(file) ? symbol_lines_at(file->lines, address, lines, max) : 0;
}
