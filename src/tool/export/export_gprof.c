/* export_gprof.c - text in the layout of gprof: a flat profile and a call graph. Source: the chapter
 * "Interpreting gprof's Output" of its manual, and what it prints.
 *
 * gprof counts calls and samples addresses, and divides the time of a function among its callers by calls.
 * Here the stacks say for which caller it was spent, so times on lines of callers and callees are measured.
 * As in callgrind's format a stack counts for an arc only if the callee is not on it already further out;
 * then what the callers of a function are given adds up to its total, and no cycle needs to be made one. What
 * leads back into a recursion has calls and no time.
 *
 * Calls are exact, of functions of which any call was counted: arcs that were not counted, which those with
 * an unknown caller are about, then have 0. Lines of callers and callees must have a number, or readers take
 * them for something else: of functions without any count it is the samples below, at least 1. The flat
 * profile leaves its column blank then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "export_flat.h"
#include "export_formats.h"
#include "export_tree.h"
#include "profile_extent.h"

enum { NO_ARC = UINT32_MAX };

struct arc {
    uint32_t caller, callee; /* functions */
    uint64_t calls;          /* exact; 0: not counted */
    struct export_figure self, total;
};

struct gprof {
    struct export_job *job;
    struct export_frames *frames;
    const struct export_tree *tree;
    uint16_t counter;
    struct export_flat flat;
    struct arc *arcs;
    size_t arc_count, arc_capacity;
    struct base_map arc_map;                          /* (caller, callee) -> arc */
    struct export_figure *branch_self, *branch_total; /* while costs are added up */
    uint32_t *on_stack, *entered;                     /* by function: how often, by which arc first */
    uint32_t *order, *number;                         /* functions by total; the index of each, 0: none */
    size_t shown;
    uint32_t *by_caller, *by_callee; /* arcs */
    size_t *callers, *callees;       /* by function: the first in by_callee, in by_caller */
    int decimals;
    struct base_text line;
};

/* --- arcs --- */

static uint32_t function_of(const struct gprof *gprof, uint32_t branch)
{
    return gprof->frames->frames[gprof->tree->branches[branch].frame].function;
}

/* NO_ARC when memory ran out. */
static uint32_t arc_of(struct gprof *gprof, uint32_t caller, uint32_t callee)
{
    uint64_t key = (uint64_t)caller << 32 | callee;
    uint32_t known = base_map_find(&gprof->arc_map, key), index = (uint32_t)gprof->arc_count;
    if (known != BASE_MAP_NONE)
        return known;
    if (!base_array_room(gprof->arcs, gprof->arc_count, gprof->arc_capacity) ||
        !base_map_set(&gprof->arc_map, key, index))
        return NO_ARC;
    gprof->arcs[gprof->arc_count++] = (struct arc){.caller = caller, .callee = callee};
    return index;
}

static bool find_arcs(struct gprof *gprof)
{
    const struct export_branch *branches = gprof->tree->branches;
    for (uint32_t i = 1; i < gprof->tree->count; i++)
        if (branches[i].parent &&
            arc_of(gprof, function_of(gprof, branches[i].parent), function_of(gprof, i)) == NO_ARC)
            return false;
    return true;
}

static bool gprof_add_edges(struct gprof *gprof)
{
    const struct profile *profile = gprof->job->profile;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        size_t count;
        if (!export_tree_takes_edge(profile, gprof->job->options, edge))
            continue;
        const uint32_t *chain = export_frames_chain(gprof->frames, edge->site, &count);
        uint32_t caller = count ? gprof->frames->frames[chain[0]].function : 0;
        chain = export_frames_chain(gprof->frames, edge->callee, &count);
        uint32_t callee = count ? gprof->frames->frames[chain[count - 1]].function : 0;
        uint32_t arc = caller && callee ? arc_of(gprof, caller, callee) : NO_ARC;
        if (arc == NO_ARC)
            return false;
        uint64_t *calls = &gprof->arcs[arc].calls;
        if (__builtin_add_overflow(*calls, edge->calls, calls))
            *calls = UINT64_MAX;
    }
    return true;
}

/* --- times --- */

static bool gprof_enter(void *context, uint32_t branch)
{
    struct gprof *gprof = context;
    const struct profile *profile = gprof->job->profile;
    uint32_t function = function_of(gprof, branch), parent = gprof->tree->branches[branch].parent;
    if (!gprof->on_stack[function]++) {
        gprof->entered[function] = parent ? arc_of(gprof, function_of(gprof, parent), function) : NO_ARC;
        if (parent)
            export_tree_add(profile, gprof->counter, &gprof->arcs[gprof->entered[function]].total,
                            &gprof->branch_total[branch]);
    }
    if (gprof->entered[function] != NO_ARC)
        export_tree_add(profile, gprof->counter, &gprof->arcs[gprof->entered[function]].self,
                        &gprof->branch_self[branch]);
    return true;
}

static void gprof_leave(void *context, uint32_t branch)
{
    struct gprof *gprof = context;
    gprof->on_stack[function_of(gprof, branch)]--;
}

static bool add_times(struct gprof *gprof)
{
    struct export_visitor visitor = {.enter = gprof_enter, .leave = gprof_leave, .context = gprof};
    size_t branches = gprof->tree->count, functions = gprof->frames->function_count;
    gprof->branch_self = calloc(branches, sizeof *gprof->branch_self);
    gprof->branch_total = calloc(branches, sizeof *gprof->branch_total);
    gprof->on_stack = calloc(functions, sizeof *gprof->on_stack);
    gprof->entered = calloc(functions, sizeof *gprof->entered);
    if (!gprof->branch_self || !gprof->branch_total || !gprof->on_stack || !gprof->entered)
        return false;
    export_tree_figures(gprof->tree, gprof->counter, gprof->branch_self, gprof->branch_total);
    return export_tree_walk(gprof->tree, &visitor) &&
           export_flat_sum(gprof->tree, gprof->counter, &gprof->flat);
}

/* --- order --- */

static int compare_descending(int64_t one, int64_t two)
{
    return (one < two) - (one > two);
}

static int gprof_by_total(const void *left, const void *right, void *context)
{
    const struct gprof *gprof = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int result = compare_descending(gprof->flat.total[a].value, gprof->flat.total[b].value);
    if (!result)
        result = strcmp(gprof->frames->names[a], gprof->frames->names[b]);
    return result ? result : (a > b) - (a < b);
}

static int gprof_by_self(const void *left, const void *right, void *context)
{
    const struct gprof *gprof = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int result = compare_descending(gprof->flat.self[a].value, gprof->flat.self[b].value);
    return result ? result : gprof_by_total(left, right, context);
}

/* The heaviest caller stands next to the function, as the heaviest callee does. */
static int by_callee_lightest(const void *left, const void *right, void *context)
{
    const struct gprof *gprof = context;
    const struct arc *a = &gprof->arcs[*(const uint32_t *)left], *b = &gprof->arcs[*(const uint32_t *)right];
    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    int result = compare_descending(b->total.value, a->total.value);
    return result ? result : compare_descending(gprof->number[a->caller], gprof->number[b->caller]);
}

static int by_caller_heaviest(const void *left, const void *right, void *context)
{
    const struct gprof *gprof = context;
    const struct arc *a = &gprof->arcs[*(const uint32_t *)left], *b = &gprof->arcs[*(const uint32_t *)right];
    if (a->caller != b->caller)
        return a->caller < b->caller ? -1 : 1;
    int result = compare_descending(a->total.value, b->total.value);
    return result ? result : compare_descending(gprof->number[b->callee], gprof->number[a->callee]);
}

/* Those with time below them, or an arc. */
static bool number_functions(struct gprof *gprof)
{
    size_t functions = gprof->frames->function_count;
    gprof->order = calloc(functions + 1, sizeof *gprof->order);
    gprof->number = calloc(functions + 1, sizeof *gprof->number);
    if (!gprof->order || !gprof->number)
        return false;
    for (size_t i = 0; i < gprof->arc_count; i++)
        gprof->number[gprof->arcs[i].caller] = gprof->number[gprof->arcs[i].callee] = 1;
    for (uint32_t i = 1; i < functions; i++)
        if (gprof->number[i] || gprof->flat.total[i].value > 0)
            gprof->order[gprof->shown++] = i;
    if (gprof->shown)
        qsort_r(gprof->order, gprof->shown, sizeof *gprof->order, gprof_by_total, gprof);
    for (size_t i = 0; i < gprof->shown; i++)
        gprof->number[gprof->order[i]] = (uint32_t)i + 1;
    return true;
}

static bool sort_arcs(struct gprof *gprof)
{
    size_t functions = gprof->frames->function_count, arcs = gprof->arc_count;
    gprof->by_caller = calloc(arcs + 1, sizeof *gprof->by_caller);
    gprof->by_callee = calloc(arcs + 1, sizeof *gprof->by_callee);
    gprof->callers = calloc(functions + 2, sizeof *gprof->callers);
    gprof->callees = calloc(functions + 2, sizeof *gprof->callees);
    if (!gprof->by_caller || !gprof->by_callee || !gprof->callers || !gprof->callees)
        return false;
    for (uint32_t i = 0; i < arcs; i++) {
        gprof->by_caller[i] = gprof->by_callee[i] = i;
        gprof->callees[gprof->arcs[i].caller + 1]++;
        gprof->callers[gprof->arcs[i].callee + 1]++;
    }
    for (size_t i = 1; i < functions + 2; i++) {
        gprof->callees[i] += gprof->callees[i - 1];
        gprof->callers[i] += gprof->callers[i - 1];
    }
    if (arcs) {
        qsort_r(gprof->by_caller, arcs, sizeof *gprof->by_caller, by_caller_heaviest, gprof);
        qsort_r(gprof->by_callee, arcs, sizeof *gprof->by_callee, by_callee_lightest, gprof);
    }
    return true;
}

/* --- calls --- */

struct calls {
    uint64_t from_others, from_itself;
    bool exact; /* counted; else samples */
};

static uint64_t saturating_sum(uint64_t one, uint64_t two)
{
    uint64_t sum;
    return __builtin_add_overflow(one, two, &sum) ? UINT64_MAX : sum;
}

static bool is_counted(const struct gprof *gprof, uint32_t function)
{
    for (size_t i = gprof->callers[function]; i < gprof->callers[function + 1]; i++)
        if (gprof->arcs[gprof->by_callee[i]].calls)
            return true;
    return false;
}

static uint64_t calls_of_arc(const struct arc *arc, bool counted)
{
    return counted ? arc->calls : arc->total.samples ? arc->total.samples : 1;
}

static struct calls gprof_calls_of(const struct gprof *gprof, uint32_t function)
{
    struct calls calls = {.exact = is_counted(gprof, function)};
    for (size_t i = gprof->callers[function]; i < gprof->callers[function + 1]; i++) {
        const struct arc *arc = &gprof->arcs[gprof->by_callee[i]];
        uint64_t *sum = arc->caller == function ? &calls.from_itself : &calls.from_others;
        *sum = saturating_sum(*sum, calls_of_arc(arc, calls.exact));
    }
    return calls;
}

/* --- text --- */

static double figure_seconds(const struct export_figure *figure)
{
    return (double)figure->value / 1e9;
}

static void gprof_end_line(struct gprof *gprof)
{
    base_text_add(&gprof->line, "\n");
    export_output_bytes(gprof->job->output, base_text_string(&gprof->line), gprof->line.length);
    gprof->job->output->no_memory |= gprof->line.failed;
    base_text_clear(&gprof->line);
}

static void gprof_put(struct gprof *gprof, const char *text)
{
    export_output_text(gprof->job->output, text);
}

static void write_heading(struct gprof *gprof)
{
    const struct profile *profile = gprof->job->profile;
    const char *command = profile_meta(profile, "command");
    struct profile_extent extent = profile_extent_named(profile, PROFILE_CALLS);
    bool counted = profile_extent_has_calls(profile) && export_tree_has_calls(gprof->job->options);
    gprof_put(gprof, gprof->job->options->creator);
    gprof_put(gprof, ", ");
    export_output_name(gprof->job->output, gprof->job->options->file, EXPORT_ESCAPE_LINE);
    gprof_put(gprof, ": ");
    export_output_name(gprof->job->output, command ? command : "", EXPORT_ESCAPE_LINE);
    gprof_put(gprof, "\n\nself      time in the function itself\n"
                     "children  time in what it called, by the stacks that were sampled\n"
                     "          (gprof would divide it among callers by calls)\n");
    gprof_put(gprof, !counted ? ""
                     : profile_extent_is_exact(&extent)
                         ? "calls     counted exactly; blank: not counted\n"
                         : "calls     counted, but not all were; blank: not counted\n");
    gprof_put(gprof, counted ? "called    counted, 0: not here; of functions none of whose calls were\n"
                               "          counted, samples\n"
                             : "calls     blank: none were counted (tally record --calls)\n"
                               "called    samples, for want of calls\n");
    gprof_put(gprof, "          callers and callees: of the function's so many calls, so many\n"
                     "          a call to itself stands behind a +, and has no time: it is in the\n"
                     "          time of the call from outside, as all recursion is\n\n");
}

/* What a time per call is shown in: so that the longest in a function itself has a digit before its point. */
struct unit {
    const char *name;
    double per_second;
};

static double per_call(const struct gprof *gprof, uint32_t function, const struct export_figure *figure)
{
    struct calls calls = gprof_calls_of(gprof, function);
    double count = (double)calls.from_others + (double)calls.from_itself;
    return calls.exact ? figure_seconds(figure) / count : 0;
}

static struct unit choose_unit(const struct gprof *gprof)
{
    static const struct unit units[] = {{"s/call", 1}, {"ms/call", 1e3}, {"us/call", 1e6}, {"ns/call", 1e9}};
    double most = 0;
    for (size_t i = 0; i < gprof->shown; i++) {
        double each = per_call(gprof, gprof->order[i], &gprof->flat.self[gprof->order[i]]);
        most = each > most ? each : most;
    }
    size_t chosen = 0;
    while (chosen < 3 && most * units[chosen].per_second < 1)
        chosen++;
    return most > 0 ? units[chosen] : units[1];
}

static void write_flat_row(struct gprof *gprof, uint32_t function, const struct unit *unit,
                           double *cumulative)
{
    const struct export_figure *self = &gprof->flat.self[function], *total = &gprof->flat.total[function];
    struct calls calls = gprof_calls_of(gprof, function);
    double all = figure_seconds(&gprof->flat.all);
    *cumulative += figure_seconds(self);
    base_text_addf(&gprof->line, "%6.2f %10.*f %8.*f", all > 0 ? 100 * figure_seconds(self) / all : 0,
                   gprof->decimals, *cumulative, gprof->decimals, figure_seconds(self));
    if (calls.exact)
        base_text_addf(&gprof->line, " %8llu %8.2f %8.2f  ",
                       (unsigned long long)saturating_sum(calls.from_others, calls.from_itself),
                       per_call(gprof, function, self) * unit->per_second,
                       per_call(gprof, function, total) * unit->per_second);
    else
        base_text_addf(&gprof->line, " %8s %8s %8s  ", "", "", "");
    base_text_add(&gprof->line, gprof->frames->names[function]);
    gprof_end_line(gprof);
}

static bool write_flat(struct gprof *gprof)
{
    struct unit unit = choose_unit(gprof);
    uint32_t *rows = calloc(gprof->shown + 1, sizeof *rows);
    double cumulative = 0;
    if (!rows)
        return false;
    memcpy(rows, gprof->order, gprof->shown * sizeof *rows);
    if (gprof->shown)
        qsort_r(rows, gprof->shown, sizeof *rows, gprof_by_self, gprof);
    gprof_put(gprof, "Flat profile:\n\n");
    base_text_addf(
        &gprof->line, "Each sample counts as %g seconds.\n",
        gprof->flat.all.samples ? figure_seconds(&gprof->flat.all) / (double)gprof->flat.all.samples : 0);
    base_text_add(&gprof->line, "  %   cumulative   self              self     total           \n");
    base_text_addf(&gprof->line, " time   seconds   seconds    calls %8s %8s  name    ", unit.name,
                   unit.name);
    gprof_end_line(gprof);
    for (size_t i = 0; i < gprof->shown; i++)
        if (gprof->flat.self[rows[i]].value > 0 || is_counted(gprof, rows[i]))
            write_flat_row(gprof, rows[i], &unit, &cumulative);
    free(rows);
    return true;
}

/* A line of a caller or a callee. */
static void write_arc(struct gprof *gprof, const struct arc *arc, uint32_t other)
{
    struct calls all = gprof_calls_of(gprof, arc->callee);
    uint64_t calls = calls_of_arc(arc, all.exact);
    double below = figure_seconds(&arc->total) - figure_seconds(&arc->self);
    if (arc->caller == arc->callee)
        base_text_addf(&gprof->line, "%6s %5s %7s %11s %7llu %7s     ", "", "", "", "",
                       (unsigned long long)calls, "");
    else
        base_text_addf(&gprof->line, "%6s %5s %7.*f %11.*f %7llu/%-7llu     ", "", "", gprof->decimals,
                       figure_seconds(&arc->self), gprof->decimals, below > 0 ? below : 0,
                       (unsigned long long)calls, (unsigned long long)all.from_others);
    base_text_addf(&gprof->line, "%s [%u]", gprof->frames->names[other], gprof->number[other]);
    gprof_end_line(gprof);
}

static void write_primary(struct gprof *gprof, uint32_t function)
{
    const struct export_figure *self = &gprof->flat.self[function], *total = &gprof->flat.total[function];
    struct calls calls = gprof_calls_of(gprof, function);
    double all = figure_seconds(&gprof->flat.all), below = figure_seconds(total) - figure_seconds(self);
    char index[16];
    snprintf(index, sizeof index, "[%u]", gprof->number[function]);
    base_text_addf(&gprof->line, "%-6s %5.1f %7.*f %11.*f", index,
                   all > 0 ? 100 * figure_seconds(total) / all : 0, gprof->decimals, figure_seconds(self),
                   gprof->decimals, below > 0 ? below : 0);
    if (calls.from_itself)
        base_text_addf(&gprof->line, " %7llu+%-7llu ", (unsigned long long)calls.from_others,
                       (unsigned long long)calls.from_itself);
    else if (calls.from_others)
        base_text_addf(&gprof->line, " %7llu %7s ", (unsigned long long)calls.from_others, "");
    else
        base_text_addf(&gprof->line, " %7s %7s ", "", "");
    base_text_addf(&gprof->line, "%s [%u]", gprof->frames->names[function], gprof->number[function]);
    gprof_end_line(gprof);
}

/* Stacks begin with what nobody called. */
static void write_entry(struct gprof *gprof, uint32_t function)
{
    bool called = false;
    for (size_t i = gprof->callers[function]; i < gprof->callers[function + 1]; i++) {
        const struct arc *arc = &gprof->arcs[gprof->by_callee[i]];
        called |= arc->caller != function;
        write_arc(gprof, arc, arc->caller);
    }
    if (!called)
        gprof_put(gprof, "                                                 <spontaneous>\n");
    write_primary(gprof, function);
    for (size_t i = gprof->callees[function]; i < gprof->callees[function + 1]; i++)
        write_arc(gprof, &gprof->arcs[gprof->by_caller[i]], gprof->arcs[gprof->by_caller[i]].callee);
    gprof_put(gprof, "-----------------------------------------------\n");
}

static void write_graph(struct gprof *gprof)
{
    gprof_put(gprof, "\f\n\t\t     Call graph (explanation above)\n\n\n");
    base_text_addf(&gprof->line, "granularity: %llu samples of %.*f seconds\n",
                   (unsigned long long)gprof->flat.all.samples, gprof->decimals,
                   figure_seconds(&gprof->flat.all));
    gprof_end_line(gprof);
    gprof_put(gprof, "index % time    self  children    called     name\n");
    for (size_t i = 0; i < gprof->shown; i++)
        write_entry(gprof, gprof->order[i]);
    gprof_put(gprof, "\n\f\nIndex by function name\n\n");
    for (size_t i = 0; i < gprof->shown; i++) {
        base_text_addf(&gprof->line, "%6s[%zu] %s", "", i + 1, gprof->frames->names[gprof->order[i]]);
        gprof_end_line(gprof);
    }
}

/* --- all of it --- */

static bool gprof_write_all(struct gprof *gprof)
{
    bool done = find_arcs(gprof) && gprof_add_edges(gprof) && add_times(gprof) &&
                export_frames_write_names(gprof->frames, EXPORT_ESCAPE_LINE, false) &&
                number_functions(gprof) && sort_arcs(gprof);
    if (!done)
        return false;
    gprof->decimals = figure_seconds(&gprof->flat.all) < 100 ? 4 : 2;
    write_heading(gprof);
    if (!write_flat(gprof))
        return false;
    write_graph(gprof);
    return true;
}

static void free_gprof(struct gprof *gprof)
{
    export_flat_free(&gprof->flat);
    base_map_free(&gprof->arc_map);
    base_text_free(&gprof->line);
    free(gprof->arcs);
    free(gprof->branch_self);
    free(gprof->branch_total);
    free(gprof->on_stack);
    free(gprof->entered);
    free(gprof->order);
    free(gprof->number);
    free(gprof->by_caller);
    free(gprof->by_callee);
    free(gprof->callers);
    free(gprof->callees);
}

bool export_gprof(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames, .apart = EXPORT_TOGETHER, .marks = true};
    struct gprof gprof = {.job = job, .frames = &frames, .tree = &tree, .counter = job->counters[0]};
    bool done =
        export_frames_init(&frames, job->profile, job->options->inlines ? EXPORT_DETAIL_INLINES : 0u) &&
        export_tree_build(&tree, job->options) && gprof_write_all(&gprof);
    free_gprof(&gprof);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
