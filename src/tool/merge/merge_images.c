/* merge_images.c - what in one recording is what in the other: images, by build-id or by their functions, and
 * the addresses in them. */
#include <string.h>

#include "base_array.h"
#include "merge_parts.h"
#include "profile_model.h"

static bool index_functions(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->into->function_count; i++) {
        const struct profile_function *it = &merge->into->functions[i];
        uint64_t key = (uint64_t)it->image << 32 | it->name;
        bool first = base_map_find(&merge->functions, key) == BASE_MAP_NONE;
        if (!base_map_set(&merge->functions, key, first ? i : MERGE_AMBIGUOUS))
            return false;
    }
    return true;
}

/* Do the functions that both name lie at the same distance everywhere? Without any, nothing says that they
 * do. */
static bool merge_images_fits(const struct merge *merge, uint32_t from, uint32_t into, uint64_t *slide)
{
    const uint64_t page = 4096;
    bool kernel = merge->from->images[from].kind == PROFILE_IMAGE_KERNEL, any = false;
    for (uint32_t i = 1; i < merge->from->function_count; i++) {
        const struct profile_function *it = &merge->from->functions[i];
        if (it->image != from)
            continue;
        uint32_t name = profile_string(merge->into, merge_text(merge, it->name));
        uint32_t other = base_map_find(&merge->functions, (uint64_t)into << 32 | name);
        if (other == BASE_MAP_NONE || other == MERGE_AMBIGUOUS)
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
    return !strcmp(merge_text(merge, from), profile_text(merge->into, into));
}

static bool find_image(struct merge *merge, uint32_t index)
{
    const struct profile_image *it = &merge->from->images[index];
    struct merge_image *match = &merge->images[index];
    for (uint32_t i = 1; i < merge->images_before; i++) {
        const struct profile_image *other = &merge->into->images[i];
        if (other->kind != it->kind || !same_text(merge, it->build_id, other->build_id))
            continue;
        *match = (struct merge_image){.image = i, .guessed = !it->build_id};
        if (it->build_id ||
            (same_text(merge, it->path, other->path) && merge_images_fits(merge, index, i, &match->slide)))
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
        (struct profile_image){.name = profile_string(into, merge_text(merge, it->name)),
                               .path = profile_string(into, merge_text(merge, it->path)),
                               .build_id = profile_string(into, merge_text(merge, it->build_id)),
                               .kind = it->kind,
                               .process = merge->processes[it->process]};
    return (uint32_t)into->image_count++;
}

/* Names that are no code are one each; generated code belongs to its process; the rest is compared. */
static bool add_image(struct merge *merge, uint32_t index)
{
    const struct profile_image *it = &merge->from->images[index];
    if (it->kind == PROFILE_IMAGE_SPECIAL)
        merge->images[index] = (struct merge_image){
            .image = profile_image(merge->into, it->kind, merge_text(merge, it->path), NULL, 0)};
    else if (it->kind == PROFILE_IMAGE_JIT || !find_image(merge, index))
        merge->images[index] = (struct merge_image){.image = append_image(merge, index)};
    return merge->images[index].image != 0;
}

bool merge_images(struct merge *merge)
{
    merge->images_before = (uint32_t)merge->into->image_count;
    bool done = index_functions(merge);
    for (uint32_t i = 1; done && i < merge->from->image_count; i++)
        done = add_image(merge, i);
    return done;
}

bool merge_inlined(struct merge *merge)
{
    for (uint32_t i = 1; i < merge->from->inlined_count; i++) {
        const struct profile_inlined *it = &merge->from->inlined[i];
        merge->inlined[i] = profile_inlined(merge->into, merge_text(merge, it->function_name),
                                            merge_text(merge, it->file), it->line, merge->inlined[it->outer]);
        if (!merge->inlined[i])
            return false;
    }
    return true;
}

/* A guess is only as good as what both say of the same address. */
static bool is_contradicting_address(const struct merge *merge, const struct profile_address *mine,
                                     uint32_t known)
{
    const struct profile_address *other = &merge->into->addresses[known];
    return known < merge->addresses_before && mine->function && other->function &&
           !same_text(merge, merge->from->functions[mine->function].name,
                      merge->into->functions[other->function].name);
}

/* What is known of an address: whoever knows more is believed, the first one of equals. */
static bool merge_resolution(struct merge *merge, uint32_t index, const struct profile_address *mine,
                             uint64_t slide)
{
    struct profile_address value = merge->into->addresses[index];
    bool names = mine->function && !value.function, lines = mine->line && !value.line;
    if (value.resolution == PROFILE_UNRESOLVED || names) {
        value.resolution = mine->resolution;
        if (mine->function) {
            const struct profile_function *it = &merge->from->functions[mine->function];
            value.function = profile_function(merge->into, value.image, merge_text(merge, it->name),
                                              it->start + slide, it->end + slide);
            if (!value.function)
                return false;
        }
    }
    if (lines || (!value.lines_known && mine->lines_known)) {
        value.lines_known = mine->lines_known;
        value.file = profile_string(merge->into, merge_text(merge, mine->file));
        value.line = mine->line;
        value.inlined = merge->inlined[mine->inlined];
    }
    profile_set_address(merge->into, index, &value);
    return true;
}

static bool add_address(struct merge *merge, uint32_t i)
{
    const struct profile_address *mine = &merge->from->addresses[i];
    struct merge_image *match = &merge->images[mine->image];
    uint64_t slide = match->slide;
    if (!mine->image) /* a corrupt entry: it stays nothing */
        return true;
    uint32_t index = profile_address(merge->into, match->image, mine->address + slide);
    if (index && match->guessed && is_contradicting_address(merge, mine, index)) {
        match->apart = match->apart ? match->apart : append_image(merge, mine->image);
        slide = 0;
        index = profile_address(merge->into, match->apart, mine->address);
    }
    merge->addresses[i] = index;
    return index && merge_resolution(merge, index, mine, slide);
}

/* "(folded)" is known to the model by its address. */
bool merge_addresses(struct merge *merge)
{
    merge->addresses_before = merge->into->address_count;
    if (merge->from->folded_address && !profile_folded_address(merge->into))
        return false;
    for (uint32_t i = 1; i < merge->from->address_count; i++)
        if (!add_address(merge, i))
            return false;
    return true;
}
