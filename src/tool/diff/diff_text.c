/* diff_text.c - the comparison as a page: the two sides, what to keep in mind, the whole, the rows
 * that changed, the rest. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_utf8.h"
#include "base_wrap.h"
#include "diff_rows.h"
#include "view_style.h"
#include "view_table.h"
#include "view_text.h"

enum { WIDE = 110, HANGING = 2, BELOW_SIDE = 5 };

/* --- figures --- */

/* What a unit is divided by so that `leading` has at most three digits before the point. */
static double scale_of(const char *unit, double leading, bool ascii, const char **name)
{
    static const char *const times[] = {"ns", "µs", "ms", "s"}, *const sizes[] = {"B", "KiB", "MiB", "GiB"},
                             *const counts[] = {"", "", "M", "G"};
    bool time = !strcmp(unit, "ns"), size = !strcmp(unit, "bytes") || !strcmp(unit, "B");
    const char *const *names = time ? times : size ? sizes : counts;
    size_t step = 0;
    double scale = 1;
    if (!time && !size && leading < 1e7) {
        *name = "";
        return 1;
    }
    double base = size ? 1024 : 1e3, most = size ? 1023.5 : 999.5;
    for (; (leading / scale >= most || (!time && !size && step < 2)) && step < 3; step++)
        scale *= base;
    *name = time && step == 1 && ascii ? "us" : names[step];
    return scale;
}

/* "+230 ±140 ms", "-1,204"; without an interval when it is exact. */
static void add_change(const struct diff *diff, const struct diff_range *range, struct base_text *out)
{
    double half = (range->high - range->low) / 2, leading = fmax(fabs(range->value), half);
    const char *unit;
    bool exact = !(half > 0);
    if (exact && strcmp(diff->unit, "ns") && strcmp(diff->unit, "bytes") && fabs(range->value) < 9e18) {
        base_text_add(out, range->value < 0 ? "-" : "+");
        view_text_exact(out, (uint64_t)fabs(range->value));
        return;
    }
    double scale = scale_of(diff->unit, leading, diff->options->ascii, &unit);
    int digits = scale == 1 ? 0 : leading / scale < 9.995 ? 2 : leading / scale < 99.95 ? 1 : 0;
    base_text_addf(out, "%+.*f", digits, range->value / scale);
    if (!exact)
        base_text_addf(out, " %s%.*f", diff->options->ascii ? "+-" : "±", digits, half / scale);
    base_text_addf(out, "%s%s", *unit ? " " : "", unit);
}

static void add_points(const struct diff *diff, const struct diff_range *range, struct base_text *out)
{
    base_text_addf(out, "%+.1f", 100 * range->value);
    if (range->high > range->low)
        base_text_addf(out, " %s%.1f", diff->options->ascii ? "+-" : "±", 50 * (range->high - range->low));
}

static void add_cost(const struct diff *diff, double cost, struct base_text *out)
{
    if (!strcmp(diff->unit, "ns") || !strcmp(diff->unit, "bytes"))
        view_text_value(out, diff->unit, (int64_t)fmin(cost, 9e18), diff->options->ascii);
    else
        view_text_exact(out, (uint64_t)fmax(cost, 0));
}

/* --- lines above the table --- */

/* A line of words, cleaned and wrapped. */
static void text_add_line(struct diff *diff, const char *words, enum view_style style)
{
    struct base_text clean = {0};
    base_utf8_clean(&clean, words, diff->options->ascii);
    view_style_begin(diff->out, style, diff->options->color);
    base_wrap(diff->out, base_text_string(&clean), 0, HANGING, diff->options->width);
    view_style_end(diff->out, style, diff->options->color);
    base_text_add(diff->out, "\n");
    diff->out->failed |= clean.failed;
    base_text_free(&clean);
}

static void add_note(struct diff *diff, const char *note)
{
    struct base_text line = {0};
    base_text_addf(&line, "note: %s", note);
    text_add_line(diff, base_text_string(&line), VIEW_PLAIN);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

/* Below its side: "     Tally itself: 28.1 % of all samples, left out", if it has any of Tally's own. */
static void add_own(struct diff *diff, size_t begin, size_t end)
{
    struct diff_own own = diff_own(diff, begin, end);
    struct base_text line = {0};
    view_text_own(&line, own.samples, own.all_samples, own.left_out);
    if (line.length)
        base_text_addf(diff->out, "%*s%s\n", BELOW_SIDE, "", line.data);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

/* "old  a.tally, b.tally: sqlite3 bench.db; time.cpu 2.31 s, 2,304 samples at 999 Hz" */
static void add_side(struct diff *diff, bool new)
{
    size_t begin = new ? diff->old_count : 0, end = new ? diff->run_count : diff->old_count;
    const struct profile *profile = diff->runs[begin].profile;
    const char *command = profile_meta(profile, "command"), *rate = profile_meta(profile, "rate_hz");
    double hertz = rate ? strtod(rate, NULL) : 0;
    struct base_text line = {0};
    base_text_add(&line, new ? "new" : "old");
    for (size_t run = begin; run < end; run++)
        base_text_addf(&line, "%s %s", run > begin ? "," : "", diff->runs[run].file);
    if (command && *command)
        base_text_addf(&line, ": %s", command);
    base_text_addf(&line, "; %s ", diff->counter);
    add_cost(diff, new ? diff->sum.new_cost : diff->sum.old_cost, &line);
    if (end - begin > 1)
        base_text_addf(&line, " a run, %zu runs", end - begin);
    if (!diff->exact) {
        base_text_add(&line, ", ");
        view_text_count(&line, new ? diff->sum.new_samples : diff->sum.old_samples);
        base_text_add(&line, " samples");
        if (view_select_is_time(diff->counter) && hertz > 0 && hertz < 1e9) {
            base_text_add(&line, " at ");
            view_text_count(&line, (uint64_t)llround(hertz));
            base_text_add(&line, " Hz");
        }
    }
    text_add_line(diff, base_text_string(&line), VIEW_BOLD);
    add_own(diff, begin, end);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

static void add_filter(struct base_text *line, const char *kind, const char *pattern)
{
    if (pattern)
        base_text_addf(line, "%s%s %s", line->length ? ", " : "only: ", kind, pattern);
}

/* "only: thread worker*, image libc.so.6; shares are of these" */
static void add_filters(struct diff *diff)
{
    struct base_text line = {0};
    add_filter(&line, "thread", diff->options->part.thread);
    add_filter(&line, "process", diff->options->part.process);
    add_filter(&line, diff->calls ? "caller or callee in image" : "leaf in image", diff->options->part.image);
    add_filter(&line, "CPU", diff->options->part.cpus);
    if (!line.length)
        return;
    base_text_add(&line, diff->calls ? "; shares are of their calls" : "; shares are of these");
    text_add_line(diff, base_text_string(&line), VIEW_PLAIN);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

/* What to say of the whole: whether it changed is only known from several runs. */
static const char *word_for_sum(const struct diff *diff)
{
    const struct diff_row *sum = &diff->sum;
    if (diff->exact)
        return sum->varies ? ", not deterministic" : "";
    if (diff_several(diff))
        return sum->significant ? ", more than runs differ by" : ", within what runs differ by";
    return sum->cost.low <= 0 && sum->cost.high >= 0
               ? ", within sampling noise"
               : ", more than sampling noise; whether runs differ by that much is not known";
}

static void add_sum(struct diff *diff)
{
    struct base_text line = {0};
    base_text_add(&line, "the whole: ");
    add_change(diff, &diff->sum.cost, &line);
    base_text_add(&line, " (");
    diff_percent_text(&diff->sum, &line);
    base_text_addf(&line, ")%s", word_for_sum(diff));
    text_add_line(diff, base_text_string(&line), VIEW_PLAIN);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

static const char *noun_of(const struct diff *diff, bool many)
{
    static const char *const nouns[][2] = {
        {"function", "functions"}, {"stack", "stacks"}, {"pair of functions", "pairs of functions"}};
    return nouns[diff->options->view][many];
}

static void add_summary(struct diff *diff)
{
    struct base_text line = {0};
    if (diff->changed) {
        view_text_count(&line, diff->changed);
        base_text_add(&line, " of ");
    }
    view_text_count(&line, diff->listed);
    base_text_addf(&line, " %s", noun_of(diff, diff->listed != 1));
    if (diff->exact)
        base_text_add(&line, diff->changed ? " changed" : ": nothing changed");
    else
        base_text_add(&line, diff->changed ? " changed their share by more than noise"
                                           : ": no share changed by more than noise");
    text_add_line(diff, base_text_string(&line), VIEW_BOLD);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

/* --- the table --- */

static bool text_is_wide(const struct diff *diff)
{
    return !diff->options->width || diff->options->width >= WIDE;
}

static void text_add_columns(const struct diff *diff, struct view_table *table)
{
    bool wide = text_is_wide(diff), edges = diff->options->view == DIFF_EDGES;
    if (wide || diff->exact)
        view_table_add_column(table, "old", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "new", VIEW_RIGHT, VIEW_FIXED);
    if (!diff->exact)
        view_table_add_column(table, "share", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(table, diff->exact ? "change" : "cost", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(table, "", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "verdict", VIEW_LEFT, VIEW_FIXED);
    if (edges)
        view_table_add_column(table, "caller", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    view_table_add_column(table,
                          edges                               ? "callee"
                          : diff->options->view == DIFF_PATHS ? "functions, the innermost first"
                                                              : "function",
                          VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (wide)
        view_table_add_column(table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
}

/* Moves a figure into a cell. */
static void text_put(const struct diff *diff, struct view_table *table, struct base_text *text)
{
    view_table_cell(table, base_text_string(text), diff->options->ascii);
    table->failed |= text->failed;
    base_text_clear(text);
}

static void put_item(const struct diff *diff, struct view_table *table, uint32_t item)
{
    view_table_cell(table, diff_match_name(&diff->matcher, item), diff->options->ascii);
}

static void put_image(const struct diff *diff, struct view_table *table, uint32_t item)
{
    if (text_is_wide(diff))
        view_table_cell(table, diff_match_image_name(&diff->matcher, item), diff->options->ascii);
}

static void put_level(const struct diff *diff, struct view_table *table, double cost, double share,
                      struct base_text *text)
{
    if (diff->exact)
        add_cost(diff, cost, text);
    else
        base_text_addf(text, "%.1f %%", 100 * share);
    text_put(diff, table, text);
}

static void put_figures(const struct diff *diff, struct view_table *table, const struct diff_row *row)
{
    struct base_text text = {0};
    if (text_is_wide(diff) || diff->exact)
        put_level(diff, table, row->old_cost, row->old_share, &text);
    put_level(diff, table, row->new_cost, row->new_share, &text);
    if (!diff->exact) {
        add_points(diff, &row->share, &text);
        text_put(diff, table, &text);
    }
    add_change(diff, &row->cost, &text);
    text_put(diff, table, &text);
    if (row->old_cost > 0)
        diff_percent_text(row, &text);
    text_put(diff, table, &text);
    view_table_cell(table, diff_verdict(row->verdict), false);
    base_text_free(&text);
}

static void put_blanks(struct view_table *table, size_t count)
{
    while (count-- > 0)
        view_table_cell(table, NULL, false);
}

/* The frames outside the innermost, each on a line. */
static void put_frames(const struct diff *diff, struct view_table *table, const struct diff_row *row)
{
    size_t figures = (size_t)5 + text_is_wide(diff) - diff->exact + (diff->exact && !text_is_wide(diff));
    for (uint32_t i = row->other; i; i = diff->rows[i].other) {
        put_blanks(table, figures);
        put_item(diff, table, diff->rows[i].item);
        put_image(diff, table, diff->rows[i].item);
        view_table_row(table, VIEW_PLAIN);
    }
}

static void put_row(const struct diff *diff, struct view_table *table, uint32_t index)
{
    const struct diff_row *row = &diff->rows[index];
    put_figures(diff, table, row);
    if (diff->options->view == DIFF_EDGES)
        put_item(diff, table, row->other);
    put_item(diff, table, row->item);
    put_image(diff, table, row->item);
    view_table_row(table, row->verdict == DIFF_CHANGE_NOISE || row->verdict == DIFF_CHANGE_VARIES
                              ? VIEW_DIM
                              : VIEW_PLAIN);
    if (diff->options->view == DIFF_PATHS)
        put_frames(diff, table, row);
}

static void add_table(struct diff *diff)
{
    struct view_table table = {0};
    struct view_table_form form = {.width = diff->options->width,
                                   .indent = 2,
                                   .ascii = diff->options->ascii,
                                   .color = diff->options->color,
                                   .titles = true};
    if (!diff->shown)
        return;
    base_text_add(diff->out, "\n");
    text_add_columns(diff, &table);
    for (size_t i = 0; i < diff->shown; i++)
        put_row(diff, &table, diff->order[i]);
    view_table_print(&table, &form, diff->out);
    view_table_free(&table);
}

/* --- lines below --- */

/* "(37 more functions, within noise)" */
static void add_rest(struct diff *diff)
{
    size_t rest = diff->listed - diff->shown, changed = 0;
    struct base_text line = {0};
    for (size_t i = 0; i < diff->shown; i++)
        changed += diff->rows[diff->order[i]].significant;
    if (!rest || !diff->shown)
        return;
    base_text_add(&line, "(");
    view_text_count(&line, rest);
    base_text_addf(&line, " more %s, ", noun_of(diff, rest != 1));
    if (diff->changed > changed)
        base_text_addf(&line, "%zu of them changed)", diff->changed - changed);
    else
        base_text_add(&line, diff->exact ? "none of them changed)" : "within noise)");
    base_text_add_repeated(diff->out, ' ', HANGING);
    base_text_add(diff->out, base_text_string(&line));
    base_text_add(diff->out, "\n");
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

static void add_gate(struct diff *diff)
{
    double limit = diff->options->fail_above;
    bool whole = diff_fails(diff, &diff->sum);
    size_t failed = 0;
    struct base_text line = {0};
    if (limit < 0)
        return;
    for (size_t i = 1; i < diff->row_count; i++)
        failed += diff_fails(diff, &diff->rows[i]);
    base_text_add(diff->out, "\n");
    base_text_addf(&line, "more than %.6g %% above before: ", limit);
    if (failed)
        base_text_addf(&line, "%zu %s", failed, noun_of(diff, failed != 1));
    base_text_add(&line, whole ? failed ? ", the whole" : "the whole" : failed ? "" : "nothing");
    if (!diff->exact && !diff_several(diff) && diff_percent(&diff->sum) > limit)
        base_text_add(&line, " (the whole would be; one run a side cannot judge it)");
    text_add_line(diff, base_text_string(&line), VIEW_BOLD);
    diff->out->failed |= line.failed;
    base_text_free(&line);
}

void diff_text(struct diff *diff)
{
    add_side(diff, false);
    add_side(diff, true);
    add_filters(diff);
    diff_notes(diff, add_note);
    add_sum(diff);
    add_summary(diff);
    add_table(diff);
    add_rest(diff);
    add_gate(diff);
}
