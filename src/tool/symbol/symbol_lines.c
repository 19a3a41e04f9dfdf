#include "symbol_lines.h"

#include <dwarf.h>
#include <stdlib.h>

#include "base_array.h"
#include "base_search.h"
#include "symbol_unit.h"

struct unit_range {
    uint64_t low, high;
    uint32_t unit; /* index */
};

struct known_unit {
    Dwarf_Die die, split;     /* of split DWARF: the skeleton, and what it stands for; else the same */
    struct symbol_unit *read; /* NULL: nobody asked yet */
    bool corrupt;
};

struct symbol_lines {
    Dwarf *dwarf; /* NULL: no debug information */
    struct known_unit *units;
    struct unit_range *ranges; /* sorted; made at the first question */
    size_t unit_count, unit_capacity, range_count, range_capacity;
    bool indexed;
};

/* --- opening --- */

bool symbol_lines_open(const struct elf_image *image, struct symbol_lines **opened)
{
    struct elf_section section;
    struct symbol_lines *lines = calloc(1, sizeof *lines);
    if (lines && elf_image_section(image, ".debug_info", &section))
        lines->dwarf = dwarf_begin_elf(elf_image_handle(image), DWARF_C_READ, NULL);
    *opened = lines;
    return lines;
}

void symbol_lines_close(struct symbol_lines *lines)
{
    if (!lines)
        return;
    for (size_t i = 0; i < lines->unit_count; i++)
        symbol_unit_free(lines->units[i].read);
    free(lines->units);
    free(lines->ranges);
    if (lines->dwarf)
        dwarf_end(lines->dwarf);
    free(lines);
}

bool symbol_lines_present(const struct symbol_lines *lines)
{
    return lines->dwarf;
}

/* --- the index of units --- */

static bool add_unit(struct symbol_lines *lines, Dwarf_Die *die, const Dwarf_Die *split)
{
    Dwarf_Addr base, low, high;
    ptrdiff_t at = 0;
    if (!base_array_room(lines->units, lines->unit_count, lines->unit_capacity))
        return false;
    while ((at = dwarf_ranges(die, at, &base, &low, &high)) > 0) {
        if (low >= high)
            continue;
        if (!base_array_room(lines->ranges, lines->range_count, lines->range_capacity))
            return false;
        lines->ranges[lines->range_count++] = (struct unit_range){low, high, (uint32_t)lines->unit_count};
    }
    lines->units[lines->unit_count++] = (struct known_unit){.die = *die, .split = *split};
    return true;
}

static int by_low(const void *left, const void *right)
{
    const struct unit_range *a = left, *b = right;
    return a->low < b->low ? -1 : a->low > b->low;
}

static void index_units(struct symbol_lines *lines)
{
    Dwarf_CU *unit = NULL;
    Dwarf_Die die, split;
    uint8_t type;
    lines->indexed = true;
    while (dwarf_get_units(lines->dwarf, unit, &unit, NULL, &type, &die, &split) == 0) {
        bool skeleton = type == DW_UT_skeleton && split.addr; /* and its .dwo file is there */
        if (!add_unit(lines, &die, skeleton ? &split : &die))
            break;
    }
    if (lines->range_count)
        qsort(lines->ranges, lines->range_count, sizeof *lines->ranges, by_low);
}

/* Units' ranges do not overlap; the last that begins at or before the address is the only candidate. */
static struct known_unit *unit_of(struct symbol_lines *lines, uint64_t address)
{
    size_t count = base_search_up_to(lines->ranges, lines->range_count, low, address);
    if (!count || address >= lines->ranges[count - 1].high)
        return NULL;
    return &lines->units[lines->ranges[count - 1].unit];
}

size_t symbol_lines_at(struct symbol_lines *lines, uint64_t address, struct symbol_line *levels, size_t max)
{
    if (!lines->dwarf)
        return 0;
    if (!lines->indexed)
        index_units(lines);
    struct known_unit *unit = unit_of(lines, address);
    if (!unit || unit->corrupt)
        return 0;
    if (!unit->read) {
        unit->read = symbol_unit_read(&unit->die, &unit->split);
        unit->corrupt = !unit->read;
    }
    return unit->read ? symbol_unit_at(unit->read, address, levels, max) : 0;
}
