/* export_massif.c - memory as Valgrind's massif writes it ("Massif's Output File Format" in its manual), for
 * ms_print: two pictures of the heap after an empty one, at its peak and at the end. Each has the tree of who
 * allocated what is held, from the allocating function outwards, which is the profile's tree the other way
 * round.
 *
 * A line of the tree says how many follow below it, so what is too small to be shown is added up in one. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_text.h"
#include "export_formats.h"
#include "export_tree.h"
#include "profile_extent.h"
#include "profile_heap.h"

enum { LEAST = 1000 }; /* a place has at least that part of everything */

struct site {
    uint32_t parent, frame;
    struct export_figure held;
    uint32_t first, next; /* children, in any order */
};

struct massif {
    struct export_job *job;
    const struct export_tree *tree;
    uint16_t counter; /* of the picture */
    const struct export_figure *self;
    struct site *sites; /* 0 is the root */
    size_t count, capacity;
    struct base_map index;
    uint32_t *order; /* of the children of one site, while it is written */
    size_t order_capacity;
};

static void put_massif_text(struct massif *massif, const char *string)
{
    export_output_text(massif->job->output, string);
}

static void massif_add(const struct massif *massif, struct export_figure *sum,
                       const struct export_figure *more)
{
    export_tree_add(massif->job->profile, massif->counter, sum, more);
}

/* --- the tree, inside out --- */

static uint32_t site_of(struct massif *massif, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t known = base_map_find(&massif->index, key), fresh = (uint32_t)massif->count;
    if (known != BASE_MAP_NONE)
        return known;
    if (!base_array_room(massif->sites, massif->count, massif->capacity) ||
        !base_map_set(&massif->index, key, fresh))
        return BASE_MAP_NONE;
    massif->sites[massif->count++] =
        (struct site){.parent = parent, .frame = frame, .next = massif->sites[parent].first};
    massif->sites[parent].first = fresh;
    return fresh;
}

static bool add_stack(struct massif *massif, uint32_t leaf)
{
    const struct export_figure *held = &massif->self[leaf];
    uint32_t at = 0;
    massif_add(massif, &massif->sites[0].held, held);
    for (uint32_t branch = leaf; branch; branch = massif->tree->branches[branch].parent) {
        at = site_of(massif, at, massif->tree->branches[branch].frame);
        if (at == BASE_MAP_NONE)
            return false;
        massif_add(massif, &massif->sites[at].held, held);
    }
    return true;
}

static bool turn_round(struct massif *massif)
{
    massif->count = 0;
    base_map_free(&massif->index);
    if (!base_array_room(massif->sites, 0, massif->capacity))
        return false;
    massif->sites[massif->count++] = (struct site){0};
    for (uint32_t i = 1; i < massif->tree->count; i++)
        if (massif->self[i].value > 0 && !add_stack(massif, i))
            return false;
    return true;
}

/* --- writing it --- */

static int largest_first(const void *left, const void *right, void *context)
{
    const struct site *sites = context, *a = &sites[*(const uint32_t *)left],
                      *b = &sites[*(const uint32_t *)right];
    if (a->held.value != b->held.value)
        return a->held.value > b->held.value ? -1 : 1;
    return (a > b) - (a < b);
}

static void put_indent(struct massif *massif, size_t depth)
{
    for (size_t i = 0; i < depth; i++)
        export_output_bytes(massif->job->output, " ", 1);
}

static void write_place(struct massif *massif, const struct site *site)
{
    const struct export_frames *frames = massif->tree->frames;
    const struct export_frame *frame = &frames->frames[site->frame];
    const char *file = profile_text(frames->profile, frame->file);
    put_massif_text(massif, frames->names[frame->function]);
    if (!*file)
        file = export_frames_image(frames, frame->function);
    if (!*file)
        return;
    put_massif_text(massif, frame->line ? " (" : " (in ");
    export_output_name(massif->job->output, file, EXPORT_ESCAPE_LINE);
    if (frame->line) {
        put_massif_text(massif, ":");
        export_output_unsigned(massif->job->output, frame->line);
    }
    put_massif_text(massif, ")");
}

struct rest { /* what is too small */
    size_t places;
    struct export_figure held;
};

static bool is_shown_site(const struct massif *massif, uint32_t site)
{
    return massif->sites[site].held.value >= massif->sites[0].held.value / LEAST;
}

static void write_site(struct massif *massif, uint32_t number, size_t depth, size_t children)
{
    const struct site *site = &massif->sites[number];
    put_indent(massif, depth);
    put_massif_text(massif, "n");
    export_output_unsigned(massif->job->output, children);
    put_massif_text(massif, ": ");
    export_output_integer(massif->job->output, site->held.value);
    put_massif_text(massif,
                    number ? " " : " (heap allocation functions) malloc/new/new[], --alloc-fns, etc.");
    if (number)
        write_place(massif, site);
    put_massif_text(massif, "\n");
}

static void write_rest(struct massif *massif, const struct rest *rest, size_t depth)
{
    put_indent(massif, depth);
    put_massif_text(massif, "n0: ");
    export_output_integer(massif->job->output, rest->held.value);
    put_massif_text(massif, " in ");
    export_output_unsigned(massif->job->output, rest->places);
    put_massif_text(massif, " places, all below a thousandth of everything\n");
}

struct pending {
    uint32_t site; /* BASE_MAP_NONE: the line of `rest` */
    size_t depth;
    struct rest rest;
};

/* Puts what lies below a site on the stack, the largest on top; returns how many lines that will be, SIZE_MAX
 * when memory ran out. */
static size_t open_site(struct massif *massif, uint32_t number, size_t depth, struct pending **stack,
                        size_t *waiting, size_t *capacity)
{
    struct rest rest = {0};
    size_t count = 0;
    for (uint32_t child = massif->sites[number].first; child; child = massif->sites[child].next) {
        if (!is_shown_site(massif, child)) {
            rest.places++;
            massif_add(massif, &rest.held, &massif->sites[child].held);
            continue;
        }
        if (!base_array_room(massif->order, count, massif->order_capacity))
            return SIZE_MAX;
        massif->order[count++] = child;
    }
    if (count)
        qsort_r(massif->order, count, sizeof *massif->order, largest_first, massif->sites);
    for (size_t i = count + (rest.places > 0); i-- > 0;) {
        if (!base_array_room(*stack, *waiting, *capacity))
            return SIZE_MAX;
        (*stack)[(*waiting)++] =
            (struct pending){i < count ? massif->order[i] : BASE_MAP_NONE, depth + 1, rest};
    }
    return count + (rest.places > 0);
}

static bool write_sites(struct massif *massif)
{
    struct pending *stack = NULL;
    size_t waiting = 0, capacity = 0;
    bool done = base_array_room(stack, waiting, capacity);
    if (done)
        stack[waiting++] = (struct pending){0};
    while (done && waiting) {
        struct pending next = stack[--waiting];
        if (next.site == BASE_MAP_NONE) {
            write_rest(massif, &next.rest, next.depth);
            continue;
        }
        size_t children = open_site(massif, next.site, next.depth, &stack, &waiting, &capacity);
        done = children != SIZE_MAX;
        if (done)
            write_site(massif, next.site, next.depth, children);
    }
    free(stack);
    return done;
}

/* --- pictures --- */

static void write_head(struct massif *massif, unsigned number, uint64_t time_ms, int64_t bytes,
                       const char *tree)
{
    struct export_output *output = massif->job->output;
    put_massif_text(massif, "#-----------\nsnapshot=");
    export_output_unsigned(output, number);
    put_massif_text(massif, "\n#-----------\ntime=");
    export_output_unsigned(output, time_ms);
    put_massif_text(massif, "\nmem_heap_B=");
    export_output_integer(output, bytes);
    put_massif_text(massif, "\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=");
    put_massif_text(massif, tree);
    put_massif_text(massif, "\n");
}

static bool write_picture(struct massif *massif, unsigned number, uint64_t time_ms, enum profile_heap which,
                          struct export_figure *self)
{
    massif->counter = (uint16_t)profile_heap_find(massif->job->profile, which);
    massif->self = self;
    export_tree_figures(massif->tree, massif->counter, self, NULL);
    if (!turn_round(massif))
        return false;
    write_head(massif, number, time_ms, massif->sites[0].held.value,
               which == PROFILE_HEAP_PEAK ? "peak" : "detailed");
    return write_sites(massif);
}

/* Behind what the pictures are of: how far that is all that there was. */
static void write_extent(struct massif *massif)
{
    struct profile_extent extent =
        profile_extent_of(massif->job->profile, profile_heap_find(massif->job->profile, PROFILE_HEAP_LIVE));
    struct base_text reason = {0};
    profile_extent_reason(&extent, &reason);
    if (extent.degree != PROFILE_EXTENT_ALL) {
        put_massif_text(massif,
                        extent.degree == PROFILE_EXTENT_NONE ? "; not counted" : "; not all was counted");
        put_massif_text(massif, reason.length ? ": " : "");
        export_output_name(massif->job->output, base_text_string(&reason), EXPORT_ESCAPE_LINE);
    }
    massif->job->output->no_memory |= reason.failed;
    base_text_free(&reason);
}

static bool write_pictures(struct massif *massif)
{
    const struct profile *profile = massif->job->profile;
    const char *command = profile_meta(profile, "command"), *duration = profile_meta(profile, "duration_ns");
    size_t peaks;
    const struct profile_peak *highest = profile_heap_highest(profile, &peaks);
    uint64_t peak = highest ? highest->time_ns / 1000000 : 0,
             end = duration ? strtoull(duration, NULL, 10) / 1000000 : 0;
    struct export_figure *self = calloc(massif->tree->count, sizeof *self);
    put_massif_text(massif, "desc: heap.peak and heap.live of ");
    export_output_name(massif->job->output, massif->job->options->file, EXPORT_ESCAPE_LINE);
    write_extent(massif);
    put_massif_text(massif, "\ncmd: ");
    export_output_name(massif->job->output, command && *command ? command : massif->job->options->file,
                       EXPORT_ESCAPE_LINE);
    put_massif_text(massif, "\ntime_unit: ms\n");
    write_head(massif, 0, 0, 0, "empty");
    bool done = self && write_picture(massif, 1, peak, PROFILE_HEAP_PEAK, self) &&
                write_picture(massif, 2, end > peak ? end : peak, PROFILE_HEAP_LIVE, self);
    free(self);
    return done;
}

bool export_massif(struct export_job *job)
{
    struct export_frames frames;
    struct export_tree tree = {.frames = &frames, .apart = EXPORT_TOGETHER, .marks = true};
    struct massif massif = {.job = job, .tree = &tree};
    bool done = export_frames_init(&frames, job->profile, EXPORT_DETAIL_INLINES | EXPORT_DETAIL_LINES) &&
                export_tree_build(&tree, job->options) &&
                export_frames_write_names(&frames, EXPORT_ESCAPE_LINE, false) && write_pictures(&massif);
    free(massif.sites);
    free(massif.order);
    base_map_free(&massif.index);
    export_tree_free(&tree);
    export_frames_free(&frames);
    return done;
}
