#include "symbol_unit.h"

#include <dwarf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"

enum { DEPTH_MAX = 200, RANGE_MAX = 1 << 22 };

/* One range of one inlined call, before ranges are laid flat. */
struct inline_range {
    uint64_t low, high;
    uint32_t inner; /* index + 1 */
    uint32_t depth;
};

struct reader {
    struct symbol_unit *unit;
    Dwarf_Files *files;
    size_t file_count;
    struct inline_range *ranges;
    size_t range_count, range_capacity;
    Dwarf_Off last; /* the entry read last: in sound information offsets only grow */
    bool failed;
};

/* --- the line table --- */

/* How many rows begin at `address` or before it. */
static size_t rows_until(const struct symbol_unit *unit, uint64_t address)
{
    size_t low = 0, high = unit->line_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        Dwarf_Addr start = 0;
        dwarf_lineaddr(dwarf_onesrcline(unit->lines, middle), &start);
        if (start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Of several rows at one address the last holds, but the end of a sequence does not hide the beginning of
 * what follows it. */
static Dwarf_Line *row_at(const struct symbol_unit *unit, uint64_t address)
{
    size_t until = rows_until(unit, address);
    Dwarf_Addr start, last = 0;
    for (size_t i = until; i > 0; i--, last = start) {
        Dwarf_Line *line = dwarf_onesrcline(unit->lines, i - 1);
        bool end = true;
        if (dwarf_lineaddr(line, &start) || (i < until && start != last) || dwarf_lineendsequence(line, &end))
            return NULL;
        if (!end)
            return line;
    }
    return NULL;
}

/* --- inlined calls --- */

static uint32_t number_of(Dwarf_Die *die, unsigned attribute)
{
    Dwarf_Attribute value;
    Dwarf_Word number;
    if (!dwarf_attr(die, attribute, &value) || dwarf_formudata(&value, &number) || number > UINT32_MAX)
        return 0;
    return (uint32_t)number;
}

static char *name_of(Dwarf_Die *die)
{
    Dwarf_Attribute value;
    const char *linkage = NULL;
    if (dwarf_attr_integrate(die, DW_AT_linkage_name, &value) ||
        dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &value))
        linkage = dwarf_formstring(&value);
    char *name = linkage ? symbol_demangle(linkage) : NULL;
    if (name)
        return name;
    const char *plain = linkage ? linkage : dwarf_diename(die);
    return strdup(plain ? plain : "(inlined)");
}

static uint32_t add_inline(struct reader *reader, Dwarf_Die *die, uint32_t outer)
{
    struct symbol_unit *unit = reader->unit;
    if (!base_array_room(unit->inlines, unit->inline_count, unit->inline_capacity)) {
        reader->failed = true;
        return 0;
    }
    uint32_t file = number_of(die, DW_AT_call_file);
    bool known = reader->files && file < reader->file_count;
    unit->inlines[unit->inline_count] =
        (struct symbol_inline){.die = *die,
                               .call_file = known ? dwarf_filesrc(reader->files, file, NULL, NULL) : NULL,
                               .call_line = number_of(die, DW_AT_call_line),
                               .outer = outer};
    return (uint32_t)++unit->inline_count;
}

static void add_ranges(struct reader *reader, Dwarf_Die *die, uint32_t inner, uint32_t depth)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (low >= high)
            continue;
        if (reader->range_count >= RANGE_MAX ||
            !base_array_room(reader->ranges, reader->range_count, reader->range_capacity)) {
            reader->failed = true;
            return;
        }
        reader->ranges[reader->range_count++] = (struct inline_range){low, high, inner, depth};
    }
}

static bool may_hold_code(int tag)
{
    switch (tag) {
    case DW_TAG_subprogram:
    case DW_TAG_inlined_subroutine:
    case DW_TAG_lexical_block:
    case DW_TAG_try_block:
    case DW_TAG_catch_block:
    case DW_TAG_namespace:
    case DW_TAG_module:
        return true;
    default:
        return false;
    }
}

/* Offsets must grow: corrupt references could otherwise form cycles, or lead to the same entries
 * exponentially often. */
static bool goes_on(struct reader *reader, Dwarf_Die *die)
{
    Dwarf_Off offset = dwarf_dieoffset(die);
    bool further = offset > reader->last;
    reader->last = further ? offset : reader->last;
    return further;
}

static void read_inlines(struct reader *reader, Dwarf_Die *parent, uint32_t outer, uint32_t depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die))
        return;
    do {
        int tag = dwarf_tag(&die);
        uint32_t inner = outer;
        if (!goes_on(reader, &die))
            return;
        if (tag == DW_TAG_inlined_subroutine) {
            inner = add_inline(reader, &die, outer);
            add_ranges(reader, &die, inner, depth);
        }
        if (reader->failed)
            return;
        if (may_hold_code(tag) && dwarf_haschildren(&die) > 0)
            read_inlines(reader, &die, inner, depth + 1);
    } while (!dwarf_siblingof(&die, &die));
}

/* --- laying ranges flat --- */

static int by_start_then_depth(const void *left, const void *right)
{
    const struct inline_range *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->depth < b->depth ? -1 : a->depth > b->depth;
}

static bool add_segment(struct symbol_unit *unit, uint64_t start, uint32_t inner)
{
    if (unit->segment_count && unit->segments[unit->segment_count - 1].start == start) {
        unit->segments[unit->segment_count - 1].inner = inner;
        return true;
    }
    if (!base_array_room(unit->segments, unit->segment_count, unit->segment_capacity))
        return false;
    unit->segments[unit->segment_count++] = (struct symbol_segment){start, inner};
    return true;
}

/* Ranges nest (one that sticks out of the one around it is cut): a stack of open ones gives the innermost at
 * each point. */
static bool lay_flat(struct reader *reader)
{
    struct symbol_unit *unit = reader->unit;
    struct inline_range *open[DEPTH_MAX + 2];
    size_t depth = 0;
    if (!reader->range_count)
        return true;
    qsort(reader->ranges, reader->range_count, sizeof *reader->ranges, by_start_then_depth);
    for (size_t i = 0; i <= reader->range_count; i++) {
        struct inline_range *range = i < reader->range_count ? &reader->ranges[i] : NULL;
        while (depth && (!range || open[depth - 1]->high <= range->low)) {
            uint64_t end = open[--depth]->high;
            if (!add_segment(unit, end, depth ? open[depth - 1]->inner : 0))
                return false;
        }
        if (!range || depth > DEPTH_MAX)
            continue;
        if (depth && range->high > open[depth - 1]->high)
            range->high = open[depth - 1]->high;
        open[depth++] = range;
        if (!add_segment(unit, range->low, range->inner))
            return false;
    }
    return true;
}

static uint32_t inline_at(const struct symbol_unit *unit, uint64_t address)
{
    size_t count = base_search_up_to(unit->segments, unit->segment_count, start, address);
    return count ? unit->segments[count - 1].inner : 0;
}

/* --- the unit --- */

void symbol_unit_free(struct symbol_unit *unit)
{
    if (!unit)
        return;
    for (size_t i = 0; i < unit->inline_count; i++)
        free(unit->inlines[i].name);
    free(unit->inlines);
    free(unit->segments);
    for (size_t i = 0; i < unit->whole_count; i++)
        free(unit->whole[i]);
    free(unit->whole);
    base_map_free(&unit->whole_of);
    free(unit);
}

/* --- names of files --- */

/* "a/b/../c" is "a/c", unless b is a link: then the compiler's name would have been that of another
 * directory. */
static void collapse_path(char *path)
{
    char *up;
    while ((up = strstr(path, "/../")) && up > path) {
        char *before = up;
        while (before > path && *--before != '/')
            ;
        if (*before != '/')
            return;
        memmove(before, up + 3, strlen(up + 3) + 1);
    }
}

static char *join_path(const char *directory, const char *file)
{
    size_t size = strlen(directory) + strlen(file) + 2;
    char *path = malloc(size);
    if (path) {
        snprintf(path, size, "%s/%s", directory, file);
        collapse_path(path);
    }
    return path;
}

/* A name relative to where the compiler ran says nothing to who runs elsewhere. */
static const char *whole_name(struct symbol_unit *unit, const char *file)
{
    if (!file || file[0] == '/' || !unit->directory || unit->directory[0] != '/')
        return file;
    uint32_t index = base_map_find(&unit->whole_of, (uintptr_t)file);
    if (index != BASE_MAP_NONE)
        return unit->whole[index];
    char *whole = base_array_room(unit->whole, unit->whole_count, unit->whole_capacity)
                      ? join_path(unit->directory, file)
                      : NULL;
    if (!whole)
        return file;
    unit->whole[unit->whole_count] = whole;
    if (!base_map_set(&unit->whole_of, (uintptr_t)file, (uint32_t)unit->whole_count)) {
        free(whole);
        return file;
    }
    return unit->whole[unit->whole_count++];
}

struct symbol_unit *symbol_unit_read(Dwarf_Die *die, Dwarf_Die *split)
{
    struct symbol_unit *unit = calloc(1, sizeof *unit);
    if (!unit)
        return NULL;
    struct reader reader = {.unit = unit};
    Dwarf_Attribute directory;
    unit->directory = dwarf_formstring(dwarf_attr(die, DW_AT_comp_dir, &directory));
    if (dwarf_getsrcfiles(split, &reader.files, &reader.file_count))
        reader.files = NULL;
    if (dwarf_getsrclines(die, &unit->lines, &unit->line_count))
        unit->line_count = 0;
    read_inlines(&reader, split, 0, 0);
    bool done = !reader.failed && lay_flat(&reader);
    free(reader.ranges);
    if (done)
        return unit;
    symbol_unit_free(unit);
    return NULL;
}

static const char *inline_name(struct symbol_inline *call)
{
    if (!call->name)
        call->name = name_of(&call->die);
    return call->name;
}

size_t symbol_unit_at(struct symbol_unit *unit, uint64_t address, struct symbol_line *levels, size_t max)
{
    Dwarf_Line *row = row_at(unit, address);
    uint32_t inner = inline_at(unit, address);
    size_t count = 0;
    int line = 0;
    if (!row && !inner)
        return 0;
    struct symbol_line level = {.file = row ? whole_name(unit, dwarf_linesrc(row, NULL, NULL)) : NULL};
    if (row && !dwarf_lineno(row, &line) && line > 0)
        level.line = (uint32_t)line;
    while (inner) { /* without room those just inside the outermost are left out */
        struct symbol_inline *call = &unit->inlines[inner - 1];
        if (count + 1 < max) {
            level.function = inline_name(call);
            levels[count++] = level;
        }
        level = (struct symbol_line){.file = whole_name(unit, call->call_file), .line = call->call_line};
        inner = call->outer;
    }
    if (count < max)
        levels[count++] = level;
    return count;
}
