/* profile_descriptors.c - what was open at the end. One row each; they are few beside what was opened
 * ever. */
#include "base_array.h"
#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

static bool is_whole(const struct profile *profile, const struct profile_descriptor *it)
{
    return it->process && it->process < profile->process_count && it->node < profile->node_count &&
           it->origin < PROFILE_DESCRIPTOR_ORIGINS;
}

static uint32_t free_row(const struct profile *profile)
{
    for (size_t i = 1; profile->self->free_descriptors && i < profile->descriptor_count; i++)
        if (!profile->descriptors[i].origin)
            return (uint32_t)i;
    return 0;
}

uint32_t profile_add_descriptor(struct profile *profile, const struct profile_descriptor *descriptor)
{
    struct profile_model *self = profile->self;
    if (!is_whole(profile, descriptor) || !descriptor->origin)
        return 0;
    uint32_t row = free_row(profile);
    if (row) {
        self->free_descriptors--;
    } else if (profile->descriptor_count < INT32_MAX &&
               base_array_room(profile->descriptors, profile->descriptor_count, self->descriptor_capacity)) {
        row = (uint32_t)profile->descriptor_count++;
    } else {
        profile_lose(profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return 0;
    }
    profile->descriptors[row] = *descriptor;
    profile_marks_set(&self->descriptors, row);
    return row;
}

void profile_set_descriptor(struct profile *profile, uint32_t row,
                            const struct profile_descriptor *descriptor)
{
    if (!row || row >= profile->descriptor_count || !is_whole(profile, descriptor) ||
        !profile->descriptors[row].origin)
        return;
    profile->descriptors[row] = *descriptor;
    profile->self->free_descriptors += !descriptor->origin;
    profile_marks_set(&profile->self->descriptors, row);
}

void profile_descriptors_move(struct profile *profile, const uint32_t *target)
{
    for (uint32_t i = 1; i < profile->descriptor_count; i++) {
        struct profile_descriptor *it = &profile->descriptors[i];
        if (!it->node || target[it->node] == it->node)
            continue;
        it->node = target[it->node];
        profile_marks_set(&profile->self->descriptors, i);
    }
}

const char *profile_descriptor_origin_name(uint32_t origin)
{
    static const char *const names[PROFILE_DESCRIPTOR_ORIGINS] = {"", "opened", "before", "inherited",
                                                                  "unseen"};
    return origin < PROFILE_DESCRIPTOR_ORIGINS ? names[origin] : "";
}
