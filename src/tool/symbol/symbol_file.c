/* Names for one image. Everything is read when it is first asked for: symbol tables at the first function, FDE bounds at the first
 * address without a symbol, DWARF at the first question about lines, a demangled name when its function is looked up. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "cfi.h"
#include "symbol.h"
#include "symbol_debug.h"
#include "symbol_lines.h"
#include "symbol_table.h"

struct named { /* a name made here, and for which function */
    uint64_t start;
    char *name;
};

struct symbol_file {
    const struct elf_image *image;
    struct symbol_options options;
    struct symbol_table table;
    struct elf_image *debug, *mini; /* where symbols came from, besides the image */
    char *debug_path;
    struct cfi_range *ranges;
    size_t range_count;
    struct symbol_lines *lines;
    struct named *names; /* demangled or made up; found through `name_of` */
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
    if (options)
        file->options = *options;
    *opened = file;
    return BASE_OK;
}

void symbol_file_close(struct symbol_file *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->name_count; i++)
        free(file->names[i].name);
    free(file->names);
    base_map_free(&file->name_of);
    symbol_table_free(&file->table);
    symbol_lines_close(file->lines);
    elf_image_close(file->debug);
    elf_image_close(file->mini);
    free(file->debug_path);
    free(file->ranges);
    free(file);
}

/* --- functions --- */

static void seek_debug(struct symbol_file *file)
{
    if (file->debug_sought)
        return;
    file->debug_sought = true;
    file->debug_path = symbol_debug_path(file->image, &file->options);
}

static void read_table(struct symbol_file *file)
{
    file->table_read = true;
    if (!symbol_table_add(&file->table, file->image, ".symtab")) {
        seek_debug(file);
        bool found = file->debug_path && elf_image_open(file->debug_path, &file->debug, NULL) == BASE_OK &&
                     symbol_table_add(&file->table, file->debug, ".symtab");
        if (!found) {
            file->mini = symbol_debug_mini(file->image);
            if (file->mini)
                symbol_table_add(&file->table, file->mini, ".symtab");
            symbol_table_add(&file->table, file->image, ".dynsym");
        }
    }
    symbol_table_add_plt(&file->table, file->image);
    symbol_table_finish(&file->table, file->image);
}

static const char *keep_name(struct symbol_file *file, uint64_t start, char *name)
{
    if (!name || !base_array_room(file->names, file->name_count, file->name_capacity) ||
        !base_map_set(&file->name_of, start, (uint32_t)file->name_count)) {
        free(name);
        return NULL;
    }
    file->names[file->name_count++] = (struct named){start, name};
    return name;
}

static const char *readable_name(struct symbol_file *file, const struct symbol_entry *entry)
{
    uint32_t known = base_map_find(&file->name_of, entry->start);
    if (known != BASE_MAP_NONE)
        return file->names[known].name;
    const char *name = keep_name(file, entry->start, symbol_demangle(entry->name));
    return name ? name : entry->name;
}

static const struct cfi_range *range_at(struct symbol_file *file, uint64_t address)
{
    if (!file->ranges_read) {
        file->ranges_read = true;
        if (cfi_ranges(file->image, &file->ranges, &file->range_count, NULL) < 0)
            file->range_count = 0;
    }
    size_t low = 0, high = file->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (file->ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < file->ranges[low - 1].end ? &file->ranges[low - 1] : NULL;
}

static bool nameless_function(struct symbol_file *file, uint64_t address, struct symbol_function *function)
{
    const struct cfi_range *range = range_at(file, address);
    if (!range)
        return false;
    uint32_t known = base_map_find(&file->name_of, range->start);
    const char *name = known != BASE_MAP_NONE ? file->names[known].name : NULL;
    if (!name) {
        const char *path = elf_image_name(file->image), *slash = strrchr(path, '/');
        char *text;
        if (asprintf(&text, "%s+0x%llx", slash ? slash + 1 : path, (unsigned long long)range->start) < 0)
            return false;
        name = keep_name(file, range->start, text);
    }
    *function = (struct symbol_function){name, name, range->start, range->end, true};
    return name;
}

bool symbol_file_function(struct symbol_file *file, uint64_t address, struct symbol_function *function)
{
    if (!file->table_read)
        read_table(file);
    const struct symbol_entry *entry = symbol_table_find(&file->table, address);
    if (!entry)
        return nameless_function(file, address, function);
    *function =
        (struct symbol_function){readable_name(file, entry), entry->name, entry->start, entry->end, false};
    return true;
}

/* --- lines --- */

static void open_lines(struct symbol_file *file)
{
    struct elf_section section;
    if (file->lines)
        return;
    if (!elf_image_section(file->image, ".debug_info", &section))
        seek_debug(file);
    symbol_lines_open(file->image, file->debug_path, &file->lines, NULL);
}

bool symbol_file_has_lines(struct symbol_file *file)
{
    open_lines(file);
    return file->lines && symbol_lines_present(file->lines);
}

size_t symbol_file_lines(struct symbol_file *file, uint64_t address, struct symbol_line *lines, size_t max)
{
    open_lines(file);
    return file->lines ? symbol_lines_at(file->lines, address, lines, max) : 0;
}
