/* code_function.c - from claims to functions.
 *
 *   1. Claims outside of code are dropped, those that reach out of it are cut. Code is the executable
 *      sections, or the executable segments of a file without sections.
 *   2. Claims with the same start become one group; the FDE's end wins, for symbols of assembly are sized by
 *      hand.
 *   3. Groups with a symbol are laid out in order of their starts: what begins inside of the last one and
 *      ends there too is an entry of it; what reaches further cuts it.
 *   4. What only FDEs claim gets what is left free, piece by piece.
 *   5. Every name becomes an entry of the function that holds its address. */
#include "code_function.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "code_text.h"

struct range {
    uint64_t start, end;
};

struct ranges {
    struct range *items;
    size_t count, capacity;
};

struct claim { /* a bound, and its place in the caller's list */
    struct code_bound bound;
    size_t number;
};

struct group {
    uint64_t start, end; /* end == start: not known */
    uint64_t limit;      /* of the section around it */
    uint8_t origin;
    bool fde_end; /* the end is an FDE's */
};

struct layout { /* what code_functions_make is working on */
    struct ranges code;
    struct claim *claims;
    size_t claim_count;
    struct group *groups;
    size_t group_count;
    struct code_function *functions;
    size_t function_count, function_capacity;
    struct code_entry *entries;
    size_t entry_count;
};

/* --- 1. where there is code --- */

static int range_order(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static bool add_range(struct ranges *ranges, uint64_t start, uint64_t size)
{
    if (size == 0 || start + size < start)
        return true;
    if (!base_array_room(ranges->items, ranges->count, ranges->capacity))
        return false;
    ranges->items[ranges->count++] = (struct range){start, start + size};
    return true;
}

static bool add_code_sections(struct ranges *ranges, const struct elf_image *image)
{
    struct elf_section section;
    for (size_t i = 0; i < elf_image_section_count(image); i++) {
        if (!elf_image_section_header(image, i, &section) || section.type == SHT_NOBITS ||
            (section.flags & (SHF_ALLOC | SHF_EXECINSTR)) != (SHF_ALLOC | SHF_EXECINSTR))
            continue;
        if (!add_range(ranges, section.address, section.memory_size))
            return false;
    }
    return true;
}

static bool add_code_segments(struct ranges *ranges, const struct elf_image *image)
{
    struct code_text text;
    if (code_text_of_image(image, &text, NULL) < 0)
        return false;
    bool fine = true;
    for (size_t i = 0; fine && i < text.count; i++)
        fine = add_range(ranges, text.pieces[i].address, text.pieces[i].size);
    code_text_free(&text);
    return fine;
}

static bool find_code(struct ranges *ranges, const struct elf_image *image)
{
    if (!add_code_sections(ranges, image) || (ranges->count == 0 && !add_code_segments(ranges, image)))
        return false;
    if (ranges->count)
        qsort(ranges->items, ranges->count, sizeof *ranges->items, range_order);
    for (size_t i = 0; i + 1 < ranges->count; i++) /* hostile files: sections that overlap */
        if (ranges->items[i].end > ranges->items[i + 1].start)
            ranges->items[i].end = ranges->items[i + 1].start;
    return true;
}

static const struct range *range_of(const struct ranges *ranges, uint64_t address)
{
    size_t count = base_search_up_to(ranges->items, ranges->count, start, address);
    return count > 0 && address < ranges->items[count - 1].end ? &ranges->items[count - 1] : NULL;
}

/* Names that are no fragment's come first, then the caller's order. */
static int claim_order(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;
    if (a->bound.start != b->bound.start)
        return a->bound.start < b->bound.start ? -1 : 1;
    if ((a->bound.name == NULL) != (b->bound.name == NULL))
        return a->bound.name ? -1 : 1;
    if (a->bound.fragment != b->bound.fragment)
        return a->bound.fragment ? 1 : -1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static bool take_claims(struct layout *layout, const struct code_bounds *bounds)
{
    layout->claims = calloc(bounds->count + 1, sizeof *layout->claims);
    if (layout->claims == NULL)
        return false;
    for (size_t i = 0; i < bounds->count; i++) {
        struct code_bound bound = bounds->items[i];
        const struct range *range = range_of(&layout->code, bound.start);
        if (range == NULL || bound.end < bound.start)
            continue;
        if (bound.end > range->end)
            bound.end = range->end;
        if (bound.end == bound.start && bound.name == NULL) /* says nothing */
            continue;
        layout->claims[layout->claim_count++] = (struct claim){bound, i};
    }
    qsort(layout->claims, layout->claim_count, sizeof *layout->claims, claim_order);
    return true;
}

/* --- 2. groups --- */

static void join_claims(struct group *group, const struct code_bound *bound)
{
    bool from_fde = (bound->origin & CODE_FROM_FDE) != 0 && bound->end > bound->start;
    group->origin |= bound->origin;
    if (group->fde_end && !from_fde)
        return;
    if ((from_fde && !group->fde_end) || bound->end > group->end)
        group->end = bound->end;
    group->fde_end = from_fde;
}

static bool make_groups(struct layout *layout)
{
    layout->groups = calloc(layout->claim_count + 1, sizeof *layout->groups);
    if (layout->groups == NULL)
        return false;
    for (size_t i = 0; i < layout->claim_count; i++) {
        const struct code_bound *bound = &layout->claims[i].bound;
        if (layout->group_count == 0 || layout->groups[layout->group_count - 1].start != bound->start)
            layout->groups[layout->group_count++] =
                (struct group){.start = bound->start,
                               .end = bound->start,
                               .limit = range_of(&layout->code, bound->start)->end};
        join_claims(&layout->groups[layout->group_count - 1], bound);
    }
    return true;
}

/* --- 3. functions that have symbols --- */

static bool add_function(struct layout *layout, uint64_t start, uint64_t end, uint8_t origin)
{
    if (!base_array_room(layout->functions, layout->function_count, layout->function_capacity))
        return false;
    layout->functions[layout->function_count++] =
        (struct code_function){.start = start, .end = end, .origin = origin};
    return true;
}

/* Where a function of unknown size ends: at the next one's start, at the end of the FDE that it lies in. */
static uint64_t end_of_unsized(const struct layout *layout, size_t at, uint64_t fde_end)
{
    const struct group *group = &layout->groups[at];
    uint64_t end = group->limit;
    if (at + 1 < layout->group_count && layout->groups[at + 1].start < end)
        end = layout->groups[at + 1].start;
    return fde_end > group->start && fde_end < end ? fde_end : end;
}

static bool lay_symbols(struct layout *layout)
{
    uint64_t fde_end = 0; /* of the last FDE without a symbol */
    for (size_t i = 0; i < layout->group_count; i++) {
        const struct group *group = &layout->groups[i];
        if (!(group->origin & CODE_FROM_SYMBOL)) {
            fde_end = group->end;
            continue;
        }
        struct code_function *last =
            layout->function_count ? &layout->functions[layout->function_count - 1] : NULL;
        bool inside = last && group->start < last->end;
        if (inside && group->end <= last->end) /* also when its end is not known */
            continue;
        if (inside) {
            last->end = group->start;
            last->cut = true;
        }
        uint64_t end = group->end > group->start ? group->end : end_of_unsized(layout, i, fde_end);
        if (!add_function(layout, group->start, end, group->origin))
            return false;
    }
    return true;
}

/* --- 4. functions of which only an FDE speaks --- */

/* Adds the parts of [start, end) that none of the first `named` functions covers; *hint goes up with
 * `start`. */
static bool fill_gaps(struct layout *layout, uint64_t start, uint64_t end, size_t named, size_t *hint)
{
    while (*hint < named && layout->functions[*hint].end <= start)
        ++*hint;
    for (size_t i = *hint; start < end; i++) {
        uint64_t stop = i < named && layout->functions[i].start < end ? layout->functions[i].start : end;
        if (stop > start && !add_function(layout, start, stop, CODE_FROM_FDE))
            return false;
        if (stop == end)
            break;
        start = layout->functions[i].end;
    }
    return true;
}

static bool lay_nameless(struct layout *layout)
{
    size_t hint = 0, named = layout->function_count;
    uint64_t covered = 0;
    for (size_t i = 0; i < layout->group_count; i++) {
        const struct group *group = &layout->groups[i];
        if (group->origin & CODE_FROM_SYMBOL)
            continue;
        uint64_t start = group->start > covered ? group->start : covered; /* two FDEs that overlap */
        if (start < group->end && !fill_gaps(layout, start, group->end, named, &hint))
            return false;
        covered = group->end > covered ? group->end : covered;
    }
    return true;
}

static int function_order(const void *left, const void *right)
{
    const struct code_function *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

/* --- 5. names --- */

/* A name that the symbol tables hold twice; only the few before it are looked at. */
static bool is_repeated(const struct layout *layout, const struct code_bound *bound)
{
    enum { BACK = 8 };
    for (size_t i = layout->entry_count, n = 0; i > 0 && n < BACK; i--, n++) {
        const struct code_entry *entry = &layout->entries[i - 1];
        if (entry->address != bound->start)
            return false;
        if (entry->name == bound->name || strcmp(entry->name, bound->name) == 0)
            return true;
    }
    return false;
}

static bool make_entries(struct layout *layout)
{
    layout->entries = calloc(layout->claim_count + 1, sizeof *layout->entries);
    if (layout->entries == NULL)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < layout->claim_count; i++) {
        const struct code_bound *bound = &layout->claims[i].bound;
        while (at < layout->function_count && layout->functions[at].end <= bound->start)
            at++;
        if (at == layout->function_count)
            break;
        if (bound->name == NULL || bound->start < layout->functions[at].start || is_repeated(layout, bound))
            continue;
        struct code_function *function = &layout->functions[at];
        if (function->entry_count++ == 0)
            function->first_entry = (uint32_t)layout->entry_count;
        layout->entries[layout->entry_count++] =
            (struct code_entry){bound->start, bound->name, (uint32_t)at, bound->fragment};
        if (bound->start == function->start && function->name == NULL) {
            function->name = bound->name;
            function->fragment = bound->fragment; /* others come first, see claim_order */
        }
    }
    return true;
}

/* --- all of it --- */

static bool lay_out_functions(struct layout *layout, const struct elf_image *image,
                              const struct code_bounds *bounds)
{
    if (!find_code(&layout->code, image) || !take_claims(layout, bounds) || !make_groups(layout) ||
        !lay_symbols(layout) || !lay_nameless(layout))
        return false;
    if (layout->function_count)
        qsort(layout->functions, layout->function_count, sizeof *layout->functions, function_order);
    return make_entries(layout);
}

int code_functions_make(const struct code_bounds *bounds, const struct elf_image *image,
                        struct code_functions *functions, struct base_error *error)
{
    struct layout layout = {.claims = NULL};
    *functions = (struct code_functions){.items = NULL};
    bool fine = bounds->count < CODE_NONE / 2 && lay_out_functions(&layout, image, bounds);
    free(layout.code.items);
    free(layout.claims);
    free(layout.groups);
    if (!fine) {
        free(layout.functions);
        free(layout.entries);
        return base_fail(error, BASE_ENOMEM, "%s: out of memory for its functions", elf_image_name(image));
    }
    *functions =
        (struct code_functions){layout.functions, layout.function_count, layout.entries, layout.entry_count};
    return BASE_OK;
}

void code_functions_free(struct code_functions *functions)
{
    free(functions->items);
    free(functions->entries);
    *functions = (struct code_functions){.items = NULL};
}

uint32_t code_functions_find(const struct code_functions *functions, uint64_t address)
{
    size_t count = base_search_up_to(functions->items, functions->count, start, address);
    return count > 0 && address < functions->items[count - 1].end ? (uint32_t)(count - 1) : CODE_NONE;
}

uint32_t code_functions_entry(const struct code_functions *functions, uint64_t address)
{
    size_t at = base_search_below(functions->entries, functions->entry_count, address, address);
    bool found = at < functions->entry_count && functions->entries[at].address == address;
    return found ? (uint32_t)at : CODE_NONE;
}
