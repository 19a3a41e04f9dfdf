#include "space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_search.h"
#include "loader_leads.h"
#include "proc_maps.h"
#include "space_memory.h"

/* --- a space --- */

struct space *space_new(struct space_session *session, pid_t pid)
{
    struct space *space = calloc(1, sizeof *space);
    if (space)
        *space = (struct space){.pid = pid,
                                .first_tid = pid,
                                .processes = 1,
                                .number = ++session->spaces,
                                .created_ns = base_clock_now(),
                                .form = STUB_PLAIN,
                                .committed = session->committed,
                                .word_end = STUB_BLOCK_WORDS};
    return space;
}

void space_patch_release(struct space_patch *patch)
{
    if (!patch || --patch->owners)
        return;
    slab_free(&patch->slab);
    free(patch->regions);
    free(patch->past);
    free(patch->ways);
    free(patch);
}

void space_free_object(struct space_object *object)
{
    space_patch_release(object->patch);
    space_patch_release(object->next);
    for (size_t i = 0; i < object->older_count; i++)
        space_patch_release(object->older[i]);
    free(object->older);
    free(object->wanted);
    free(object->slots);
    free(object->guesses);
    free(object->lifted);
}

void space_free(struct space *space)
{
    if (!space)
        return;
    if (space->detached.is_owned)
        close(space->detached.owner);
    for (size_t i = 0; i < space->object_count; i++)
        space_free_object(&space->objects[i]);
    for (size_t i = 0; i < space->arena_count; i++)
        space_memory_release(space->arenas[i].code);
    for (size_t i = 0; i < space->window_count; i++)
        space_memory_release(space->windows[i]);
    if (space->doorbell)
        munmap(space->doorbell, sizeof *space->doorbell);
    for (size_t i = 0; i < space->memory_count; i++)
        close(space->memories[i].file);
    space_memory_release(space->doorbell_code);
    free(space->mappings);
    free(space->objects);
    free(space->arenas);
    free(space->windows);
    free(space->memories);
    free(space->threads);
    base_map_free(&space->thread_blocks);
    base_map_free(&space->thread_assigned);
    base_map_free(&space->published_of);
    free(space->published);
    free(space);
}

/* --- what is mapped --- */

const struct space_mapping *space_mapping(const struct space *space, uint64_t address)
{
    size_t at = base_search_up_to(space->mappings, space->mapping_count, end, address);
    return at < space->mapping_count && space->mappings[at].start <= address ? &space->mappings[at] : NULL;
}

const struct space_object *space_object(const struct space *space, uint64_t address)
{
    const struct space_mapping *mapping = space_mapping(space, address);
    for (size_t i = 0; mapping && i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        if (object->live && object->image == mapping->image && object->bias == mapping->bias)
            return object;
    }
    return NULL;
}

static bool is_file(const struct proc_mapping *mapping)
{
    return mapping->executable &&
           ((mapping->path[0] == '/' && !loader_leads_is_ours(mapping) && mapping->inode) ||
            !strcmp(mapping->path, "[vdso]"));
}

/* The image of a mapping, opened, and its bias. */
static bool open_mapping(struct space_session *session, pid_t pid, const struct proc_mapping *from,
                         struct space_mapping *to)
{
    struct sample_images *images = session->images.images;
    struct sample_image_key key = {.path = from->path,
                                   .major = from->device_major,
                                   .minor = from->device_minor,
                                   .inode = from->inode,
                                   .deleted = from->deleted};
    uint32_t index = sample_images_find(images, &key);
    if (index == UINT32_MAX)
        return false;
    const struct sample_image *image = sample_images_open(images, index, pid, from->start, from->end);
    uint64_t address = from->offset;
    if (image->elf)
        elf_image_address_of_offset(image->elf, from->offset, &address);
    *to = (struct space_mapping){from->start, from->end, from->start - address, index};
    return true;
}

int space_look(struct space *space, struct space_session *session, struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    space->mapping_count = 0;
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++) {
        struct space_mapping mapping;
        if (!is_file(&maps.items[i]) || !open_mapping(session, space->pid, &maps.items[i], &mapping))
            continue;
        if (!base_array_room(space->mappings, space->mapping_count, space->mapping_capacity))
            result = base_fail(error, BASE_ENOMEM, "out of memory");
        else
            space->mappings[space->mapping_count++] = mapping;
    }
    proc_maps_free(&maps);
    return result;
}

const struct space_object *space_closed(const struct space *space, uint64_t *return_address)
{
    uint64_t number = *return_address >> SPACE_CLOSED_SHIFT;
    if (!number || number > space->object_count)
        return NULL;
    const struct space_object *object = &space->objects[number - 1];
    *return_address = (*return_address & ((1ull << SPACE_CLOSED_SHIFT) - 1)) + object->bias;
    return object;
}

uint64_t space_pairs(const struct space *space)
{
    uint64_t pairs = 0;
    for (size_t i = 0; i < space->object_count; i++)
        pairs += space->objects[i].planned->plan.header->indirect_found;
    return pairs;
}
