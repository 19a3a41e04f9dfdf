/* annotate.c - one function, line by line: gathering.
 *
 * 1. Which function (annotate_subject.h), and its file, if that is still the one that was profiled.
 * 2. The addresses of the profile in it. Each has its levels of source, which came with the profile or were
 *    looked up when it was loaded; from them the tree of lines is made. An address of a leaf is an
 *    instruction's own; one of a caller lies inside its call.
 * 3. Each address is put into its lines, its instruction and the loops around that; one walk gives them their
 *    figures. Exact calls are added by the address of their site. */
#include "annotate.h"

#include <stdlib.h>
#include <string.h>

#include "annotate_figures.h"
#include "annotate_parts.h"
#include "base_array.h"
#include "profile_extent.h"

enum { LINES_MOST = 1 << 20 }; /* nobody's function is longer, whatever a file says */

/* --- the addresses and their lines --- */

static int annotate_by_address(const void *left, const void *right, void *context)
{
    const struct profile_address *addresses = context, *a = &addresses[*(const uint32_t *)left],
                                 *b = &addresses[*(const uint32_t *)right];
    if (a->address != b->address)
        return a->address < b->address ? -1 : 1;
    return (a > b) - (a < b);
}

static bool find_addresses(struct annotate *annotate)
{
    const struct profile *profile = annotate->context->profile;
    annotate->addresses = calloc(profile->address_count + 1, sizeof *annotate->addresses);
    annotate->line_of = calloc(profile->address_count + 1, sizeof *annotate->line_of);
    if (!annotate->addresses || !annotate->line_of)
        return false;
    for (uint32_t i = 1; i < profile->address_count; i++)
        if (annotate_subject_holds(&annotate->subject, profile, i))
            annotate->addresses[annotate->address_count++] = i;
    if (annotate->address_count)
        qsort_r(annotate->addresses, annotate->address_count, sizeof *annotate->addresses,
                annotate_by_address, profile->addresses);
    return true;
}

struct numbering { /* equal lines get equal numbers */
    struct base_map places, owners, lines;
};

static uint32_t annotate_number(struct base_map *map, uint32_t high, uint32_t low)
{
    uint64_t key = (uint64_t)high << 32 | low;
    uint32_t known = base_map_find(map, key), fresh = (uint32_t)map->used;
    if (known != BASE_MAP_NONE)
        return known;
    return base_map_set(map, key, fresh) ? fresh : BASE_MAP_NONE;
}

/* The line under `parent`; made when new. 0 when memory ran out. */
static uint32_t annotate_add_line(struct annotate *annotate, struct numbering *numbering,
                                  const struct annotate_line *line)
{
    uint32_t place = annotate_number(&numbering->places, line->file, line->line),
             owner = annotate_number(&numbering->owners, line->parent, line->function);
    if (place == BASE_MAP_NONE || owner == BASE_MAP_NONE)
        return 0;
    uint64_t key = (uint64_t)place << 32 | owner;
    uint32_t known = base_map_find(&numbering->lines, key);
    if (known != BASE_MAP_NONE)
        return known;
    uint32_t fresh = (uint32_t)annotate->line_count;
    if (!base_array_room(annotate->lines, annotate->line_count, annotate->line_capacity) ||
        !base_map_set(&numbering->lines, key, fresh))
        return 0;
    annotate->lines[annotate->line_count++] = *line;
    return fresh;
}

/* All levels at an address, the outermost first; *innermost is the last of them, 0 where no line is known. */
static bool add_levels(struct annotate *annotate, struct numbering *numbering, uint32_t address,
                       uint32_t *innermost)
{
    const struct profile *profile = annotate->context->profile;
    const struct profile_address *at = &profile->addresses[address];
    uint32_t chain[ANNOTATE_BINARY_LEVELS];
    size_t count = 0;
    if (!at->line && !at->inlined)
        return true;
    for (uint32_t level = at->inlined; level && count < ANNOTATE_BINARY_LEVELS;
         level = profile->inlined[level].outer)
        chain[count++] = level;
    struct annotate_line line = {.file = at->file, .line = at->line};
    *innermost = annotate_add_line(annotate, numbering, &line);
    while (*innermost && count-- > 0) {
        const struct profile_inlined *level = &profile->inlined[chain[count]];
        line = (struct annotate_line){.file = level->file,
                                      .line = level->line,
                                      .function = level->function_name,
                                      .parent = *innermost,
                                      .depth = line.depth + 1};
        *innermost = annotate_add_line(annotate, numbering, &line);
    }
    annotate->lines_in_profile = true;
    return *innermost;
}

static bool find_lines(struct annotate *annotate)
{
    struct numbering numbering = {0};
    bool done = base_array_room(annotate->lines, annotate->line_count, annotate->line_capacity);
    if (done)
        annotate->lines[annotate->line_count++] = (struct annotate_line){0};
    for (size_t i = 0; done && i < annotate->address_count; i++)
        done = add_levels(annotate, &numbering, annotate->addresses[i], &annotate->line_of[i]);
    base_map_free(&numbering.places);
    base_map_free(&numbering.owners);
    base_map_free(&numbering.lines);
    return done;
}

/* --- places --- */

static bool annotate_put(struct annotate *annotate, size_t position)
{
    uint32_t index = annotate->addresses[position];
    uint64_t address = annotate->context->profile->addresses[index].address;
    const struct annotate_code *code = &annotate->code;
    for (uint32_t line = annotate->line_of[position]; line; line = annotate->lines[line].parent)
        if (!annotate_places_add(&annotate->places, index, line))
            return false;
    /* Without code each address stands for itself. */
    size_t instruction = code->instructions.count ? annotate_binary_instruction(code, address) : position;
    if (instruction != SIZE_MAX &&
        !annotate_places_add(&annotate->places, index, annotate_instruction_place(annotate, instruction)))
        return false;
    uint32_t block = code_graph_find(&code->graph, address);
    uint32_t loop = block == CODE_NONE ? CODE_NONE : code->loops.of[block];
    for (; loop != CODE_NONE; loop = code->loops.items[loop].parent)
        if (!annotate_places_add(&annotate->places, index, annotate_loop_place(annotate, loop)))
            return false;
    return true;
}

static int find_figures(struct annotate *annotate)
{
    if (!annotate_places_init(&annotate->places, annotate->context->profile))
        return view_memory(annotate->context);
    for (size_t i = 0; i < annotate->address_count; i++)
        if (!annotate_put(annotate, i))
            return view_memory(annotate->context);
    return annotate_places_sum(annotate->context, &annotate->places);
}

static void annotate_add_calls(uint64_t *sum, uint64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = UINT64_MAX;
}

static bool annotate_count_calls(struct annotate *annotate)
{
    const struct view_context *context = annotate->context;
    const struct profile *profile = context->profile;
    annotate->has_calls = profile_extent_has_calls(profile);
    annotate->calls = calloc((size_t)annotate->places.last + 1, sizeof *annotate->calls);
    for (size_t i = 1; annotate->calls && i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        size_t count;
        if (context->selection.threads && !context->selection.threads[edge->thread])
            continue;
        const uint32_t *run = annotate_places_of(&annotate->places, edge->site, &count);
        for (size_t k = 0; k < count; k++)
            annotate_add_calls(&annotate->calls[run[k]], edge->calls);
        if (annotate_subject_holds(&annotate->subject, profile, edge->callee))
            annotate_add_calls(&annotate->called, edge->calls);
    }
    return annotate->calls;
}

/* --- where in the source --- */

struct extent { /* lines of the function's own file, in any order */
    uint32_t *lines;
    size_t count, capacity;
};

static bool add_to_extent(const struct annotate *annotate, struct extent *extent, const char *file,
                          uint32_t line)
{
    if (!annotate->file || !file || !line || strcmp(annotate->file, file))
        return true;
    if (!base_array_room(extent->lines, extent->count, extent->capacity))
        return false;
    extent->lines[extent->count++] = line;
    return true;
}

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return *a < *b ? -1 : *a > *b;
}

/* From the line of its entry on, as far as lines hang together: debug information often has lines of small
 * functions that were inlined, but no word of the functions. Those are shown below, with what comes from
 * other files. Without an entry (0) too little is known to tell them apart. */
static void choose_extent(struct annotate *annotate, struct extent *extent, uint32_t entry)
{
    enum { APART = 1000 };
    size_t first = 0, last;
    if (!extent->count)
        return;
    qsort(extent->lines, extent->count, sizeof *extent->lines, by_number);
    while (first + 1 < extent->count && extent->lines[first] < entry)
        first++;
    for (last = first; last + 1 < extent->count; last++)
        if (entry && extent->lines[last + 1] - extent->lines[last] > APART)
            break;
    annotate->first = extent->lines[first];
    annotate->last = extent->lines[last];
    if (annotate->last - annotate->first > LINES_MOST)
        annotate->last = annotate->first + LINES_MOST;
}

/* Without the code, the file is that with most of the time. */
static const char *hottest_file(const struct annotate *annotate)
{
    const struct profile *profile = annotate->context->profile;
    const char *file = NULL;
    int64_t most = -1;
    for (uint32_t i = 1; i < annotate->line_count; i++) {
        int64_t value = annotate_total(annotate, i).value;
        if (annotate->lines[i].depth || !annotate->lines[i].file || value <= most)
            continue;
        most = value;
        file = profile_text(profile, annotate->lines[i].file);
    }
    return file;
}

static bool fill_extent(struct annotate *annotate, struct extent *extent)
{
    const struct profile *profile = annotate->context->profile;
    const struct code_instructions *all = &annotate->code.instructions;
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS];
    bool done = true;
    for (size_t i = 0; annotate->binary.elf && done && i < all->count; i++) {
        size_t found = annotate_binary_lines(&annotate->binary, all->items[i].address, levels);
        if (found)
            done = add_to_extent(annotate, extent, levels[found - 1].file, levels[found - 1].line);
    }
    for (uint32_t i = 1; done && i < annotate->line_count; i++)
        if (!annotate->lines[i].depth)
            done = add_to_extent(annotate, extent, profile_text(profile, annotate->lines[i].file),
                                 annotate->lines[i].line);
    return done;
}

static bool find_extent(struct annotate *annotate)
{
    struct symbol_line levels[ANNOTATE_BINARY_LEVELS];
    struct extent extent = {0};
    size_t count =
        annotate->binary.elf ? annotate_binary_lines(&annotate->binary, annotate->subject.start, levels) : 0;
    annotate->file = count && levels[count - 1].file ? levels[count - 1].file : hottest_file(annotate);
    bool done = fill_extent(annotate, &extent);
    choose_extent(annotate, &extent, count && annotate->code.instructions.count ? levels[count - 1].line : 0);
    free(extent.lines);
    return done;
}

/* --- notes --- */

static void note_binary(struct annotate *annotate)
{
    const struct annotate_binary *binary = &annotate->binary;
    if (binary->elf)
        return;
    base_text_addf(&annotate->notes, "%s; %s\n", base_text_string(&binary->why),
                   annotate->lines_in_profile && !annotate->request->assembly
                       ? "these are the lines that the profile has"
                       : "these are the addresses that have samples");
}

static void note_source(struct annotate *annotate)
{
    const char *path = annotate->file;
    if (!path)
        return;
    int number = annotate_source_error(&annotate->source, path);
    if (number)
        base_text_addf(&annotate->notes,
                       "no source: %s: %s; --source-map FROM=TO says where sources lie now\n",
                       annotate_source_path(&annotate->source, path), strerror(number));
    else if (annotate_source_count(&annotate->source, path) < annotate->last)
        base_text_addf(&annotate->notes, "%s ends before line %u: it is not what was compiled\n", path,
                       annotate->last);
}

/* A source that is newer than the program may have other lines. */
static void note_newer(struct annotate *annotate)
{
    const char *start = profile_meta(annotate->context->profile, "start_time");
    int64_t changed = annotate->file ? annotate_source_changed(&annotate->source, annotate->file) : 0;
    if (start && changed && (double)changed > strtod(start, NULL))
        base_text_addf(&annotate->notes, "%s has changed since the recording: lines may have moved\n",
                       annotate->file);
}

static void note_code(struct annotate *annotate)
{
    if (annotate->subject.apart.length)
        base_text_addf(&annotate->notes, "a part of it lies apart: %s\n",
                       base_text_string(&annotate->subject.apart));
    if (!annotate->binary.elf)
        return;
    if (!annotate->code.whole)
        base_text_add(&annotate->notes, "its code does not decode to the end: loops are not known\n");
    if (annotate->code.graph.guessed)
        base_text_add(&annotate->notes,
                      "it jumps through a table that could not be read: where to was guessed\n");
    if (!annotate->file && !annotate->request->assembly)
        base_text_addf(&annotate->notes,
                       "%s has no line information: these are its instructions (compile with -g, or install "
                       "its debug symbols)\n",
                       profile_text(annotate->context->profile,
                                    annotate->context->profile->images[annotate->subject.image].name));
}

static void add_notes(struct annotate *annotate)
{
    note_binary(annotate);
    note_source(annotate);
    note_newer(annotate);
    note_code(annotate);
}

/* --- all of it --- */

static int annotate_gather(struct annotate *annotate)
{
    struct view_context *context = annotate->context;
    int code = annotate_subject_find(context, &annotate->subject);
    if (code)
        return code;
    if (!annotate_binary_open(&annotate->binary, context->profile, annotate->subject.image,
                              context->options->debuginfod) ||
        !find_addresses(annotate) || !find_lines(annotate))
        return view_memory(context);
    code = annotate_binary_code(&annotate->binary, annotate->subject.start, annotate->subject.end,
                                &annotate->code, context->error);
    if (code >= 0)
        code = find_figures(annotate);
    if (code < 0)
        return code;
    if (!annotate_count_calls(annotate) || !find_extent(annotate))
        return view_memory(context);
    add_notes(annotate);
    return annotate->notes.failed ? view_memory(context) : 0;
}

static int print_function(struct annotate *annotate)
{
    annotate_head(annotate);
    if (annotate->request->assembly || !annotate->file)
        return annotate_asm(annotate);
    annotate_text(annotate);
    return 0;
}

static int annotate_function(struct view_context *context)
{
    const struct view_annotation *request = context->options->annotation;
    struct annotate annotate = {.context = context,
                                .request = request,
                                .source = {.maps = request->maps, .map_count = request->map_count}};
    int code = annotate_gather(&annotate);
    if (!code && context->json)
        code = annotate_json(&annotate);
    else if (!code)
        code = print_function(&annotate);
    context->out->failed |= annotate.source.failed;
    annotate_subject_free(&annotate.subject);
    annotate_binary_code_free(&annotate.code);
    annotate_binary_close(&annotate.binary);
    annotate_source_free(&annotate.source);
    annotate_places_free(&annotate.places);
    base_text_free(&annotate.notes);
    free(annotate.calls);
    free(annotate.lines);
    free(annotate.addresses);
    free(annotate.line_of);
    return code;
}

int annotate_print(const struct profile *profile, const struct view_options *options, struct base_text *out,
                   struct base_error *error)
{
    return report_print_view(profile, options,
                             options->view == VIEW_LOOPS ? annotate_loops : annotate_function, out, error);
}
