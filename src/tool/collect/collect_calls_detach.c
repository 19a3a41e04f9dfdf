#include "collect_calls_detach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "collect_calls_bell.h"
#include "collect_calls_leave.h"
#include "collect_calls_text.h"

/* --- bytes --- */

static size_t list_changes(const struct collect_calls_space *space, struct patch_memory_change **changes)
{
    size_t most = 1, count = 0;
    for (size_t i = 0; i < space->object_count; i++)
        if (space->objects[i].live && space->objects[i].patch)
            most += space->objects[i].patch->change_count;
    *changes = malloc(most * sizeof **changes);
    if (!*changes)
        return 0;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        if (!object->live || !object->patch)
            continue;
        memcpy(*changes + count, object->patch->changes, object->patch->change_count * sizeof **changes);
        count += object->patch->change_count;
    }
    if (space->bell_set)
        (*changes)[count++] = space->bell_change;
    return count;
}

/* What somebody else has changed since, or has unmapped, is left alone. */
static size_t keep_ours(const struct collect_calls_space *space, struct patch_memory_change *changes,
                        size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (collect_calls_text_holds(space->pid, &changes[i], changes[i].after))
            changes[kept++] = changes[i];
    return kept;
}

static int undo(struct collect_calls_space *space, struct collect_calls_rig *rig,
                const struct patch_memory_change *changes, size_t count, struct base_error *error)
{
    int result = patch_trace_stage(&rig->helper, space->pid, changes, count, error);
    return result < 0 ? result : patch_trace_undo(&rig->helper, space->pid, error);
}

/* Without memory for one list: object by object. */
static int put_back_singly(struct collect_calls_space *space, struct collect_calls_rig *rig,
                           struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        if (!object->live || !object->patch)
            continue;
        int undone = undo(space, rig, object->patch->changes, object->patch->change_count, error);
        result = undone < 0 ? undone : result;
    }
    int undone = space->bell_set ? undo(space, rig, &space->bell_change, 1, error) : BASE_OK;
    return undone < 0 ? undone : result;
}

static int put_back(struct collect_calls_space *space, struct collect_calls_rig *rig,
                    struct collect_calls_remains *remains, struct base_error *error)
{
    struct patch_memory_change *changes;
    struct base_error why = {0};
    size_t count = list_changes(space, &changes);
    if (!changes)
        return put_back_singly(space, rig, error);
    int result = undo(space, rig, changes, count, &why);
    if (result == BASE_EBUSY) {
        size_t kept = keep_ours(space, changes, count);
        remains->changes = count - kept;
        result = undo(space, rig, changes, kept, error);
    } else if (result < 0) {
        base_fail(error, result, "%s", why.text);
    }
    free(changes);
    return result;
}

/* --- text --- */

/* Pages that are as the file's need no copies: they are dropped, mapping by mapping, where all of one are so. */
static void share_text_again(const struct collect_calls_space *space, struct collect_calls_rig *rig,
                             struct collect_calls_remains *remains)
{
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_calls_mapping *mapping = &space->mappings[i];
        const struct elf_image *image = rig->images.images->items[mapping->image].elf;
        size_t own;
        if (!image || !elf_image_type(image))
            continue;
        if (collect_calls_text_is_as_file(space->pid, image, mapping->bias, mapping->start, mapping->end,
                                          &own) &&
            own &&
            patch_trace_give_back(&rig->helper, space->pid, mapping->start, mapping->end - mapping->start,
                                  NULL) == BASE_OK)
            own = 0;
        remains->text_pages += own;
    }
}

/* --- memory --- */

static bool list_ranges(const struct collect_calls_space *space, struct collect_calls_ranges *ranges)
{
    bool room = true;
    for (size_t i = 0; i < space->arena_count && room; i++) {
        const struct collect_calls_code *code = space->arenas[i].code;
        room = collect_calls_ranges_add(
            ranges, &(struct collect_calls_range){code->address, code->size, true, false});
    }
    for (size_t i = 0; i < space->window_count && room; i++) {
        const struct collect_calls_code *code = space->windows[i];
        room = collect_calls_ranges_add(
            ranges, &(struct collect_calls_range){code->address, code->size, true, false});
    }
    for (size_t i = 0; i < space->memory_count && room; i++) {
        const struct collect_calls_memory *memory = &space->memories[i];
        room = collect_calls_ranges_add(
            ranges, &(struct collect_calls_range){memory->address, memory->size, false, false});
    }
    if (space->bell_code && room)
        room = collect_calls_ranges_add(
            ranges,
            &(struct collect_calls_range){space->bell_code->address, space->bell_code->size, true, true});
    return room;
}

int collect_calls_detach(struct collect_calls_space *space, struct collect_calls_rig *rig, bool held,
                         struct collect_calls_remains *remains, struct base_error *error)
{
    struct collect_calls_ranges ranges = {0};
    *remains = (struct collect_calls_remains){0};
    bool room = list_ranges(space, &ranges);
    collect_calls_bell_silence(space);
    int result = held ? BASE_OK : patch_trace_hold(&rig->helper, space->pid, NULL, error);
    bool holding = result == BASE_OK && !held;
    if (result == BASE_OK)
        result = put_back(space, rig, remains, error);
    if (result == BASE_OK)
        share_text_again(space, rig, remains);
    if (result == BASE_OK && !room) /* the text is as it was; what is mapped stays */
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = collect_calls_leave_memory(&rig->helper, space->pid, &ranges, space->gs_offset != 0, held,
                                            &remains->memory_bytes, error);
    if (holding)
        patch_trace_release(&rig->helper, space->pid, NULL, NULL);
    free(ranges.items);
    return result;
}
