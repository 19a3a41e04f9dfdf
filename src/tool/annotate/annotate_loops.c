/* annotate_loops.c - the hottest loops of the program.
 *
 * 1. Every function's total, to leave out at once what lies below the limit: a loop has no more than its
 * function.
 * 2. The code of the others is read from their files, and each address of the profile is put into the loops
 * around it.
 * 3. One walk gives each loop its self and total, recursion counted once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "annotate_columns.h"
#include "annotate_parts.h"
#include "annotate_places.h"
#include "annotate_span.h"
#include "base_array.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "profile_extent.h"
#include "view.h"
#include "view_json.h"
#include "view_text.h"

enum { NARROW = 100 };

struct function { /* that is looked into */
    uint32_t function;
    uint32_t binary;
    struct annotate_code code;
    uint32_t first_row; /* of its loops */
};

struct row {           /* one loop; rows[0] is none */
    uint32_t function; /* of functions[] */
    uint32_t loop;     /* of its code */
    uint64_t calls;
};

struct loops {
    struct view_context *context;
    struct annotate_places places; /* by row */
    struct annotate_binary *binaries;
    size_t binary_count, binary_capacity;
    struct function *functions;
    size_t function_count, function_capacity;
    struct row *rows;
    size_t row_count, row_capacity;
    uint32_t *order; /* rows with samples, hottest first */
    size_t order_count, shown;
    bool past;                  /* --limit N cut */
    bool noted;                 /* a note was printed */
    bool has_calls;             /* they were counted (profile_extent.h) */
    struct view_figure *unread; /* by image: self of functions that could not be looked into */
    uint32_t odd, guessed;      /* functions that do not decode; that jump somewhere unknown */
};

/* --- which functions --- */

static int sum_functions(struct view_context *context, struct annotate_places *sums)
{
    const struct profile *profile = context->profile;
    if (!annotate_places_init(sums, profile))
        return view_memory(context);
    for (uint32_t i = 1; i < profile->address_count; i++)
        if (profile->addresses[i].function && !annotate_places_add(sums, i, profile->addresses[i].function))
            return view_memory(context);
    return annotate_places_sum(context, sums);
}

/* The binary of an image, opened at its first function. BASE_MAP_NONE: out of memory. */
static uint32_t binary_of(struct loops *loops, uint32_t image)
{
    const struct view_context *context = loops->context;
    for (uint32_t i = 0; i < loops->binary_count; i++)
        if (loops->binaries[i].image == image)
            return i;
    if (!base_array_room(loops->binaries, loops->binary_count, loops->binary_capacity))
        return BASE_MAP_NONE;
    struct annotate_binary *binary = &loops->binaries[loops->binary_count++];
    if (!annotate_binary_open(binary, context->profile, image, context->options->debuginfod))
        return BASE_MAP_NONE;
    return (uint32_t)loops->binary_count - 1;
}

static bool loops_add_rows(struct loops *loops, uint32_t index)
{
    struct function *item = &loops->functions[index];
    item->first_row = (uint32_t)loops->row_count;
    for (uint32_t i = 0; i < item->code.loops.count; i++) {
        if (!base_array_room(loops->rows, loops->row_count, loops->row_capacity))
            return false;
        loops->rows[loops->row_count++] = (struct row){.function = index, .loop = i};
    }
    return true;
}

static int look_into(struct loops *loops, uint32_t function, const struct view_figure *self)
{
    struct view_context *context = loops->context;
    const struct profile_function *named = &context->profile->functions[function];
    uint32_t binary = binary_of(loops, named->image);
    if (binary == BASE_MAP_NONE ||
        !base_array_room(loops->functions, loops->function_count, loops->function_capacity))
        return view_memory(context);
    if (!loops->binaries[binary].elf) {
        view_select_add(&context->selection, &loops->unread[named->image], self);
        return 0;
    }
    uint32_t index = (uint32_t)loops->function_count++;
    struct function *item = &loops->functions[index];
    *item = (struct function){.function = function, .binary = binary};
    int code =
        annotate_binary_code(&loops->binaries[binary], named->start, named->end, &item->code, context->error);
    if (code < 0)
        return code;
    loops->odd += !item->code.whole;
    loops->guessed += item->code.graph.guessed > 0;
    return loops_add_rows(loops, index) ? 0 : view_memory(context);
}

static int look_into_all(struct loops *loops, uint32_t *looked)
{
    struct view_context *context = loops->context;
    struct annotate_places sums;
    int code = sum_functions(context, &sums);
    for (uint32_t i = 1; !code && i < context->profile->function_count; i++) {
        const struct view_figure *total = i <= sums.last ? &sums.total[i] : NULL;
        if (!total || (!total->samples && !total->value) || view_below(context, total))
            continue;
        size_t before = loops->function_count;
        code = look_into(loops, i, &sums.self[i]);
        if (!code && loops->function_count > before)
            looked[i] = (uint32_t)before + 1;
    }
    annotate_places_free(&sums);
    return code;
}

/* --- which loops --- */

static bool place_address(struct loops *loops, uint32_t address, const struct function *item)
{
    const struct annotate_code *code = &item->code;
    uint32_t block = code_graph_find(&code->graph, loops->context->profile->addresses[address].address);
    if (block == CODE_NONE)
        return true;
    for (uint32_t loop = code->loops.of[block]; loop != CODE_NONE; loop = code->loops.items[loop].parent)
        if (!annotate_places_add(&loops->places, address, item->first_row + loop))
            return false;
    return true;
}

static bool place_all(struct loops *loops, const uint32_t *looked)
{
    const struct profile *profile = loops->context->profile;
    for (uint32_t i = 1; i < profile->address_count; i++) {
        uint32_t index = looked[profile->addresses[i].function];
        if (index && !place_address(loops, i, &loops->functions[index - 1]))
            return false;
    }
    return true;
}

static void loops_add_calls(struct loops *loops)
{
    const struct view_context *context = loops->context;
    const struct profile *profile = context->profile;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        size_t count;
        const uint32_t *run = annotate_places_of(&loops->places, edge->site, &count);
        bool taken = !context->selection.threads || context->selection.threads[edge->thread];
        for (size_t k = 0; taken && k < count; k++)
            if (__builtin_add_overflow(loops->rows[run[k]].calls, edge->calls, &loops->rows[run[k]].calls))
                loops->rows[run[k]].calls = UINT64_MAX;
    }
}

static const struct code_loop *loop_of(const struct loops *loops, uint32_t row)
{
    const struct row *item = &loops->rows[row];
    return &loops->functions[item->function].code.loops.items[item->loop];
}

static int compare_rows(const void *left, const void *right, void *context)
{
    const struct loops *loops = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const struct view_figure *x = &loops->places.total[a], *y = &loops->places.total[b];
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    if (loop_of(loops, a)->depth != loop_of(loops, b)->depth)
        return loop_of(loops, a)->depth < loop_of(loops, b)->depth ? -1 : 1;
    return (a > b) - (a < b);
}

static int loops_choose(struct loops *loops)
{
    const struct view_context *context = loops->context;
    loops->order = calloc(loops->row_count + 1, sizeof *loops->order);
    if (!loops->order)
        return view_memory(loops->context);
    for (uint32_t i = 1; i < loops->row_count && i <= loops->places.last; i++)
        if (loops->places.total[i].samples || loops->places.total[i].value)
            loops->order[loops->order_count++] = i;
    qsort_r(loops->order, loops->order_count, sizeof *loops->order, compare_rows, loops);
    while (loops->shown < loops->order_count &&
           !view_below(context, &loops->places.total[loops->order[loops->shown]]))
        loops->shown++;
    if (context->options->limit_rows && loops->shown > context->options->limit_rows) {
        loops->shown = context->options->limit_rows;
        loops->past = true;
    }
    return 0;
}

/* --- text --- */

static void loops_add_name(const struct loops *loops, struct view_table *table, const struct function *item,
                           const struct annotate_span *span)
{
    const struct profile *profile = loops->context->profile;
    struct base_text text = {0};
    if (span->function)
        base_text_addf(&text, "%s in ", span->function);
    base_text_add(&text, profile_text(profile, profile->functions[item->function].name));
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), loops->context->options->ascii);
    base_text_free(&text);
}

static void add_called(const struct loops *loops, struct view_table *table, uint32_t row)
{
    const struct view_figure *self = &loops->places.self[row], *total = &loops->places.total[row];
    char text[32] = "";
    if (total->value > 0 && !loops->context->selection.peak)
        snprintf(text, sizeof text, "%.0f %%",
                 100 * (double)(total->value - self->value) / (double)total->value);
    view_table_cell(table, text, false);
}

/* In few columns the lines matter more. */
static bool shows_images(const struct loops *loops)
{
    return !loops->context->width || loops->context->width >= NARROW;
}

/* "loops.c" may be shortened, ":12-15" is what is looked for. */
static void add_lines(const struct loops *loops, struct view_table *table, const struct annotate_span *span,
                      bool irreducible)
{
    bool ascii = loops->context->options->ascii;
    struct base_text text = {0}, numbers = {0};
    annotate_span_text(span, &text);
    const char *colon = strrchr(base_text_string(&text), ':');
    base_text_add(&numbers, colon ? colon : "");
    base_text_add(&numbers, !irreducible ? "" : shows_images(loops) ? " (several ways in)" : "*");
    if (colon)
        text.data[colon - text.data] = '\0';
    view_table_cell_tail(table, base_text_string(&text), base_text_string(&numbers), ascii);
    table->failed |= text.failed | numbers.failed;
    base_text_free(&text);
    base_text_free(&numbers);
}

static void loops_add_row(const struct loops *loops, struct view_table *table, uint32_t row)
{
    const struct view_context *context = loops->context;
    const struct function *item = &loops->functions[loops->rows[row].function];
    const struct code_loop *loop = loop_of(loops, row);
    struct annotate_span span =
        annotate_span_of(&loops->binaries[item->binary], &item->code, loops->rows[row].loop);
    struct base_text text = {0};
    view_share_cell(context, table, &loops->places.total[row]);
    view_share_cell(context, table, &loops->places.self[row]);
    add_called(loops, table, row);
    if (loops->has_calls)
        view_count_cell(context, table, loops->rows[row].calls);
    base_text_addf(&text, "%u", loop->depth);
    view_table_cell(table, base_text_string(&text), false);
    loops_add_name(loops, table, item, &span);
    add_lines(loops, table, &span, loop->irreducible);
    if (shows_images(loops))
        view_table_cell(table,
                        profile_text(context->profile,
                                     context->profile->images[loops->binaries[item->binary].image].name),
                        context->options->ascii);
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void loops_add_hidden(const struct loops *loops, struct view_table *table)
{
    size_t count = loops->order_count - loops->shown;
    struct base_text text = {0};
    if (!count)
        return;
    base_text_add(&text, "(");
    view_below_text(loops->context, count, "loop", "loops", loops->past, &text);
    base_text_add(&text, ")");
    view_table_words(table, 0, 0, base_text_string(&text), VIEW_DIM, loops->context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void loops_print_words(struct loops *loops, struct base_text *words)
{
    struct view_context *context = loops->context;
    struct base_text clean = {0};
    if (!loops->noted)
        base_text_add(context->out, "\n");
    loops->noted = true;
    base_utf8_clean(&clean, base_text_string(words), context->options->ascii);
    base_text_add(context->out, "  ");
    base_wrap(context->out, base_text_string(&clean), 2, 4, context->width);
    base_text_add(context->out, "\n");
    context->out->failed |= words->failed | clean.failed;
    base_text_free(&clean);
    base_text_clear(words);
}

/* "f, g and 3 more": functions that do not decode, or that jump somewhere unknown. */
static void name_some(const struct loops *loops, bool odd, struct base_text *words)
{
    enum { NAMED = 3 };
    const struct profile *profile = loops->context->profile;
    uint32_t named = 0, all = odd ? loops->odd : loops->guessed;
    for (size_t i = 0; i < loops->function_count && named < NAMED; i++) {
        const struct function *item = &loops->functions[i];
        if (odd ? item->code.whole : !item->code.graph.guessed)
            continue;
        base_text_addf(words, "%s%s", named++ ? ", " : "",
                       profile_text(profile, profile->functions[item->function].name));
    }
    if (all > named)
        base_text_addf(words, " and %u more", all - named);
}

static void print_notes(struct loops *loops)
{
    struct view_context *context = loops->context;
    struct base_text words = {0};
    bool starred = false;
    for (size_t i = 0; i < loops->shown && !shows_images(loops); i++)
        starred |= loop_of(loops, loops->order[i])->irreducible;
    if (starred) {
        base_text_add(&words, "* has several ways in");
        loops_print_words(loops, &words);
    }
    for (size_t i = 0; i < loops->binary_count; i++) {
        const struct annotate_binary *binary = &loops->binaries[i];
        if (binary->elf)
            continue;
        base_text_addf(&words, "not looked into: %s, ",
                       profile_text(context->profile, context->profile->images[binary->image].name));
        view_text_share(&words, &context->selection, &loops->unread[binary->image], context->options->ascii);
        base_text_addf(&words, " in its own functions: %s", base_text_string(&binary->why));
        loops_print_words(loops, &words);
    }
    if (loops->odd) {
        base_text_add(&words, "loops are not known in what does not decode to its end: ");
        name_some(loops, true, &words);
        loops_print_words(loops, &words);
    }
    if (loops->guessed) {
        base_text_add(&words, "where some jump to was guessed, as no table could be read: ");
        name_some(loops, false, &words);
        loops_print_words(loops, &words);
    }
    base_text_free(&words);
}

static void loops_print_text(struct loops *loops)
{
    struct view_context *context = loops->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "total", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "self", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "called", VIEW_RIGHT, VIEW_FIXED);
    if (loops->has_calls)
        view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "depth", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "function", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    view_table_add_column(&table, "lines", VIEW_LEFT, VIEW_FLEXIBLE_LINES);
    if (shows_images(loops))
        view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    for (size_t i = 0; i < loops->shown; i++)
        loops_add_row(loops, &table, loops->order[i]);
    loops_add_hidden(loops, &table);
    if (loops->order_count)
        view_table_print(&table, &form, context->out);
    else
        base_text_add(context->out, "  no loop with samples in it\n");
    context->out->failed |= table.failed;
    view_table_free(&table);
    print_notes(loops);
}

/* --- JSON --- */

static void json_row(struct loops *loops, uint32_t row)
{
    struct view_context *context = loops->context;
    const struct profile *profile = context->profile;
    struct base_json *json = context->json;
    const struct function *item = &loops->functions[loops->rows[row].function];
    const struct code_loop *loop = loop_of(loops, row);
    struct annotate_span span =
        annotate_span_of(&loops->binaries[item->binary], &item->code, loops->rows[row].loop);
    base_json_begin(json, NULL, '{');
    base_json_unsigned(json, "id", row);
    base_json_unsigned(json, "parent", loop->parent == CODE_NONE ? 0 : item->first_row + loop->parent);
    base_json_unsigned(json, "depth", loop->depth);
    base_json_string(json, "function", profile_text(profile, profile->functions[item->function].name));
    base_json_string(json, "image",
                     profile_text(profile, profile->images[loops->binaries[item->binary].image].name));
    base_json_unsigned(json, "header", item->code.graph.blocks[loop->header].start);
    base_json_unsigned(json, "start", span.start);
    base_json_unsigned(json, "end", span.end);
    base_json_bool(json, "irreducible", loop->irreducible);
    if (span.function)
        base_json_string(json, "inlined", span.function);
    if (span.file && span.first) {
        base_json_string(json, "file", span.file);
        base_json_unsigned(json, "first_line", span.first);
        base_json_unsigned(json, "last_line", span.last);
    }
    view_json_figure(context, "self", &loops->places.self[row]);
    view_json_figure(context, "total", &loops->places.total[row]);
    if (loops->has_calls)
        base_json_unsigned(json, "calls", loops->rows[row].calls);
    base_json_end(json, '}');
}

static void loops_print_json(struct loops *loops)
{
    struct view_context *context = loops->context;
    struct base_json *json = context->json;
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < loops->shown; i++)
        json_row(loops, loops->order[i]);
    base_json_end(json, ']');
    base_json_begin(json, "below_limit", '{');
    base_json_unsigned(json, "rows", loops->order_count - loops->shown);
    base_json_end(json, '}');
    base_json_begin(json, "not_looked_into", '[');
    for (size_t i = 0; i < loops->binary_count; i++) {
        const struct annotate_binary *binary = &loops->binaries[i];
        if (binary->elf)
            continue;
        base_json_begin(json, NULL, '{');
        base_json_string(json, "image",
                         profile_text(context->profile, context->profile->images[binary->image].name));
        base_json_string(json, "reason", base_text_string(&binary->why));
        view_json_figure(context, "self", &loops->unread[binary->image]);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_unsigned(json, "undecodable_functions", loops->odd);
    base_json_unsigned(json, "guessed_functions", loops->guessed);
}

static int loops_gather(struct loops *loops)
{
    const struct profile *profile = loops->context->profile;
    uint32_t *looked = calloc(profile->function_count + 1, sizeof *looked); /* index in functions + 1 */
    loops->unread = calloc(profile->image_count + 1, sizeof *loops->unread);
    bool room = looked && loops->unread && annotate_places_init(&loops->places, profile) &&
                base_array_room(loops->rows, 0, loops->row_capacity);
    if (room)
        loops->rows[loops->row_count++] = (struct row){0};
    int code = room ? look_into_all(loops, looked) : view_memory(loops->context);
    if (!code && !place_all(loops, looked))
        code = view_memory(loops->context);
    free(looked);
    if (!code)
        code = annotate_places_sum(loops->context, &loops->places);
    return code;
}

int annotate_loops(struct view_context *context)
{
    struct loops loops = {.context = context, .has_calls = profile_extent_has_calls(context->profile)};
    int code = loops_gather(&loops);
    if (!code) {
        loops_add_calls(&loops);
        code = loops_choose(&loops);
    }
    if (!code && context->json)
        loops_print_json(&loops);
    else if (!code)
        loops_print_text(&loops);
    for (size_t i = 0; i < loops.function_count; i++)
        annotate_binary_code_free(&loops.functions[i].code);
    for (size_t i = 0; i < loops.binary_count; i++)
        annotate_binary_close(&loops.binaries[i]);
    annotate_places_free(&loops.places);
    free(loops.functions);
    free(loops.binaries);
    free(loops.rows);
    free(loops.order);
    free(loops.unread);
    return code;
}
