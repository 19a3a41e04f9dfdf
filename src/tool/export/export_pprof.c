/* export_pprof.c - profile.proto, the format of pprof. Source: proto/profile.proto of the pprof project.
 *
 * A sample is a node of the tree as one thread reached it, with a value for each type: how many samples, then
 * the counters' values. Exact calls are samples too, of a type of their own: two locations, the callee and
 * the site of the call. pprof then shows with -sample_index=calls how often functions were called, and with
 * -peek by whom; time it shows as ever.
 *
 * Locations are addresses, with what is inlined there; their numbers are those of the model. Addresses are
 * the image's own, hence all mappings begin at 0 or where the kernel's and generated code lie. Every mapping
 * says that it has its symbols: Tally has looked for them, and pprof need not, which could only find other
 * files. Functions have no system name, for pprof would take templates and parameters out of names that have
 * one alike. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_map.h"
#include "export_column.h"
#include "export_formats.h"
#include "export_frames.h"
#include "export_gzip.h"
#include "export_tree.h"
#include "profile_extent.h"
#include "profile_loss.h"

enum profile_field {
    SAMPLE_TYPE = 1,
    SAMPLE,
    MAPPING,
    LOCATION,
    FUNCTION,
    STRING,
    TIME_NANOS = 9,
    DURATION_NANOS,
    PERIOD_TYPE,
    PERIOD,
    COMMENT,
    DEFAULT_SAMPLE_TYPE,
};

struct pprof {
    struct export_job *job;
    struct export_frames frames;
    struct export_gzip *gzip;
    struct base_map strings; /* of the model -> number in the string table */
    uint64_t string_count;
    bool failed;
    struct base_text message, part, piece; /* scratch: a field of the profile, of that, of that */
    struct export_column *columns;         /* in pprof's order */
    int64_t *values;                       /* by column, and calls behind them */
    bool calls;
    uint32_t *label_keys; /* enum label_key */
    uint64_t signal, cut; /* locations of marks */
    uint32_t last_origin;
    uint64_t origin_string;
    bool *used, *called; /* by address: in a stack or a site, as a callee */
    uint32_t *threads;   /* by thread: where its labels are in `labels` */
    struct base_text labels;
};

/* --- writing --- */

/* Sends a field of the profile itself. */
static void pprof_send(struct pprof *pprof, enum profile_field field, const struct base_text *bytes)
{
    struct base_text head = {0};
    export_gzip_varint(&head, (uint64_t)field << 3 | 2);
    export_gzip_varint(&head, bytes->length);
    pprof->failed |= head.failed || bytes->failed;
    export_gzip_bytes(pprof->gzip, base_text_string(&head), head.length);
    export_gzip_bytes(pprof->gzip, base_text_string(bytes), bytes->length);
    base_text_free(&head);
}

static void send_number(struct pprof *pprof, enum profile_field field, uint64_t value)
{
    struct base_text text = {0};
    export_gzip_number(&text, field, value);
    pprof->failed |= text.failed;
    export_gzip_bytes(pprof->gzip, base_text_string(&text), text.length);
    base_text_free(&text);
}

/* A string goes out when it is met; its number is how many went before. */
static uint64_t put_text(struct pprof *pprof, const char *text)
{
    struct base_text clean = {0};
    export_output_escape(&clean, text, EXPORT_ESCAPE_LINE);
    pprof_send(pprof, STRING, &clean);
    base_text_free(&clean);
    return pprof->string_count++;
}

static uint64_t put_string(struct pprof *pprof, uint32_t string)
{
    uint32_t known = base_map_find(&pprof->strings, string);
    if (known != BASE_MAP_NONE || !*profile_text(pprof->job->profile, string))
        return known == BASE_MAP_NONE ? 0 : known;
    uint64_t number = put_text(pprof, profile_text(pprof->job->profile, string));
    pprof->failed |= !base_map_set(&pprof->strings, string, (uint32_t)number);
    return number;
}

/* --- types --- */

static const char *unit_of(const char *unit)
{
    static const char *const units[][2] = {{"ns", "nanoseconds"},
                                           {"us", "microseconds"},
                                           {"ms", "milliseconds"},
                                           {"s", "seconds"},
                                           {"B", "bytes"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i][0]))
            return units[i][1];
    return unit;
}

static void send_type(struct pprof *pprof, enum profile_field field, uint64_t type, const char *unit)
{
    uint64_t unit_string = put_text(pprof, unit);
    base_text_clear(&pprof->message);
    export_gzip_number(&pprof->message, 1, type);
    export_gzip_number(&pprof->message, 2, unit_string);
    pprof_send(pprof, field, &pprof->message);
}

static void send_column(struct pprof *pprof, const struct export_column *column)
{
    const struct profile *profile = pprof->job->profile;
    const struct profile_counter *counter = &profile->counters[column->counter];
    struct base_text name = {0};
    export_column_name(pprof->job, column, &name);
    uint64_t type = put_text(pprof, base_text_string(&name));
    send_type(pprof, SAMPLE_TYPE, type,
              column->samples ? "count" : unit_of(profile_text(profile, counter->unit)));
    if (!column->samples && column->counter == pprof->job->options->preferred)
        send_number(pprof, DEFAULT_SAMPLE_TYPE, type);
    pprof->failed |= name.failed;
    base_text_free(&name);
}

/* By convention what counts events comes first. */
static bool send_types(struct pprof *pprof)
{
    const struct export_job *job = pprof->job;
    size_t count = 0;
    pprof->columns = calloc(job->column_count + 1, sizeof *pprof->columns);
    pprof->values = calloc(job->column_count + 1, sizeof *pprof->values);
    if (!pprof->columns || !pprof->values)
        return false;
    for (int samples = 1; samples >= 0; samples--)
        for (size_t i = 0; i < job->column_count; i++)
            if (job->columns[i].samples == samples)
                pprof->columns[count++] = job->columns[i];
    for (size_t i = 0; i < count; i++)
        send_column(pprof, &pprof->columns[i]);
    pprof->calls = profile_extent_has_calls(job->profile) && export_tree_has_calls(job->options);
    if (pprof->calls)
        send_type(pprof, SAMPLE_TYPE, put_text(pprof, PROFILE_CALLS), "count");
    return true;
}

/* --- mappings --- */

struct range {
    uint64_t low, high; /* high < low: no address */
};

static bool find_ranges(const struct profile *profile, struct range **ranges)
{
    *ranges = calloc(profile->image_count + 1, sizeof **ranges);
    if (!*ranges)
        return false;
    for (size_t i = 0; i < profile->image_count; i++)
        (*ranges)[i] = (struct range){UINT64_MAX, 0};
    for (size_t i = 1; i < profile->address_count; i++) {
        struct range *range = &(*ranges)[profile->addresses[i].image];
        uint64_t address = profile->addresses[i].address;
        range->low = address < range->low ? address : range->low;
        range->high = address > range->high ? address : range->high;
    }
    return true;
}

static void send_mapping(struct pprof *pprof, uint32_t image, const struct range *range)
{
    const uint64_t page = 4096;
    const struct profile_image *it = &pprof->job->profile->images[image];
    if (it->kind == PROFILE_IMAGE_SPECIAL || range->high < range->low)
        return;
    uint64_t low = it->kind == PROFILE_IMAGE_FILE || it->kind == PROFILE_IMAGE_VDSO ? 0 : range->low;
    uint64_t limit = range->high > UINT64_MAX - page ? UINT64_MAX : (range->high / page + 1) * page;
    uint64_t path = put_string(pprof, it->path), build_id = put_string(pprof, it->build_id);
    base_text_clear(&pprof->message);
    export_gzip_number(&pprof->message, 1, image);
    export_gzip_number(&pprof->message, 2, low / page * page);
    export_gzip_number(&pprof->message, 3, limit);
    export_gzip_number(&pprof->message, 5, path);
    export_gzip_number(&pprof->message, 6, build_id);
    for (unsigned symbols = 7; symbols <= 10; symbols++)
        export_gzip_number(&pprof->message, symbols, 1);
    pprof_send(pprof, MAPPING, &pprof->message);
}

/* pprof calls the profile after the first mapping: the program, whose process has its name (of at most 15
 * bytes). */
static uint32_t main_image(const struct profile *profile)
{
    uint32_t first = 0;
    const char *name = profile_text(profile, profile->process_count > 1 ? profile->processes[1].name : 0);
    for (uint32_t i = 1; i < profile->image_count; i++) {
        if (profile->images[i].kind != PROFILE_IMAGE_FILE)
            continue;
        first = first ? first : i;
        if (*name && !strncmp(profile_text(profile, profile->images[i].name), name, 15))
            return i;
    }
    return first;
}

static bool send_mappings(struct pprof *pprof)
{
    const struct profile *profile = pprof->job->profile;
    struct range *ranges;
    if (!find_ranges(profile, &ranges))
        return false;
    uint32_t first = main_image(profile);
    if (first)
        send_mapping(pprof, first, &ranges[first]);
    for (uint32_t i = 1; i < profile->image_count; i++)
        if (i != first)
            send_mapping(pprof, i, &ranges[i]);
    free(ranges);
    return true;
}

/* --- functions and locations --- */

static void send_function(struct pprof *pprof, uint32_t function)
{
    struct base_text name = {0};
    export_frames_name(&pprof->frames, function, &name);
    uint64_t name_string = put_text(pprof, base_text_string(&name));
    uint64_t file = put_string(pprof, pprof->frames.functions[function].file);
    base_text_clear(&pprof->message);
    export_gzip_number(&pprof->message, 1, function);
    export_gzip_number(&pprof->message, 2, name_string);
    export_gzip_number(&pprof->message, 4, file);
    pprof_send(pprof, FUNCTION, &pprof->message);
    pprof->failed |= name.failed;
    base_text_free(&name);
}

static void send_location(struct pprof *pprof, uint64_t id, uint32_t address, const uint32_t *chain,
                          size_t count)
{
    const struct profile *profile = pprof->job->profile;
    const struct profile_address *it = &profile->addresses[address];
    base_text_clear(&pprof->message);
    export_gzip_number(&pprof->message, 1, id);
    if (profile->images[it->image].kind != PROFILE_IMAGE_SPECIAL) {
        export_gzip_number(&pprof->message, 2, it->image);
        export_gzip_number(&pprof->message, 3, it->address);
    }
    for (size_t i = 0; i < count; i++) {
        const struct export_frame *frame = &pprof->frames.frames[chain[i]];
        base_text_clear(&pprof->part);
        export_gzip_number(&pprof->part, 1, frame->function);
        export_gzip_number(&pprof->part, 2, frame->line);
        export_gzip_nested(&pprof->message, 4, &pprof->part);
    }
    pprof_send(pprof, LOCATION, &pprof->message);
}

/* Address 0 is location address_count: numbers of locations begin with 1. */
static uint64_t location_of(const struct pprof *pprof, uint32_t address)
{
    return address ? address : pprof->job->profile->address_count;
}

static bool send_mark(struct pprof *pprof, enum export_kind kind, uint64_t id)
{
    uint32_t frame = export_frames_mark(&pprof->frames, kind);
    if (frame)
        send_location(pprof, id, 0, &frame, 1);
    return frame != 0;
}

/* A call reaches the function, not what is inlined where it begins: that is a location of its own. */
static uint64_t callee_of(const struct pprof *pprof, uint32_t address)
{
    const struct profile *profile = pprof->job->profile;
    return profile->addresses[address].inlined ? profile->address_count + address + 3
                                               : location_of(pprof, address);
}

/* Only what some sample or edge has. */
static bool send_locations(struct pprof *pprof)
{
    const struct profile *profile = pprof->job->profile;
    pprof->cut = profile->address_count + 1;
    pprof->signal = profile->address_count + 2;
    for (uint32_t i = 0; i < profile->address_count; i++) {
        uint64_t callee = callee_of(pprof, i);
        bool apart = callee != location_of(pprof, i), called = pprof->called[i];
        size_t count = 0;
        if (!called && !pprof->used[i])
            continue;
        const uint32_t *chain = export_frames_chain(&pprof->frames, i, &count);
        if (!count)
            return false;
        if (pprof->used[i] || !apart)
            send_location(pprof, location_of(pprof, i), i, chain, count);
        if (called && apart)
            send_location(pprof, callee, i, chain + count - 1, 1);
    }
    if (!send_mark(pprof, EXPORT_CUT, pprof->cut) || !send_mark(pprof, EXPORT_SIGNAL, pprof->signal))
        return false;
    for (uint32_t i = 1; i < pprof->frames.function_count; i++)
        send_function(pprof, i);
    return true;
}

/* --- labels --- */

enum label_key { LABEL_PROCESS, LABEL_PID, LABEL_THREAD, LABEL_TID, LABEL_ORIGIN, LABEL_CALL, LABELS };

static void add_label(struct pprof *pprof, struct base_text *out, enum label_key key, uint64_t string,
                      int64_t number)
{
    if (!string && !number)
        return;
    base_text_clear(&pprof->piece);
    export_gzip_number(&pprof->piece, 1, pprof->label_keys[key]);
    export_gzip_number(&pprof->piece, 2, string);
    export_gzip_number(&pprof->piece, 3, (uint64_t)number);
    export_gzip_nested(out, 3, &pprof->piece);
}

/* Of merged profiles: which recording it is of. A string is put once for each origin: they come one after the
 * other. */
static void add_origin(struct pprof *pprof, uint32_t origin)
{
    const char *name = profile_origin(pprof->job->profile, origin, "name");
    if (name && origin != pprof->last_origin)
        pprof->origin_string = put_text(pprof, name);
    pprof->last_origin = origin;
    add_label(pprof, &pprof->labels, LABEL_ORIGIN, name ? pprof->origin_string : 0, 0);
}

/* The labels of each thread once, as they stand in a sample. */
static bool make_labels(struct pprof *pprof)
{
    static const char *const names[LABELS] = {"process", "pid", "thread", "tid", "origin", "call"};
    const struct profile *profile = pprof->job->profile;
    pprof->label_keys = calloc(LABELS, sizeof *pprof->label_keys);
    pprof->threads = calloc(profile->thread_count + 1, sizeof *pprof->threads);
    if (!pprof->label_keys || !pprof->threads)
        return false;
    for (int i = 0; i < LABELS; i++)
        pprof->label_keys[i] = (uint32_t)put_text(pprof, names[i]);
    for (size_t i = 1; i < profile->thread_count; i++) {
        const struct profile_thread *thread = &profile->threads[i];
        const struct profile_process *process = &profile->processes[thread->process];
        pprof->threads[i] = (uint32_t)pprof->labels.length;
        add_label(pprof, &pprof->labels, LABEL_PROCESS, put_string(pprof, process->name), 0);
        add_label(pprof, &pprof->labels, LABEL_PID, 0, process->pid);
        add_label(pprof, &pprof->labels, LABEL_THREAD, put_string(pprof, thread->name), 0);
        add_label(pprof, &pprof->labels, LABEL_TID, 0, thread->tid);
        add_origin(pprof, process->origin);
    }
    pprof->threads[profile->thread_count] = (uint32_t)pprof->labels.length;
    return !pprof->labels.failed;
}

static void pprof_add_thread(struct pprof *pprof, uint32_t thread)
{
    if (thread)
        base_text_add_bytes(&pprof->message, pprof->labels.data + pprof->threads[thread],
                            pprof->threads[thread + 1] - pprof->threads[thread]);
}

/* --- samples --- */

/* The values as they are now, packed. */
static void add_values(struct pprof *pprof)
{
    size_t count = pprof->job->column_count + pprof->calls;
    base_text_clear(&pprof->part);
    for (size_t i = 0; i < count; i++)
        export_gzip_varint(&pprof->part, (uint64_t)pprof->values[i]);
    export_gzip_nested(&pprof->message, 2, &pprof->part);
}

static void send_stack(struct pprof *pprof, uint32_t node, uint32_t thread)
{
    const struct profile_node *nodes = pprof->job->profile->nodes;
    base_text_clear(&pprof->message);
    base_text_clear(&pprof->part);
    for (uint32_t at = node;; at = nodes[at].parent) {
        export_gzip_varint(&pprof->part, location_of(pprof, nodes[at].address));
        if (nodes[at].flags & PROFILE_NODE_CUT)
            export_gzip_varint(&pprof->part, pprof->cut);
        else if (at && nodes[nodes[at].parent].flags & PROFILE_NODE_SIGNAL)
            export_gzip_varint(&pprof->part, pprof->signal);
        if (!at || !nodes[at].parent)
            break;
    }
    export_gzip_nested(&pprof->message, 1, &pprof->part);
    add_values(pprof);
    pprof_add_thread(pprof, thread);
    pprof_send(pprof, SAMPLE, &pprof->message);
}

/* Whether anything came of it. */
static bool add_cell(struct pprof *pprof, const struct profile_cell *cell)
{
    const struct export_job *job = pprof->job;
    bool any = false;
    for (size_t i = 0; i < job->column_count; i++) {
        struct export_figure sum = {pprof->values[i], 0}, more = {cell->value, 0};
        if (pprof->columns[i].counter != cell->counter)
            continue;
        if (!pprof->columns[i].samples)
            export_tree_add(job->profile, cell->counter, &sum, &more);
        else if (__builtin_add_overflow(sum.value, (int64_t)(cell->samples & INT64_MAX), &sum.value))
            sum.value = INT64_MAX;
        pprof->values[i] = sum.value;
        any |= sum.value != 0;
    }
    return any;
}

static void clear_values(struct pprof *pprof)
{
    memset(pprof->values, 0, (pprof->job->column_count + 1) * sizeof *pprof->values);
}

/* Numbers of the cells that are taken, those of one node and thread side by side: a counting sort for
 * each. */
struct cell_order {
    uint32_t *cells, *other, *counts;
    size_t count;
};

static uint32_t pprof_key_of(const struct profile_cell *cell, bool by_node)
{
    return by_node ? cell->node : cell->thread;
}

static void sort_pass(const struct profile *profile, struct cell_order *order, bool by_node, size_t keys)
{
    memset(order->counts, 0, (keys + 1) * sizeof *order->counts);
    for (size_t i = 0; i < order->count; i++)
        order->counts[pprof_key_of(&profile->cells[order->cells[i]], by_node) + 1]++;
    for (size_t i = 1; i <= keys; i++)
        order->counts[i] += order->counts[i - 1];
    for (size_t i = 0; i < order->count; i++)
        order->other[order->counts[pprof_key_of(&profile->cells[order->cells[i]], by_node)]++] =
            order->cells[i];
    uint32_t *sorted = order->other;
    order->other = order->cells;
    order->cells = sorted;
}

static bool sort_cells(const struct export_job *job, struct cell_order *order)
{
    const struct profile *profile = job->profile;
    size_t keys = profile->node_count > profile->thread_count ? profile->node_count : profile->thread_count;
    order->cells = calloc(profile->cell_count + 1, sizeof *order->cells);
    order->other = calloc(profile->cell_count + 1, sizeof *order->other);
    order->counts = calloc(keys + 2, sizeof *order->counts);
    if (!order->cells || !order->other || !order->counts)
        return false;
    for (size_t i = 0; i < profile->cell_count; i++)
        if (export_tree_takes(profile, job->options, &profile->cells[i]))
            order->cells[order->count++] = (uint32_t)i;
    sort_pass(profile, order, false, profile->thread_count);
    sort_pass(profile, order, true, profile->node_count);
    return true;
}

static void send_samples(struct pprof *pprof, const struct cell_order *order)
{
    const struct profile_cell *cells = pprof->job->profile->cells;
    bool any = false;
    clear_values(pprof);
    for (size_t i = 0; i < order->count; i++) {
        const struct profile_cell *cell = &cells[order->cells[i]],
                                  *next = i + 1 < order->count ? &cells[order->cells[i + 1]] : NULL;
        any |= add_cell(pprof, cell);
        if (next && next->node == cell->node && next->thread == cell->thread)
            continue;
        if (any)
            send_stack(pprof, cell->node, cell->thread);
        clear_values(pprof);
        any = false;
    }
}

/* A call is a stack of two: the callee, and its site. */
static void send_calls(struct pprof *pprof)
{
    static const char *const names[PROFILE_CALL_KINDS] = {"", "direct", "indirect", "tail", "entry"};
    const struct profile *profile = pprof->job->profile;
    uint64_t kinds[PROFILE_CALL_KINDS] = {0};
    for (int i = 1; i < PROFILE_CALL_KINDS && pprof->calls; i++)
        kinds[i] = put_text(pprof, names[i]);
    clear_values(pprof);
    for (size_t i = 1; i < profile->edge_count; i++) {
        const struct profile_edge *edge = &profile->edges[i];
        if (!pprof->calls || !export_tree_takes_edge(profile, pprof->job->options, edge))
            continue;
        base_text_clear(&pprof->message);
        base_text_clear(&pprof->part);
        export_gzip_varint(&pprof->part, callee_of(pprof, edge->callee));
        export_gzip_varint(&pprof->part, location_of(pprof, edge->site));
        export_gzip_nested(&pprof->message, 1, &pprof->part);
        pprof->values[pprof->job->column_count] = (int64_t)edge->calls;
        add_values(pprof);
        pprof_add_thread(pprof, edge->thread);
        add_label(pprof, &pprof->message, LABEL_CALL, kinds[edge->kind], 0);
        pprof_send(pprof, SAMPLE, &pprof->message);
    }
}

/* --- what was recorded --- */

static uint64_t number_of(const struct profile *profile, const char *key)
{
    const char *value = profile_meta(profile, key);
    return value && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : 0;
}

static void send_comment(struct pprof *pprof, const char *key, const char *value)
{
    struct base_text text = {0};
    base_text_addf(&text, "%s: %s", key, value);
    send_number(pprof, COMMENT, put_text(pprof, base_text_string(&text)));
    pprof->failed |= text.failed;
    base_text_free(&text);
}

static void send_losses(struct pprof *pprof)
{
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        struct base_text text = {0};
        const char *words = profile_loss_text(i);
        uint64_t count = pprof->job->profile->losses[i];
        if (!count)
            continue;
        base_text_addf(&text, "%llu ", (unsigned long long)count);
        if (words)
            base_text_add(&text, words);
        else /* of a later version */
            base_text_addf(&text, "loss %u", i);
        send_comment(pprof, "lost", base_text_string(&text));
        pprof->failed |= text.failed;
        base_text_free(&text);
    }
}

/* Counters that not all recordings of a merged profile had. */
static void send_partial(struct pprof *pprof)
{
    const struct profile *profile = pprof->job->profile;
    for (size_t i = 0; i < profile->meta_count; i++) {
        const char *key = profile_text(profile, profile->meta[i].key);
        if (!strncmp(key, PROFILE_EXTENT_PARTIAL, strlen(PROFILE_EXTENT_PARTIAL)))
            send_comment(pprof, key, profile_text(profile, profile->meta[i].value));
    }
}

static void send_recording(struct pprof *pprof)
{
    static const char *const keys[] = {"command",
                                       "hostname",
                                       "kernel",
                                       "engine",
                                       "mode",
                                       "target_cpu_ns",
                                       "overhead_tool_cpu_ns",
                                       "no_samples_reason",
                                       "throws_absent"};
    const struct profile *profile = pprof->job->profile;
    const char *rate = profile_meta(profile, "rate_hz"), *partial = profile_meta(profile, "import_partial");
    uint64_t start = number_of(profile, "start_time");
    double period_ns = rate ? 1e9 / strtod(rate, NULL) : 0;
    send_number(pprof, TIME_NANOS, start < UINT64_MAX / 1000000000 ? start * 1000000000 : 0);
    send_number(pprof, DURATION_NANOS, number_of(profile, "duration_ns"));
    if (period_ns >= 1 && period_ns < 1e18) {
        send_type(pprof, PERIOD_TYPE, put_text(pprof, "time.cpu"), "nanoseconds");
        send_number(pprof, PERIOD, (uint64_t)period_ns);
    }
    send_comment(pprof, "exported by", pprof->job->options->creator);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (profile_meta(profile, keys[i]))
            send_comment(pprof, keys[i], profile_meta(profile, keys[i]));
    if (!profile_meta(profile, "complete"))
        send_comment(pprof, "unfinished", partial ? partial : "the recording did not come to its end");
    send_partial(pprof);
    send_losses(pprof);
}

/* --- all of it --- */

static bool find_used(struct pprof *pprof, const struct cell_order *order)
{
    const struct profile *profile = pprof->job->profile;
    bool *seen = calloc(profile->node_count + 1, sizeof *seen);
    pprof->used = calloc(profile->address_count + 1, sizeof *pprof->used);
    pprof->called = calloc(profile->address_count + 1, sizeof *pprof->called);
    bool done = seen && pprof->used && pprof->called;
    for (size_t i = 0; done && i < order->count; i++) {
        uint32_t at = profile->cells[order->cells[i]].node;
        pprof->used[0] |= !at;
        for (; at && !seen[at]; at = profile->nodes[at].parent) {
            seen[at] = true;
            pprof->used[profile->nodes[at].address] = true;
        }
    }
    for (size_t i = 1; done && pprof->calls && i < profile->edge_count; i++)
        pprof->used[profile->edges[i].site] = pprof->called[profile->edges[i].callee] = true;
    free(seen);
    return done;
}

static bool send_all(struct pprof *pprof, struct cell_order *order)
{
    put_text(pprof, "");
    if (!send_types(pprof) || !make_labels(pprof) || !sort_cells(pprof->job, order))
        return false;
    bool done = find_used(pprof, order) && send_mappings(pprof) && send_locations(pprof);
    if (done) {
        send_recording(pprof);
        send_samples(pprof, order);
        send_calls(pprof);
    }
    return done && !pprof->failed;
}

static void free_pprof(struct pprof *pprof)
{
    base_map_free(&pprof->strings);
    base_text_free(&pprof->message);
    base_text_free(&pprof->part);
    base_text_free(&pprof->piece);
    base_text_free(&pprof->labels);
    free(pprof->columns);
    free(pprof->values);
    free(pprof->label_keys);
    free(pprof->threads);
    free(pprof->used);
    free(pprof->called);
    export_frames_free(&pprof->frames);
}

bool export_pprof(struct export_job *job)
{
    struct export_gzip *gzip = calloc(1, sizeof *gzip);
    struct cell_order order = {0};
    struct pprof pprof = {.job = job, .gzip = gzip};
    bool done =
        gzip && export_gzip_begin(gzip, job->output) &&
        export_frames_init(&pprof.frames, job->profile, EXPORT_DETAIL_INLINES | EXPORT_DETAIL_LINES) &&
        send_all(&pprof, &order);
    if (gzip)
        export_gzip_end(gzip);
    free_pprof(&pprof);
    free(order.cells);
    free(order.other);
    free(order.counts);
    free(gzip);
    return done;
}
