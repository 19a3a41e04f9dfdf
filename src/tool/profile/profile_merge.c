#include "profile_merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_text.h"
#include "profile_extent.h"
#include "profile_heap.h"
#include "profile_latency.h"
#include "profile_private.h"
#include "profile_timeline.h"
#include "wire_loss.h"

/* How an image of the one is found in the other. */
struct image_match {
    uint32_t image;
    uint64_t slide; /* what is added to its addresses, modulo 2^64 */
    bool guessed;   /* by its functions, not by its build-id */
    uint32_t apart; /* where addresses go that contradict the guess; 0: not needed yet */
};

struct merge {
    struct profile *into;
    const struct profile *from;
    uint32_t first_origin; /* the number that origin 1, or the whole, of `from` gets */
    uint32_t origins;      /* how many it is */
    struct image_match *images;
    uint32_t *processes, *threads, *addresses, *inlined, *nodes, *counters;
    uint32_t *climb;
    uint32_t images_before;    /* images of `into` that are not of this recording only */
    size_t addresses_before;   /* addresses, likewise */
    struct base_map functions; /* (image, name) in `into` -> function, AMBIGUOUS when there are several */
    struct base_error *error;
};

enum { AMBIGUOUS = UINT32_MAX - 1 };

static int no_memory(const struct merge *merge)
{
    return base_fail(merge->error, BASE_ENOMEM, "out of memory for merging");
}

static const char *text_of(const struct merge *merge, uint32_t string)
{
    return profile_text(merge->from, string);
}

/* --- counters --- */

static const char *kind_of(const struct profile_counter *counter)
{
    return counter->exact ? "counted" : "sampled";
}

static int match_counter(struct merge *merge, uint32_t index)
{
    const struct profile_counter *it = &merge->from->counters[index];
    const char *name = text_of(merge, it->name), *unit = text_of(merge, it->unit);
    uint32_t known = profile_counter(merge->into, name, unit, it->exact, it->combine);
    if (!known)
        return no_memory(merge);
    const struct profile_counter *other = &merge->into->counters[known];
    const char *other_unit = profile_text(merge->into, other->unit);
    if (strcmp(unit, other_unit))
        return base_fail(merge->error, BASE_EUSAGE, "its counter %s is in %s, that of the others in %s", name,
                         unit, other_unit);
    if (other->exact != it->exact)
        return base_fail(merge->error, BASE_EUSAGE, "its counter %s was %s, that of the others %s", name,
                         kind_of(it), kind_of(other));
    if (other->combine != it->combine)
        return base_fail(merge->error, BASE_EUSAGE,
                         "its counter %s is of another kind than that of the others", name);
    merge->counters[index] = known;
    return BASE_OK;
}

static int match_counters(struct merge *merge)
{
    int result = BASE_OK;
    for (uint32_t i = 1; result == BASE_OK && i < merge->from->counter_count; i++)
        result = match_counter(merge, i);
    return result;
}

/* --- processes and threads: each is a new one --- */

static bool add_processes(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->process_count; i++) {
        struct profile_process value = merge->from->processes[i];
        uint32_t process = profile_process(merge->into, value.pid, value.start_ns);
        if (!process)
            return false;
        bool known = value.origin && value.origin <= merge->origins;
        value.origin = merge->first_origin + (known ? value.origin - 1 : 0);
        value.name = profile_string(merge->into, text_of(merge, value.name));
        value.command = profile_string(merge->into, text_of(merge, value.command));
        profile_set_process(merge->into, process, &value);
        merge->processes[i] = process;
    }
    return true;
}

static bool add_threads(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->thread_count; i++) {
        const struct profile_thread *it = &merge->from->threads[i];
        uint32_t thread = profile_thread(merge->into, merge->processes[it->process], it->tid);
        if (!thread)
            return false;
        profile_set_thread_name(merge->into, thread, text_of(merge, it->name));
        merge->threads[i] = thread;
    }
    return true;
}

/* --- images --- */

static bool index_functions(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->into->function_count; i++) {
        const struct profile_function *it = &merge->into->functions[i];
        uint64_t key = (uint64_t)it->image << 32 | it->name;
        bool first = base_map_find(&merge->functions, key) == BASE_MAP_NONE;
        if (!base_map_set(&merge->functions, key, first ? i : AMBIGUOUS))
            return false;
    }
    return true;
}

/* Do the functions that both name lie at the same distance everywhere? Without any, nothing says that they
 * do. */
static bool fits(const struct merge *merge, uint32_t from, uint32_t into, uint64_t *slide)
{
    const uint64_t page = 4096;
    bool kernel = merge->from->images[from].kind == PROFILE_IMAGE_KERNEL, any = false;
    for (uint32_t i = 1; i < merge->from->function_count; i++) {
        const struct profile_function *it = &merge->from->functions[i];
        if (it->image != from)
            continue;
        uint32_t name = profile_string(merge->into, text_of(merge, it->name));
        uint32_t other = base_map_find(&merge->functions, (uint64_t)into << 32 | name);
        if (other == BASE_MAP_NONE || other == AMBIGUOUS)
            continue;
        uint64_t distance = merge->into->functions[other].start - it->start;
        if ((any && distance != *slide) || (kernel ? distance % page : distance))
            return false;
        *slide = distance;
        any = true;
    }
    return any;
}

static bool same_text(const struct merge *merge, uint32_t from, uint32_t into)
{
    return !strcmp(text_of(merge, from), profile_text(merge->into, into));
}

static bool find_image(struct merge *merge, uint32_t index)
{
    const struct profile_image *it = &merge->from->images[index];
    struct image_match *match = &merge->images[index];
    for (uint32_t i = 1; i < merge->images_before; i++) {
        const struct profile_image *other = &merge->into->images[i];
        if (other->kind != it->kind || !same_text(merge, it->build_id, other->build_id))
            continue;
        *match = (struct image_match){.image = i, .guessed = !it->build_id};
        if (it->build_id || (same_text(merge, it->path, other->path) && fits(merge, index, i, &match->slide)))
            return true;
    }
    return false;
}

/* An image that nothing can be confused with, whatever is called the same: it is in no table. */
static uint32_t append_image(struct merge *merge, uint32_t index)
{
    struct profile *into = merge->into;
    const struct profile_image *it = &merge->from->images[index];
    if (into->image_count >= INT32_MAX ||
        !base_array_room(into->images, into->image_count, into->self->image_capacity))
        return 0;
    into->images[into->image_count] =
        (struct profile_image){.name = profile_string(into, text_of(merge, it->name)),
                               .path = profile_string(into, text_of(merge, it->path)),
                               .build_id = profile_string(into, text_of(merge, it->build_id)),
                               .kind = it->kind,
                               .process = merge->processes[it->process]};
    return (uint32_t)into->image_count++;
}

/* Names that are no code are one each; generated code belongs to its process; the rest is compared. */
static bool add_image(struct merge *merge, uint32_t index)
{
    const struct profile_image *it = &merge->from->images[index];
    if (it->kind == PROFILE_IMAGE_SPECIAL)
        merge->images[index] = (struct image_match){
            .image = profile_image(merge->into, it->kind, text_of(merge, it->path), NULL, 0)};
    else if (it->kind == PROFILE_IMAGE_JIT || !find_image(merge, index))
        merge->images[index] = (struct image_match){.image = append_image(merge, index)};
    return merge->images[index].image != 0;
}

static bool add_images(struct merge *merge)
{
    merge->images_before = (uint32_t)merge->into->image_count;
    bool done = index_functions(merge);
    for (uint32_t i = 1; done && i < merge->from->image_count; i++)
        done = add_image(merge, i);
    return done;
}

/* --- addresses --- */

static bool add_inlined(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->inlined_count; i++) {
        const struct profile_inlined *it = &merge->from->inlined[i];
        merge->inlined[i] = profile_inlined(merge->into, text_of(merge, it->function_name),
                                            text_of(merge, it->file), it->line, merge->inlined[it->outer]);
        if (!merge->inlined[i])
            return false;
    }
    return true;
}

/* A guess is only as good as what both say of the same address. */
static bool contradicts(const struct merge *merge, const struct profile_address *mine, uint32_t known)
{
    const struct profile_address *other = &merge->into->addresses[known];
    return known < merge->addresses_before && mine->function && other->function &&
           !same_text(merge, merge->from->functions[mine->function].name,
                      merge->into->functions[other->function].name);
}

/* What is known of an address: whoever knows more is believed, the first one of equals. */
static bool resolve(struct merge *merge, uint32_t index, const struct profile_address *mine, uint64_t slide)
{
    struct profile_address value = merge->into->addresses[index];
    bool names = mine->function && !value.function, lines = mine->line && !value.line;
    if (value.resolution == PROFILE_UNRESOLVED || names) {
        value.resolution = mine->resolution;
        if (mine->function) {
            const struct profile_function *it = &merge->from->functions[mine->function];
            value.function = profile_function(merge->into, value.image, text_of(merge, it->name),
                                              it->start + slide, it->end + slide);
            if (!value.function)
                return false;
        }
    }
    if (lines || (!value.lines_known && mine->lines_known)) {
        value.lines_known = mine->lines_known;
        value.file = profile_string(merge->into, text_of(merge, mine->file));
        value.line = mine->line;
        value.inlined = merge->inlined[mine->inlined];
    }
    profile_set_address(merge->into, index, &value);
    return true;
}

static bool add_address(struct merge *merge, uint32_t i)
{
    const struct profile_address *mine = &merge->from->addresses[i];
    struct image_match *match = &merge->images[mine->image];
    uint64_t slide = match->slide;
    if (!mine->image) /* a damaged entry: it stays nothing */
        return true;
    uint32_t index = profile_address(merge->into, match->image, mine->address + slide);
    if (index && match->guessed && contradicts(merge, mine, index)) {
        match->apart = match->apart ? match->apart : append_image(merge, mine->image);
        slide = 0;
        index = profile_address(merge->into, match->apart, mine->address);
    }
    merge->addresses[i] = index;
    return index && resolve(merge, index, mine, slide);
}

/* "(folded)" is known to the model by its address. */
static bool add_addresses(struct merge *merge)
{
    merge->addresses_before = merge->into->address_count;
    if (merge->from->folded_address && !profile_folded_address(merge->into))
        return false;
    for (uint32_t i = 1; i < merge->from->address_count; i++)
        if (!add_address(merge, i))
            return false;
    return true;
}

/* --- the tree --- */

/* Parents may come after their children: climbs to one that is there, and comes back down. */
static bool add_node(struct merge *merge, uint32_t node)
{
    const struct profile_node *nodes = merge->from->nodes;
    size_t steps = 0;
    for (; node && !merge->nodes[node]; node = nodes[node].parent)
        merge->climb[steps++] = node;
    while (steps-- > 0) {
        uint32_t at = merge->climb[steps];
        merge->nodes[at] = profile_node(merge->into, merge->nodes[nodes[at].parent],
                                        merge->addresses[nodes[at].address], nodes[at].flags);
        if (!merge->nodes[at])
            return false;
    }
    return true;
}

static bool add_nodes(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->node_count; i++)
        if (merge->from->nodes[i].address && !add_node(merge, i))
            return false;
    return true;
}

/* Losses are added up by themselves: what the model counts on the way would be counted twice. */
static bool add_cells(struct merge *merge)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 0; i < merge->from->cell_count; i++) {
        const struct profile_cell *it = &merge->from->cells[i];
        profile_count(merge->into, merge->nodes[it->node], merge->threads[it->thread], it->cpu,
                      (uint16_t)merge->counters[it->counter], it->value, it->samples);
    }
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

static bool add_edges(struct merge *merge)
{
    if (profile_counts_calls(merge->from) && !profile_calls_counter(merge->into))
        return false;
    for (size_t i = 1; i < merge->from->edge_count; i++) {
        const struct profile_edge *it = &merge->from->edges[i];
        if (!it->calls)
            continue;
        uint32_t edge = profile_edge(merge->into, merge->addresses[it->site], merge->addresses[it->callee],
                                     merge->threads[it->thread], it->kind);
        if (!edge)
            return false;
        profile_add_calls(merge->into, edge, it->calls);
    }
    return true;
}

static bool add_peaks(struct merge *merge)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 1; i < merge->from->peak_count; i++) {
        const struct profile_peak *it = &merge->from->peaks[i];
        profile_set_peak(merge->into, merge->processes[it->process], merge->counters[it->counter], it->value,
                         it->time_ns);
    }
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

static bool add_latencies(struct merge *merge)
{
    const struct profile *from = merge->from;
    uint32_t *rows = calloc(from->latency_count, sizeof *rows);
    bool good = rows != NULL;
    for (size_t i = 1; good && i < from->latency_count; i++) {
        const struct profile_latency *it = &from->latencies[i];
        rows[i] = profile_latency(merge->into, merge->processes[it->process], merge->addresses[it->address]);
        good = rows[i] != 0;
        profile_add_latency(merge->into, rows[i], it->sum_ns, it->min_ns, it->max_ns);
    }
    for (size_t i = 1; good && i < from->latency_bucket_count; i++) {
        const struct profile_latency_bucket *it = &from->latency_buckets[i];
        good = profile_add_latency_calls(merge->into, rows[it->latency], it->bucket, it->calls);
    }
    free(rows);
    return good;
}

static bool add_descriptors(struct merge *merge)
{
    for (size_t i = 1; i < merge->from->descriptor_count; i++) {
        struct profile_descriptor it = merge->from->descriptors[i];
        if (!it.origin)
            continue;
        it.process = merge->processes[it.process];
        it.node = merge->nodes[it.node];
        it.kind = profile_string(merge->into, profile_text(merge->from, it.kind));
        it.name = profile_string(merge->into, profile_text(merge->from, it.name));
        if (!profile_add_descriptor(merge->into, &it))
            return false;
    }
    return true;
}

/* --- what is known of images --- */

static const struct profile_coverage *coverage_of(const struct profile *profile, uint32_t image,
                                                  uint32_t kind)
{
    for (size_t i = 1; i < profile->coverage_count; i++)
        if (profile->coverage[i].image == image && profile->coverage[i].kind == kind)
            return &profile->coverage[i];
    return NULL;
}

static uint64_t larger(uint64_t one, uint64_t two)
{
    return one > two ? one : two;
}

/* The same image, planned twice: of what two plans found the most counts, of what they could count the
 * least. */
static void add_coverage_row(struct merge *merge, const struct profile_coverage *it)
{
    uint32_t image = merge->images[it->image].image;
    const struct profile_coverage *known = coverage_of(merge->into, image, it->kind);
    uint64_t found = it->found, counted = it->counted;
    if (known) {
        counted = known->found == found && known->counted < counted ? known->counted : counted;
        counted = known->found > found ? known->counted : counted;
        found = larger(known->found, found);
    }
    profile_set_coverage(merge->into, image, it->kind, found, counted);
}

static uint64_t left_of(const struct profile *profile, uint32_t image, uint32_t code)
{
    for (size_t i = 1; i < profile->left_count; i++)
        if (profile->left[i].image == image && profile->left[i].code == code)
            return profile->left[i].count;
    return 0;
}

/* Functions past the list are only a number: that of the longer list. */
static void keep_listed(struct merge *merge, const struct profile_coverage *it)
{
    uint32_t image = merge->images[it->image].image;
    for (size_t i = 1; i < merge->into->coverage_count; i++) {
        struct profile_coverage *known = &merge->into->coverage[i];
        if (known->image == image && known->kind == PROFILE_COVERAGE_LISTED && known->found < it->found) {
            known->found = it->found;
            profile_marks_set(&merge->into->self->coverage, (uint32_t)i);
        }
    }
}

/* By image: is anything said of what of it is counted? */
static bool *covered_images(const struct profile *profile)
{
    bool *covered = calloc(profile->image_count + 1, sizeof *covered);
    for (size_t i = 1; covered && i < profile->coverage_count; i++)
        covered[profile->coverage[i].image] = true;
    return covered;
}

/* Calls into an image that one of the two did not count are not all calls. */
static bool compare_coverage(struct merge *merge)
{
    const struct profile *from = merge->from;
    bool *mine = covered_images(from), *others = covered_images(merge->into);
    bool done = mine && others;
    for (size_t i = 1; done && i < from->image_count; i++) {
        uint32_t image = merge->images[i].image;
        if (image < merge->images_before && mine[i] != others[image] &&
            from->images[i].kind == PROFILE_IMAGE_FILE)
            profile_set_meta(merge->into, "calls_partial", "1");
    }
    free(mine);
    free(others);
    return done;
}

static bool add_coverage(struct merge *merge)
{
    const struct profile *from = merge->from;
    if (!compare_coverage(merge))
        return false;
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 1; i < from->coverage_count; i++)
        add_coverage_row(merge, &from->coverage[i]);
    for (size_t i = 1; i < from->left_count; i++) {
        const struct profile_left *it = &from->left[i];
        uint32_t image = merge->images[it->image].image;
        profile_set_left(merge->into, image, it->code, text_of(merge, it->reason),
                         larger(it->count, left_of(merge->into, image, it->code)));
    }
    for (size_t i = 1; i < from->uncovered_count; i++) {
        const struct profile_uncovered *it = &from->uncovered[i];
        const struct image_match *match = &merge->images[it->image];
        profile_set_uncovered(merge->into, match->image, it->address + match->slide, text_of(merge, it->name),
                              text_of(merge, it->reason));
    }
    for (size_t i = 1; i < from->coverage_count; i++)
        if (from->coverage[i].kind == PROFILE_COVERAGE_LISTED)
            keep_listed(merge, &from->coverage[i]);
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

/* --- meta and timeline --- */

/* "origin.N.rest", or {0, NULL}. */
struct origin_key {
    uint32_t origin;
    const char *rest;
};

static struct origin_key read_key(const char *key)
{
    char *end;
    if (strncmp(key, "origin.", 7) || key[7] < '1' || key[7] > '9')
        return (struct origin_key){0, NULL};
    unsigned long number = strtoul(key + 7, &end, 10);
    if (*end != '.' || number > INT32_MAX)
        return (struct origin_key){0, NULL};
    return (struct origin_key){(uint32_t)number, end + 1};
}

/* Each origin has meta values: a number above theirs is none that merging has written, and would be counted
 * to for ever. */
static uint32_t count_origins(const struct profile *profile)
{
    const char *text = profile_meta(profile, "origins");
    unsigned long count = text ? strtoul(text, NULL, 10) : 0;
    return count <= profile->meta_count ? (uint32_t)count : 0;
}

static void set_origin_meta(struct merge *merge, uint32_t origin, const char *key, const char *value)
{
    char name[256];
    snprintf(name, sizeof name, "origin.%u.%s", origin, key);
    profile_set_meta(merge->into, name, value);
}

/* Which counters a recording had: of those that it had not, a sum of 0 says nothing of it. Exceptions that
 * could not be counted were not. */
static void set_counters(struct merge *merge)
{
    struct base_text names = {0};
    bool no_throws = profile_meta(merge->from, "throws_absent");
    for (uint32_t i = 1; i < merge->from->counter_count; i++) {
        bool absent = no_throws && profile_extent_kinds(merge->from, i) == PROFILE_EXTENT_THROWS;
        if (!absent)
            base_text_addf(&names, " %s", text_of(merge, merge->from->counters[i].name));
    }
    base_text_add(&names, " ");
    set_origin_meta(merge, merge->first_origin, "counters", base_text_string(&names));
    if (names.failed)
        profile_lose(merge->into, WIRE_LOSS_OUT_OF_MEMORY, 1);
    base_text_free(&names);
}

/* Of a merged profile its origins' values; its own can be made again from them. */
static bool add_meta(struct merge *merge, const char *file)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    bool merged = count_origins(merge->from) != 0;
    for (size_t i = 0; i < merge->from->meta_count; i++) {
        const char *key = text_of(merge, merge->from->meta[i].key),
                   *value = text_of(merge, merge->from->meta[i].value);
        struct origin_key of = read_key(key);
        if (merged && of.origin && of.origin <= merge->origins)
            set_origin_meta(merge, merge->first_origin + of.origin - 1, of.rest, value);
        else if (!merged && strcmp(key, "recorder_pid"))
            set_origin_meta(merge, merge->first_origin, key, value);
    }
    if (!merged) {
        set_origin_meta(merge, merge->first_origin, "file", file);
        set_counters(merge);
    }
    if (!merged && profile_counts_calls(merge->from))
        set_origin_meta(merge, merge->first_origin, "calls_counted", "1");
    profile_set_metaf(merge->into, "origins", "%u", merge->first_origin + merge->origins - 1);
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

/* The file may have grown since it was loaded, while it is being recorded: what is not in the tree stays
 * out. */
static bool add_sample(void *context, const struct profile_timeline_sample *sample)
{
    struct merge *merge = context;
    const struct profile *from = merge->from;
    if (sample->thread < from->thread_count && sample->node < from->node_count &&
        sample->counter < from->counter_count)
        profile_timeline_add(merge->into, sample->time_ns, merge->threads[sample->thread],
                             merge->nodes[sample->node], sample->cpu,
                             (uint16_t)merge->counters[sample->counter]);
    return true;
}

/* --- all of it --- */

static bool make_maps(struct merge *merge)
{
    const struct profile *from = merge->from;
    merge->images = calloc(from->image_count + 1, sizeof *merge->images);
    merge->processes = calloc(from->process_count + 1, sizeof *merge->processes);
    merge->threads = calloc(from->thread_count + 1, sizeof *merge->threads);
    merge->addresses = calloc(from->address_count + 1, sizeof *merge->addresses);
    merge->inlined = calloc(from->inlined_count + 1, sizeof *merge->inlined);
    merge->nodes = calloc(from->node_count + 1, sizeof *merge->nodes);
    merge->counters = calloc(from->counter_count + 1, sizeof *merge->counters);
    merge->climb = calloc(from->node_count + 1, sizeof *merge->climb);
    return merge->images && merge->processes && merge->threads && merge->addresses && merge->inlined &&
           merge->nodes && merge->counters && merge->climb;
}

static void free_maps(struct merge *merge)
{
    free(merge->images);
    free(merge->processes);
    free(merge->threads);
    free(merge->addresses);
    free(merge->inlined);
    free(merge->nodes);
    free(merge->counters);
    free(merge->climb);
    base_map_free(&merge->functions);
}

static void add_losses(struct profile *into, const uint64_t *before, const struct profile *from)
{
    memcpy(into->losses, before, sizeof into->losses);
    for (unsigned i = 0; i < PROFILE_LOSSES; i++)
        profile_lose(into, i, from->losses[i]);
}

static int add_everything(struct merge *merge, const char *file)
{
    if (!make_maps(merge))
        return no_memory(merge);
    int result = match_counters(merge);
    if (result < 0)
        return result;
    if (!add_processes(merge) || !add_threads(merge) || !add_images(merge) || !add_inlined(merge) ||
        !add_addresses(merge) || !add_nodes(merge) || !add_cells(merge) || !add_edges(merge) ||
        !add_peaks(merge) || !add_descriptors(merge) || !add_latencies(merge) || !add_coverage(merge) ||
        !add_meta(merge, file))
        return no_memory(merge);
    return profile_timeline_each(file, add_sample, merge, merge->error);
}

int profile_merge_add(struct profile *into, const struct profile *from, const char *file,
                      struct base_error *error)
{
    uint64_t losses[PROFILE_LOSSES];
    uint32_t origins = count_origins(from);
    struct merge merge = {.into = into,
                          .from = from,
                          .first_origin = count_origins(into) + 1,
                          .origins = origins ? origins : 1,
                          .error = error};
    memcpy(losses, into->losses, sizeof losses);
    into->max_nodes = INT32_MAX; /* nothing is folded that was not */
    int result = add_everything(&merge, file);
    if (result == BASE_OK && into->losses[WIRE_LOSS_OUT_OF_MEMORY] != losses[WIRE_LOSS_OUT_OF_MEMORY])
        result = no_memory(&merge);
    free_maps(&merge);
    add_losses(into, losses, from);
    return result;
}

/* --- the merged profile's own meta values --- */

struct finish {
    struct profile *into;
    uint32_t origins;
    struct base_map values; /* key "origin.N.KEY", a string, -> its value, a string */
    struct base_map done;   /* KEY -> 1 */
    bool failed;
};

/* NULL when that origin has none. */
static const char *value_of(struct finish *finish, uint32_t origin, const char *key)
{
    char name[256];
    snprintf(name, sizeof name, "origin.%u.%s", origin, key);
    uint32_t value = base_map_find(&finish->values, profile_string(finish->into, name));
    return value == BASE_MAP_NONE ? NULL : profile_text(finish->into, value);
}

static bool is_in(const char *const *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], key))
            return true;
    return false;
}

/* What every recording has spent. Those that all must have, or the sum is one of something else. */
static bool is_sum(const char *key, bool *needs_all)
{
    static const char *const always[] = {"duration_ns", "target_cpu_ns", "overhead_tool_cpu_ns"},
                             *const sometimes[] = {"overhead_stub_samples", "overhead_signals",
                                                   "overhead_signal_ns",    "overhead_births",
                                                   "overhead_stopped_ns",   "overhead_target_memory",
                                                   "overhead_followed_ns",  "overhead_traced_ns",
                                                   "agent_memory",          "agent_memory_left"};
    *needs_all = is_in(always, sizeof always / sizeof *always, key);
    return *needs_all || is_in(sometimes, sizeof sometimes / sizeof *sometimes, key);
}

static void sum_up(struct finish *finish, const char *key, bool needs_all)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (!value && needs_all)
            return;
        if (value && __builtin_add_overflow(sum, strtoull(value, NULL, 10), &sum))
            sum = UINT64_MAX;
    }
    profile_set_metaf(finish->into, key, "%llu", (unsigned long long)sum);
}

/* Seconds since 1970; what is no number is no time. */
static void find_start(struct finish *finish, const char *key)
{
    uint64_t earliest = UINT64_MAX;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        uint64_t start = value && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : UINT64_MAX;
        earliest = start < earliest ? start : earliest;
    }
    if (earliest != UINT64_MAX)
        profile_set_metaf(finish->into, key, "%llu", (unsigned long long)earliest);
}

/* What somebody has to say is said, with who says it. */
static void join(struct finish *finish, const char *key)
{
    struct base_text text = {0};
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key), *name = value_of(finish, i, "name");
        if (value && *value)
            base_text_addf(&text, "%s%s: %s", text.length ? "; " : "", name ? name : "", value);
    }
    finish->failed |= text.failed;
    profile_set_meta(finish->into, key, base_text_string(&text));
    base_text_free(&text);
}

/* Whoever did count has no such words: then the sum is one of something. */
static void settle_absent(struct finish *finish, const char *key)
{
    for (uint32_t i = 1; i <= finish->origins; i++)
        if (!value_of(finish, i, key))
            return;
    join(finish, key);
}

static void keep_if_alike(struct finish *finish, const char *key)
{
    const char *first = value_of(finish, 1, key);
    for (uint32_t i = 2; first && i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (!value || strcmp(first, value))
            return;
    }
    if (first)
        profile_set_meta(finish->into, key, first);
}

/* Recordings without memory have none, and no say. */
static void settle_kind(struct finish *finish, const char *key)
{
    const char *all = NULL;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (value)
            all = all && strcmp(all, value) ? profile_heap_overhead_name(PROFILE_HEAP_MIXED) : value;
    }
    profile_set_meta(finish->into, key, all);
}

static void settle(struct finish *finish, const char *key)
{
    size_t length = strlen(key);
    bool needs_all;
    static const char *const never[] = {"file", "name", "calls_counted", "counters"};
    if (is_in(never, sizeof never / sizeof *never, key))
        return;
    if (is_sum(key, &needs_all))
        sum_up(finish, key, needs_all);
    else if (!strcmp(key, "start_time"))
        find_start(finish, key);
    else if (!strcmp(key, "heap_overhead") || !strcmp(key, "empty_pages"))
        settle_kind(finish, key);
    else if (!strcmp(key, "throws_absent"))
        settle_absent(finish, key);
    else if (length > 7 && !strcmp(key + length - 7, "_notice"))
        join(finish, key);
    else
        keep_if_alike(finish, key);
}

/* --- names of origins --- */

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The host, the file's last component, or all of its path: whatever is another everywhere. */
static const char *candidate(struct finish *finish, uint32_t origin, int attempt)
{
    const char *text = value_of(finish, origin, attempt == 0 ? "hostname" : "file");
    if (!text || !*text)
        return NULL;
    return attempt == 1 ? last_component(text) : text;
}

static bool are_distinct(struct finish *finish, int attempt)
{
    struct base_map seen = {0};
    bool distinct = true;
    for (uint32_t i = 1; distinct && i <= finish->origins; i++) {
        const char *text = candidate(finish, i, attempt);
        uint32_t string = profile_string(finish->into, text);
        distinct = text && base_map_find(&seen, string) == BASE_MAP_NONE;
        finish->failed |= distinct && !base_map_set(&seen, string, 1);
    }
    base_map_free(&seen);
    return distinct;
}

static void set_name(struct finish *finish, uint32_t origin, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "origin.%u.name", origin);
    profile_set_meta(finish->into, key, name);
    finish->failed |=
        !base_map_set(&finish->values, profile_string(finish->into, key), profile_string(finish->into, name));
}

static void name_origins(struct finish *finish)
{
    int attempt = 0;
    while (attempt < 3 && !are_distinct(finish, attempt))
        attempt++;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        char number[32];
        snprintf(number, sizeof number, "recording %u", i);
        set_name(finish, i, attempt < 3 ? candidate(finish, i, attempt) : number);
    }
}

/* Calls of some recordings, or of some names in one of them, and the time of all make no time of a call. */
static void note_calls(struct finish *finish)
{
    struct profile *into = finish->into;
    const char *notice = profile_meta(into, "calls_notice");
    uint32_t counted = 0, named = 0;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        counted += value_of(finish, i, "calls_counted") != NULL;
        named += value_of(finish, i, "calls_names") != NULL;
    }
    if ((counted && counted < finish->origins) || (named && !profile_meta(into, "calls_names")))
        profile_set_meta(into, "calls_partial", "1");
    if (counted && counted < finish->origins)
        profile_set_metaf(into, "calls_notice", "calls were counted in %u of %u recordings%s%s", counted,
                          finish->origins, notice ? "; " : "", notice ? notice : "");
}

static bool has_counter(struct finish *finish, uint32_t origin, const char *name)
{
    const char *list = value_of(finish, origin, "counters");
    size_t length = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += length)
        if (at > list && at[-1] == ' ' && at[length] == ' ')
            return true;
    return !list; /* merged by a version that did not keep them: nothing is known */
}

/* Of calls note_calls tells. Where no recording had one it is the losses that say so. */
static void note_counters(struct finish *finish)
{
    struct profile *into = finish->into;
    for (uint32_t i = 1; i < into->counter_count; i++) {
        const char *name = profile_text(into, into->counters[i].name);
        uint32_t having = 0;
        char key[256];
        for (uint32_t origin = 1; origin <= finish->origins && *name; origin++)
            having += has_counter(finish, origin, name);
        snprintf(key, sizeof key, PROFILE_EXTENT_PARTIAL "%s", name);
        if (having && having < finish->origins && i != profile_counts_calls(into))
            profile_set_metaf(into, key, "counted in %u of %u recordings", having, finish->origins);
    }
}

static void settle_all(struct finish *finish)
{
    struct profile *into = finish->into;
    size_t count = into->meta_count;
    for (size_t i = 0; i < count; i++) {
        struct origin_key key = read_key(profile_text(into, into->meta[i].key));
        uint32_t string = key.origin ? profile_string(into, key.rest) : 0;
        if (!string || base_map_find(&finish->done, string) != BASE_MAP_NONE)
            continue;
        finish->failed |= !base_map_set(&finish->done, string, 1);
        settle(finish, profile_text(into, string));
    }
    note_calls(finish);
    note_counters(finish);
}

int profile_merge_finish(struct profile *into, struct base_error *error)
{
    struct finish finish = {.into = into, .origins = count_origins(into)};
    uint64_t before = into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 0; i < into->meta_count; i++)
        finish.failed |= !base_map_set(&finish.values, into->meta[i].key, into->meta[i].value);
    name_origins(&finish);
    settle_all(&finish);
    base_map_free(&finish.values);
    base_map_free(&finish.done);
    if (finish.failed || into->losses[WIRE_LOSS_OUT_OF_MEMORY] != before)
        return base_fail(error, BASE_ENOMEM, "out of memory for merging");
    return BASE_OK;
}
