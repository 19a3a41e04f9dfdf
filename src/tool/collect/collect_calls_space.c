#include "collect_calls_space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "base_search.h"
#include "collect_calls_build.h"
#include "collect_calls_export.h"
#include "collect_calls_read.h"
#include "collect_calls_threads.h"
#include "elf_maps.h"
#include "patch_commit.h"
#include "patch_inject.h"
#include "patch_target.h"
#include "patch_trace.h"
#include "wire_loss.h"

/* --- memory of ours --- */

/* Does the data lie before the code that was mapped for `room`? */
static bool is_data_first(const struct patch_helper_room *room, const struct collect_calls_code *code)
{
    return room->data_first && code->address < room->low;
}

/* Code and data of `room` go again. */
static void unmap_both(struct collect_calls_rig *rig, pid_t pid, const struct patch_helper_room *room,
                       const struct collect_calls_code *code)
{
    uint64_t start = code->address - (is_data_first(room, code) ? room->data : 0);
    patch_trace_unmap(&rig->helper, pid, start, room->size + room->data, NULL);
}

int collect_calls_space_code(struct collect_calls_rig *rig, pid_t pid, struct patch_helper_room room,
                             struct collect_calls_code **made, struct base_error *error)
{
    struct collect_calls_code *code = calloc(1, sizeof *code);
    if (!code)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_EXEC;
    *code = (struct collect_calls_code){.owners = 1, .file = -1, .size = room.size, .top = room.size};
    int result = patch_trace_share(&rig->helper, pid, &room, &code->address, &code->file, error);
    if (result < 0) {
        free(code);
        return result;
    }
    code->bytes = mmap(NULL, code->size, PROT_READ | PROT_WRITE, MAP_SHARED, code->file, 0);
    if (code->bytes == MAP_FAILED) {
        unmap_both(rig, pid, &room, code);
        close(code->file);
        free(code);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    *made = code;
    return BASE_OK;
}

int collect_calls_space_both(struct collect_calls_space *space, struct collect_calls_rig *rig,
                             struct patch_helper_room room, struct collect_calls_code **code,
                             struct collect_calls_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = collect_calls_space_code(rig, space->pid, room, code, error);
    if (result < 0)
        return result;
    uint64_t address = (*code)->address;
    *memory = (struct collect_calls_memory){.file = fcntl((*code)->file, F_DUPFD_CLOEXEC, 0),
                                            .offset = room.size,
                                            .address = is_data_first(&room, *code) ? address - room.data
                                                                                   : address + room.size,
                                            .size = room.data};
    if (memory->file >= 0) {
        space->memories[space->memory_count++] = *memory;
        return BASE_OK;
    }
    result = base_fail_errno(error, errno, "memory for counters");
    unmap_both(rig, space->pid, &room, *code);
    collect_calls_code_release(*code);
    *code = NULL;
    return result;
}

struct collect_calls_code *collect_calls_code_split(struct collect_calls_code *code, uint64_t size)
{
    struct collect_calls_code *head = malloc(sizeof *head);
    if (!head)
        return NULL;
    *head = *code;
    head->size = head->top = size;
    head->file = fcntl(code->file, F_DUPFD_CLOEXEC, 0);
    if (head->file < 0) {
        free(head);
        return NULL;
    }
    code->offset += size;
    code->address += size;
    code->size -= size;
    code->top -= size;
    code->bytes += size;
    return head;
}

void collect_calls_code_release(struct collect_calls_code *code)
{
    if (!code || --code->owners)
        return;
    munmap(code->bytes, code->size);
    close(code->file);
    free(code);
}

bool collect_calls_space_is_code(const struct collect_calls_space *space, uint64_t address)
{
    bool found = false;
    for (size_t i = 0; i < space->arena_count && !found; i++)
        found = address - space->arenas[i].code->address < space->arenas[i].code->size;
    for (size_t i = 0; i < space->window_count && !found; i++)
        found = address - space->windows[i]->address < space->windows[i]->size;
    return found;
}

int collect_calls_space_memory(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct patch_helper_room room, struct collect_calls_memory *memory,
                               struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_WRITE;
    *memory = (struct collect_calls_memory){.file = -1, .size = room.size};
    int result = patch_trace_share(&rig->helper, space->pid, &room, &memory->address, &memory->file, error);
    if (result == BASE_OK)
        space->memories[space->memory_count++] = *memory;
    return result;
}

/* --- a space --- */

struct collect_calls_space *collect_calls_space_new(struct collect_calls_rig *rig, pid_t pid)
{
    struct collect_calls_space *space = calloc(1, sizeof *space);
    if (space)
        *space = (struct collect_calls_space){.pid = pid,
                                              .first_tid = pid,
                                              .processes = 1,
                                              .number = ++rig->spaces,
                                              .born_ns = patch_target_now(),
                                              .form = PATCH_PLAIN,
                                              .committed = rig->committed,
                                              .word_end = PATCH_BLOCK_WORDS};
    return space;
}

void collect_calls_patch_release(struct collect_calls_patch *patch)
{
    if (!patch || --patch->owners)
        return;
    patch_slab_free(&patch->slab);
    free(patch->regions);
    free(patch->past);
    free(patch->ways);
    free(patch);
}

static void free_object(struct collect_calls_object *object)
{
    collect_calls_patch_release(object->patch);
    collect_calls_patch_release(object->next);
    for (size_t i = 0; i < object->older_count; i++)
        collect_calls_patch_release(object->older[i]);
    free(object->older);
    free(object->wanted);
    free(object->slots);
    free(object->guesses);
    free(object->lifted);
}

void collect_calls_space_free(struct collect_calls_space *space)
{
    if (!space)
        return;
    if (space->loose.is_owned)
        close(space->loose.owner);
    for (size_t i = 0; i < space->object_count; i++)
        free_object(&space->objects[i]);
    for (size_t i = 0; i < space->arena_count; i++)
        collect_calls_code_release(space->arenas[i].code);
    for (size_t i = 0; i < space->window_count; i++)
        collect_calls_code_release(space->windows[i]);
    if (space->bell)
        munmap(space->bell, sizeof *space->bell);
    for (size_t i = 0; i < space->memory_count; i++)
        close(space->memories[i].file);
    collect_calls_code_release(space->bell_code);
    free(space->mappings);
    free(space->objects);
    free(space->arenas);
    free(space->windows);
    free(space->memories);
    free(space->threads);
    base_map_free(&space->thread_blocks);
    base_map_free(&space->thread_assigned);
    base_map_free(&space->told_of);
    free(space->told);
    free(space);
}

/* --- what is mapped --- */

const struct collect_calls_mapping *collect_calls_space_mapping(const struct collect_calls_space *space,
                                                                uint64_t address)
{
    size_t at = base_search_up_to(space->mappings, space->mapping_count, end, address);
    return at < space->mapping_count && space->mappings[at].start <= address ? &space->mappings[at] : NULL;
}

const struct collect_calls_object *collect_calls_space_object(const struct collect_calls_space *space,
                                                              uint64_t address)
{
    const struct collect_calls_mapping *mapping = collect_calls_space_mapping(space, address);
    for (size_t i = 0; mapping && i < space->object_count; i++) {
        const struct collect_calls_object *object = &space->objects[i];
        if (object->live && object->image == mapping->image && object->bias == mapping->bias)
            return object;
    }
    return NULL;
}

static bool is_file(const struct elf_mapping *mapping)
{
    return mapping->executable &&
           ((mapping->path[0] == '/' && strncmp(mapping->path, "/memfd:tally", 12) && mapping->inode) ||
            !strcmp(mapping->path, "[vdso]"));
}

/* The image of a mapping, opened, and its bias. */
static bool open_mapping(struct collect_calls_rig *rig, pid_t pid, const struct elf_mapping *from,
                         struct collect_calls_mapping *to)
{
    struct collect_images *images = rig->images.images;
    struct collect_image_key key = {.path = from->path,
                                    .major = from->device_major,
                                    .minor = from->device_minor,
                                    .inode = from->inode,
                                    .deleted = from->deleted};
    uint32_t index = collect_images_find(images, &key);
    if (index == UINT32_MAX)
        return false;
    const struct collect_image *image = collect_images_open(images, index, pid, from->start, from->end);
    uint64_t address = from->offset;
    if (image->elf)
        elf_image_address_of_offset(image->elf, from->offset, &address);
    *to = (struct collect_calls_mapping){from->start, from->end, from->start - address, index};
    return true;
}

int collect_calls_space_look(struct collect_calls_space *space, struct collect_calls_rig *rig,
                             struct base_error *error)
{
    struct elf_maps maps = {0};
    int result = elf_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    space->mapping_count = 0;
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++) {
        struct collect_calls_mapping mapping;
        if (!is_file(&maps.items[i]) || !open_mapping(rig, space->pid, &maps.items[i], &mapping))
            continue;
        if (!base_array_room(space->mappings, space->mapping_count, space->mapping_capacity))
            result = base_fail(error, BASE_ENOMEM, "out of memory");
        else
            space->mappings[space->mapping_count++] = mapping;
    }
    elf_maps_free(&maps);
    return result;
}

/* --- objects --- */

static struct collect_calls_object *find_object(struct collect_calls_space *space,
                                                const struct collect_calls_mapping *mapping)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        if (object->live && object->image == mapping->image && object->bias == mapping->bias)
            return object;
    }
    return NULL;
}

/* --- counters --- */

int collect_calls_space_commit_code(const struct collect_calls_space *space,
                                    const struct collect_calls_code *code, uint64_t at, uint64_t size,
                                    struct base_error *error)
{
    return space->committed ? patch_commit_pages(code->file, code->offset + at, size, error) : BASE_OK;
}

static int commit_shared(struct collect_calls_space *space, uint32_t word_end, struct base_error *error)
{
    int result = space->gs_offset ? collect_calls_block_commit(&space->fallback, word_end, error) : BASE_OK;
    for (size_t i = 0; i < space->arena_count && result == BASE_OK; i++)
        if (space->arenas[i].block.tables)
            result = collect_calls_block_commit(&space->arenas[i].block, word_end, error);
    return result;
}

int collect_calls_space_commit(struct collect_calls_space *space, uint32_t word_end, struct base_error *error)
{
    if (!space->committed)
        return BASE_OK;
    int result = commit_shared(space, word_end, error);
    for (size_t i = 0; i < space->thread_count && result == BASE_OK; i++) {
        enum collect_calls_thread_state state = space->threads[i].state;
        if (state == COLLECT_CALLS_USED || state == COLLECT_CALLS_POOLED)
            result = collect_calls_block_commit(&space->threads[i].block, word_end, error);
    }
    return result;
}

/* --- objects --- */

/* 1: a new object; 0: not wanted, or no numbers are left. */
static int add_object(struct collect_calls_space *space, struct collect_calls_rig *rig,
                      const struct collect_calls_mapping *mapping)
{
    struct collect_calls_image *image = collect_calls_images_get(&rig->images, mapping->image);
    if (!image || !base_array_room(space->objects, space->object_count, space->object_capacity))
        return BASE_ENOMEM;
    if (image->state != COLLECT_CALLS_PLANNED)
        return 0;
    uint32_t words = patch_plan_words(&image->plan);
    if (words > COLLECT_BLOCK_WORDS - space->word_end ||
        collect_calls_space_commit(space, space->word_end + words, NULL) < 0) {
        if (!image->told_full)
            profile_lose(rig->profile, WIRE_LOSS_NOT_PLANNED, 1);
        image->told_full = true;
        return 0;
    }
    struct collect_calls_object object = {.image = mapping->image,
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
        free_object(&object);
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

static bool is_mapped(const struct collect_calls_space *space, const struct collect_calls_object *object)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (space->mappings[i].image == object->image && space->mappings[i].bias == object->bias)
            return true;
    return false;
}

const struct collect_calls_object *collect_calls_space_closed(const struct collect_calls_space *space,
                                                              uint64_t *return_address)
{
    uint64_t number = *return_address >> COLLECT_CALLS_CLOSED_SHIFT;
    if (!number || number > space->object_count)
        return NULL;
    const struct collect_calls_object *object = &space->objects[number - 1];
    *return_address = (*return_address & ((1ull << COLLECT_CALLS_CLOSED_SHIFT) - 1)) + object->bias;
    return object;
}

static int close_gone(struct collect_calls_space *space)
{
    int gone = 0;
    for (size_t i = 0; i < space->object_count; i++) {
        struct collect_calls_object *object = &space->objects[i];
        if (!object->live || is_mapped(space, object))
            continue;
        object->live = false;
        collect_calls_read_close(space, i);
        gone++;
    }
    return gone;
}

static int wait_for_patch(const struct collect_calls_space *space)
{
    int count = 0;
    for (size_t i = 0; i < space->object_count; i++)
        count += space->objects[i].live && !space->objects[i].refused &&
                 (!space->objects[i].patch || space->objects[i].stale);
    return count;
}

static void prepare_images(const struct collect_calls_space *space, struct collect_calls_rig *rig)
{
    uint32_t *indices = malloc(space->mapping_count * sizeof *indices + 1);
    for (size_t i = 0; indices && i < space->mapping_count; i++)
        indices[i] = space->mappings[i].image;
    if (indices)
        collect_calls_images_ahead(&rig->images, indices, space->mapping_count);
    free(indices);
}

int collect_calls_space_survey(struct collect_calls_space *space, struct collect_calls_rig *rig,
                               struct base_error *error)
{
    int result = collect_calls_space_look(space, rig, error);
    if (result < 0)
        return result;
    close_gone(space);
    prepare_images(space, rig);
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct collect_calls_mapping *mapping = &space->mappings[i];
        struct collect_calls_object *known = find_object(space, mapping);
        if (known) {
            known->low = mapping->start < known->low ? mapping->start : known->low;
            known->high = mapping->end > known->high ? mapping->end : known->high;
            continue;
        }
        int added = add_object(space, rig, mapping);
        if (added < 0)
            return base_fail(error, added, "out of memory");
    }
    if (wait_for_patch(space) || space->mapping_count != space->chosen_mappings) {
        result = collect_calls_export_choose(space, rig, error);
        space->chosen_mappings = space->mapping_count;
    }
    return result < 0 ? result : wait_for_patch(space);
}

uint64_t collect_calls_space_pairs(const struct collect_calls_space *space)
{
    uint64_t pairs = 0;
    for (size_t i = 0; i < space->object_count; i++)
        pairs += space->objects[i].planned->plan.header->indirect_found;
    return pairs;
}

/* --- forks --- */

static void *copy(const void *items, size_t count, size_t size)
{
    void *made = malloc(count * size + 1);
    if (made && count)
        memcpy(made, items, count * size);
    return made;
}

static bool copy_object(const struct collect_calls_object *from, struct collect_calls_object *to)
{
    const struct patch_plan_header *header = from->planned->plan.header;
    *to = *from;
    to->next = NULL;
    to->room = NULL;
    to->older = copy(from->older, from->older_count, sizeof(*from->older));
    to->older_capacity = from->older_count;
    to->wanted = copy(from->wanted, (size_t)header->site_count + header->hook_count, 1);
    to->slots = copy(from->slots, from->planned->slot_count + 1, sizeof *from->slots);
    to->guesses = from->guesses ? copy(from->guesses, PATCH_SLAB_GUESSES, sizeof *from->guesses) : NULL;
    to->lifted = copy(from->lifted, from->lifted_count, sizeof *from->lifted);
    to->lifted_count = to->lifted_capacity = to->lifted ? from->lifted_count : 0;
    if (to->patch)
        to->patch->owners++;
    for (size_t i = 0; to->older && i < to->older_count; i++)
        to->older[i]->owners++;
    if (to->older && to->wanted && to->slots && (to->guesses || !from->guesses))
        return true;
    to->older_count = to->older ? to->older_count : 0;
    return false;
}

static bool copy_objects(const struct collect_calls_space *parent, struct collect_calls_space *child)
{
    child->objects = calloc(parent->object_count + 1, sizeof *child->objects);
    child->object_capacity = parent->object_count + 1;
    bool room = child->objects != NULL;
    for (size_t i = 0; room && i < parent->object_count; i++) {
        room = copy_object(&parent->objects[i], &child->objects[i]);
        child->object_count++;
    }
    return room;
}

static bool copy_arrays(const struct collect_calls_space *parent, struct collect_calls_space *child)
{
    child->mappings = copy(parent->mappings, parent->mapping_count, sizeof *parent->mappings);
    child->mapping_count = child->mapping_capacity = child->mappings ? parent->mapping_count : 0;
    child->arenas = copy(parent->arenas, parent->arena_count, sizeof *parent->arenas);
    child->arena_count = child->arena_capacity = child->arenas ? parent->arena_count : 0;
    for (size_t i = 0; i < child->arena_count; i++)
        child->arenas[i].code->owners++;
    child->windows = copy(parent->windows, parent->window_count, sizeof *parent->windows);
    child->window_count = child->window_capacity = child->windows ? parent->window_count : 0;
    for (size_t i = 0; i < child->window_count; i++)
        child->windows[i]->owners++;
    child->threads = copy(parent->threads, parent->thread_count, sizeof *parent->threads);
    child->thread_count = child->thread_capacity = child->threads ? parent->thread_count : 0;
    child->memories = calloc(parent->memory_count + 1, sizeof *child->memories);
    child->memory_capacity = parent->memory_count + 1;
    child->bell_code = parent->bell_code;
    if (child->bell_code)
        child->bell_code->owners++;
    return child->mappings && child->arenas && child->windows && child->threads && child->memories &&
           copy_objects(parent, child);
}

const struct collect_calls_memory *collect_calls_space_memory_at(const struct collect_calls_space *space,
                                                                 uint64_t address)
{
    for (size_t i = 0; i < space->memory_count; i++)
        if (address - space->memories[i].address < space->memories[i].size)
            return &space->memories[i];
    return NULL;
}

int collect_calls_space_bell(struct collect_calls_space *space, struct base_error *error)
{
    space->bell = NULL;
    if (!space->bell_words)
        return BASE_OK;
    const struct collect_calls_memory *memory = collect_calls_space_memory_at(space, space->bell_words);
    int result =
        memory && space->committed
            ? patch_commit_pages(memory->file, memory->offset + (space->bell_words - memory->address),
                                 sizeof *space->bell, error)
            : BASE_OK;
    if (result < 0)
        return result;
    void *words = !memory ? MAP_FAILED
                          : mmap(NULL, sizeof *space->bell, PROT_READ | PROT_WRITE, MAP_SHARED, memory->file,
                                 (off_t)(memory->offset + (space->bell_words - memory->address)));
    if (words == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->bell = words;
    return BASE_OK;
}

/* A copied block counts in the file that took the place of its first one's. */
static void move_block(const struct collect_calls_space *child, struct collect_calls_block *block)
{
    const struct collect_calls_memory *memory = collect_calls_space_memory_at(child, block->address);
    block->file = memory ? memory->file : -1;
    block->offset = memory ? memory->offset + (block->address - memory->address) : 0;
}

/* Blocks of threads are mapped while the process is held, and a child that was forked just before it is told
 * of after it: it has them not, and its only thread counts in an older one. */
static bool has_threads_alone(const struct collect_calls_space *space,
                              const struct collect_calls_memory *memory)
{
    bool others = space->bell_words - memory->address < memory->size ||
                  (space->gs_offset && space->fallback.address - memory->address < memory->size);
    for (size_t i = 0; i < space->arena_count && !others; i++)
        others = space->arenas[i].block.address - memory->address < memory->size;
    return !others;
}

static void forget_missing_blocks(struct collect_calls_space *child)
{
    size_t kept = 0;
    for (size_t i = 0; i < child->thread_count; i++)
        if (collect_calls_space_memory_at(child, child->threads[i].block.address))
            child->threads[kept++] = child->threads[i];
    child->thread_count = kept;
}

/* Shared blocks that are in use begin again; those of threads are zeros, and are begun when they are given
 * out: of all threads only the one that forked lives on in the child. */
static int begin_blocks(struct collect_calls_space *child, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < child->arena_count && result == BASE_OK; i++) {
        struct collect_calls_block *block = &child->arenas[i].block;
        move_block(child, block);
        if (block->tables)
            result = collect_calls_block_init(block, collect_calls_space_made(child), error);
    }
    if (child->gs_offset && result == BASE_OK) {
        move_block(child, &child->fallback);
        result = collect_calls_block_init(&child->fallback, collect_calls_space_made(child), error);
    }
    for (size_t i = 0; i < child->thread_count; i++) {
        struct collect_calls_thread *thread = &child->threads[i];
        move_block(child, &thread->block);
        thread->state = COLLECT_CALLS_FREE;
        thread->tid = thread->process = 0;
        thread->told = false;
    }
    return result == BASE_OK ? collect_calls_threads_index(child, error) : result;
}

/* The words by which stubs find the counters of what runs in the child: its arenas, and its only thread, which has the block of
 * the one that forked, or the fallback. */
struct space_words {
    struct patch_inject_word *words;
    size_t count, capacity;
};

static bool add_block_word(struct space_words *made, const struct collect_calls_memory *memory,
                           const struct collect_calls_block *block)
{
    if (block->address - memory->address >= memory->size)
        return true;
    if (!base_array_room(made->words, made->count, made->capacity))
        return false;
    made->words[made->count++] = (struct patch_inject_word){.offset = block->address - memory->address +
                                                                      offsetof(struct patch_block, self),
                                                            .value = block->address};
    return true;
}

static bool add_block_words(struct space_words *made, const struct collect_calls_space *parent,
                            const struct collect_calls_memory *memory, uint64_t gs_base)
{
    bool room = true;
    for (size_t i = 0; i < parent->arena_count && room; i++)
        room = add_block_word(made, memory, &parent->arenas[i].block);
    if (parent->gs_offset && room)
        room = add_block_word(made, memory, &parent->fallback);
    const struct collect_calls_block forked = {.address = gs_base + parent->gs_offset};
    return room && (!gs_base || !parent->gs_offset || add_block_word(made, memory, &forked));
}

static int replace_memory(const struct collect_calls_space *parent, struct collect_calls_rig *rig,
                          struct collect_calls_space *child, uint64_t gs_base,
                          struct collect_calls_memory *memory, struct base_error *error)
{
    struct space_words made = {0};
    memory->offset = 0;
    int result = add_block_words(&made, parent, memory, gs_base)
                     ? patch_trace_remap(&rig->helper, child->pid, memory->address, memory->size,
                                         PROT_READ | PROT_WRITE, made.words, made.count, &memory->file, error)
                     : base_fail(error, BASE_ENOMEM, "out of memory");
    free(made.words);
    return result;
}

static int replace_memories(const struct collect_calls_space *parent, struct collect_calls_rig *rig,
                            struct collect_calls_space *child, struct base_error *error)
{
    struct user_regs_struct registers = {0};
    int result = parent->gs_offset
                     ? patch_trace_read_registers(&rig->helper, child->pid, child->pid, &registers, error)
                     : BASE_OK;
    for (size_t i = 0; i < parent->memory_count && result == BASE_OK; i++) {
        struct base_error why = {0};
        struct collect_calls_memory memory = parent->memories[i];
        int replaced = replace_memory(parent, rig, child, registers.gs_base, &memory, &why);
        if (replaced == BASE_OK)
            child->memories[child->memory_count++] = memory;
        else if (replaced != BASE_EUSAGE || !has_threads_alone(parent, &memory))
            result = base_fail(error, replaced, "%s", why.text);
    }
    if (result < 0)
        return result;
    forget_missing_blocks(child);
    return begin_blocks(child, error);
}

int collect_calls_space_fork(const struct collect_calls_space *parent, struct collect_calls_rig *rig,
                             pid_t pid, struct collect_calls_space **made, struct base_error *error)
{
    struct collect_calls_space *child = collect_calls_space_new(rig, pid);
    if (!child)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    uint64_t number = child->number;
    *child = *parent;
    child->pid = child->first_tid = pid;
    child->told_threads = 0;
    child->processes = 1;
    child->number = number;
    child->mappings = NULL;
    child->objects = NULL;
    child->arenas = NULL;
    child->windows = NULL;
    child->memories = NULL;
    child->threads = NULL;
    child->mapping_count = child->object_count = child->arena_count = child->window_count =
        child->memory_count = child->thread_count = 0;
    child->bell = NULL;
    child->bell_code = NULL;
    child->told_of = child->thread_blocks = child->thread_assigned = (struct base_map){0};
    child->told = NULL;
    child->told_count = child->told_capacity = 0;
    child->loose.stirred_ns = child->loose.failed_ns = 0;
    child->loose.rings = child->loose.failures = 0;
    child->loose.open = false;
    int result = copy_arrays(parent, child) ? replace_memories(parent, rig, child, error)
                                            : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = collect_calls_space_bell(child, error);
    if (result < 0) {
        collect_calls_space_free(child);
        return result;
    }
    *made = child;
    return BASE_OK;
}
