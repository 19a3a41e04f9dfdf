/* export_callgrind.c - the format of callgrind: a graph of functions, not a tree. Source: the chapter
 * "Callgrind Format Specification" of Valgrind's manual.
 *
 * What is spent in a function itself stands at its lines; code inlined into it at the lines it came from,
 * behind "fi=" (or, wanted so, as functions of its own). Each call that a stack shows is an arc from the line
 * of the call to the callee, with what was spent below it.
 *
 * A tree has one figure for a function however often it recurs in a stack, a graph of arcs cannot have. Here
 * a stack counts for an arc only if the callee is not on it already further out: what flows into a function
 * is then its total, recursive or not, as callgrind_annotate adds it up; arcs that lead back into a recursion
 * carry calls and no costs. For the outermost functions to have something that flows into them, each process
 * is a function that calls them.
 *
 * Calls are exact where an edge was counted, else the number of samples that lay below, at least 1: a reader
 * takes the line of an arc without calls for one of the function's own. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "export_column.h"
#include "export_formats.h"
#include "export_tree.h"
#include "profile_extent.h"

struct arc {
    uint32_t caller, callee; /* frame, function */
    uint64_t calls;          /* exact; 0: not counted */
};

struct graph {
    struct export_job *job;
    struct export_frames *frames;
    const struct export_tree *tree;
    size_t columns;
    struct arc *arcs;
    size_t arc_count, arc_capacity;
    struct base_map arc_map; /* (caller, callee) -> arc */
    int64_t *self;           /* by frame and column */
    int64_t *below;          /* by arc and column */
    int64_t *all;            /* by column */
    uint32_t *frame_order;   /* by function, then file and line */
    uint32_t *arc_order;     /* by caller, then callee */
    /* while costs are added up */
    struct export_figure *branch_self, *branch_total;
    uint32_t *on_stack; /* by function */
    uint16_t counter;
    /* while it is written: which names have their number already */
    bool *knows_file, *knows_image, *knows_function;
    size_t next_arc;
};

static void callgrind_add(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, more, sum))
        *sum = more < 0 ? INT64_MIN : INT64_MAX;
}

/* --- arcs --- */

static uint64_t callgrind_key_of(uint32_t caller, uint32_t callee)
{
    return (uint64_t)caller << 32 | callee;
}

/* BASE_MAP_NONE when memory ran out. */
static uint32_t arc_of(struct graph *graph, uint32_t caller, uint32_t callee)
{
    uint32_t known = base_map_find(&graph->arc_map, callgrind_key_of(caller, callee));
    if (known != BASE_MAP_NONE)
        return known;
    uint32_t index = (uint32_t)graph->arc_count;
    if (!base_array_room(graph->arcs, graph->arc_count, graph->arc_capacity) ||
        !base_map_set(&graph->arc_map, callgrind_key_of(caller, callee), index))
        return BASE_MAP_NONE;
    graph->arcs[graph->arc_count++] = (struct arc){caller, callee, 0};
    return index;
}

static uint32_t callgrind_function_at(const struct graph *graph, uint32_t branch)
{
    return graph->frames->frames[graph->tree->branches[branch].frame].function;
}

static bool find_arcs(struct graph *graph)
{
    const struct export_branch *branches = graph->tree->branches;
    for (uint32_t i = 1; i < graph->tree->count; i++)
        if (branches[i].parent && arc_of(graph, branches[branches[i].parent].frame,
                                         callgrind_function_at(graph, i)) == BASE_MAP_NONE)
            return false;
    return true;
}

/* A call is made by what is innermost at its site, and reaches the function, not what is inlined at its
 * beginning. */
static bool callgrind_add_edges(struct graph *graph)
{
    const struct profile *profile = graph->job->profile;
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        size_t count;
        if (!export_tree_takes_edge(profile, graph->job->options, edge))
            continue;
        const uint32_t *chain = export_frames_chain(graph->frames, edge->site, &count);
        uint32_t caller = count ? chain[0] : 0;
        chain = export_frames_chain(graph->frames, edge->callee, &count);
        if (!caller || !count)
            return false;
        uint32_t arc = arc_of(graph, caller, graph->frames->frames[chain[count - 1]].function);
        if (arc == BASE_MAP_NONE)
            return false;
        uint64_t *calls = &graph->arcs[arc].calls;
        if (__builtin_add_overflow(*calls, edge->calls, calls))
            *calls = UINT64_MAX;
    }
    return true;
}

/* --- costs --- */

static void callgrind_add_columns(const struct graph *graph, int64_t *costs,
                                  const struct export_figure *figure)
{
    for (size_t c = 0; c < graph->columns; c++)
        if (graph->job->columns[c].counter == graph->counter)
            callgrind_add(&costs[c], graph->job->columns[c].samples ? (int64_t)(figure->samples & INT64_MAX)
                                                                    : figure->value);
}

static bool callgrind_enter(void *context, uint32_t branch)
{
    struct graph *graph = context;
    const struct export_branch *it = &graph->tree->branches[branch];
    uint32_t function = callgrind_function_at(graph, branch);
    callgrind_add_columns(graph, &graph->self[it->frame * graph->columns], &graph->branch_self[branch]);
    callgrind_add_columns(graph, graph->all, &graph->branch_self[branch]);
    if (graph->on_stack[function]++ || !it->parent)
        return true;
    uint32_t arc =
        base_map_find(&graph->arc_map, callgrind_key_of(graph->tree->branches[it->parent].frame, function));
    callgrind_add_columns(graph, &graph->below[arc * graph->columns], &graph->branch_total[branch]);
    return true;
}

static void callgrind_leave(void *context, uint32_t branch)
{
    struct graph *graph = context;
    graph->on_stack[callgrind_function_at(graph, branch)]--;
}

static bool add_costs(struct graph *graph)
{
    struct export_visitor visitor = {.enter = callgrind_enter, .leave = callgrind_leave, .context = graph};
    bool done = true;
    for (size_t i = 0; done && i < graph->job->counter_count; i++) {
        graph->counter = graph->job->counters[i];
        export_tree_figures(graph->tree, graph->counter, graph->branch_self, graph->branch_total);
        done = export_tree_walk(graph->tree, &visitor);
    }
    return done;
}

/* --- order --- */

/* What lies in the function's own file comes first: it needs no "fi=". */
static int callgrind_by_place(const void *a, const void *b, void *context)
{
    const struct export_frames *frames = context;
    const struct export_frame *x = &frames->frames[*(const uint32_t *)a],
                              *y = &frames->frames[*(const uint32_t *)b];
    if (x->function != y->function)
        return x->function < y->function ? -1 : 1;
    uint32_t own = frames->functions[x->function].file;
    if ((x->file == own) != (y->file == own))
        return x->file == own ? -1 : 1;
    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

struct arc_context {
    const struct arc *arcs;
    const uint32_t *position; /* of frames */
};

static int by_caller(const void *a, const void *b, void *context)
{
    const struct arc_context *order = context;
    const struct arc *x = &order->arcs[*(const uint32_t *)a], *y = &order->arcs[*(const uint32_t *)b];
    if (x->caller != y->caller)
        return order->position[x->caller] < order->position[y->caller] ? -1 : 1;
    return (x->callee > y->callee) - (x->callee < y->callee);
}

static bool callgrind_put_in_order(struct graph *graph)
{
    size_t frames = graph->frames->frame_count;
    uint32_t *position = calloc(frames + 1, sizeof *position);
    graph->frame_order = calloc(frames + 1, sizeof *graph->frame_order);
    graph->arc_order = calloc(graph->arc_count + 1, sizeof *graph->arc_order);
    bool done = position && graph->frame_order && graph->arc_order;
    if (done) {
        for (size_t i = 1; i < frames; i++)
            graph->frame_order[i - 1] = (uint32_t)i;
        qsort_r(graph->frame_order, frames - 1, sizeof *graph->frame_order, callgrind_by_place,
                graph->frames);
        for (size_t i = 0; i + 1 < frames; i++)
            position[graph->frame_order[i]] = (uint32_t)i;
        for (size_t i = 0; i < graph->arc_count; i++)
            graph->arc_order[i] = (uint32_t)i;
        struct arc_context context = {graph->arcs, position};
        qsort_r(graph->arc_order, graph->arc_count, sizeof *graph->arc_order, by_caller, &context);
    }
    free(position);
    return done;
}

/* --- the file --- */

/* "fl=(7) name" where it is new, then "fl=(7)". Numbers begin with 1. */
static void write_name(struct graph *graph, const char *key, uint32_t number, bool *known, const char *name)
{
    struct export_output *output = graph->job->output;
    export_output_text(output, key);
    export_output_text(output, "=(");
    export_output_unsigned(output, (uint64_t)number + 1);
    export_output_text(output, ")");
    if (!known[number]) {
        export_output_text(output, " ");
        export_output_name(output, *name ? name : "???", EXPORT_ESCAPE_LINE);
    }
    known[number] = true;
    export_output_text(output, "\n");
}

static void write_file(struct graph *graph, const char *key, uint32_t file)
{
    write_name(graph, key, file, graph->knows_file, profile_text(graph->job->profile, file));
}

static void write_image(struct graph *graph, const char *key, uint32_t function)
{
    const struct profile *profile = graph->job->profile;
    uint32_t image = graph->frames->functions[function].image;
    write_name(graph, key, image, graph->knows_image, profile_text(profile, profile->images[image].path));
}

static void write_function(struct graph *graph, const char *key, uint32_t function)
{
    write_name(graph, key, function, graph->knows_function, graph->frames->names[function]);
}

static void write_costs(struct graph *graph, uint32_t line, const int64_t *costs)
{
    struct export_output *output = graph->job->output;
    export_output_unsigned(output, line);
    for (size_t c = 0; c < graph->columns; c++) {
        export_output_text(output, " ");
        export_output_unsigned(output, costs[c] > 0 ? (uint64_t)costs[c] : 0);
    }
    export_output_text(output, "\n");
}

/* How often an arc was taken: counted, or what samples suggest. */
static uint64_t callgrind_calls_of(const struct graph *graph, uint32_t arc)
{
    int64_t most = 1;
    if (graph->arcs[arc].calls)
        return graph->arcs[arc].calls;
    for (size_t c = 0; c < graph->columns; c++)
        if (graph->job->columns[c].samples && graph->below[arc * graph->columns + c] > most)
            most = graph->below[arc * graph->columns + c];
    return (uint64_t)most;
}

static void write_arc(struct graph *graph, uint32_t arc, uint32_t line)
{
    uint32_t callee = graph->arcs[arc].callee;
    write_image(graph, "cob", callee);
    write_file(graph, "cfi", graph->frames->functions[callee].file);
    write_function(graph, "cfn", callee);
    export_output_text(graph->job->output, "calls=");
    export_output_unsigned(graph->job->output, callgrind_calls_of(graph, arc));
    export_output_text(graph->job->output, " 0\n");
    write_costs(graph, line, &graph->below[arc * graph->columns]);
}

static bool is_nothing(const struct graph *graph, const int64_t *costs)
{
    for (size_t c = 0; c < graph->columns; c++)
        if (costs[c] > 0)
            return false;
    return true;
}

/* One place of a function, and the calls made there. Arcs are in the order of their places. */
static void write_place(struct graph *graph, uint32_t frame, uint32_t *file)
{
    const struct export_frame *it = &graph->frames->frames[frame];
    const int64_t *costs = &graph->self[frame * graph->columns];
    bool calls =
        graph->next_arc < graph->arc_count && graph->arcs[graph->arc_order[graph->next_arc]].caller == frame;
    bool nothing = is_nothing(graph, costs);
    if (nothing && !calls)
        return;
    if (it->file != *file)
        write_file(graph, "fi", it->file);
    *file = it->file;
    if (!nothing)
        write_costs(graph, it->line, costs);
    while (graph->next_arc < graph->arc_count &&
           graph->arcs[graph->arc_order[graph->next_arc]].caller == frame)
        write_arc(graph, graph->arc_order[graph->next_arc++], it->line);
}

static void write_body(struct graph *graph)
{
    uint32_t function = 0, file = 0;
    for (size_t i = 0; i + 1 < graph->frames->frame_count; i++) {
        uint32_t frame = graph->frame_order[i];
        if (graph->frames->frames[frame].function != function) {
            function = graph->frames->frames[frame].function;
            file = graph->frames->functions[function].file;
            export_output_text(graph->job->output, "\n");
            write_image(graph, "ob", function);
            write_file(graph, "fl", file);
            write_function(graph, "fn", function);
        }
        write_place(graph, frame, &file);
    }
    export_output_text(graph->job->output, "\ntotals:");
    for (size_t c = 0; c < graph->columns; c++) {
        export_output_text(graph->job->output, " ");
        export_output_unsigned(graph->job->output, graph->all[c] > 0 ? (uint64_t)graph->all[c] : 0);
    }
    export_output_text(graph->job->output, "\n");
}

/* Names of events are words; the counter's own name and unit go into the long one. */
static void write_events(struct graph *graph)
{
    const struct profile *profile = graph->job->profile;
    struct export_output *output = graph->job->output;
    struct base_text words = {0}, name = {0};
    for (size_t c = 0; c < graph->columns; c++) {
        const struct export_column *column = &graph->job->columns[c];
        base_text_clear(&name);
        export_column_name(graph->job, column, &name);
        base_text_addf(&words, "%s", c ? " " : "");
        size_t from = words.length;
        base_text_add(&words, base_text_string(&name));
        for (size_t i = from; i < words.length; i++)
            if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", words.data[i]))
                words.data[i] = '_';
        export_output_text(output, "event: ");
        export_output_text(output, base_text_string(&words) + from);
        export_output_text(output, " : ");
        export_output_name(output, base_text_string(&name), EXPORT_ESCAPE_LINE);
        export_output_text(output, " (");
        export_output_name(output,
                           column->samples ? "samples"
                                           : profile_text(profile, profile->counters[column->counter].unit),
                           EXPORT_ESCAPE_LINE);
        export_output_text(output, ")\n");
    }
    export_output_text(output, "events: ");
    export_output_text(output, words.length ? base_text_string(&words) : "none");
    export_output_text(output, "\n");
    output->no_memory |= words.failed || name.failed;
    base_text_free(&words);
    base_text_free(&name);
}

static void write_header(struct graph *graph)
{
    struct export_output *output = graph->job->output;
    const char *command = profile_meta(graph->job->profile, "command");
    struct profile_extent extent = profile_extent_named(graph->job->profile, PROFILE_CALLS);
    bool counted =
        profile_extent_has_calls(graph->job->profile) && export_tree_has_calls(graph->job->options);
    export_output_text(output, "# callgrind format\nversion: 1\ncreator: ");
    export_output_name(output, graph->job->options->creator, EXPORT_ESCAPE_LINE);
    export_output_text(output, "\ncmd: ");
    export_output_name(output, command ? command : graph->job->options->file, EXPORT_ESCAPE_LINE);
    export_output_text(output, "\ndesc: Profile: ");
    export_output_name(output, graph->job->options->file, EXPORT_ESCAPE_LINE);
    export_output_text(output,
                       !counted ? "\ndesc: Calls: none were counted, these are samples\n"
                       : profile_extent_is_exact(&extent)
                           ? "\ndesc: Calls: exact where they were counted, else samples\n"
                           : "\ndesc: Calls: exact for what was counted, which is not all; else samples\n");
    export_output_text(output, "positions: line\n");
    write_events(graph);
}

/* --- all of it --- */

/* Files are named by strings: one flag for each up to the highest. */
static bool *files_known(const struct export_frames *frames)
{
    size_t highest = 0;
    for (size_t i = 0; i < frames->function_count; i++)
        if (frames->functions[i].file > highest)
            highest = frames->functions[i].file;
    for (size_t i = 0; i < frames->frame_count; i++)
        if (frames->frames[i].file > highest)
            highest = frames->frames[i].file;
    return calloc(highest + 1, sizeof(bool));
}

static bool make_room(struct graph *graph)
{
    const struct profile *profile = graph->job->profile;
    size_t columns = graph->columns + 1, functions = graph->frames->function_count;
    graph->self = calloc(graph->frames->frame_count * columns, sizeof *graph->self);
    graph->below = calloc((graph->arc_count + 1) * columns, sizeof *graph->below);
    graph->all = calloc(columns, sizeof *graph->all);
    graph->branch_self = calloc(graph->tree->count, sizeof *graph->branch_self);
    graph->branch_total = calloc(graph->tree->count, sizeof *graph->branch_total);
    graph->on_stack = calloc(functions, sizeof *graph->on_stack);
    graph->knows_file = files_known(graph->frames);
    graph->knows_image = calloc(profile->image_count, sizeof *graph->knows_image);
    graph->knows_function = calloc(functions, sizeof *graph->knows_function);
    return graph->self && graph->below && graph->all && graph->branch_self && graph->branch_total &&
           graph->on_stack && graph->knows_file && graph->knows_image && graph->knows_function;
}

static void free_graph(struct graph *graph)
{
    free(graph->arcs);
    base_map_free(&graph->arc_map);
    free(graph->self);
    free(graph->below);
    free(graph->all);
    free(graph->frame_order);
    free(graph->arc_order);
    free(graph->branch_self);
    free(graph->branch_total);
    free(graph->on_stack);
    free(graph->knows_file);
    free(graph->knows_image);
    free(graph->knows_function);
}

static bool write_graph(struct graph *graph)
{
    bool done = find_arcs(graph) && callgrind_add_edges(graph) && make_room(graph) && add_costs(graph) &&
                callgrind_put_in_order(graph) &&
                export_frames_write_names(graph->frames, EXPORT_ESCAPE_LINE, false);
    if (done) {
        write_header(graph);
        write_body(graph);
    }
    return done;
}

bool export_callgrind(struct export_job *job)
{
    unsigned detail = EXPORT_DETAIL_LINES | (job->options->inlines ? EXPORT_DETAIL_INLINES : 0u);
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames, .apart = EXPORT_BY_PROCESS, .marks = true};
    struct graph graph = {.job = job, .frames = &frames, .tree = &tree, .columns = job->column_count};
    bool done = export_frames_init(&frames, job->profile, detail) && export_tree_build(&tree, job->options) &&
                write_graph(&graph);
    free_graph(&graph);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
