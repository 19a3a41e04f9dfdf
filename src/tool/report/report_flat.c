/* report_flat.c - one row for each function, line, address, image, thread or CPU: its self and its total. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "report_calls.h"
#include "report_text.h"
#include "report_view.h"

enum { NARROW = 100 };

struct row {
    uint32_t key; /* entity, thread or CPU */
    struct report_figure self, total;
};

struct sum {
    struct report_figure self, total;
    uint32_t active; /* frames of it on the stack of the walk */
    bool seen;
};

struct flat {
    struct report_context *context;
    struct report_entities entities; /* unless by thread or CPU */
    struct report_calls calls;       /* by function */
    struct sum *sums;                /* by entity */
    size_t sum_count, sum_capacity;
    struct row *rows; /* in order; the first `shown` are printed */
    size_t row_count, shown;
    bool past; /* --limit N cut some off */
    struct report_figure hidden;
};

static const char *const nouns[][2] = {{"function", "functions"}, {"line", "lines"},
                                       {"address", "addresses"},  {"image", "images"},
                                       {"thread", "threads"},     {"CPU", "CPUs"}};

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
static bool enter(void *context, struct report_frame *frames, size_t depth, const struct report_figure *total)
{
    struct flat *flat = context;
    struct sum *sum = sum_of(flat, frames[depth - 1].entity);
    if (!sum)
        return false;
    sum->seen = true;
    if (!sum->active++)
        report_select_add(&flat->context->selection, &sum->total, total);
    return true;
}

static void leave(void *context, struct report_frame *frames, size_t depth)
{
    struct flat *flat = context;
    flat->sums[frames[depth - 1].entity].active--;
}

static bool leaf(void *context, struct report_frame *frames, size_t depth, const struct report_figure *self)
{
    struct flat *flat = context;
    report_select_add(&flat->context->selection, &flat->sums[frames[depth - 1].entity].self, self);
    return true;
}

static enum report_detail detail_of(const struct report_options *options)
{
    switch (options->by) {
    case REPORT_BY_LINE:
        return REPORT_DETAIL_LINE;
    case REPORT_BY_ADDRESS:
        return REPORT_DETAIL_ADDRESS;
    case REPORT_BY_IMAGE:
        return REPORT_DETAIL_IMAGE;
    default:
        return options->inlines ? REPORT_DETAIL_INLINED : REPORT_DETAIL_FUNCTION;
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
    struct report_context *context = flat->context;
    struct report_visitor visitor = {.enter = enter, .leave = leave, .leaf = leaf, .context = flat};
    if (!report_entity_init(&flat->entities, context->profile, detail_of(context->options)))
        return report_view_memory(context);
    int code = report_walk(context->profile, &context->nodes, &flat->entities, &visitor, context->error);
    if (code)
        return code;
    if (context->options->by == REPORT_BY_FUNCTION)
        code = report_calls_gather(context, &flat->entities, false, &flat->calls);
    if (!code && !see_called(flat))
        code = report_view_memory(context);
    if (code)
        return code;
    flat->rows = calloc(flat->sum_count + 1, sizeof *flat->rows);
    if (!flat->rows)
        return report_view_memory(context);
    for (size_t i = 0; i < flat->sum_count; i++)
        if (flat->sums[i].seen)
            flat->rows[flat->row_count++] =
                (struct row){(uint32_t)i, flat->sums[i].self, flat->sums[i].total};
    return 0;
}

/* --- sums over cells, by thread or CPU --- */

static int gather_cells(struct flat *flat)
{
    const struct report_context *context = flat->context;
    const struct profile *profile = context->profile;
    bool by_thread = context->options->by == REPORT_BY_THREAD;
    size_t keys = by_thread ? profile->thread_count + 1 : (size_t)PROFILE_NO_CPU + 1;
    flat->sums = calloc(keys, sizeof *flat->sums);
    flat->rows = calloc(keys, sizeof *flat->rows);
    if (!flat->sums || !flat->rows)
        return report_view_memory(flat->context);
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        struct report_figure figure = {cell->value, cell->samples};
        struct sum *sum = &flat->sums[by_thread ? cell->thread : cell->cpu];
        if (!report_select_takes(&context->selection, profile, cell))
            continue;
        sum->seen = true;
        report_select_add(&context->selection, &sum->self, &figure);
    }
    for (size_t i = 0; i < keys; i++)
        if (flat->sums[i].seen)
            flat->rows[flat->row_count++] = (struct row){(uint32_t)i, flat->sums[i].self, flat->sums[i].self};
    return 0;
}

static bool by_cell(const struct flat *flat)
{
    return flat->context->options->by == REPORT_BY_THREAD || flat->context->options->by == REPORT_BY_CPU;
}

/* --- order and limits --- */

static int descending(int64_t a, int64_t b)
{
    return (a < b) - (a > b);
}

static int compare_rows(const void *a, const void *b, void *context)
{
    const struct row *x = a, *y = b;
    const struct flat *flat = context;
    int order = descending(x->self.value, y->self.value);
    if (!order)
        order = descending(x->total.value, y->total.value);
    if (!order && !by_cell(flat))
        return report_view_compare_names(&flat->entities, x->key, y->key);
    return order ? order : (x->key > y->key) - (x->key < y->key);
}

/* Rows with too small a total go to the end; what remains keeps its order. */
static void apply_limits(struct flat *flat)
{
    const struct report_context *context = flat->context;
    size_t most = context->options->limit_rows ? context->options->limit_rows : flat->row_count;
    for (size_t i = 0; i < flat->row_count; i++) {
        const struct row row = flat->rows[i];
        bool below = report_view_below(context, &row.total);
        if (!below && flat->shown < most) {
            flat->rows[flat->shown++] = row;
            continue;
        }
        flat->past |= !below;
        report_select_add(&context->selection, &flat->hidden, &row.self);
    }
}

/* --- text --- */

static void add_value_cell(const struct flat *flat, struct report_table *table, int64_t value)
{
    struct base_text text = {0};
    report_text_value(&text, flat->context->selection.unit, value, flat->context->options->ascii);
    table->failed |= text.failed;
    report_table_cell(table, base_text_string(&text), flat->context->options->ascii);
    base_text_free(&text);
}

static void add_number_cell(struct report_table *table, long long number)
{
    struct base_text text = {0};
    base_text_addf(&text, "%lld", number);
    table->failed |= text.failed;
    report_table_cell(table, base_text_string(&text), false);
    base_text_free(&text);
}

/* A narrow terminal has no columns for samples and images beside calls and names. */
static bool leaves_out(const struct flat *flat)
{
    const struct report_context *context = flat->context;
    return flat->calls.counted && context->width && context->width < NARROW;
}

static bool shows_samples(const struct flat *flat)
{
    return report_view_samples(flat->context) && !leaves_out(flat);
}

/* The columns after the figures. */
static void add_columns(const struct flat *flat, struct report_table *table)
{
    switch (flat->context->options->by) {
    case REPORT_BY_LINE:
        report_table_add_column(table, "line", REPORT_LEFT, REPORT_FLEXIBLE_NAME);
        break;
    case REPORT_BY_ADDRESS:
        report_table_add_column(table, "address", REPORT_RIGHT, REPORT_FIXED);
        break;
    case REPORT_BY_IMAGE:
        report_table_add_column(table, "image", REPORT_LEFT, REPORT_FLEXIBLE);
        report_table_add_column(table, "path", REPORT_LEFT, REPORT_FLEXIBLE);
        return;
    case REPORT_BY_THREAD:
        report_table_add_column(table, "tid", REPORT_RIGHT, REPORT_FIXED);
        report_table_add_column(table, "thread", REPORT_LEFT, REPORT_FLEXIBLE);
        report_table_add_column(table, "pid", REPORT_RIGHT, REPORT_FIXED);
        report_table_add_column(table, "process", REPORT_LEFT, REPORT_FLEXIBLE);
        return;
    case REPORT_BY_CPU:
        report_table_add_column(table, "CPU", REPORT_LEFT, REPORT_FLEXIBLE);
        return;
    case REPORT_BY_FUNCTION:
        break;
    }
    report_table_add_column(table, "function", REPORT_LEFT, REPORT_FLEXIBLE_NAME);
    if (!leaves_out(flat))
        report_table_add_column(table, "image", REPORT_LEFT, REPORT_FLEXIBLE);
}

static void add_thread(const struct flat *flat, struct report_table *table, uint32_t key)
{
    const struct profile *profile = flat->context->profile;
    const struct profile_thread *thread = &profile->threads[key];
    const struct profile_process *process = &profile->processes[thread->process];
    bool ascii = flat->context->options->ascii;
    add_number_cell(table, thread->tid);
    report_table_cell(table, profile_text(profile, thread->name), ascii);
    add_number_cell(table, process->pid);
    report_table_cell(table, profile_text(profile, process->name), ascii);
}

/* Where in its function: "name+0x1c". */
static void add_place(const struct flat *flat, struct report_table *table, uint32_t key)
{
    const struct profile *profile = flat->context->profile;
    const struct profile_address *address = &profile->addresses[flat->entities.items[key].address];
    const struct profile_function *function = &profile->functions[address->function];
    struct base_text text = {0}, tail = {0};
    if (flat->entities.items[key].kind == REPORT_ADDRESS)
        base_text_addf(&text, "0x%llx", (unsigned long long)address->address);
    report_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    report_entity_name(&flat->entities, key, &text);
    if (address->function && address->address >= function->start)
        base_text_addf(&tail, "+0x%llx", (unsigned long long)(address->address - function->start));
    report_table_cell_tail(table, base_text_string(&text), base_text_string(&tail),
                           flat->context->options->ascii);
    table->failed |= text.failed | tail.failed;
    base_text_free(&text);
    base_text_free(&tail);
}

static void add_line(const struct flat *flat, struct report_table *table, uint32_t key)
{
    struct base_text text = {0};
    report_entity_line(&flat->entities, key, &text);
    report_table_cell(table, text.length ? base_text_string(&text) : "(no line)",
                      flat->context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
    report_view_name_cell(flat->context, table, &flat->entities, key, true);
}

static void add_names(const struct flat *flat, struct report_table *table, uint32_t key)
{
    const struct report_context *context = flat->context;
    switch (context->options->by) {
    case REPORT_BY_THREAD:
        add_thread(flat, table, key);
        return;
    case REPORT_BY_CPU:
        if (key == PROFILE_NO_CPU)
            report_table_cell(table, "unknown", false);
        else
            add_number_cell(table, key);
        return;
    case REPORT_BY_IMAGE:
        report_view_name_cell(context, table, &flat->entities, key, false);
        report_table_cell(
            table,
            profile_text(context->profile, context->profile->images[flat->entities.items[key].image].path),
            context->options->ascii);
        return;
    case REPORT_BY_LINE:
        add_line(flat, table, key);
        break;
    case REPORT_BY_ADDRESS:
        add_place(flat, table, key);
        break;
    case REPORT_BY_FUNCTION:
        report_view_name_cell(context, table, &flat->entities, key, true);
        break;
    }
    if (!leaves_out(flat))
        report_view_image_cell(context, table, &flat->entities, key);
}

static void add_calls(const struct flat *flat, struct report_table *table, const struct row *row)
{
    const struct report_context *context = flat->context;
    struct base_text text = {0};
    struct report_called called = report_calls_of(&flat->calls, row->key);
    if (!flat->calls.counted)
        return;
    report_calls_text(&text, &called, context->options->ascii);
    report_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    uint64_t divisor = report_calls_divisor(&called);
    if (divisor && report_calls_timed(context, &flat->calls)) {
        struct report_mean mean = report_calls_mean(&context->selection, &row->total, divisor);
        report_calls_mean_text(&text, &mean, context->options->ascii);
    }
    report_table_cell(table, base_text_string(&text), context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

/* The last row: what the limits hid. Its words stand in the first flexible column. */
static void add_hidden(const struct flat *flat, struct report_table *table)
{
    size_t count = flat->row_count - flat->shown;
    struct base_text text = {0};
    if (!count)
        return;
    bool narrow = leaves_out(flat);
    base_text_add(&text, "(");
    report_view_below_text(flat->context, count, narrow ? "row" : nouns[flat->context->options->by][0],
                           narrow ? "rows" : nouns[flat->context->options->by][1], flat->past, &text);
    base_text_add(&text, ")");
    report_view_share_cell(flat->context, table, &flat->hidden);
    if (by_cell(flat))
        add_value_cell(flat, table, flat->hidden.value);
    else
        report_table_cell(table, NULL, false);
    if (shows_samples(flat))
        report_view_count_cell(flat->context, table, flat->hidden.samples);
    bool said = false;
    for (size_t c = shows_samples(flat) ? 3 : 2; c < table->column_count; c++) {
        bool here = table->columns[c].flexible && !said;
        report_table_cell(table, here ? base_text_string(&text) : NULL, false);
        said |= here;
    }
    report_table_row(table, REPORT_DIM);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_text(struct flat *flat)
{
    struct report_context *context = flat->context;
    struct report_table table = {0};
    struct report_table_form form = report_view_form(context);
    report_table_add_column(&table, by_cell(flat) ? "share" : "self", REPORT_RIGHT_TITLE_LEFT, REPORT_FIXED);
    report_table_add_column(
        &table, by_cell(flat) ? strcmp(context->selection.unit, "ns") ? "value" : "time" : "total",
        by_cell(flat) ? REPORT_RIGHT : REPORT_RIGHT_TITLE_LEFT, REPORT_FIXED);
    if (shows_samples(flat))
        report_table_add_column(&table, "samples", REPORT_RIGHT, REPORT_FIXED);
    if (flat->calls.counted) {
        report_table_add_column(&table, "calls", REPORT_RIGHT, REPORT_FIXED);
        report_table_add_column(&table, "time/call", REPORT_RIGHT, REPORT_FIXED);
    }
    add_columns(flat, &table);
    for (size_t i = 0; i < flat->shown; i++) {
        const struct row *row = &flat->rows[i];
        report_view_share_cell(context, &table, &row->self);
        if (by_cell(flat))
            add_value_cell(flat, &table, row->total.value);
        else
            report_view_share_cell(context, &table, &row->total);
        if (shows_samples(flat))
            report_view_count_cell(context, &table, row->self.samples);
        add_calls(flat, &table, row);
        add_names(flat, &table, row->key);
        report_table_row(&table, REPORT_PLAIN);
    }
    add_hidden(flat, &table);
    report_table_print(&table, &form, context->out);
    report_table_free(&table);
}

/* --- JSON --- */

static void json_names(struct flat *flat, uint32_t key)
{
    if (flat->context->options->by == REPORT_BY_CPU)
        base_json_integer(flat->context->json, "cpu", key == PROFILE_NO_CPU ? -1 : (int64_t)key);
    else if (flat->context->options->by == REPORT_BY_THREAD)
        report_json_thread(flat->context, key);
    else
        report_json_entity(flat->context, &flat->entities, key);
}

static void json_calls(struct flat *flat, const struct row *row)
{
    struct report_context *context = flat->context;
    struct report_called called = report_calls_of(&flat->calls, row->key);
    uint64_t divisor = report_calls_divisor(&called);
    if (!called.calls)
        return;
    report_calls_json(context->json, &called);
    if (divisor && report_calls_timed(context, &flat->calls)) {
        struct report_mean mean = report_calls_mean(&context->selection, &row->total, divisor);
        report_calls_mean_json(context->json, "ns_per_call", &mean);
    }
}

static void print_json(struct flat *flat)
{
    struct report_context *context = flat->context;
    base_json_string(context->json, "by", nouns[context->options->by][0]);
    base_json_begin(context->json, "rows", '[');
    for (size_t i = 0; i < flat->shown; i++) {
        base_json_begin(context->json, NULL, '{');
        json_names(flat, flat->rows[i].key);
        report_json_figure(context, "self", &flat->rows[i].self);
        report_json_figure(context, "total", &flat->rows[i].total);
        json_calls(flat, &flat->rows[i]);
        base_json_end(context->json, '}');
    }
    base_json_end(context->json, ']');
    report_json_below(context, "below_limit", flat->row_count - flat->shown, &flat->hidden);
}

int report_flat(struct report_context *context)
{
    struct flat flat = {.context = context};
    int code = by_cell(&flat) ? gather_cells(&flat) : gather_entities(&flat);
    if (!code) {
        qsort_r(flat.rows, flat.row_count, sizeof *flat.rows, compare_rows, &flat);
        apply_limits(&flat);
        if (context->json)
            print_json(&flat);
        else
            print_text(&flat);
    }
    if (!by_cell(&flat))
        report_entity_free(&flat.entities);
    report_calls_free(&flat.calls);
    free(flat.sums);
    free(flat.rows);
    return code;
}
