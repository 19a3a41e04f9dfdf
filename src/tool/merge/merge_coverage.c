/* merge_coverage.c - what of the calls was counted, where two recordings counted in the same images. */
#include <stdlib.h>

#include "merge_parts.h"
#include "profile_model.h"
#include "wire_loss.h"

static const struct profile_coverage *coverage_of(const struct profile *profile, uint32_t image,
                                                  uint32_t kind)
{
    for (size_t i = 1; i < profile->coverage_count; i++)
        if (profile->coverage[i].image == image && profile->coverage[i].kind == kind)
            return &profile->coverage[i];
    return NULL;
}

static uint64_t larger_count(uint64_t one, uint64_t two)
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
        found = larger_count(known->found, found);
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

bool merge_coverage(struct merge *merge)
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
        profile_set_left(merge->into, image, it->code, merge_text(merge, it->reason),
                         larger_count(it->count, left_of(merge->into, image, it->code)));
    }
    for (size_t i = 1; i < from->uncovered_count; i++) {
        const struct profile_uncovered *it = &from->uncovered[i];
        const struct merge_image *match = &merge->images[it->image];
        profile_set_uncovered(merge->into, match->image, it->address + match->slide,
                              merge_text(merge, it->name), merge_text(merge, it->reason));
    }
    for (size_t i = 1; i < from->coverage_count; i++)
        if (from->coverage[i].kind == PROFILE_COVERAGE_LISTED)
            keep_listed(merge, &from->coverage[i]);
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}
