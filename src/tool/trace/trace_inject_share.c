/* Memory that a target shares with us: a memfd that the target creates, maps and closes by injected calls,
 * and that is opened from outside through /proc/PID/fd.
 *
 * The calls are chained (trace_inject_chain), so that the thread goes back to its trap only once. */
#include "trace_inject_inside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NAME_MAX_     64
#define CREATE_MOST   200 /* files, while signals move the thread */
#define CLOSE_TRIES   3
#define RESTORE_TRIES 3
#define RED_ZONE      128

static int close_target_file(struct trace_inject *inject, int64_t file, struct base_error *error)
{
    int64_t answer;
    int result = BASE_OK;
    for (int i = 0; i < CLOSE_TRIES; i++) {
        result = trace_inject_require(inject, "close", SYS_close, (uint64_t[6]){(uint64_t)file}, &answer,
                                      i + 1 < CLOSE_TRIES ? NULL : error);
        if (result == BASE_OK)
            break;
    }
    return result;
}

/* The name must be in the target's memory during the call: it is written below the red zone of the thread's
 * stack, which is unused, and the bytes there are restored; unless a signal came before the call (*moved),
 * whose frame is there now. */
static int try_create_file(struct trace_inject *inject, const char *name, int64_t *file, bool *moved,
                           struct base_error *error)
{
    struct user_regs_struct registers, after;
    char before[NAME_MAX_], text[NAME_MAX_] = "";
    snprintf(text, sizeof text, "%s", name);
    int result = trace_stop_read(inject->stop, inject->tid, &registers, error);
    if (result < 0)
        return result;
    uint64_t at = (registers.rsp - RED_ZONE - sizeof text) & ~(uint64_t)15;
    result = trace_memory_read(inject->memory, at, before, sizeof before, error);
    if (result == BASE_OK)
        result = trace_memory_write(inject->memory, at, text, sizeof text, error);
    if (result < 0)
        return result;
    result = trace_inject_require(inject, "memfd_create", SYS_memfd_create,
                                  (uint64_t[6]){at, MFD_CLOEXEC | MFD_ALLOW_SEALING}, file, error);
    *moved =
        trace_stop_read(inject->stop, inject->tid, &after, NULL) == BASE_OK && after.rsp != registers.rsp;
    for (int i = 0; !*moved && i < RESTORE_TRIES; i++)
        if (trace_memory_write(inject->memory, at, before, sizeof before, NULL) == BASE_OK)
            break;
    return result;
}

/* A file that was created while the thread moved may have any name: another one is created, with the name
 * below the new stack pointer. */
static int create_file(struct trace_inject *inject, const char *name, int64_t *file, struct base_error *error)
{
    for (int i = 0; i < CREATE_MOST; i++) {
        bool moved = false;
        int result = try_create_file(inject, name, file, &moved, error);
        if (!moved)
            return result;
        if (result == BASE_OK && (result = close_target_file(inject, *file, error)) < 0)
            return result;
    }
    return base_fail(error, BASE_EBUSY, "process %d receives signals so fast that nothing comes between them",
                     inject->stop->pid);
}

static int open_from_outside(const struct trace_inject *inject, int64_t file, uint64_t size,
                             struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%lld", inject->tid, (long long)file);
    int ours = open(path, O_RDWR | O_CLOEXEC);
    if (ours < 0)
        return base_fail_errno(error, errno, "shared memory of process %d cannot be opened",
                               inject->stop->pid);
    if (!ftruncate(ours, (off_t)size))
        return ours;
    int number = errno;
    close(ours);
    return base_fail_errno(error, number, "%llu bytes of shared memory", (unsigned long long)size);
}

/* Where the memory begins, data included. */
static uint64_t start_of_shared(const struct trace_inject_shared *shared)
{
    return shared->address - (shared->data.first ? shared->data.size : 0);
}

/* Our files are mostly holes: for a core dump of the target the kernel would allocate every page of them.
 * Where the call is forbidden, the dump has them. */
static void exclude_from_dumps(struct trace_inject *inject, const struct trace_inject_shared *shared)
{
    int64_t answer;
    for (size_t i = 0; i < shared->piece_count; i++)
        trace_inject_call(
            inject, "madvise", SYS_madvise,
            (uint64_t[6]){shared->address + shared->pieces[i].at, shared->pieces[i].size, MADV_DONTDUMP},
            &answer, NULL);
    if (shared->pieces)
        return;
    uint64_t arguments[6] = {start_of_shared(shared), shared->size + shared->data.size, MADV_DONTDUMP};
    trace_inject_call(inject, "madvise", SYS_madvise, arguments, &answer, NULL);
}

static int write_words(const struct trace_inject_shared *shared, int ours, struct base_error *error)
{
    for (size_t i = 0; i < shared->word_count; i++) {
        const struct trace_inject_word *word = &shared->words[i];
        if (word->offset > shared->size - sizeof word->value)
            return base_fail(error, BASE_EUSAGE, "a word outside of the shared memory");
        if (pwrite(ours, &word->value, sizeof word->value, (off_t)word->offset) != sizeof word->value)
            return base_fail_errno(error, errno, "shared memory");
    }
    return BASE_OK;
}

static void unmap_pieces(struct trace_inject *inject, const struct trace_inject_shared *shared, size_t count)
{
    for (size_t i = 0; i < count; i++)
        trace_inject_unmap(inject, shared->address + shared->pieces[i].at, shared->pieces[i].size, NULL);
}

static int map_pieces(struct trace_inject *inject, const struct trace_inject_shared *shared, int theirs,
                      int how, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t i = 0; i < shared->piece_count && result == BASE_OK; i++) {
        const struct trace_inject_piece *piece = &shared->pieces[i];
        const struct trace_inject_mapping mapping = {
            shared->address + piece->at, piece->size, piece->offset,
            shared->protection,          theirs,      how | (piece->is_own ? MAP_PRIVATE : 0)};
        result = trace_inject_map_file(inject, &mapping, error);
        if (result < 0)
            unmap_pieces(inject, shared, i);
    }
    return result;
}

static int map_shared(struct trace_inject *inject, const struct trace_inject_shared *shared, int theirs,
                      int how, struct base_error *error)
{
    if (shared->pieces)
        return map_pieces(inject, shared, theirs, how, error);
    struct trace_inject_mapping mapping = {shared->address, shared->size, 0, shared->protection, theirs, how};
    int result = trace_inject_map_file(inject, &mapping, error);
    if (result < 0 || !shared->data.size)
        return result;
    mapping.address = shared->data.first ? start_of_shared(shared) : shared->address + shared->size;
    mapping.size = shared->data.size;
    mapping.offset = shared->size;
    mapping.protection = PROT_READ | PROT_WRITE;
    result = trace_inject_map_file(inject, &mapping, error);
    if (result < 0)
        trace_inject_unmap(inject, shared->address, shared->size, NULL);
    return result;
}

/* On failure nothing of it stays, but what `how` MAP_FIXED has replaced already. */
static int make_shared(struct trace_inject *inject, const struct trace_inject_shared *shared, int how,
                       int *file, struct base_error *error)
{
    int64_t theirs;
    int result = create_file(inject, shared->name, &theirs, error);
    if (result < 0)
        return result;
    int ours = open_from_outside(inject, theirs, shared->size + shared->data.size, error);
    result = ours < 0 ? ours : write_words(shared, ours, error);
    if (result == BASE_OK)
        result = map_shared(inject, shared, (int)theirs, how, error);
    if (result == BASE_OK)
        exclude_from_dumps(inject, shared);
    int closed = close_target_file(inject, theirs, error);
    if (result == BASE_OK && closed == BASE_OK) {
        *file = ours;
        return BASE_OK;
    }
    if (result == BASE_OK && shared->pieces)
        unmap_pieces(inject, shared, shared->piece_count);
    else if (result == BASE_OK && how == MAP_FIXED_NOREPLACE)
        trace_inject_unmap(inject, start_of_shared(shared), shared->size + shared->data.size, NULL);
    if (ours >= 0)
        close(ours);
    return result < 0 ? result : closed;
}

static int share_memory(struct trace_inject *inject, const struct trace_inject_shared *shared, int how,
                        int *file, struct base_error *error)
{
    trace_inject_chain(inject);
    int result = make_shared(inject, shared, how, file, error);
    int settled = trace_inject_settle(inject, result < 0 ? NULL : error);
    if (result < 0 || settled == BASE_OK)
        return result;
    close(*file);
    return settled;
}

int trace_inject_share(struct trace_inject *inject, const struct trace_inject_shared *shared, int *file,
                       struct base_error *error)
{
    return share_memory(inject, shared, MAP_FIXED_NOREPLACE, file, error);
}

/* Does every byte lie in a mapping of a memfd of that name? */
static bool is_shared_memory(const struct proc_maps *maps, const char *name, uint64_t address, uint64_t size)
{
    char path[NAME_MAX_];
    uint64_t at = address;
    int length = snprintf(path, sizeof path, "/memfd:%s", name);
    for (size_t i = 0; i < maps->count && at < address + size; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        if (mapping->end <= at || mapping->start > at)
            continue;
        if (strncmp(mapping->path, path, (size_t)length) ||
            (mapping->path[length] && mapping->path[length] != ' '))
            return false;
        at = mapping->end;
    }
    return at >= address + size && size && address + size > address;
}

int trace_inject_reshare(struct trace_inject *inject, const struct trace_inject_shared *shared, int *file,
                         struct base_error *error)
{
    struct proc_maps maps = {0};
    int result = trace_inject_maps(inject, &maps, error);
    bool ours = result == BASE_OK && is_shared_memory(&maps, shared->name, shared->address, shared->size);
    proc_maps_free(&maps);
    if (result == BASE_OK && !ours)
        return base_fail(error, BASE_EUSAGE, "the memory at 0x%llx of process %d is not shared with tally",
                         (unsigned long long)shared->address, inject->stop->pid);
    return result < 0 ? result : share_memory(inject, shared, MAP_FIXED, file, error);
}
