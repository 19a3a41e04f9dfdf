/* export_speedscope.c - speedscope's own JSON: one list of frames, and a sampled profile for each counter and
 * process (or thread), the heaviest first. A sample is a stack as numbers of frames, the outermost first, and
 * a weight in the counter's unit. The order of samples is that of the tree, not of time. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "export_formats.h"
#include "export_tree.h"

/* One profile of the document: what lies below one outermost branch, in one counter. */
struct group {
    uint32_t branch;
    uint16_t counter;
    int64_t weight;
};

struct speedscope {
    struct export_job *job;
    const struct export_tree *tree;
    struct group *groups;
    size_t count, capacity;
    struct export_figure *self;
    /* while stacks are written */
    struct base_text stack; /* "12,7,3" */
    size_t *lengths;        /* of `stack`, by depth */
    size_t depth, depth_capacity;
    bool weights, first;
};

/* --- what there is --- */

static int64_t capped_sum(int64_t one, int64_t two)
{
    int64_t sum;
    return __builtin_add_overflow(one, two, &sum) ? INT64_MAX : sum;
}

/* What each branch and all below it weigh. Negative figures cannot be drawn. */
static void speedscope_weigh(const struct speedscope *scope, int64_t *weights)
{
    const struct export_tree *tree = scope->tree;
    for (size_t i = 0; i < tree->count; i++)
        weights[i] = scope->self[i].value > 0 ? scope->self[i].value : 0;
    for (size_t i = tree->count; i-- > 1;) {
        uint32_t parent = tree->branches[i].parent;
        weights[parent] = capped_sum(weights[parent], weights[i]);
    }
}

/* What has no weight is worth no line in a menu. */
static bool find_groups(struct speedscope *scope)
{
    const struct export_tree *tree = scope->tree;
    int64_t *weights = calloc(tree->count, sizeof *weights);
    bool done = weights != NULL;
    for (size_t c = 0; done && c < scope->job->counter_count; c++) {
        uint16_t counter = scope->job->counters[c];
        export_tree_figures(tree, counter, scope->self, NULL);
        speedscope_weigh(scope, weights);
        for (uint32_t i = tree->first[0]; done && i < tree->first[1]; i++) {
            struct group group = {tree->next[i], counter, weights[tree->next[i]]};
            done = base_array_room(scope->groups, scope->count, scope->capacity);
            if (done && group.weight > 0)
                scope->groups[scope->count++] = group;
        }
    }
    free(weights);
    return done;
}

/* By counter, then the heaviest first. */
static int by_weight(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    if (x->counter != y->counter)
        return x->counter < y->counter ? -1 : 1;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return (x->branch > y->branch) - (x->branch < y->branch);
}

/* --- the document --- */

static void write_frames(struct speedscope *scope)
{
    struct export_output *output = scope->job->output;
    const struct export_frames *frames = scope->tree->frames;
    export_output_text(output, "\"shared\":{\"frames\":[");
    for (uint32_t i = 1; i < frames->function_count; i++) {
        const char *file = profile_text(frames->profile, frames->functions[i].file);
        export_output_text(output, i > 1 ? ",\n{\"name\":" : "\n{\"name\":");
        export_output_text(output, frames->names[i]);
        if (!*file)
            file = export_frames_image(frames, i);
        if (*file) {
            export_output_text(output, ",\"file\":");
            export_output_name(output, file, EXPORT_ESCAPE_JSON);
        }
        export_output_text(output, "}");
    }
    export_output_text(output, "]},\n");
}

/* The stack of the branch above, and this one: by depth, so that leaving needs no arithmetic. */
static bool speedscope_enter(struct speedscope *scope, uint32_t branch)
{
    char digits[16];
    uint32_t function = scope->tree->frames->frames[scope->tree->branches[branch].frame].function;
    if (!base_array_room(scope->lengths, scope->depth, scope->depth_capacity))
        return false;
    scope->lengths[scope->depth++] = scope->stack.length;
    size_t at = sizeof digits;
    for (uint32_t number = function - 1;; number /= 10) {
        digits[--at] = (char)('0' + number % 10);
        if (number < 10)
            break;
    }
    if (scope->stack.length)
        digits[--at] = ',';
    base_text_add_bytes(&scope->stack, digits + at, sizeof digits - at);
    return !scope->stack.failed;
}

static void write_item(struct speedscope *scope, uint32_t branch)
{
    struct export_output *output = scope->job->output;
    if (scope->self[branch].value <= 0)
        return;
    if (!scope->first)
        export_output_bytes(output, ",", 1);
    scope->first = false;
    if (scope->weights) {
        export_output_integer(output, scope->self[branch].value);
        return;
    }
    export_output_bytes(output, "[", 1);
    export_output_bytes(output, scope->stack.data, scope->stack.length);
    export_output_bytes(output, "]", 1);
}

/* Everything below `top`, depth first; twice in the same order, once for stacks and once for weights. */
static bool write_below(struct speedscope *scope, uint32_t top, uint32_t *pending)
{
    const struct export_tree *tree = scope->tree;
    size_t waiting = 0;
    uint32_t at = top;
    scope->first = true;
    scope->depth = 0;
    base_text_clear(&scope->stack);
    for (pending[waiting++] = top; waiting;) {
        uint32_t branch = pending[--waiting];
        if (branch != top) {
            for (; at != tree->branches[branch].parent; at = tree->branches[at].parent)
                scope->stack.length = scope->lengths[--scope->depth];
            if (!speedscope_enter(scope, branch))
                return false;
            write_item(scope, branch);
            at = branch;
        }
        for (uint32_t i = tree->first[branch + 1]; i-- > tree->first[branch];)
            pending[waiting++] = tree->next[i];
    }
    return true;
}

static const char *unit_of(const char *unit)
{
    static const char *const units[][2] = {{"ns", "nanoseconds"},  {"us", "microseconds"},
                                           {"ms", "milliseconds"}, {"s", "seconds"},
                                           {"bytes", "bytes"},     {"B", "bytes"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i][0]))
            return units[i][1];
    return "none";
}

/* "bench 4711: time.cpu" */
static void write_title(struct speedscope *scope, const struct group *group)
{
    const struct profile *profile = scope->job->profile;
    const struct export_frames *frames = scope->tree->frames;
    struct base_text title = {0};
    if (group->branch) {
        export_frames_name(frames, frames->frames[scope->tree->branches[group->branch].frame].function,
                           &title);
        base_text_add(&title, ": ");
    }
    base_text_add(&title, group->counter ? profile_text(profile, profile->counters[group->counter].name)
                                         : "no samples");
    export_output_name(scope->job->output, base_text_string(&title), EXPORT_ESCAPE_JSON);
    scope->job->output->no_memory |= title.failed;
    base_text_free(&title);
}

static bool write_group(struct speedscope *scope, const struct group *group, uint32_t *pending)
{
    struct export_output *output = scope->job->output;
    const struct profile *profile = scope->job->profile;
    const char *unit = group->counter ? profile_text(profile, profile->counters[group->counter].unit) : "ns";
    export_output_text(output, "{\"type\":\"sampled\",\"name\":");
    write_title(scope, group);
    export_output_text(output, ",\"unit\":\"");
    export_output_text(output, unit_of(unit));
    export_output_text(output, "\",\"startValue\":0,\"endValue\":");
    export_output_integer(output, group->weight);
    export_output_text(output, ",\n\"samples\":[");
    scope->weights = false;
    bool done = !group->branch || write_below(scope, group->branch, pending);
    export_output_text(output, "],\n\"weights\":[");
    scope->weights = true;
    done = done && (!group->branch || write_below(scope, group->branch, pending));
    export_output_text(output, "]}");
    return done;
}

static bool write_groups(struct speedscope *scope)
{
    struct export_output *output = scope->job->output;
    uint32_t *pending = calloc(scope->tree->count + 1, sizeof *pending);
    bool done = pending != NULL;
    uint16_t of = 0;
    export_output_text(output, "\"profiles\":[\n");
    for (size_t i = 0; done && i < scope->count; i++) {
        if (scope->groups[i].counter != of)
            export_tree_figures(scope->tree, scope->groups[i].counter, scope->self, NULL);
        of = scope->groups[i].counter;
        export_output_text(output, i ? ",\n" : "");
        done = write_group(scope, &scope->groups[i], pending);
    }
    if (done && !scope->count) /* readers want at least one */
        done = write_group(scope, &(struct group){0}, pending);
    export_output_text(output, "]}\n");
    free(pending);
    return done;
}

static bool write_document(struct speedscope *scope)
{
    struct export_output *output = scope->job->output;
    const struct export_options *options = scope->job->options;
    const char *command = profile_meta(scope->job->profile, "command");
    if (scope->count)
        qsort(scope->groups, scope->count, sizeof *scope->groups, by_weight);
    export_output_text(output,
                       "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n\"name\":");
    export_output_name(output, command && *command ? command : options->file, EXPORT_ESCAPE_JSON);
    export_output_text(output, ",\"exporter\":");
    export_output_name(output, options->creator, EXPORT_ESCAPE_JSON);
    export_output_text(output, ",\"activeProfileIndex\":0,\n");
    write_frames(scope);
    return write_groups(scope);
}

bool export_speedscope(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames,
                               .apart = job->options->threads ? EXPORT_BY_THREAD : EXPORT_BY_PROCESS,
                               .marks = true};
    struct speedscope scope = {.job = job, .tree = &tree};
    bool done = export_frames_init(&frames, job->profile, EXPORT_DETAIL_INLINES) &&
                export_tree_build(&tree, job->options) &&
                export_frames_write_names(&frames, EXPORT_ESCAPE_JSON, false);
    scope.self = done ? calloc(tree.count, sizeof *scope.self) : NULL;
    done = scope.self && find_groups(&scope) && write_document(&scope);
    base_text_free(&scope.stack);
    free(scope.lengths);
    free(scope.groups);
    free(scope.self);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
