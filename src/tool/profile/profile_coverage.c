/* profile_coverage.c - what of an image is counted, and what was left alone and why.
 *
 * Whoever plans an image says all of it, and says it again for the next process that maps the image: so
 * everything is found by what it is about and replaced. Of the functions that are not listed any more, the
 * address is remembered as long as the profile is in memory, so that they too are counted once. */
#include <stdlib.h>

#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

static uint64_t coverage_key_of(uint32_t image, uint32_t number)
{
    return (uint64_t)image << 32 | number;
}

static bool is_image(const struct profile *profile, uint32_t image)
{
    return image && image < profile->image_count;
}

static void coverage_lose(struct profile *profile)
{
    profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
}

static uint64_t at_most(uint64_t value, uint64_t most)
{
    return value < most ? value : most;
}

/* --- found and counted --- */

static bool index_coverage(struct profile *profile)
{
    struct profile_coverage_index *index = &profile->self->coverage_index;
    if (!index->coverage_rows)
        index->coverage_rows = 1;
    for (; index->coverage_rows < profile->coverage_count; index->coverage_rows++) {
        const struct profile_coverage *it = &profile->coverage[index->coverage_rows];
        if (!base_map_set(&index->coverage, coverage_key_of(it->image, it->kind),
                          (uint32_t)index->coverage_rows))
            return false;
    }
    return true;
}

/* The row, made when new; 0 when memory ran out. */
static uint32_t coverage_row(struct profile *profile, uint32_t image, uint32_t kind)
{
    struct profile_model *self = profile->self;
    if (!index_coverage(profile))
        return 0;
    uint32_t row = base_map_find(&self->coverage_index.coverage, coverage_key_of(image, kind));
    if (row != BASE_MAP_NONE)
        return row;
    row = (uint32_t)profile->coverage_count;
    if (row >= INT32_MAX || !base_array_room(profile->coverage, row, self->coverage_capacity) ||
        !base_map_set(&self->coverage_index.coverage, coverage_key_of(image, kind), row))
        return 0;
    profile->coverage[profile->coverage_count++] = (struct profile_coverage){.image = image, .kind = kind};
    self->coverage_index.coverage_rows = profile->coverage_count;
    return row;
}

static void set_row(struct profile *profile, uint32_t row, uint64_t found, uint64_t counted)
{
    struct profile_coverage *it = &profile->coverage[row];
    found = at_most(found, INT64_MAX);
    counted = at_most(counted, found);
    if (it->found == found && it->counted == counted)
        return;
    it->found = found;
    it->counted = counted;
    profile_marks_set(&profile->self->coverage, row);
}

void profile_set_coverage(struct profile *profile, uint32_t image, enum profile_coverage_kind kind,
                          uint64_t found, uint64_t counted)
{
    if (!is_image(profile, image) || kind < PROFILE_COVERAGE_SITES || kind >= PROFILE_COVERAGE_LISTED)
        return;
    uint32_t row = coverage_row(profile, image, kind);
    if (row)
        set_row(profile, row, found, counted);
    else
        coverage_lose(profile);
}

/* --- left alone --- */

static bool index_left(struct profile *profile)
{
    struct profile_coverage_index *index = &profile->self->coverage_index;
    if (!index->left_rows)
        index->left_rows = 1;
    for (; index->left_rows < profile->left_count; index->left_rows++) {
        const struct profile_left *it = &profile->left[index->left_rows];
        if (!base_map_set(&index->left, coverage_key_of(it->image, it->code), (uint32_t)index->left_rows))
            return false;
    }
    return true;
}

static bool add_left(struct profile *profile, const struct profile_left *left)
{
    struct profile_model *self = profile->self;
    size_t row = profile->left_count;
    if (row >= INT32_MAX || !base_array_room(profile->left, row, self->left_capacity) ||
        !base_map_set(&self->coverage_index.left, coverage_key_of(left->image, left->code), (uint32_t)row))
        return false;
    profile->left[profile->left_count++] = *left;
    self->coverage_index.left_rows = profile->left_count;
    return true;
}

void profile_set_left(struct profile *profile, uint32_t image, uint32_t code, const char *reason,
                      uint64_t count)
{
    if (!is_image(profile, image))
        return;
    struct profile_left wanted = {.image = image, .code = code, .count = at_most(count, INT64_MAX)};
    bool known = index_left(profile);
    uint32_t row = base_map_find(&profile->self->coverage_index.left, coverage_key_of(image, code));
    if (known && row == BASE_MAP_NONE && !count)
        return;
    wanted.reason = profile_string(profile, reason);
    if (!known || (reason && *reason && !wanted.reason)) {
        coverage_lose(profile);
    } else if (row == BASE_MAP_NONE) {
        if (!add_left(profile, &wanted))
            coverage_lose(profile);
    } else if (profile->left[row].count != wanted.count || profile->left[row].reason != wanted.reason) {
        profile->left[row] = wanted;
        profile_marks_set(&profile->self->left, row);
    }
}

/* --- functions --- */

static struct profile_uncovered_image *item_of(struct profile_coverage_index *index, uint32_t image)
{
    uint32_t item = base_map_find(&index->images, image);
    if (item != BASE_MAP_NONE)
        return &index->items[item];
    if (!base_array_room(index->items, index->item_count, index->item_capacity) ||
        !base_map_set(&index->images, image, (uint32_t)index->item_count))
        return NULL;
    index->items[index->item_count] = (struct profile_uncovered_image){0};
    return &index->items[index->item_count++];
}

static bool index_uncovered(struct profile *profile)
{
    struct profile_coverage_index *index = &profile->self->coverage_index;
    if (!index->uncovered_rows)
        index->uncovered_rows = 1;
    for (; index->uncovered_rows < profile->uncovered_count; index->uncovered_rows++) {
        const struct profile_uncovered *it = &profile->uncovered[index->uncovered_rows];
        struct profile_uncovered_image *item = item_of(index, it->image);
        if (!item || !base_map_set(&item->functions, it->address, (uint32_t)index->uncovered_rows))
            return false;
        item->kept++;
    }
    return true;
}

/* Everything that can fail comes first: a function is known, kept and counted, or none of it. */
static bool add_uncovered(struct profile *profile, struct profile_uncovered_image *item,
                          const struct profile_uncovered *uncovered, bool kept)
{
    struct profile_model *self = profile->self;
    size_t row = profile->uncovered_count;
    uint32_t listed = coverage_row(profile, uncovered->image, PROFILE_COVERAGE_LISTED);
    if (!listed || row >= INT32_MAX || !base_array_room(profile->uncovered, row, self->uncovered_capacity) ||
        !base_map_set(&item->functions, uncovered->address, kept ? (uint32_t)row : 0))
        return false;
    set_row(profile, listed, profile->coverage[listed].found + 1, profile->coverage[listed].counted + kept);
    if (!kept)
        return true;
    profile->uncovered[profile->uncovered_count++] = *uncovered;
    self->coverage_index.uncovered_rows = profile->uncovered_count;
    item->kept++;
    return true;
}

static bool set_uncovered(struct profile *profile, struct profile_uncovered *wanted, const char *name,
                          const char *reason)
{
    struct profile_uncovered_image *item =
        index_uncovered(profile) ? item_of(&profile->self->coverage_index, wanted->image) : NULL;
    if (!item)
        return false;
    uint32_t row = base_map_find(&item->functions, wanted->address);
    bool is_new = row == BASE_MAP_NONE, kept = is_new ? item->kept < PROFILE_UNCOVERED_MOST : row != 0;
    if (!kept) /* its texts are not needed */
        return !is_new || add_uncovered(profile, item, wanted, false);
    wanted->name = profile_string(profile, name);
    wanted->reason = profile_string(profile, reason);
    if ((name && *name && !wanted->name) || (reason && *reason && !wanted->reason))
        return false;
    if (is_new)
        return add_uncovered(profile, item, wanted, true);
    struct profile_uncovered *known = &profile->uncovered[row];
    if (known->name == wanted->name && known->reason == wanted->reason)
        return true;
    *known = *wanted;
    profile_marks_set(&profile->self->uncovered, row);
    return true;
}

void profile_set_uncovered(struct profile *profile, uint32_t image, uint64_t address, const char *name,
                           const char *reason)
{
    struct profile_uncovered wanted = {.address = address, .image = image};
    if (is_image(profile, image) && !set_uncovered(profile, &wanted, name, reason))
        coverage_lose(profile);
}

/* --- its index --- */

void profile_coverage_free(struct profile *profile)
{
    struct profile_coverage_index *index = &profile->self->coverage_index;
    for (size_t i = 0; i < index->item_count; i++)
        base_map_free(&index->items[i].functions);
    free(index->items);
    base_map_free(&index->coverage);
    base_map_free(&index->left);
    base_map_free(&index->images);
    *index = (struct profile_coverage_index){0};
}
