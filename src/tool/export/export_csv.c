/* export_csv.c - tables for spreadsheets and scripts: a line of column names, then RFC 4180. What does not
 * apply is empty. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "export_flat.h"
#include "export_formats.h"
#include "export_tree.h"
#include "profile_extent.h"

static const char *const combines[] = {"", "sum", "peak", "live"};
static const char *const call_kinds[PROFILE_CALL_KINDS] = {"", "direct", "indirect", "tail", "entry"};

/* --- fields --- */

static void put_comma(struct export_job *job)
{
    export_output_bytes(job->output, ",", 1);
}

static void csv_end_line(struct export_job *job)
{
    export_output_bytes(job->output, "\n", 1);
}

static void add_text(struct export_job *job, const char *text)
{
    put_comma(job);
    export_output_name(job->output, text, EXPORT_ESCAPE_CSV);
}

static void add_string(struct export_job *job, uint32_t string)
{
    add_text(job, profile_text(job->profile, string));
}

static void add_unsigned(struct export_job *job, uint64_t value)
{
    put_comma(job);
    export_output_unsigned(job->output, value);
}

static void csv_add_figure(struct export_job *job, const struct export_figure *figure)
{
    put_comma(job);
    export_output_integer(job->output, figure->value);
    add_unsigned(job, figure->samples);
}

static void add_real(struct export_job *job, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.8g", value);
    char *point = strchr(digits, ','); /* the decimal point of some locales */
    if (point)
        *point = '.';
    put_comma(job);
    export_output_text(job->output, digits);
}

/* The first two columns of most tables. */
static void begin_counter(struct export_job *job, uint16_t counter)
{
    export_output_name(job->output, profile_text(job->profile, job->profile->counters[counter].name),
                       EXPORT_ESCAPE_CSV);
    add_string(job, job->profile->counters[counter].unit);
}

/* Its name, which export_frames_write_names has made, and its image. */
static void csv_add_function(struct export_job *job, const struct export_frames *frames, uint32_t function)
{
    put_comma(job);
    export_output_text(job->output, frames->names[function]);
    add_text(job, export_frames_image(frames, function));
}

static void add_process(struct export_job *job, uint32_t process)
{
    const struct profile_process *it = &job->profile->processes[process];
    add_string(job, it->name);
    put_comma(job);
    if (process)
        export_output_integer(job->output, it->pid);
}

/* Of merged profiles: which recording. The last column, for it is mostly empty. */
static void end_with_origin(struct export_job *job, uint32_t process)
{
    const char *origin = profile_origin(job->profile, job->profile->processes[process].origin, "name");
    add_text(job, origin ? origin : "");
    csv_end_line(job);
}

static void csv_add_thread(struct export_job *job, uint32_t thread)
{
    const struct profile_thread *it = &job->profile->threads[thread];
    add_process(job, it->process);
    add_string(job, it->name);
    put_comma(job);
    if (thread)
        export_output_integer(job->output, it->tid);
}

/* --- flat --- */

struct row {
    uint32_t function;
    struct export_figure self, total;
};

static int by_figures(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->self.value != y->self.value)
        return x->self.value > y->self.value ? -1 : 1;
    if (x->total.value != y->total.value)
        return x->total.value > y->total.value ? -1 : 1;
    return (x->function > y->function) - (x->function < y->function);
}

static void add_share(struct export_job *job, uint16_t counter, const struct export_flat *flat,
                      const struct export_figure *figure)
{
    const struct profile_counter *it = &job->profile->counters[counter];
    struct export_share share = export_flat_share(flat, figure);
    if (it->combine == PROFILE_PEAK) {
        export_output_text(job->output, ",,,");
        return;
    }
    add_real(job, share.share);
    if (it->exact) {
        export_output_text(job->output, ",,");
        return;
    }
    add_real(job, share.low);
    add_real(job, share.high);
}

/* calls: by function; NULL: none were counted. */
static void write_flat_row(struct export_job *job, uint16_t counter, const struct export_frames *frames,
                           const struct export_flat *flat, const struct row *row, const uint64_t *calls)
{
    begin_counter(job, counter);
    csv_add_function(job, frames, row->function);
    add_string(job, frames->functions[row->function].file);
    csv_add_figure(job, &row->self);
    add_share(job, counter, flat, &row->self);
    csv_add_figure(job, &row->total);
    add_share(job, counter, flat, &row->total);
    if (calls)
        add_unsigned(job, calls[row->function]);
    else
        put_comma(job);
    csv_end_line(job);
}

static bool write_flat_of(struct export_job *job, const struct export_tree *tree, uint16_t counter,
                          const uint64_t *calls)
{
    struct export_flat flat = {0};
    struct row *rows = calloc(tree->frames->function_count, sizeof *rows);
    bool done = export_flat_sum(tree, counter, &flat) && rows;
    size_t count = 0;
    for (uint32_t i = 1; done && i < flat.count; i++)
        if (flat.total[i].samples || flat.total[i].value || (calls && calls[i]))
            rows[count++] = (struct row){i, flat.self[i], flat.total[i]};
    if (count)
        qsort(rows, count, sizeof *rows, by_figures);
    for (size_t i = 0; i < count; i++)
        write_flat_row(job, counter, tree->frames, &flat, &rows[i], calls);
    free(rows);
    export_flat_free(&flat);
    return done;
}

/* Calls into each function. Those that no sample has met become known here. */
static bool csv_count_calls(const struct export_job *job, struct export_frames *frames, uint64_t **calls)
{
    const struct profile *profile = job->profile;
    size_t count;
    for (size_t i = 1; i < profile->edge_count; i++)
        if (!export_frames_chain(frames, profile->edges[i].callee, &count))
            return false;
    *calls = calloc(frames->function_count, sizeof **calls);
    for (size_t i = 1; *calls && i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        const uint32_t *chain = export_frames_chain(frames, edge->callee, &count);
        uint64_t *sum = &(*calls)[frames->frames[chain[count - 1]].function];
        if (export_tree_takes_edge(profile, job->options, edge) &&
            __builtin_add_overflow(*sum, edge->calls, sum))
            *sum = UINT64_MAX;
    }
    return *calls != NULL;
}

static bool write_flat(struct export_job *job, struct export_tree *tree)
{
    uint64_t *calls = NULL;
    bool done = export_tree_build(tree, job->options) && csv_count_calls(job, tree->frames, &calls) &&
                export_frames_write_names(tree->frames, EXPORT_ESCAPE_CSV, false);
    export_output_text(job->output, "counter,unit,function,image,file,self,self_samples,self_share,self_low,"
                                    "self_high,total,total_samples,total_share,total_low,total_high,calls\n");
    bool counted = profile_extent_has_calls(job->profile);
    for (size_t i = 0; done && i < job->counter_count; i++)
        done = write_flat_of(job, tree, job->counters[i], counted ? calls : NULL);
    free(calls);
    return done;
}

/* --- tree --- */

struct branches {
    struct export_job *job;
    const struct export_tree *tree;
    uint16_t counter;
    const struct export_figure *self, *total;
    uint64_t depth; /* of the frame above, 0 for a process */
};

static bool enter_branch(void *context, uint32_t branch)
{
    struct branches *branches = context;
    const struct export_figure *total = &branches->total[branch];
    const struct export_branch *it = &branches->tree->branches[branch];
    const struct export_frames *frames = branches->tree->frames;
    struct export_job *job = branches->job;
    uint64_t depth = branches->depth++;
    if (!depth || (!total->samples && !total->value))
        return true;
    begin_counter(job, branches->counter);
    add_process(job, job->profile->threads[it->thread].process);
    add_unsigned(job, branch);
    put_comma(job);
    if (depth > 1)
        export_output_unsigned(job->output, it->parent);
    add_unsigned(job, depth);
    csv_add_function(job, frames, frames->frames[it->frame].function);
    add_string(job, frames->functions[frames->frames[it->frame].function].file);
    csv_add_figure(job, &branches->self[branch]);
    csv_add_figure(job, total);
    end_with_origin(job, job->profile->threads[it->thread].process);
    return true;
}

static void leave_branch(void *context, uint32_t branch)
{
    struct branches *branches = context;
    (void)branch;
    branches->depth--;
}

static bool write_tree(struct export_job *job, struct export_tree *tree)
{
    bool done = export_tree_build(tree, job->options) &&
                export_frames_write_names(tree->frames, EXPORT_ESCAPE_CSV, false);
    struct export_figure *self = calloc(tree->count + 1, sizeof *self),
                         *total = calloc(tree->count + 1, sizeof *total);
    export_output_text(job->output, "counter,unit,process,pid,branch,parent,depth,function,image,file,self,"
                                    "self_samples,total,total_samples,origin\n");
    done = done && self && total;
    for (size_t i = 0; done && i < job->counter_count; i++) {
        struct branches branches = {
            .job = job, .tree = tree, .counter = job->counters[i], .self = self, .total = total};
        struct export_visitor visitor = {.enter = enter_branch, .leave = leave_branch, .context = &branches};
        export_tree_figures(tree, job->counters[i], self, total);
        done = export_tree_walk(tree, &visitor);
    }
    free(self);
    free(total);
    return done;
}

/* --- edges --- */

/* A call is made by what is innermost at its site and reaches a function, not what is inlined at its
 * beginning. */
static bool end_of(struct export_frames *frames, uint32_t address, bool callee, struct export_frame *frame)
{
    size_t count;
    const uint32_t *chain = export_frames_chain(frames, address, &count);
    if (count)
        *frame = frames->frames[chain[callee ? count - 1 : 0]];
    return count != 0;
}

static void add_site(struct export_job *job, uint32_t site)
{
    char digits[32];
    snprintf(digits, sizeof digits, "0x%llx", (unsigned long long)job->profile->addresses[site].address);
    add_text(job, site ? digits : "");
}

static bool write_edge(struct export_job *job, struct export_frames *frames, const struct profile_edge *edge)
{
    struct export_frame caller, callee;
    if (!end_of(frames, edge->site, false, &caller) || !end_of(frames, edge->callee, true, &callee))
        return false;
    export_output_text(job->output, call_kinds[edge->kind]);
    add_unsigned(job, edge->calls);
    if (edge->site)
        csv_add_function(job, frames, caller.function);
    else
        export_output_text(job->output, ",,");
    add_string(job, caller.file);
    put_comma(job);
    if (caller.line)
        export_output_unsigned(job->output, caller.line);
    add_site(job, edge->site);
    csv_add_function(job, frames, callee.function);
    csv_add_thread(job, edge->thread);
    end_with_origin(job, job->profile->threads[edge->thread].process);
    return true;
}

static bool write_edges(struct export_job *job, struct export_frames *frames)
{
    const struct profile *profile = job->profile;
    size_t count;
    bool done = true;
    for (size_t i = 1; done && i < profile->edge_count; i++)
        done = export_frames_chain(frames, profile->edges[i].site, &count) &&
               export_frames_chain(frames, profile->edges[i].callee, &count);
    done = done && export_frames_write_names(frames, EXPORT_ESCAPE_CSV, false);
    export_output_text(job->output, "kind,calls,caller,caller_image,caller_file,caller_line,site,callee,"
                                    "callee_image,process,pid,thread,tid,origin\n");
    for (size_t i = 1; done && i < profile->edge_count; i++)
        if (export_tree_takes_edge(profile, job->options, &profile->edges[i]))
            done = write_edge(job, frames, &profile->edges[i]);
    return done;
}

/* --- counters --- */

static void write_counter(struct export_job *job, uint16_t counter, uint32_t thread,
                          const struct export_figure *sum, bool calls)
{
    const struct profile_counter *it = &job->profile->counters[counter];
    struct profile_extent extent = profile_extent_of(job->profile, counter);
    begin_counter(job, counter);
    add_text(job, profile_extent_is_exact(&extent) ? "1" : "0");
    add_text(job, it->combine <= PROFILE_LIVE ? combines[it->combine] : "");
    csv_add_thread(job, thread);
    put_comma(job);
    export_output_integer(job->output, sum->value);
    if (calls)
        put_comma(job);
    else
        add_unsigned(job, sum->samples);
    end_with_origin(job, job->profile->threads[thread].process);
}

/* By counter, then thread. */
static void sum_threads(const struct export_job *job, uint16_t counter, struct export_figure *sums)
{
    const struct profile *profile = job->profile;
    for (size_t i = 0; i < profile->thread_count; i++)
        sums[i] = (struct export_figure){0, 0};
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (cell->counter == counter && export_tree_takes(profile, job->options, cell))
            export_tree_add(profile, counter, &sums[cell->thread],
                            &(struct export_figure){cell->value, cell->samples});
    }
    for (size_t i = 1; counter == profile_counts_calls(profile) && i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (export_tree_takes_edge(profile, job->options, edge))
            export_tree_add(profile, counter, &sums[edge->thread],
                            &(struct export_figure){(int64_t)edge->calls, 0});
    }
}

static bool write_counters(struct export_job *job)
{
    const struct profile *profile = job->profile;
    struct export_figure *sums = calloc(profile->thread_count, sizeof *sums);
    export_output_text(job->output,
                       "counter,unit,exact,combine,process,pid,thread,tid,value,samples,origin\n");
    for (uint32_t counter = 1; sums && counter < profile->counter_count; counter++) {
        if (job->options->counter && counter != job->options->counter)
            continue;
        sum_threads(job, (uint16_t)counter, sums);
        for (uint32_t thread = 0; thread < profile->thread_count; thread++)
            if (sums[thread].value || sums[thread].samples)
                write_counter(job, (uint16_t)counter, thread, &sums[thread],
                              counter == profile_counts_calls(profile));
    }
    free(sums);
    return sums != NULL;
}

bool export_csv(struct export_job *job)
{
    enum export_table table = job->options->table;
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames};
    unsigned detail = table == EXPORT_TREE || job->options->inlines ? EXPORT_DETAIL_INLINES : 0;
    if (table == EXPORT_COUNTERS)
        return write_counters(job);
    bool done =
        export_frames_init(&frames, job->profile, detail | (table == EXPORT_EDGES ? EXPORT_DETAIL_LINES : 0));
    tree.apart = table == EXPORT_TREE ? EXPORT_BY_PROCESS : EXPORT_TOGETHER;
    tree.marks = table == EXPORT_TREE;
    if (table == EXPORT_EDGES)
        done = done && write_edges(job, &frames);
    else
        done = done && (table == EXPORT_TREE ? write_tree(job, &tree) : write_flat(job, &tree));
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
