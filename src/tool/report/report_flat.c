/* report_flat.c - one row for each function, line, address or image, with its self and its total; or for each
 * thread, process, group of processes or CPU, with its share. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "report_group.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_json.h"
#include "view_text.h"

enum { NARROW = 100 };

struct row {
    uint32_t key; /* an entity, or of report_group.h */
    struct view_figure self, total;
};

struct sum {
    struct view_figure self, total;
    uint32_t active; /* frames of it on the stack of the walk */
    bool seen;
};

struct flat {
    struct view_context *context;
    struct view_entities entities; /* unless by_cell */
    struct report_group group;     /* if by_cell */
    struct view_calls calls;       /* by function */
    struct sum *sums;              /* by entity */
    size_t sum_count, sum_capacity;
    struct row *rows; /* in order; the first `shown` are printed */
    size_t row_count, shown;
    bool past; /* --limit N cut some off */
    struct view_figure hidden;
};

static const char *const nouns[][2] = {
    {"function", "functions"}, {"line", "lines"},       {"address", "addresses"},
    {"image", "images"},       {"thread", "threads"},   {"CPU", "CPUs"},
    {"process", "processes"},  {"command", "commands"}, {"cgroup", "cgroups"}};

/* --- sums over the walk --- */

static struct sum *sum_of(struct flat *flat, uint32_t entity)
{
    while (flat->sum_count <= entity) {
        if (!base_array_room(flat->sums, flat->sum_count, flat->sum_capacity))
            return NULL;
        flat->sums[flat->sum_count++] = (struct sum){0};
    }
    return &flat->sums[entity];
}

/* Only the outermost frame of an entity adds to its total: recursion counts once. */
static bool flat_enter(void *context, struct view_frame *frames, size_t depth,
                       const struct view_figure *total)
{
    struct flat *flat = context;
    struct sum *sum = sum_of(flat, frames[depth - 1].entity);
    if (!sum)
        return false;
    sum->seen = true;
    if (!sum->active++)
        view_select_add(&flat->context->selection, &sum->total, total);
    return true;
}

static void flat_leave(void *context, struct view_frame *frames, size_t depth)
{
    struct flat *flat = context;
    flat->sums[frames[depth - 1].entity].active--;
}

static bool flat_leaf(void *context, struct view_frame *frames, size_t depth, const struct view_figure *self)
{
    struct flat *flat = context;
    view_select_add(&flat->context->selection, &flat->sums[frames[depth - 1].entity].self, self);
    return true;
}

static enum view_detail detail_of(const struct view_options *options)
{
    switch (options->by) {
    case VIEW_BY_LINE:
        return VIEW_DETAIL_LINE;
    case VIEW_BY_ADDRESS:
        return VIEW_DETAIL_ADDRESS;
    case VIEW_BY_IMAGE:
        return VIEW_DETAIL_IMAGE;
    default:
        return options->inlines ? VIEW_DETAIL_INLINED : VIEW_DETAIL_FUNCTION;
    }
}

/* Functions that were called and never met have rows too. */
static bool see_called(struct flat *flat)
{
    for (size_t i = 0; i < flat->calls.pair_count; i++) {
        struct sum *sum = sum_of(flat, flat->calls.pairs[i].callee);
        if (!sum)
            return false;
        sum->seen = true;
    }
    return true;
}

static int gather_entities(struct flat *flat)
{
    struct view_context *context = flat->context;
    struct view_visitor visitor = {
        .enter = flat_enter, .leave = flat_leave, .leaf = flat_leaf, .context = flat};
    if (!view_entity_init(&flat->entities, context->profile, detail_of(context->options)))
        return view_memory(context);
    int code = view_walk(context->profile, &context->nodes, &flat->entities, &visitor, context->error);
    if (code)
        return code;
    if (context->options->by == VIEW_BY_FUNCTION)
        code = view_calls_gather(context, &flat->entities, false, &flat->calls);
    if (!code && !see_called(flat))
        code = view_memory(context);
    if (code)
        return code;
    flat->rows = calloc(flat->sum_count + 1, sizeof *flat->rows);
    if (!flat->rows)
        return view_memory(context);
    for (size_t i = 0; i < flat->sum_count; i++)
        if (flat->sums[i].seen)
            flat->rows[flat->row_count++] =
                (struct row){(uint32_t)i, flat->sums[i].self, flat->sums[i].total};
    return 0;
}

/* --- sums over cells --- */

static int gather_cells(struct flat *flat)
{
    const struct view_context *context = flat->context;
    const struct profile *profile = context->profile;
    int code = report_group_init(&flat->group, flat->context);
    size_t keys = flat->group.keys;
    if (code)
        return code;
    flat->sums = calloc(keys, sizeof *flat->sums);
    flat->rows = calloc(keys, sizeof *flat->rows);
    if (!flat->sums || !flat->rows)
        return view_memory(flat->context);
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        struct view_figure figure = {cell->value, cell->samples};
        struct sum *sum = &flat->sums[report_group_key(&flat->group, cell)];
        if (!view_select_takes(&context->selection, profile, cell))
            continue;
        sum->seen = true;
        view_select_add(&context->selection, &sum->self, &figure);
    }
    for (size_t i = 0; i < keys; i++)
        if (flat->sums[i].seen)
            flat->rows[flat->row_count++] = (struct row){(uint32_t)i, flat->sums[i].self, flat->sums[i].self};
    return 0;
}

static bool by_cell(const struct flat *flat)
{
    return report_group_is(flat->context->options->by);
}

/* --- order and limits --- */

static int compare_values_descending(int64_t a, int64_t b)
{
    return (a < b) - (a > b);
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct row *x = a, *y = b;
    const struct flat *flat = context;
    int order = compare_values_descending(x->self.value, y->self.value);
    if (!order)
        order = compare_values_descending(x->total.value, y->total.value);
    if (!order && !by_cell(flat))
        return view_compare_names(&flat->entities, x->key, y->key);
    return order ? order : (x->key > y->key) - (x->key < y->key);
}

/* Rows with too small a total go to the end; what remains keeps its order. */
static void flat_apply_limits(struct flat *flat)
{
    const struct view_context *context = flat->context;
    size_t most = context->options->limit_rows ? context->options->limit_rows : flat->row_count;
    for (size_t i = 0; i < flat->row_count; i++) {
        const struct row row = flat->rows[i];
        bool below = view_below(context, &row.total);
        if (!below && flat->shown < most) {
            flat->rows[flat->shown++] = row;
            continue;
        }
        flat->past |= !below;
        view_select_add(&context->selection, &flat->hidden, &row.self);
    }
}

/* --- text --- */

static void add_value_cell(const struct flat *flat, struct view_table *table, int64_t value)
{
    struct base_text text = {0};
    view_text_value(&text, flat->context->selection.unit, value, flat->context->options->ascii);
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), flat->context->options->ascii);
    base_text_free(&text);
}

/* A narrow terminal has no columns for samples and images beside calls and names. */
static bool leaves_out(const struct flat *flat)
{
    const struct view_context *context = flat->context;
    return flat->calls.counted && context->width && context->width < NARROW;
}

static bool shows_samples(const struct flat *flat)
{
    return view_samples(flat->context) && !leaves_out(flat);
}

/* The columns after the figures. */
static void flat_add_columns(const struct flat *flat, struct view_table *table)
{
    switch (flat->context->options->by) {
    case VIEW_BY_LINE:
        view_table_add_column(table, "line", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
        break;
    case VIEW_BY_ADDRESS:
        view_table_add_column(table, "address", VIEW_RIGHT, VIEW_FIXED);
        break;
    case VIEW_BY_IMAGE:
        view_table_add_column(table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
        view_table_add_column(table, "path", VIEW_LEFT, VIEW_FLEXIBLE);
        return;
    default:
        break;
    }
    view_table_add_column(table, "function", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (!leaves_out(flat))
        view_table_add_column(table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
}

/* Where in its function: "name+0x1c". */
static void flat_add_place(const struct flat *flat, struct view_table *table, uint32_t key)
{
    const struct profile *profile = flat->context->profile;
    const struct profile_address *address = &profile->addresses[flat->entities.items[key].address];
    const struct profile_function *function = &profile->functions[address->function];
    struct base_text text = {0}, tail = {0};
    if (flat->entities.items[key].kind == VIEW_ADDRESS)
        base_text_addf(&text, "0x%llx", (unsigned long long)address->address);
    view_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    view_entity_name(&flat->entities, key, &text);
    if (address->function && address->address >= function->start)
        base_text_addf(&tail, "+0x%llx", (unsigned long long)(address->address - function->start));
    view_table_cell_tail(table, base_text_string(&text), base_text_string(&tail),
                         flat->context->options->ascii);
    table->failed |= text.failed | tail.failed;
    base_text_free(&text);
    base_text_free(&tail);
}

static void flat_add_line(const struct flat *flat, struct view_table *table, uint32_t key)
{
    struct base_text text = {0};
    view_entity_line(&flat->entities, key, &text);
    view_table_cell(table, text.length ? base_text_string(&text) : "(no line)",
                    flat->context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
    view_name_cell(flat->context, table, &flat->entities, key, true);
}

static void add_names(const struct flat *flat, struct view_table *table, uint32_t key)
{
    const struct view_context *context = flat->context;
    if (by_cell(flat)) {
        report_group_cells(&flat->group, table, key);
        return;
    }
    switch (context->options->by) {
    case VIEW_BY_IMAGE:
        view_name_cell(context, table, &flat->entities, key, false);
        view_table_cell(
            table,
            profile_text(context->profile, context->profile->images[flat->entities.items[key].image].path),
            context->options->ascii);
        return;
    case VIEW_BY_LINE:
        flat_add_line(flat, table, key);
        break;
    case VIEW_BY_ADDRESS:
        flat_add_place(flat, table, key);
        break;
    default:
        view_name_cell(context, table, &flat->entities, key, true);
        break;
    }
    if (!leaves_out(flat))
        view_image_cell(context, table, &flat->entities, key);
}

static void flat_add_calls(const struct flat *flat, struct view_table *table, const struct row *row)
{
    const struct view_context *context = flat->context;
    struct base_text text = {0};
    struct view_called called = view_calls_of(&flat->calls, row->key);
    if (!flat->calls.counted)
        return;
    view_calls_text(&text, &called, context->options->ascii);
    view_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    uint64_t divisor = view_calls_divisor(&called);
    if (divisor && view_calls_timed(context, &flat->calls)) {
        struct view_mean mean = view_calls_mean(&context->selection, &row->total, divisor);
        view_calls_mean_text(&text, &mean, context->options->ascii);
    }
    view_table_cell(table, base_text_string(&text), context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

/* The last row: what the limits hid. Its words stand in the first flexible column. */
static void flat_add_hidden(const struct flat *flat, struct view_table *table)
{
    size_t count = flat->row_count - flat->shown;
    struct base_text text = {0};
    if (!count)
        return;
    bool narrow = leaves_out(flat);
    base_text_add(&text, "(");
    view_below_text(flat->context, count, narrow ? "row" : nouns[flat->context->options->by][0],
                    narrow ? "rows" : nouns[flat->context->options->by][1], flat->past, &text);
    base_text_add(&text, ")");
    view_share_cell(flat->context, table, &flat->hidden);
    if (by_cell(flat))
        add_value_cell(flat, table, flat->hidden.value);
    else
        view_table_cell(table, NULL, false);
    if (shows_samples(flat))
        view_count_cell(flat->context, table, flat->hidden.samples);
    bool said = false;
    for (size_t c = shows_samples(flat) ? 3 : 2; c < table->column_count; c++) {
        bool here = table->columns[c].flexible && !said;
        view_table_cell(table, here ? base_text_string(&text) : NULL, false);
        said |= here;
    }
    view_table_row(table, VIEW_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void flat_print_text(struct flat *flat)
{
    struct view_context *context = flat->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, by_cell(flat) ? "share" : "self", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(&table,
                          by_cell(flat) ? strcmp(context->selection.unit, "ns") ? "value" : "time" : "total",
                          by_cell(flat) ? VIEW_RIGHT : VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (shows_samples(flat))
        view_table_add_column(&table, "samples", VIEW_RIGHT, VIEW_FIXED);
    if (flat->calls.counted) {
        view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(&table, "time/call", VIEW_RIGHT, VIEW_FIXED);
    }
    if (by_cell(flat))
        report_group_columns(&flat->group, &table);
    else
        flat_add_columns(flat, &table);
    for (size_t i = 0; i < flat->shown; i++) {
        const struct row *row = &flat->rows[i];
        view_share_cell(context, &table, &row->self);
        if (by_cell(flat))
            add_value_cell(flat, &table, row->total.value);
        else
            view_share_cell(context, &table, &row->total);
        if (shows_samples(flat))
            view_count_cell(context, &table, row->self.samples);
        flat_add_calls(flat, &table, row);
        add_names(flat, &table, row->key);
        view_table_row(&table, VIEW_PLAIN);
    }
    flat_add_hidden(flat, &table);
    view_table_print(&table, &form, context->out);
    view_table_free(&table);
}

/* --- JSON --- */

static void json_names(struct flat *flat, uint32_t key)
{
    if (by_cell(flat))
        report_group_json(&flat->group, key);
    else
        view_json_entity(flat->context, &flat->entities, key);
}

static void json_calls(struct flat *flat, const struct row *row)
{
    struct view_context *context = flat->context;
    struct view_called called = view_calls_of(&flat->calls, row->key);
    uint64_t divisor = view_calls_divisor(&called);
    if (!called.calls)
        return;
    view_calls_json(context->json, &called);
    if (divisor && view_calls_timed(context, &flat->calls)) {
        struct view_mean mean = view_calls_mean(&context->selection, &row->total, divisor);
        view_calls_mean_json(context->json, "ns_per_call", &mean);
    }
}

static void flat_print_json(struct flat *flat)
{
    struct view_context *context = flat->context;
    base_json_string(context->json, "by", nouns[context->options->by][0]);
    base_json_begin(context->json, "rows", '[');
    for (size_t i = 0; i < flat->shown; i++) {
        base_json_begin(context->json, NULL, '{');
        json_names(flat, flat->rows[i].key);
        view_json_figure(context, "self", &flat->rows[i].self);
        view_json_figure(context, "total", &flat->rows[i].total);
        json_calls(flat, &flat->rows[i]);
        base_json_end(context->json, '}');
    }
    base_json_end(context->json, ']');
    view_json_below(context, "below_limit", flat->row_count - flat->shown, &flat->hidden);
}

int report_flat(struct view_context *context)
{
    struct flat flat = {.context = context};
    int code = by_cell(&flat) ? gather_cells(&flat) : gather_entities(&flat);
    if (!code) {
        qsort_r(flat.rows, flat.row_count, sizeof *flat.rows, compare_rows, &flat);
        flat_apply_limits(&flat);
        if (context->json)
            flat_print_json(&flat);
        else
            flat_print_text(&flat);
    }
    if (by_cell(&flat))
        report_group_free(&flat.group);
    else
        view_entity_free(&flat.entities);
    view_calls_free(&flat.calls);
    free(flat.sums);
    free(flat.rows);
    return code;
}
