/* The space of a fork child. The child has a copy of everything that its parent's process has, at the same
 * addresses: code stays shared with it, but memory with counters is shared too, so each piece is replaced by
 * a new file before the child runs, with the words that stubs need to find their block. */
#include "space_fork.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_array.h"
#include "helper_trace.h"
#include "space_apply.h"
#include "space_memory.h"
#include "space_text.h"
#include "space_threads.h"
#include "trace_inject.h"

static void *copy_items(const void *items, size_t count, size_t size)
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
    to->older = copy_items(from->older, from->older_count, sizeof(*from->older));
    to->older_capacity = from->older_count;
    to->wanted = copy_items(from->wanted, (size_t)header->site_count + header->hook_count, 1);
    to->slots = copy_items(from->slots, from->planned->slot_count + 1, sizeof *from->slots);
    to->guesses = from->guesses ? copy_items(from->guesses, SLAB_GUESSES, sizeof *from->guesses) : NULL;
    to->lifted = copy_items(from->lifted, from->lifted_count, sizeof *from->lifted);
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
    child->mappings = copy_items(parent->mappings, parent->mapping_count, sizeof *parent->mappings);
    child->mapping_count = child->mapping_capacity = child->mappings ? parent->mapping_count : 0;
    child->arenas = copy_items(parent->arenas, parent->arena_count, sizeof *parent->arenas);
    child->arena_count = child->arena_capacity = child->arenas ? parent->arena_count : 0;
    for (size_t i = 0; i < child->arena_count; i++)
        child->arenas[i].code->owners++;
    child->windows = copy_items(parent->windows, parent->window_count, sizeof *parent->windows);
    child->window_count = child->window_capacity = child->windows ? parent->window_count : 0;
    for (size_t i = 0; i < child->window_count; i++)
        child->windows[i]->owners++;
    child->threads = copy_items(parent->threads, parent->thread_count, sizeof *parent->threads);
    child->thread_count = child->thread_capacity = child->threads ? parent->thread_count : 0;
    child->memories = calloc(parent->memory_count + 1, sizeof *child->memories);
    child->memory_capacity = parent->memory_count + 1;
    child->doorbell_code = parent->doorbell_code;
    if (child->doorbell_code)
        child->doorbell_code->owners++;
    return child->mappings && child->arenas && child->windows && child->threads && child->memories &&
           copy_objects(parent, child);
}

/* A copied block counts in the file that took the place of its first one's. */
static void move_block(const struct space *child, struct slab_block *block)
{
    const struct space_memory *memory = space_memory_at(child, block->address);
    block->file = memory ? memory->file : -1;
    block->offset = memory ? memory->offset + (block->address - memory->address) : 0;
}

/* Blocks of threads are mapped while the process is held. A child that was forked just before is reported
 * after that: it does not have them, and its only thread counts in an older one. */
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
 * out: of all threads only the one that forked is in the child. */
static int begin_blocks(struct space *child, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < child->arena_count && result == BASE_OK; i++) {
        struct slab_block *block = &child->arenas[i].block;
        move_block(child, block);
        if (block->tables)
            result = slab_block_init(block, space_memory_made(child), error);
    }
    if (child->gs_offset && result == BASE_OK) {
        move_block(child, &child->fallback);
        result = slab_block_init(&child->fallback, space_memory_made(child), error);
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

/* The words by which stubs find the counters of what runs in the child: its arenas, and its only thread,
 * which has the block of the one that forked, or the fallback. */
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

static int replace_memory(const struct space *parent, struct space_session *session, struct space *child,
                          uint64_t gs_base, struct space_memory *memory, struct base_error *error)
{
    struct space_words made = {0};
    memory->offset = 0;
    int result = BASE_OK;
    if (!add_block_words(&made, parent, memory, gs_base))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    const struct trace_inject_shared shared = {.address = memory->address,
                                               .size = memory->size,
                                               .protection = PROT_READ | PROT_WRITE,
                                               .words = made.words,
                                               .word_count = made.count};
    if (result == BASE_OK)
        result = helper_trace_remap(&session->helper, child->pid, &shared, &memory->file, error);
    free(made.words);
    return result;
}

/* Are the parent's changes in the child's text? All of an object were made in one hold: the first one decides.
 * What others have changed since is theirs. */
static bool has_changes(const struct space *child)
{
    for (size_t i = 0; i < child->object_count; i++) {
        const struct space_object *object = &child->objects[i];
        const struct slab *slab = object->live && object->patch ? &object->patch->slab : NULL;
        size_t first = 0;
        while (slab && first < slab->write_count && space_apply_is_lifted(object, &slab->writes[first]))
            first++;
        if (!slab || first == slab->write_count)
            continue;
        struct trace_memory_change change = space_apply_change(&slab->writes[first]);
        if (space_text_undo(child->pid, &change) == SPACE_UNDO_PROBED &&
            memcmp(change.before, change.after, change.length) == 0)
            return false;
    }
    return true;
}

static int replace_memories(const struct space *parent, struct space_session *session, struct space *child,
                            struct base_error *error)
{
    struct user_regs_struct registers = {0};
    int result = parent->gs_offset ? helper_trace_read_registers(&session->helper, child->pid, child->pid,
                                                                 &registers, error)
                                   : BASE_OK;
    for (size_t i = 0; i < parent->memory_count && result == BASE_OK; i++) {
        struct base_error why = {0};
        struct space_memory memory = parent->memories[i];
        int replaced = replace_memory(parent, session, child, registers.gs_base, &memory, &why);
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

int space_fork(const struct space *parent, struct space_session *session, pid_t pid, struct space **made,
               struct base_error *error)
{
    struct space *child = space_new(session, pid);
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
    child->detached.created_ns = child->detached.failed_ns = 0;
    child->detached.notifications = child->detached.failures = 0;
    child->detached.open = child->detached.is_owned = false; /* the lock is the parent's */
    child->detached.owner = -1;
    int result = copy_arrays(parent, child) ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK && !has_changes(child))
        result = base_fail(error, BASE_EUSAGE, "process %d was created before code of its parent was changed",
                           (int)pid);
    if (result == BASE_OK)
        result = replace_memories(parent, session, child, error);
    if (result == BASE_OK)
        result = space_memory_doorbell(child, error);
    if (result < 0) {
        space_free(child);
        return result;
    }
    *made = child;
    return BASE_OK;
}
