#include "calls_remove.h"

#include <stdlib.h>
#include <string.h>

#include "calls_doorbell.h"
#include "loader_kept.h"
#include "loader_leads.h"
#include "proc_maps.h"
#include "remains_drain.h"
#include "space_apply.h"
#include "space_text.h"

#define AT_ONCE     64 /* changes that are undone together when there is no memory for all */
#define LOOK_ROUNDS 4  /* breakpoints come and go also while the process is held */

/* --- bytes --- */

/* What somebody else has changed since, or has unmapped, is left alone when `only_ours`. */
struct listing {
    const struct space *space;
    struct trace_stage stage;
    size_t left_alone, probed;
    bool only_ours;
};

static int list_change(struct listing *listing, const struct trace_memory_change *change)
{
    struct trace_memory_change ours = *change;
    enum space_undo undo = listing->only_ours ? space_text_undo(listing->space->pid, &ours) : SPACE_UNDO_ALL;
    listing->left_alone += undo == SPACE_UNDO_OTHERS;
    listing->probed += undo == SPACE_UNDO_PROBED && memcmp(ours.before, ours.after, ours.length) != 0;
    return undo <= SPACE_UNDO_PROBED ? trace_stage_add(&listing->stage, &ours, NULL) : BASE_OK;
}

static int list_changes(struct listing *listing)
{
    const struct space *space = listing->space;
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        const struct slab *slab = object->live && object->patch ? &object->patch->slab : NULL;
        for (size_t j = 0; slab && j < slab->write_count && result == BASE_OK; j++) {
            struct trace_memory_change change = space_apply_change(&slab->writes[j]);
            if (!space_apply_is_lifted(object, &slab->writes[j]))
                result = list_change(listing, &change);
        }
    }
    if (space->doorbell_set && result == BASE_OK)
        result = list_change(listing, &space->doorbell_change);
    for (size_t i = 0; i < space->detached.count && result == BASE_OK; i++)
        result = list_change(listing, &space->detached.changes[i]);
    return result;
}

/* BASE_ENOMEM: there is no memory for a list. */
static int undo_all(struct space *space, struct space_session *session, bool only_ours,
                    struct calls_remains *remains, struct base_error *error)
{
    struct listing listing = {.space = space, .stage = TRACE_STAGE_EMPTY, .only_ours = only_ours};
    int result = list_changes(&listing);
    if (result < 0)
        base_fail(error, result, "out of memory");
    if (result == BASE_OK)
        result = helper_trace_stage_list(&session->helper, space->pid, &listing.stage, error);
    if (result == BASE_OK)
        result = helper_trace_undo(&session->helper, space->pid, error);
    remains->changes = listing.left_alone;
    remains->probed = listing.probed;
    trace_stage_free(&listing.stage);
    return result;
}

static int undo_list(struct space *space, struct space_session *session,
                     const struct trace_memory_change *changes, size_t count, struct base_error *error)
{
    int result = helper_trace_stage(&session->helper, space->pid, changes, count, error);
    return result < 0 ? result : helper_trace_undo(&session->helper, space->pid, error);
}

static int undo_some(struct space *space, struct space_session *session, const struct space_object *object,
                     const struct slab_write *writes, size_t count, struct base_error *error)
{
    struct trace_memory_change changes[AT_ONCE];
    size_t ours = 0;
    for (size_t i = 0; i < count; i++)
        if (!space_apply_is_lifted(object, &writes[i]))
            changes[ours++] = space_apply_change(&writes[i]);
    return undo_list(space, session, changes, ours, error);
}

/* Without memory for one list: a few at a time. */
static int put_back_by_few(struct space *space, struct space_session *session, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        const struct slab *slab = object->live && object->patch ? &object->patch->slab : NULL;
        for (size_t at = 0, count; slab && at < slab->write_count; at += count) {
            count = slab->write_count - at < AT_ONCE ? slab->write_count - at : AT_ONCE;
            int undone = undo_some(space, session, object, slab->writes + at, count, error);
            result = undone < 0 ? undone : result;
        }
    }
    int undone = space->doorbell_set ? undo_list(space, session, &space->doorbell_change, 1, error) : BASE_OK;
    result = undone < 0 ? undone : result;
    undone = undo_list(space, session, space->detached.changes, space->detached.count, error);
    return undone < 0 ? undone : result;
}

static int put_code_back(struct space *space, struct space_session *session, struct calls_remains *remains,
                         struct base_error *error)
{
    struct base_error why = {0};
    int result = undo_all(space, session, false, remains, &why);
    for (int i = 0; i < LOOK_ROUNDS && result == BASE_EBUSY; i++) {
        why = (struct base_error){0};
        result = undo_all(space, session, true, remains, &why);
    }
    if (result == BASE_ENOMEM)
        return put_back_by_few(space, session, error);
    return result < 0 ? base_fail(error, result, "%s", why.text) : result;
}

/* --- text --- */

/* Is start..end-1 mapped from that very file now? The program may have mapped anything else there since, or
 * moved its text to anonymous memory (huge pages): dropped, such pages are zeros. */
static bool is_mapped_from(const struct proc_maps *maps, const struct sample_image_key *key, uint64_t start,
                           uint64_t end)
{
    for (size_t i = 0; i < maps->count && start < end; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (mapping->end <= start || mapping->start > start)
            continue;
        if (!mapping->inode || mapping->shared || mapping->inode != key->inode ||
            mapping->device_major != key->major || mapping->device_minor != key->minor)
            return false;
        start = mapping->end;
    }
    return start >= end;
}

/* Pages that are as the file's need no copies: they are dropped, mapping by mapping, where all of one are
 * so. */
static void share_text_again(const struct space *space, struct space_session *session,
                             struct calls_remains *remains)
{
    struct proc_maps maps = {0};
    proc_maps_read(space->pid, &maps, NULL);
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        const struct sample_image *of = &session->images.images->items[mapping->image];
        const struct elf_image *image = of->elf;
        size_t own;
        if (!image || !elf_image_type(image) ||
            !is_mapped_from(&maps, &of->key, mapping->start, mapping->end))
            continue;
        if (space_text_is_as_file(space->pid, image, mapping->bias, mapping->start, mapping->end, &own) &&
            own &&
            helper_trace_give_back(&session->helper, space->pid, mapping->start,
                                   mapping->end - mapping->start, NULL) == BASE_OK)
            own = 0;
        remains->text_pages += own;
    }
    proc_maps_free(&maps);
}

/* --- memory --- */

static bool list_ranges(const struct space *space, struct remains_ranges *ranges)
{
    bool room = true;
    for (size_t i = 0; i < space->arena_count && room; i++) {
        const struct space_code *code = space->arenas[i].code;
        room = remains_ranges_add(ranges, &(struct loader_range){code->address, code->size, true, false});
    }
    for (size_t i = 0; i < space->window_count && room; i++) {
        const struct space_code *code = space->windows[i];
        room = remains_ranges_add(ranges, &(struct loader_range){code->address, code->size, true, false});
    }
    for (size_t i = 0; i < space->memory_count && room; i++) {
        const struct space_memory *memory = &space->memories[i];
        room =
            remains_ranges_add(ranges, &(struct loader_range){memory->address, memory->size, false, false});
    }
    if (space->doorbell_code && room)
        room = remains_ranges_add(ranges, &(struct loader_range){space->doorbell_code->address,
                                                                 space->doorbell_code->size, true, true});
    return room;
}

/* Adds what of a range is memory of exact calls. */
static bool add_own_parts(const struct proc_maps *maps, const struct loader_range *range,
                          struct remains_ranges *own)
{
    bool room = true;
    for (size_t i = 0; i < maps->count && room; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        struct loader_range part = *range;
        uint64_t end =
            range->address + range->size < mapping->end ? range->address + range->size : mapping->end;
        part.address = range->address > mapping->start ? range->address : mapping->start;
        if (part.address >= end || !loader_leads_is_of_calls(mapping))
            continue;
        part.size = end - part.address;
        room = remains_ranges_add(own, &part);
    }
    return room;
}

/* A fork child that was created before something was mapped into its parent may have memory of its own there.
 * False: out of memory. */
static bool keep_own_ranges(pid_t pid, struct remains_ranges *ranges)
{
    struct remains_ranges all = *ranges;
    struct proc_maps maps = {0};
    bool room = proc_maps_read(pid, &maps, NULL) != BASE_ENOMEM;
    *ranges = (struct remains_ranges){0};
    for (size_t i = 0; i < all.count && room; i++)
        room = add_own_parts(&maps, &all.items[i], ranges);
    proc_maps_free(&maps);
    free(all.items);
    return room;
}

static uint64_t bytes_of(const struct remains_ranges *ranges)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < ranges->count; i++)
        bytes += ranges->items[i].size;
    return bytes;
}

/* If it cannot be noted, the memory stays as well, until the user runs `tally detach`. */
static void keep_memory(const struct space *space, struct space_session *session,
                        const struct remains_ranges *ranges, struct calls_remains *remains)
{
    remains->memory_bytes = bytes_of(ranges);
    const struct loader_target target = {&session->helper, space->pid, space->pid};
    loader_kept_note(&target, ranges->items, ranges->count, NULL);
}

int calls_remove(struct space *space, struct space_session *session, bool held, struct calls_remains *remains,
                 struct base_error *error)
{
    struct remains_ranges ranges = {0};
    *remains = (struct calls_remains){0};
    calls_doorbell_silence(space);
    int result = held ? BASE_OK : helper_trace_hold(&session->helper, space->pid, NULL, error);
    bool room = list_ranges(space, &ranges) && (!space->copied || keep_own_ranges(space->pid, &ranges));
    bool holding = result == BASE_OK && !held;
    if (result == BASE_OK)
        result = put_code_back(space, session, remains, error);
    if (result != BASE_ENOTFOUND) {
        remains->changes += space->overwritten;
        remains->published = space->overwritten;
    }
    if (result == BASE_OK)
        share_text_again(space, session, remains);
    if (result == BASE_OK && !room) /* the text is as it was; what is mapped stays */
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK && remains->changes) /* they may have been copied elsewhere */
        keep_memory(space, session, &ranges, remains);
    else if (result == BASE_OK)
        result = remains_drain_memory(
            &(struct remains_memory){&session->helper, space->pid, &ranges, space->gs_offset, held},
            &remains->memory_bytes, error);
    if (holding)
        helper_trace_release(&session->helper, space->pid, NULL, NULL);
    free(ranges.items);
    return result;
}
