/* report_candidates.c - functions by what moving them, or spreading their calls over threads, would give the
 * whole program.
 *
 * A page to decide by, so it says first what was assumed, in a line (with -v in sentences), and tells apart
 * what was counted (calls, and from where), what was sampled (time, with intervals) and what follows from both
 * (the bound, an interval too). A function whose calls were not counted cannot be charged for them: such
 * functions stand apart, with the bound for a call that costs nothing. So do roots, which nobody can move, in
 * one line. */
#include "report_candidates_inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_utf8.h"
#include "base_wrap.h"
#include "profile_extent.h"
#include "profile_own.h"
#include "report_views.h"
#include "view_calls.h"
#include "view_style.h"
#include "view_text.h"

enum { NARROW = 100, WIDE = 140, CALLERS_NAMED = 3, ROOTS_NAMED = 5, CALLER_COLUMNS = 36, WORDS_INDENT = 8 };

/* --- the functions --- */

/* Callees are in the total, and a stack counts once however often the function recurs in it. */
static bool candidates_enter(void *context, struct view_frame *frames, size_t depth,
                             const struct view_figure *total)
{
    struct candidates *self = context;
    uint32_t entity = frames[depth - 1].entity;
    while (self->sum_count <= entity) {
        if (!base_array_room(self->sums, self->sum_count, self->sum_capacity))
            return false;
        self->sums[self->sum_count++] = (struct candidate_sum){0};
    }
    if (!self->sums[entity].active++)
        view_select_add(&self->context->selection, &self->sums[entity].total, total);
    return true;
}

static void candidates_leave(void *context, struct view_frame *frames, size_t depth)
{
    struct candidates *self = context;
    self->sums[frames[depth - 1].entity].active--;
}

static bool candidates_leaf(void *context, struct view_frame *frames, size_t depth,
                            const struct view_figure *self)
{
    struct candidates *candidates = context;
    view_select_add(&candidates->context->selection, &candidates->sums[frames[depth - 1].entity].self, self);
    return true;
}

/* Marks are no functions; kernel functions cannot be moved; the agent's and stubs are not the program's. */
static bool can_move(const struct candidates *self, uint32_t entity)
{
    const struct view_entity *item = &self->entities.items[entity];
    const struct profile *profile = self->context->profile;
    if (profile->images[item->image].kind == PROFILE_IMAGE_KERNEL || profile_own_image(profile, item->image))
        return false;
    return item->kind == VIEW_FUNCTION || item->kind == VIEW_JIT_FUNCTION || item->kind == VIEW_ADDRESS;
}

static bool add_candidate(struct candidates *self, uint32_t entity)
{
    struct candidate candidate = {.entity = entity,
                                  .self = self->sums[entity].self,
                                  .total = self->sums[entity].total,
                                  .called = view_calls_of(&self->calls, entity)};
    candidate.entering = view_calls_divisor(&candidate.called);
    struct view_share share = view_select_share(&self->context->selection, &candidate.total);
    candidate.bound = report_candidates_bound(
        &self->assumption, &share, (double)self->context->selection.taken.value, candidate.entering);
    struct candidate_list *list = candidates_is_root(self, &candidate) ? &self->roots
                                  : candidate.entering                 ? &self->known
                                                                       : &self->unknown;
    if (!base_array_room(list->items, list->count, list->capacity))
        return false;
    list->items[list->count++] = candidate;
    return true;
}

/* Of a chain of wrappers around one function, the function comes first. */
static int best_first(const void *a, const void *b, void *context)
{
    const struct candidate *x = a, *y = b;
    if (x->bound.value != y->bound.value)
        return x->bound.value > y->bound.value ? -1 : 1;
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    return view_compare_names(context, x->entity, y->entity);
}

/* What is too small goes to the end; the rest keeps its order. */
static void candidates_put_in_order(struct candidates *self, struct candidate_list *list)
{
    const struct view_context *context = self->context;
    size_t most = context->options->limit_rows ? context->options->limit_rows : list->count;
    if (list->count)
        qsort_r(list->items, list->count, sizeof *list->items, best_first, &self->entities);
    for (size_t i = 0; i < list->count; i++) {
        bool below = view_below(context, &list->items[i].total);
        if (!below && list->shown < most)
            list->items[list->shown++] = list->items[i];
        else
            list->past |= !below;
    }
}

static int candidates_gather(struct candidates *self)
{
    struct view_context *context = self->context;
    struct view_visitor visitor = {
        .enter = candidates_enter, .leave = candidates_leave, .leaf = candidates_leaf, .context = self};
    if (!view_entity_init(&self->entities, context->profile, VIEW_DETAIL_FUNCTION))
        return view_memory(context);
    int code = view_walk(context->profile, &context->nodes, &self->entities, &visitor, context->error);
    if (!code)
        code = view_calls_gather(context, &self->entities, false, &self->calls);
    for (uint32_t i = 1; !code && i < self->sum_count; i++)
        if (self->sums[i].total.value > 0 && can_move(self, i) && !add_candidate(self, i))
            code = view_memory(context);
    if (code)
        return code;
    candidates_put_in_order(self, &self->known);
    candidates_put_in_order(self, &self->unknown);
    candidates_put_in_order(self, &self->roots);
    return 0;
}

/* --- what was assumed --- */

/* Adds what `words` holds as a paragraph with a hanging indent, and empties it. */
static void add_paragraph(const struct candidates *self, struct base_text *words)
{
    struct view_context *context = self->context;
    base_wrap(context->out, base_text_string(words), 0, 2, context->width);
    base_text_add(context->out, "\n");
    context->out->failed |= words->failed;
    base_text_clear(words);
}

static void candidates_add_time(const struct candidates *self, struct base_text *out, double nanoseconds)
{
    view_text_time(out, (int64_t)fmin(fmax(nanoseconds, 0), 9e18), self->context->options->ascii);
}

/* "assumed: a moved call takes no time and costs nothing to invoke; a bound" */
static void add_assumption(const struct candidates *self, struct base_text *words)
{
    const struct report_assumption *assumption = &self->assumption;
    base_text_add(words, "assumed: ");
    if (assumption->parallel)
        base_text_addf(words, "calls run on %llu threads at once", (unsigned long long)assumption->parallel);
    else if (assumption->speedup > 0)
        base_text_addf(words, "a moved call runs %.6g times faster", assumption->speedup);
    else
        base_text_add(words, "a moved call takes no time");
    base_text_add(words, assumption->parallel ? " and cost " : " and costs ");
    if (assumption->invoke_ns > 0)
        candidates_add_time(self, words, assumption->invoke_ns);
    else
        base_text_add(words, "nothing");
    base_text_add(words, " to invoke; a bound");
    add_paragraph(self, words);
}

static void add_whole(const struct candidates *self, struct base_text *words)
{
    double busy = candidates_busy_cpus(self);
    base_text_add(words, "whole program: ");
    candidates_add_time(self, words, (double)self->context->selection.taken.value);
    base_text_addf(words, " of %s, all threads together", self->context->selection.name);
    if (busy > 0 && (busy > 1.05 || busy < 0.95))
        base_text_addf(words, ", %.*f CPUs busy", busy < 0.95 ? 2 : 1, busy);
    add_paragraph(self, words);
}

/* --- and how to read it, when asked --- */

static void add_meaning(const struct candidates *self, struct base_text *words)
{
    const struct report_assumption *assumption = &self->assumption;
    base_text_add(words, "A function moves with all it calls; everything else stays as it is, and no way of "
                         "doing it gives more than the bound.");
    if (assumption->parallel)
        base_text_add(words,
                      " Its calls are spread evenly over the threads, and none is split: N calls keep N "
                      "threads busy at most. The whole program is taken as if one thread had run at a "
                      "time.");
    else if (!(assumption->speedup > 0))
        base_text_add(words, " --speedup says how fast it runs then.");
    if (!(assumption->invoke_ns > 0))
        base_text_add(words, " --invoke-cost says what a call costs there.");
    add_paragraph(self, words);
}

static void add_busy(const struct candidates *self, struct base_text *words)
{
    double busy = candidates_busy_cpus(self);
    base_text_add(words, "2x means half of the time of the whole program.");
    if (busy > 1.05)
        base_text_add(words, " More than one CPU was busy on average: time on the clock may gain less.");
    else if (busy > 0 && busy < 0.95)
        base_text_add(words, " Less than one CPU was busy on average: what the program waited stays.");
    add_paragraph(self, words);
}

static void add_reading(const struct candidates *self, struct base_text *words)
{
    struct profile_extent extent = profile_extent_named(self->context->profile, PROFILE_CALLS);
    if (!self->calls.counted)
        return;
    base_text_addf(words,
                   "%s: calls (N+M: M more were recursive, and are in no other figure) and callers' shares "
                   "of them. Sampled, with 95 %% intervals: share of time, time of each call, and the bound "
                   "that follows.",
                   profile_extent_words(&extent));
    add_paragraph(self, words);
}

static void add_missing(const struct candidates *self, struct base_text *words)
{
    if (self->calls.counted)
        return;
    bool asked = profile_counts_calls(self->context->profile);
    struct profile_extent extent = profile_extent_named(self->context->profile, PROFILE_CALLS);
    if (asked) {
        struct base_text reason = {0};
        profile_extent_not_counted(&extent, &reason);
        base_text_add(words, "Calls: ");
        base_utf8_clean(words, base_text_string(&reason), self->context->options->ascii);
        words->failed |= reason.failed;
        base_text_free(&reason);
    }
    base_text_addf(words, "%s invoking them costs is left out%s, and how long one takes is not known.%s",
                   asked ? ". What" : "No calls were counted: what",
                   self->assumption.invoke_ns > 0 ? " (--invoke-cost has no effect)" : "",
                   asked ? "" : " To count them: tally record --calls -- COMMAND");
    view_style_begin(self->context->out, VIEW_BOLD, self->context->options->color);
    add_paragraph(self, words);
    view_style_end(self->context->out, VIEW_BOLD, self->context->options->color);
}

static void add_caller(const struct candidates *self, uint32_t caller, struct base_text *out)
{
    const char *unknown = view_unknown_caller(&self->entities, caller);
    struct base_text name = {0};
    if (unknown)
        base_text_add(&name, unknown);
    else
        view_entity_name(&self->entities, caller, &name);
    view_text_fit_name(out, base_text_string(&name), self->context->width ? CALLER_COLUMNS : 0,
                       self->context->options->ascii);
    out->failed |= name.failed;
    base_text_free(&name);
}

/* "roots, which hold the time of all that they call: _start, main" */
static void add_roots(const struct candidates *self, struct base_text *words)
{
    size_t named = self->roots.shown < ROOTS_NAMED ? self->roots.shown : ROOTS_NAMED;
    if (!self->roots.shown)
        return;
    base_text_add(words, self->roots.shown == 1 ? "root, which holds the time of what it calls: "
                                                : "roots, which hold the time of what they call: ");
    for (size_t i = 0; i < named; i++) {
        base_text_add(words, i ? ", " : "");
        add_caller(self, self->roots.items[i].entity, words);
    }
    if (self->roots.shown > named)
        base_text_addf(words, " and %zu more", self->roots.shown - named);
    add_paragraph(self, words);
}

static void print_assumptions(const struct candidates *self)
{
    struct base_text words = {0};
    add_assumption(self, &words);
    add_whole(self, &words);
    add_roots(self, &words);
    if (self->context->options->header == VIEW_HEADER_FULL) {
        add_meaning(self, &words);
        add_busy(self, &words);
        add_reading(self, &words);
    }
    base_text_add(self->context->out, "\n");
    add_missing(self, &words);
    base_text_free(&words);
}

/* --- rows --- */

static bool candidates_is_wide(const struct candidates *self)
{
    return !self->context->width || self->context->width >= NARROW;
}

static bool has_callers_column(const struct candidates *self)
{
    return !self->context->width || self->context->width >= WIDE;
}

static void add_speedup(struct base_text *out, double bound, bool ascii)
{
    if (!isfinite(bound))
        base_text_add(out, ascii ? "inf" : "∞");
    else if (bound < 0.01)
        base_text_add(out, "<0.01");
    else
        base_text_addf(out, "%.*f", bound < 9.995 ? 2 : bound < 99.95 ? 1 : 0, bound);
}

static void add_bound(const struct candidates *self, struct view_table *table,
                      const struct report_bound *bound)
{
    struct base_text text = {0};
    bool ascii = self->context->options->ascii;
    add_speedup(&text, bound->value, ascii);
    base_text_add(&text, "x (");
    add_speedup(&text, bound->low, ascii);
    base_text_add(&text, " - ");
    add_speedup(&text, bound->high, ascii);
    base_text_add(&text, ")");
    view_table_cell(table, base_text_string(&text), ascii);
    table->failed |= text.failed;
    base_text_free(&text);
}

static void each_text(const struct candidates *self, const struct candidate *candidate, struct base_text *out)
{
    struct view_mean mean = candidates_mean(self, candidate);
    view_calls_mean_text(out, &mean, self->context->options->ascii);
}

static void add_percent(struct base_text *out, double share)
{
    if (share > 0 && share < 0.005)
        base_text_add(out, " <1 %");
    else
        base_text_addf(out, " %.0f %%", share < 0.995 || share >= 1 ? 100 * share : 99);
}

/* "parse 62 %, main 35 %, 4 others 3 %": exact shares of the calls that enter it, the most first. */
static void callers_text(const struct candidates *self, const struct candidate *candidate,
                         struct base_text *out)
{
    const struct view_calls *calls = &self->calls;
    size_t named = 0, others = 0;
    uint64_t rest = candidate->entering;
    for (uint32_t i = calls->first[candidate->entity]; i < calls->first[candidate->entity + 1]; i++) {
        const struct view_pair *pair = &calls->pairs[i];
        if (!candidates_is_entering(candidate, pair))
            continue;
        if (named == CALLERS_NAMED) {
            others++;
            continue;
        }
        base_text_add(out, named++ ? ", " : "");
        add_caller(self, pair->caller, out);
        add_percent(out, (double)pair->calls / (double)candidate->entering);
        rest -= pair->calls;
    }
    if (!others)
        return;
    base_text_addf(out, ", %zu %s", others, others == 1 ? "other" : "others");
    add_percent(out, (double)rest / (double)candidate->entering);
}

/* What a reader must not overlook. */
static void remark_text(const struct candidates *self, const struct candidate *candidate,
                        struct base_text *out)
{
    const struct report_assumption *assumption = &self->assumption;
    enum report_verdict verdict = report_candidates_verdict(&candidate->bound);
    struct view_mean pays = candidates_break_even(self, candidate);
    if (assumption->parallel > 1 && candidate->entering < assumption->parallel)
        base_text_addf(out, "only %llu %s: no more threads have work. ",
                       (unsigned long long)candidate->entering, candidate->entering == 1 ? "call" : "calls");
    if (verdict == REPORT_GAINS)
        return;
    base_text_addf(out, "invoking it %s more than it saves",
                   verdict == REPORT_COSTS ? "would cost" : "may cost");
    if (pays.value > 0) {
        base_text_add(out, ": it pays below ");
        view_calls_mean_text(out, &pays, self->context->options->ascii);
        base_text_add(out, " a call");
    }
}

static void candidates_add_words(const struct candidates *self, struct view_table *table,
                                 struct base_text *words, enum view_style style)
{
    if (words->length)
        view_table_words(table, 0, WORDS_INDENT, base_text_string(words), style,
                         self->context->options->ascii);
    table->failed |= words->failed;
    base_text_clear(words);
}

/* Narrower terminals have no columns for callers, narrow ones none for calls: they are written in words
 * below. */
static void add_details(const struct candidates *self, struct view_table *table,
                        const struct candidate *candidate)
{
    struct base_text words = {0};
    if (!candidates_is_wide(self)) {
        view_calls_text(&words, &candidate->called, self->context->options->ascii);
        base_text_add(&words, candidate->called.calls == 1 ? " call of " : " calls, each ");
        each_text(self, candidate, &words);
        base_text_add(&words, "; ");
    }
    if (!has_callers_column(self)) {
        base_text_add(&words, "called by ");
        callers_text(self, candidate, &words);
        candidates_add_words(self, table, &words, VIEW_DIM);
    }
    remark_text(self, candidate, &words);
    candidates_add_words(self, table, &words, VIEW_PLAIN);
    base_text_free(&words);
}

static void add_known(const struct candidates *self, struct view_table *table,
                      const struct candidate *candidate)
{
    const struct view_context *context = self->context;
    struct base_text text = {0};
    add_bound(self, table, &candidate->bound);
    view_share_cell(context, table, &candidate->total);
    if (candidates_is_wide(self)) {
        view_calls_text(&text, &candidate->called, context->options->ascii);
        view_table_cell(table, base_text_string(&text), false);
        base_text_clear(&text);
        each_text(self, candidate, &text);
        view_table_cell(table, base_text_string(&text), context->options->ascii);
        base_text_clear(&text);
    }
    view_name_cell(context, table, &self->entities, candidate->entity, false);
    if (candidates_is_wide(self)) {
        view_image_cell(context, table, &self->entities, candidate->entity);
    }
    if (has_callers_column(self)) {
        callers_text(self, candidate, &text);
        view_table_cell(table, base_text_string(&text), context->options->ascii);
    }
    view_table_row(table, VIEW_PLAIN);
    table->failed |= text.failed;
    base_text_free(&text);
    add_details(self, table, candidate);
}

static void candidates_add_hidden(const struct candidates *self, struct view_table *table,
                                  const struct candidate_list *list)
{
    struct base_text words = {0};
    if (list->count == list->shown)
        return;
    base_text_add(&words, "(");
    view_below_text(self->context, list->count - list->shown, "function", "functions", list->past, &words);
    base_text_add(&words, ")");
    candidates_add_words(self, table, &words, VIEW_DIM);
    base_text_free(&words);
}

static void print_known(struct candidates *self)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(self->context);
    view_table_add_column(&table, "whole program at best", VIEW_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "share of time", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    if (candidates_is_wide(self)) {
        view_table_add_column(&table, "calls", VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(&table, "each", VIEW_RIGHT, VIEW_FIXED);
    }
    view_table_add_column(&table, "function", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (candidates_is_wide(self)) {
        view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    }
    if (has_callers_column(self))
        view_table_add_column(&table, "callers", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    for (size_t i = 0; i < self->known.shown; i++)
        add_known(self, &table, &self->known.items[i]);
    candidates_add_hidden(self, &table, &self->known);
    view_table_print(&table, &form, self->context->out);
    view_table_free(&table);
}

static void print_unknown(struct candidates *self)
{
    struct view_table table = {0};
    struct view_table_form form = view_form(self->context);
    view_table_add_column(&table, "whole program at best", VIEW_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "share of time", VIEW_RIGHT_TITLE_LEFT, VIEW_FIXED);
    view_table_add_column(&table, "function", VIEW_LEFT, VIEW_FLEXIBLE_NAME);
    if (candidates_is_wide(self))
        view_table_add_column(&table, "image", VIEW_LEFT, VIEW_FLEXIBLE);
    for (size_t i = 0; i < self->unknown.shown; i++) {
        const struct candidate *candidate = &self->unknown.items[i];
        add_bound(self, &table, &candidate->bound);
        view_share_cell(self->context, &table, &candidate->total);
        view_name_cell(self->context, &table, &self->entities, candidate->entity, false);
        if (candidates_is_wide(self))
            view_image_cell(self->context, &table, &self->entities, candidate->entity);
        view_table_row(&table, VIEW_PLAIN);
    }
    candidates_add_hidden(self, &table, &self->unknown);
    view_table_print(&table, &form, self->context->out);
    view_table_free(&table);
}

static void candidates_print_text(struct candidates *self)
{
    struct base_text words = {0};
    print_assumptions(self);
    if (self->calls.counted && self->known.count)
        print_known(self);
    if (self->calls.counted && self->unknown.count) {
        base_text_add(self->context->out, self->known.count ? "\n" : "");
        base_text_add(&words,
                      "How often these were called is not known (not counted, not all counted, or only from "
                      "themselves), so their bound leaves out what invoking them costs:");
        add_paragraph(self, &words);
    }
    if (self->unknown.count)
        print_unknown(self);
    base_text_free(&words);
}

/* --- all of it --- */

static int check_counter(struct view_context *context)
{
    const struct view_selection *selection = &context->selection;
    if (!selection->counter || (!strcmp(selection->unit, "ns") && !selection->peak))
        return 0;
    return base_fail(context->error, BASE_EUSAGE, "candidates need time, and %s is in %s", selection->name,
                     selection->unit);
}

int report_candidates(struct view_context *context)
{
    const struct view_options *options = context->options;
    struct candidates self = {
        .context = context, .assumption = {options->speedup, (double)options->invoke_ns, options->parallel}};
    int code = check_counter(context);
    if (!code)
        code = candidates_gather(&self);
    if (!code && context->json)
        candidates_print_json(&self);
    else if (!code)
        candidates_print_text(&self);
    view_calls_free(&self.calls);
    view_entity_free(&self.entities);
    free(self.sums);
    free(self.known.items);
    free(self.unknown.items);
    free(self.roots.items);
    return code;
}
