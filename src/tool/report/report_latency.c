/* report_latency.c - how long calls took: a table of percentiles, and below it the histograms as bars, a bar
 * for each power of two.
 *
 * Nine figures and a name do not fit in 80 columns: the name has a line of its own above its figures. */

#include <stdlib.h>
#include <string.h>

#include "base_utf8.h"
#include "profile_extent.h"
#include "profile_latency.h"
#include "report_views.h"
#include "view_json.h"
#include "view_style.h"
#include "view_text.h"

enum {
    BARS_OF = 5,        /* functions, unless --limit N asks for another number */
    BAR_UNLIMITED = 40, /* columns of the longest bar in a pipe */
    BAR_LEAST = 8,
    BAR_BEFORE = 46 /* columns that stand before a bar, about */
};

static const unsigned points[] = {500, 900, 990, 999};
static const char *const point_titles[] = {"p50", "p90", "p99", "p99.9"};
static const char *const point_keys[] = {"p50_ns", "p90_ns", "p99_ns", "p999_ns"};
enum { POINTS = sizeof points / sizeof *points };

struct row {
    const struct profile_latency_sum *sum;
    uint32_t entity;
    uint64_t calls;
};

struct latency {
    struct view_context *context;
    struct view_entities entities;
    struct profile_latency_sum *sums;
    struct row *rows; /* in order; the first `shown` are printed */
    size_t sum_count, row_count, shown;
    bool past;                                /* --limit N cut some off */
    uint64_t all_ns, hidden_ns, hidden_calls; /* times of all rows; of the others */
};

static int64_t clamp_time(uint64_t value)
{
    return value < INT64_MAX ? (int64_t)value : INT64_MAX;
}

static uint64_t latency_add(uint64_t sum, uint64_t more)
{
    return __builtin_add_overflow(sum, more, &sum) ? UINT64_MAX : sum;
}

/* --- rows --- */

static int latency_by_time(const void *a, const void *b, void *context)
{
    const struct row *x = a, *y = b;
    if (x->sum->sum_ns != y->sum->sum_ns)
        return x->sum->sum_ns > y->sum->sum_ns ? -1 : 1;
    int order = view_compare_names(context, x->entity, y->entity);
    return order ? order : (x->sum->address > y->sum->address) - (x->sum->address < y->sum->address);
}

static bool latency_is_taken(const struct view_context *context, const struct profile_latency_sum *sum)
{
    uint32_t image = context->profile->addresses[sum->address].image;
    return !context->selection.images || context->selection.images[image];
}

static bool latency_add_rows(struct latency *latency)
{
    latency->rows = calloc(latency->sum_count + 1, sizeof *latency->rows);
    for (size_t i = 0; latency->rows && i < latency->sum_count; i++) {
        const struct profile_latency_sum *sum = &latency->sums[i];
        uint64_t calls = profile_latency_calls(sum);
        size_t depth;
        if (!calls || !latency_is_taken(latency->context, sum))
            continue;
        const uint32_t *chain = view_entity_chain(&latency->entities, sum->address, &depth);
        if (!depth)
            return false;
        latency->rows[latency->row_count++] = (struct row){sum, chain[depth - 1], calls};
        latency->all_ns = latency_add(latency->all_ns, sum->sum_ns);
    }
    if (latency->row_count)
        qsort_r(latency->rows, latency->row_count, sizeof *latency->rows, latency_by_time,
                &latency->entities);
    return latency->rows != NULL;
}

/* Rows are in order of their times: what is too small lies at the end. */
static void latency_apply_limits(struct latency *latency)
{
    const struct view_options *options = latency->context->options;
    size_t most = options->limit_rows ? options->limit_rows : latency->row_count;
    for (size_t i = 0; i < latency->row_count; i++) {
        double share = latency->all_ns ? (double)latency->rows[i].sum->sum_ns / (double)latency->all_ns : 1;
        bool below = options->limit_percent > 0 && 100 * share < options->limit_percent;
        if (!below && latency->shown < most) {
            latency->shown++;
            continue;
        }
        latency->past |= !below;
        latency->hidden_ns = latency_add(latency->hidden_ns, latency->rows[i].sum->sum_ns);
        latency->hidden_calls = latency_add(latency->hidden_calls, latency->rows[i].calls);
    }
}

static int latency_gather(struct latency *latency)
{
    struct view_context *context = latency->context;
    bool *processes = view_select_processes(&context->selection, context->profile);
    int code = processes ? profile_latency_sums(context->profile, processes, &latency->sums,
                                                &latency->sum_count, context->error)
                         : view_memory(context);
    free(processes);
    if (!code && (!view_entity_init(&latency->entities, context->profile, VIEW_DETAIL_FUNCTION) ||
                  !latency_add_rows(latency)))
        code = view_memory(context);
    if (!code)
        latency_apply_limits(latency);
    return code;
}

/* --- text: the table --- */

/* Seven columns are all that a figure may take: "844 ns", "1.23 ms", "2304 s", "12.8 h". */
static void latency_add_time(struct base_text *text, uint64_t ns, bool ascii)
{
    const double second = 1e9, hour = 3600e9;
    if ((double)ns < 1000 * second)
        view_text_time(text, clamp_time(ns), ascii);
    else if ((double)ns < 10000 * second)
        base_text_addf(text, "%.0f s", (double)ns / second);
    else
        base_text_addf(text, (double)ns < 1000 * hour ? "%.1f h" : "%.2g h", (double)ns / hour);
}

static void time_cell(const struct latency *latency, struct view_table *table, uint64_t ns)
{
    bool ascii = latency->context->options->ascii;
    struct base_text text = {0};
    latency_add_time(&text, ns, ascii);
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), ascii);
    base_text_free(&text);
}

/* "name in image", in the width of the terminal. */
static void add_title(const struct latency *latency, uint32_t entity, unsigned indent,
                      struct base_text *title)
{
    const struct view_context *context = latency->context;
    bool named = latency->entities.items[entity].kind != VIEW_ADDRESS; /* else its image is in the name */
    const char *image = named ? view_entity_image(&latency->entities, entity) : "";
    bool ascii = context->options->ascii;
    struct base_text name = {0}, clean = {0}, tail = {0};
    view_entity_name(&latency->entities, entity, &name);
    base_utf8_clean(&clean, base_text_string(&name), ascii);
    base_utf8_clean(&tail, image, ascii);
    unsigned behind = tail.length ? base_utf8_width(base_text_string(&tail)) + 4 : 0, taken = indent + behind;
    unsigned room = context->width > taken + BAR_LEAST ? context->width - taken : BAR_LEAST;
    view_text_fit_name(title, base_text_string(&clean), context->width ? room : 0, ascii);
    if (tail.length)
        base_text_addf(title, " in %s", base_text_string(&tail));
    title->failed |= name.failed | clean.failed | tail.failed;
    base_text_free(&name);
    base_text_free(&clean);
    base_text_free(&tail);
}

static void latency_add_figures(const struct latency *latency, struct view_table *table,
                                const struct row *row)
{
    view_count_cell(latency->context, table, row->calls);
    time_cell(latency, table, row->sum->min_ns);
    for (int i = 0; i < POINTS; i++)
        time_cell(latency, table, profile_latency_at(row->sum, points[i]));
    time_cell(latency, table, row->sum->max_ns);
    time_cell(latency, table, row->sum->sum_ns);
    view_table_row(table, VIEW_PLAIN);
}

static void latency_add_row(const struct latency *latency, struct view_table *table, const struct row *row)
{
    struct base_text title = {0};
    add_title(latency, row->entity, 2, &title);
    view_table_words(table, 0, 0, base_text_string(&title), VIEW_BOLD, latency->context->options->ascii);
    table->failed |= title.failed;
    base_text_free(&title);
    latency_add_figures(latency, table, row);
}

static void latency_add_hidden(const struct latency *latency, struct view_table *table)
{
    struct base_text text = {0};
    size_t count = latency->row_count - latency->shown;
    if (!count)
        return;
    base_text_add(&text, "(");
    view_below_text(latency->context, count, "function", "functions", latency->past, &text);
    base_text_add(&text, ")");
    view_table_words(table, 0, 0, base_text_string(&text), VIEW_DIM, latency->context->options->ascii);
    table->failed |= text.failed;
    base_text_free(&text);
    view_count_cell(latency->context, table, latency->hidden_calls);
    for (int i = 0; i < POINTS + 2; i++)
        view_table_cell(table, NULL, false);
    time_cell(latency, table, latency->hidden_ns);
    view_table_row(table, VIEW_DIM);
}

static void print_table(const struct latency *latency)
{
    struct view_context *context = latency->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "min", VIEW_RIGHT, VIEW_FIXED);
    for (int i = 0; i < POINTS; i++)
        view_table_add_column(&table, point_titles[i], VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "max", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "sum", VIEW_RIGHT, VIEW_FIXED);
    for (size_t i = 0; i < latency->shown; i++)
        latency_add_row(latency, &table, &latency->rows[i]);
    latency_add_hidden(latency, &table);
    view_table_print(&table, &form, context->out);
    context->out->failed |= table.failed;
    view_table_free(&table);
}

/* --- text: bars --- */

/* Times of one power of two: from 2^power ns to the next; 0 ns is with 1 ns. Where no call is, several powers
 * are one band. */
struct band {
    uint64_t calls;
    unsigned power, end; /* end: the next band's power */
};

static unsigned power_of(uint64_t ns)
{
    return 63 - (unsigned)__builtin_clzll(ns | 1);
}

/* From the lowest that has calls to the highest; how many. */
static unsigned find_bands(const struct profile_latency_sum *sum, struct band bands[WIRE_LATENCY_HIGHEST + 1])
{
    unsigned count = 0;
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++) {
        unsigned power = power_of(wire_latency_low(i));
        if (!sum->buckets[i])
            continue;
        if (count && bands[count - 1].end < power) {
            bands[count] = (struct band){0, bands[count - 1].end, power};
            count++;
        }
        if (!count || bands[count - 1].end == power)
            bands[count++] = (struct band){0, power, power + 1};
        bands[count - 1].calls = latency_add(bands[count - 1].calls, sum->buckets[i]);
    }
    return count;
}

/* An eighth of a column is the least that can be drawn, and nothing that is there has none. */
static void draw_bar(struct base_text *text, double share, unsigned columns, bool ascii)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    unsigned eighths = (unsigned)(share * columns * 8 + 0.5);
    if (ascii) {
        unsigned whole = (eighths + 4) / 8;
        base_text_add_repeated(text, '#', whole || share <= 0 ? whole : 1);
        return;
    }
    eighths = eighths || share <= 0 ? eighths : 1;
    for (unsigned i = 0; i < eighths / 8; i++)
        base_text_add(text, "█");
    base_text_add(text, parts[eighths % 8]);
}

static unsigned bar_columns(const struct view_context *context)
{
    if (!context->width)
        return BAR_UNLIMITED;
    return context->width > BAR_BEFORE + BAR_LEAST ? context->width - BAR_BEFORE : BAR_LEAST;
}

static void add_band(const struct latency *latency, struct view_table *table, const struct row *row,
                     const struct band *band, uint64_t most)
{
    bool ascii = latency->context->options->ascii;
    struct base_text text = {0};
    time_cell(latency, table, band->power ? UINT64_C(1) << band->power : 0);
    if (band->end <= WIRE_LATENCY_HIGHEST)
        time_cell(latency, table, UINT64_C(1) << band->end);
    else
        view_table_cell(table, NULL, false);
    view_count_cell(latency->context, table, band->calls);
    base_text_addf(&text, "%.1f %%", 100 * (double)band->calls / (double)row->calls);
    view_table_cell(table, base_text_string(&text), false);
    base_text_clear(&text);
    draw_bar(&text, (double)band->calls / (double)most, bar_columns(latency->context), ascii);
    view_table_cell(table, base_text_string(&text), ascii);
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void print_bars(const struct latency *latency, const struct row *row)
{
    struct view_context *context = latency->context;
    struct view_table table = {0};
    struct view_table_form form = view_form(context);
    struct band bands[WIRE_LATENCY_HIGHEST + 1];
    unsigned count = find_bands(row->sum, bands);
    uint64_t most = 0;
    for (unsigned i = 0; i < count; i++)
        most = bands[i].calls > most ? bands[i].calls : most;
    base_text_add(context->out, "\n  ");
    view_style_begin(context->out, VIEW_BOLD, context->options->color);
    add_title(latency, row->entity, 2, context->out);
    view_style_end(context->out, VIEW_BOLD, context->options->color);
    base_text_add(context->out, "\n");
    view_table_add_column(&table, "from", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "to", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "share", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(&table, "", VIEW_LEFT, VIEW_FIXED);
    for (unsigned i = 0; i < count; i++)
        add_band(latency, &table, row, &bands[i], most);
    view_table_print(&table, &form, context->out);
    context->out->failed |= table.failed;
    view_table_free(&table);
}

static void print_nothing(struct view_context *context)
{
    struct profile_extent extent = profile_extent_named(context->profile, VIEW_LATENCY_COUNTER);
    struct base_text words = {0};
    base_text_add(&words, "No calls: ");
    if (context->profile->latency_count > 1) {
        base_text_add(&words, "the filters leave none.");
    } else if (extent.degree == PROFILE_EXTENT_NONE) {
        profile_extent_not_counted(&extent, &words);
    } else {
        base_text_add(&words, "no function that was to be timed returned while it was recorded");
        profile_extent_caveat(&extent, &words);
        base_text_add(&words, ".");
    }
    view_words(context, &words);
    base_text_free(&words);
}

static void latency_print_text(const struct latency *latency)
{
    struct view_context *context = latency->context;
    size_t bars = context->options->limit_rows || latency->shown < BARS_OF ? latency->shown : BARS_OF;
    if (!latency->row_count) {
        print_nothing(context);
        return;
    }
    print_table(latency);
    for (size_t i = 0; i < bars; i++)
        print_bars(latency, &latency->rows[i]);
}

/* --- JSON --- */

static void buckets_json(struct base_json *json, const struct profile_latency_sum *sum)
{
    base_json_begin(json, "buckets", '[');
    for (uint32_t i = 0; i < WIRE_LATENCY_BUCKETS; i++) {
        if (!sum->buckets[i])
            continue;
        base_json_begin(json, NULL, '[');
        base_json_unsigned(json, NULL, wire_latency_low(i));
        if (i + 1 < WIRE_LATENCY_BUCKETS)
            base_json_unsigned(json, NULL, wire_latency_low(i + 1));
        else
            base_json_string(json, NULL, NULL);
        base_json_unsigned(json, NULL, sum->buckets[i]);
        base_json_end(json, ']');
    }
    base_json_end(json, ']');
}

static void row_json(const struct latency *latency, const struct row *row)
{
    struct base_json *json = latency->context->json;
    base_json_begin(json, NULL, '{');
    view_json_entity(latency->context, &latency->entities, row->entity);
    base_json_unsigned(json, "calls", row->calls);
    base_json_unsigned(json, "min_ns", row->sum->min_ns);
    for (int i = 0; i < POINTS; i++)
        base_json_unsigned(json, point_keys[i], profile_latency_at(row->sum, points[i]));
    base_json_unsigned(json, "max_ns", row->sum->max_ns);
    base_json_unsigned(json, "sum_ns", row->sum->sum_ns);
    buckets_json(json, row->sum);
    base_json_end(json, '}');
}

static void latency_print_json(const struct latency *latency)
{
    struct base_json *json = latency->context->json;
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < latency->shown; i++)
        row_json(latency, &latency->rows[i]);
    base_json_end(json, ']');
    base_json_begin(json, "below_limit", '{');
    base_json_unsigned(json, "rows", latency->row_count - latency->shown);
    base_json_unsigned(json, "calls", latency->hidden_calls);
    base_json_unsigned(json, "sum_ns", latency->hidden_ns);
    base_json_end(json, '}');
}

int report_latency(struct view_context *context)
{
    struct latency latency = {.context = context};
    int code = latency_gather(&latency);
    if (!code && context->json)
        latency_print_json(&latency);
    else if (!code)
        latency_print_text(&latency);
    view_entity_free(&latency.entities);
    free(latency.sums);
    free(latency.rows);
    return code;
}
