/* Memory of ours in a target: each piece is a file that both map. */
#include "space_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "helper_trace.h"
#include "proc_commit.h"

/* Does the data lie before the code that was mapped for `room`? */
static bool is_data_first(const struct helper_room *room, const struct space_code *code)
{
    return room->data_first && code->address < room->low;
}

/* Code and data of `room` go again. */
static void unmap_both(struct space_session *session, pid_t pid, const struct helper_room *room,
                       const struct space_code *code)
{
    uint64_t start = code->address - (is_data_first(room, code) ? room->data : 0);
    helper_trace_unmap(&session->helper, pid, start, room->size + room->data, NULL);
}

int space_memory_code(struct space_session *session, pid_t pid, struct helper_room room,
                      struct space_code **made, struct base_error *error)
{
    struct space_code *code = calloc(1, sizeof *code);
    if (!code)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_EXEC;
    *code = (struct space_code){.owners = 1, .file = -1, .size = room.size, .top = room.size};
    int result = helper_trace_share(&session->helper, pid, &room, &code->address, &code->file, error);
    if (result < 0) {
        free(code);
        return result;
    }
    code->bytes = mmap(NULL, code->size, PROT_READ | PROT_WRITE, MAP_SHARED, code->file, 0);
    if (code->bytes == MAP_FAILED) {
        unmap_both(session, pid, &room, code);
        close(code->file);
        free(code);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    *made = code;
    return BASE_OK;
}

int space_memory_both(struct space *space, struct space_session *session, struct helper_room room,
                      struct space_code **code, struct space_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = space_memory_code(session, space->pid, room, code, error);
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
    unmap_both(session, space->pid, &room, *code);
    space_memory_release(*code);
    *code = NULL;
    return result;
}

struct space_code *space_memory_split(struct space_code *code, uint64_t size)
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

void space_memory_release(struct space_code *code)
{
    if (!code || --code->owners)
        return;
    munmap(code->bytes, code->size);
    close(code->file);
    free(code);
}

bool space_memory_is_code(const struct space *space, uint64_t address)
{
    bool found = false;
    for (size_t i = 0; i < space->arena_count && !found; i++)
        found = address - space->arenas[i].code->address < space->arenas[i].code->size;
    for (size_t i = 0; i < space->window_count && !found; i++)
        found = address - space->windows[i]->address < space->windows[i]->size;
    return found;
}

int space_memory_counters(struct space *space, struct space_session *session, struct helper_room room,
                          struct space_memory *memory, struct base_error *error)
{
    if (!base_array_room(space->memories, space->memory_count, space->memory_capacity))
        return base_fail(error, BASE_ENOMEM, "out of memory");
    room.protection = PROT_READ | PROT_WRITE;
    *memory = (struct space_memory){.file = -1, .size = room.size};
    int result =
        helper_trace_share(&session->helper, space->pid, &room, &memory->address, &memory->file, error);
    if (result == BASE_OK)
        space->memories[space->memory_count++] = *memory;
    return result;
}

int space_memory_commit_code(const struct space *space, const struct space_code *code, uint64_t at,
                             uint64_t size, struct base_error *error)
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

int space_memory_commit(struct space *space, uint32_t word_end, struct base_error *error)
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

const struct space_memory *space_memory_at(const struct space *space, uint64_t address)
{
    for (size_t i = 0; i < space->memory_count; i++)
        if (address - space->memories[i].address < space->memories[i].size)
            return &space->memories[i];
    return NULL;
}

int space_memory_doorbell(struct space *space, struct base_error *error)
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
