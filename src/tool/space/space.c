#include "space.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "base_clock.h"
#include "base_search.h"
#include "helper_trace.h"
#include "proc_commit.h"
#include "proc_maps.h"
#include "space_build.h"
#include "space_export.h"
#include "space_read.h"
#include "space_threads.h"
#include "trace_inject.h"
#include "wire_loss.h"

/* --- memory of ours --- */

/* Does the data lie before the code that was mapped for `room`? */
static bool is_data_first(const struct helper_room *room, const struct space_code *code)
{
    return room->data_first && code->address < room->low;
}

/* Code and data of `room` go again. */
static void unmap_both(struct space_rig *rig, pid_t pid, const struct helper_room *room,
                       const struct space_code *code)
{
    uint64_t start = code->address - (is_data_first(room, code) ? room->data : 0);
    helper_trace_unmap(&rig->helper, pid, start, room->size + room->data, NULL);
}

int space_code(struct space_rig *rig, pid_t pid, struct helper_room room, struct space_code **made,
               struct base_error *error)
{
    struct space_code *code = calloc(1, sizeof *code);
    if (!code)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_EXEC;
    *code = (struct space_code){.owners = 1, .file = -1, .size = room.size, .top = room.size};
    int result = helper_trace_share(&rig->helper, pid, &room, &code->address, &code->file, error);
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

int space_both(struct space *space, struct space_rig *rig, struct helper_room room, struct space_code **code,
               struct space_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_code(rig, space->pid, room, code, error);
    if (result < 0)
        return result;
    uint64_t address = (*code)->address;
    *memory = (struct space_memory){.file = fcntl((*code)->file, F_DUPFD_CLOEXEC, 0),
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
    space_code_release(*code);
    *code = NULL;
    return result;
}

struct space_code *space_code_split(struct space_code *code, uint64_t size)
{
    struct space_code *head = malloc(sizeof *head);
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

void space_code_release(struct space_code *code)
{
    if (!code || --code->owners)
        return;
    munmap(code->bytes, code->size);
    close(code->file);
    free(code);
}

bool space_is_code(const struct space *space, uint64_t address)
{
    bool found = false;
    for (size_t i = 0; i < space->arena_count && !found; i++)
        found = address - space->arenas[i].code->address < space->arenas[i].code->size;
    for (size_t i = 0; i < space->window_count && !found; i++)
        found = address - space->windows[i]->address < space->windows[i]->size;
    return found;
}

int space_memory(struct space *space, struct space_rig *rig, struct helper_room room,
                 struct space_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_WRITE;
    *memory = (struct space_memory){.file = -1, .size = room.size};
    int result = helper_trace_share(&rig->helper, space->pid, &room, &memory->address, &memory->file, error);
    if (result == BASE_OK)
        space->memories[space->memory_count++] = *memory;
    return result;
}

/* --- a space --- */

struct space *space_new(struct space_rig *rig, pid_t pid)
{
    struct space *space = calloc(1, sizeof *space);
    if (space)
        *space = (struct space){.pid = pid,
                                .first_tid = pid,
                                .processes = 1,
                                .number = ++rig->spaces,
                                .created_ns = base_clock_now(),
                                .form = STUB_PLAIN,
                                .committed = rig->committed,
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

static void free_object(struct space_object *object)
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
        free_object(&space->objects[i]);
    for (size_t i = 0; i < space->arena_count; i++)
        space_code_release(space->arenas[i].code);
    for (size_t i = 0; i < space->window_count; i++)
        space_code_release(space->windows[i]);
    if (space->doorbell)
        munmap(space->doorbell, sizeof *space->doorbell);
    for (size_t i = 0; i < space->memory_count; i++)
        close(space->memories[i].file);
    space_code_release(space->doorbell_code);
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
           ((mapping->path[0] == '/' && strncmp(mapping->path, "/memfd:tally", 12) && mapping->inode) ||
            !strcmp(mapping->path, "[vdso]"));
}

/* The image of a mapping, opened, and its bias. */
static bool open_mapping(struct space_rig *rig, pid_t pid, const struct proc_mapping *from,
                         struct space_mapping *to)
{
    struct sample_images *images = rig->images.images;
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

int space_look(struct space *space, struct space_rig *rig, struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = proc_maps_read(space->pid, &maps, error);
    if (result < 0)
        return result;
    space->mapping_count = 0;
    for (size_t i = 0; i < maps.count && result == BASE_OK; i++) {
        struct space_mapping mapping;
        if (!is_file(&maps.items[i]) || !open_mapping(rig, space->pid, &maps.items[i], &mapping))
            continue;
        if (!base_array_room(space->mappings, space->mapping_count, space->mapping_capacity))
            result = base_fail(error, BASE_ENOMEM, "out of memory");
        else
            space->mappings[space->mapping_count++] = mapping;
    }
    proc_maps_free(&maps);
    return result;
}

/* --- objects --- */

static struct space_object *find_object(struct space *space, const struct space_mapping *mapping)
{
    for (size_t i = 0; i < space->object_count; i++) {
        struct space_object *object = &space->objects[i];
        if (object->live && object->image == mapping->image && object->bias == mapping->bias)
            return object;
    }
    return NULL;
}

/* --- counters --- */

int space_commit_code(const struct space *space, const struct space_code *code, uint64_t at, uint64_t size,
                      struct base_error *error)
{
    return space->committed ? proc_commit_pages(code->file, code->offset + at, size, error) : BASE_OK;
}

static int commit_shared(struct space *space, uint32_t word_end, struct base_error *error)
{
    int result = space->gs_offset ? slab_block_commit(&space->fallback, word_end, error) : BASE_OK;
    for (size_t i = 0; i < space->arena_count && result == BASE_OK; i++)
        if (space->arenas[i].block.tables)
            result = slab_block_commit(&space->arenas[i].block, word_end, error);
    return result;
}

int space_commit(struct space *space, uint32_t word_end, struct base_error *error)
{
    if (!space->committed)
        return BASE_OK;
    int result = commit_shared(space, word_end, error);
    for (size_t i = 0; i < space->thread_count && result == BASE_OK; i++) {
        enum space_thread_state state = space->threads[i].state;
        if (state == SPACE_USED || state == SPACE_POOLED)
            result = slab_block_commit(&space->threads[i].block, word_end, error);
    }
    return result;
}

/* --- objects --- */

/* 1: a new object; 0: not wanted, or no numbers are left. */
static int add_object(struct space *space, struct space_rig *rig, const struct space_mapping *mapping)
{
    struct space_image *image = space_images_get(&rig->images, mapping->image);
    if (!image || !base_array_room(space->objects, space->object_count, space->object_capacity))
        return BASE_ENOMEM;
    if (image->state != SPACE_PLANNED)
        return 0;
    uint32_t words = plan_words(&image->plan);
    if (words > SLAB_BLOCK_WORDS - space->word_end ||
        space_commit(space, space->word_end + words, NULL) < 0) {
        if (!image->published_full)
            profile_lose(rig->profile, WIRE_LOSS_NOT_PLANNED, 1);
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

static bool is_mapped(const struct space *space, const struct space_object *object)
{
    for (size_t i = 0; i < space->mapping_count; i++)
        if (space->mappings[i].image == object->image && space->mappings[i].bias == object->bias)
            return true;
    return false;
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

static int wait_for_patch(const struct space *space)
{
    int count = 0;
    for (size_t i = 0; i < space->object_count; i++)
        count += space->objects[i].live && !space->objects[i].refused &&
                 (!space->objects[i].patch || space->objects[i].stale);
    return count;
}

static void prepare_images(const struct space *space, struct space_rig *rig)
{
    uint32_t *indices = malloc(space->mapping_count * sizeof *indices + 1);
    for (size_t i = 0; indices && i < space->mapping_count; i++)
        indices[i] = space->mappings[i].image;
    if (indices)
        space_images_ahead(&rig->images, indices, space->mapping_count);
    free(indices);
}

int space_survey(struct space *space, struct space_rig *rig, struct base_error *error)
{
    int result = space_look(space, rig, error);
    if (result < 0)
        return result;
    close_gone(space);
    prepare_images(space, rig);
    for (size_t i = 0; i < space->mapping_count; i++) {
        const struct space_mapping *mapping = &space->mappings[i];
        struct space_object *known = find_object(space, mapping);
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
        result = space_export_choose(space, rig, error);
        space->chosen_mappings = space->mapping_count;
    }
    return result < 0 ? result : wait_for_patch(space);
}

uint64_t space_pairs(const struct space *space)
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

static bool copy_object(const struct space_object *from, struct space_object *to)
{
    const struct plan_header *header = from->planned->plan.header;
    *to = *from;
    to->next = NULL;
    to->room = NULL;
    to->older = copy(from->older, from->older_count, sizeof(*from->older));
    to->older_capacity = from->older_count;
    to->wanted = copy(from->wanted, (size_t)header->site_count + header->hook_count, 1);
    to->slots = copy(from->slots, from->planned->slot_count + 1, sizeof *from->slots);
    to->guesses = from->guesses ? copy(from->guesses, SLAB_GUESSES, sizeof *from->guesses) : NULL;
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

static bool copy_objects(const struct space *parent, struct space *child)
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

static bool copy_arrays(const struct space *parent, struct space *child)
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
    child->doorbell_code = parent->doorbell_code;
    if (child->doorbell_code)
        child->doorbell_code->owners++;
    return child->mappings && child->arenas && child->windows && child->threads && child->memories &&
           copy_objects(parent, child);
}

const struct space_memory *space_memory_at(const struct space *space, uint64_t address)
{
    for (size_t i = 0; i < space->memory_count; i++)
        if (address - space->memories[i].address < space->memories[i].size)
            return &space->memories[i];
    return NULL;
}

int space_doorbell(struct space *space, struct base_error *error)
{
    space->doorbell = NULL;
    if (!space->doorbell_words)
        return BASE_OK;
    const struct space_memory *memory = space_memory_at(space, space->doorbell_words);
    int result =
        memory && space->committed
            ? proc_commit_pages(memory->file, memory->offset + (space->doorbell_words - memory->address),
                                sizeof *space->doorbell, error)
            : BASE_OK;
    if (result < 0)
        return result;
    void *words = !memory
                      ? MAP_FAILED
                      : mmap(NULL, sizeof *space->doorbell, PROT_READ | PROT_WRITE, MAP_SHARED, memory->file,
                             (off_t)(memory->offset + (space->doorbell_words - memory->address)));
    if (words == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    space->doorbell = words;
    return BASE_OK;
}

/* A copied block counts in the file that took the place of its first one's. */
static void move_block(const struct space *child, struct slab_block *block)
{
    const struct space_memory *memory = space_memory_at(child, block->address);
    block->file = memory ? memory->file : -1;
    block->offset = memory ? memory->offset + (block->address - memory->address) : 0;
}

/* Blocks of threads are mapped while the process is held, and a child that was forked just before it is told
 * of after it: it has them not, and its only thread counts in an older one. */
static bool has_threads_alone(const struct space *space, const struct space_memory *memory)
{
    bool others = space->doorbell_words - memory->address < memory->size ||
                  (space->gs_offset && space->fallback.address - memory->address < memory->size);
    for (size_t i = 0; i < space->arena_count && !others; i++)
        others = space->arenas[i].block.address - memory->address < memory->size;
    return !others;
}

static void forget_missing_blocks(struct space *child)
{
    size_t kept = 0;
    for (size_t i = 0; i < child->thread_count; i++)
        if (space_memory_at(child, child->threads[i].block.address))
            child->threads[kept++] = child->threads[i];
    child->thread_count = kept;
}

/* Shared blocks that are in use begin again; those of threads are zeros, and are begun when they are given
 * out: of all threads only the one that forked lives on in the child. */
static int begin_blocks(struct space *child, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < child->arena_count && result == BASE_OK; i++) {
        struct slab_block *block = &child->arenas[i].block;
        move_block(child, block);
        if (block->tables)
            result = slab_block_init(block, space_made(child), error);
    }
    if (child->gs_offset && result == BASE_OK) {
        move_block(child, &child->fallback);
        result = slab_block_init(&child->fallback, space_made(child), error);
    }
    for (size_t i = 0; i < child->thread_count; i++) {
        struct space_thread *thread = &child->threads[i];
        move_block(child, &thread->block);
        thread->state = SPACE_FREE;
        thread->tid = thread->process = 0;
        thread->published = false;
    }
    return result == BASE_OK ? space_threads_index(child, error) : result;
}

/* The words by which stubs find the counters of what runs in the child: its arenas, and its only thread, which has the block of
 * the one that forked, or the fallback. */
struct space_words {
    struct trace_inject_word *words;
    size_t count, capacity;
};

static bool add_block_word(struct space_words *made, const struct space_memory *memory,
                           const struct slab_block *block)
{
    if (block->address - memory->address >= memory->size)
        return true;
    if (!base_array_room(made->words, made->count, made->capacity))
        return false;
    made->words[made->count++] = (struct trace_inject_word){.offset = block->address - memory->address +
                                                                      offsetof(struct stub_block, self),
                                                            .value = block->address};
    return true;
}

static bool add_block_words(struct space_words *made, const struct space *parent,
                            const struct space_memory *memory, uint64_t gs_base)
{
    bool room = true;
    for (size_t i = 0; i < parent->arena_count && room; i++)
        room = add_block_word(made, memory, &parent->arenas[i].block);
    if (parent->gs_offset && room)
        room = add_block_word(made, memory, &parent->fallback);
    const struct slab_block forked = {.address = gs_base + parent->gs_offset};
    return room && (!gs_base || !parent->gs_offset || add_block_word(made, memory, &forked));
}

static int replace_memory(const struct space *parent, struct space_rig *rig, struct space *child,
                          uint64_t gs_base, struct space_memory *memory, struct base_error *error)
{
    struct space_words made = {0};
    memory->offset = 0;
    int result =
        add_block_words(&made, parent, memory, gs_base)
            ? helper_trace_remap(&rig->helper, child->pid, memory->address, memory->size,
                                 PROT_READ | PROT_WRITE, made.words, made.count, &memory->file, error)
            : base_fail(error, BASE_ENOMEM, "out of memory");
    free(made.words);
    return result;
}

static int replace_memories(const struct space *parent, struct space_rig *rig, struct space *child,
                            struct base_error *error)
{
    struct user_regs_struct registers = {0};
    int result = parent->gs_offset
                     ? helper_trace_read_registers(&rig->helper, child->pid, child->pid, &registers, error)
                     : BASE_OK;
    for (size_t i = 0; i < parent->memory_count && result == BASE_OK; i++) {
        struct base_error why = {0};
        struct space_memory memory = parent->memories[i];
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

int space_fork(const struct space *parent, struct space_rig *rig, pid_t pid, struct space **made,
               struct base_error *error)
{
    struct space *child = space_new(rig, pid);
    if (!child)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    uint64_t number = child->number;
    *child = *parent;
    child->pid = child->first_tid = pid;
    child->published_threads = 0;
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
    child->doorbell = NULL;
    child->doorbell_code = NULL;
    child->published_of = child->thread_blocks = child->thread_assigned = (struct base_map){0};
    child->published = NULL;
    child->published_count = child->published_capacity = 0;
    child->detached.stirred_ns = child->detached.failed_ns = 0;
    child->detached.rings = child->detached.failures = 0;
    child->detached.open = false;
    int result = copy_arrays(parent, child) ? replace_memories(parent, rig, child, error)
                                            : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = space_doorbell(child, error);
    if (result < 0) {
        space_free(child);
        return result;
    }
    *made = child;
    return BASE_OK;
}
