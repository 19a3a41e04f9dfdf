/* From mappings to objects: what is new gets numbers of counters, what is gone is closed. */
#include "space_survey.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "space_export.h"
#include "space_memory.h"
#include "space_read.h"
#include "wire_loss.h"

static struct space_object *find_object(struct space *space, const struct space_mapping *mapping)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (object->live && object->image == mapping->image && object->bias == mapping->bias)
            return object;
    }
    return NULL;
}

/* 1: a new object; 0: not wanted, or no numbers are left. */
static int add_object(struct space *space, struct space_session *session, const struct space_mapping *mapping)
{
    struct space_image *image = space_images_get(&session->images, mapping->image);
    if (!image || !base_array_room(space->objects, space->object_count, space->object_capacity))
        return BASE_ENOMEM;
    if (image->state != SPACE_PLANNED)
        return 0;
    uint32_t words = plan_words(&image->plan);
    if (words > SLAB_BLOCK_WORDS - space->word_end ||
        space_memory_commit(space, space->word_end + words, NULL) < 0) {
        if (!image->published_full)
            profile_lose(session->profile, WIRE_LOSS_NOT_PLANNED, 1);
        image->published_full = true;
        return 0;
    }
    struct space_object object = {.image = mapping->image,
                                  .planned = image,
                                  .bias = mapping->bias,
                                  .low = mapping->start,
                                  .high = mapping->end,
                                  .live = true,
                                  .base = space->word_end};
    object.slots = calloc(image->slot_count + 1, sizeof *object.slots);
    size_t choices = (size_t)image->plan.header->site_count + image->plan.header->hook_count;
    object.wanted = malloc(choices + 1);
    if (!object.slots || !object.wanted) {
        space_free_object(&object);
        return BASE_ENOMEM;
    }
    if (image->wanted)
        memcpy(object.wanted, image->wanted, choices);
    else
        memset(object.wanted, 1, choices);
    space->word_end += words;
    space->objects[space->object_count++] = object;
    return 1;
}

static bool is_mapped(const struct space *space, const struct space_object *object)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (space->mappings[i].image == object->image && space->mappings[i].bias == object->bias)
            return true;
    return false;
}

static int close_gone(struct space *space)
{
    int gone = 0;
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (!object->live || is_mapped(space, object))
            continue;
        object->live = false;
        space_read_close(space, i);
        gone++;
    }
    return gone;
}

static int count_unpatched(const struct space *space)
{
    int count = 0;
    for (size_t i = 0; i < space->object_count; i++)
        count += space->objects[i].live && !space->objects[i].refused &&
                 (!space->objects[i].patch || space->objects[i].stale);
    return count;
}

static void prepare_images(const struct space *space, struct space_session *session)
{
    uint32_t *indices = malloc(space->mapping_count * sizeof *indices + 1);
    for (size_t i = 0; indices && i < space->mapping_count; i++)
        indices[i] = space->mappings[i].image;
    if (indices)
        space_images_ahead(&session->images, indices, space->mapping_count);
    free(indices);
}

int space_survey(struct space *space, struct space_session *session, struct base_error *error)
{
    int result = space_look(space, session, error);
    if (result < 0)
        return result;
    close_gone(space);
    prepare_images(space, session);
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct space_object *known = find_object(space, mapping);
        if (known) {
            known->low = mapping->start < known->low ? mapping->start : known->low;
            known->high = mapping->end > known->high ? mapping->end : known->high;
            continue;
        }
        int added = add_object(space, session, mapping);
        if (added < 0)
            return base_fail(error, added, "out of memory");
    }
    if (count_unpatched(space) || space->mapping_count != space->chosen_mappings) {
        result = space_export_choose(space, session, error);
        space->chosen_mappings = space->mapping_count;
    }
    return result < 0 ? result : count_unpatched(space);
}
