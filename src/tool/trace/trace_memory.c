/* Applying goes through the changes twice: first everything is read and compared, then it is read again,
 * changed and written. Keeping what was read would take as much memory as the target's text, and fresh memory
 * costs more than reading what the processor has just seen. Only tools of other tracers could write in
 * between. The bytes before are known without a copy: each change has them, and bytes between changes are
 * written as they were read.
 *
 * With a long list the target waits for copies of its pages, which the kernel makes as they are written to:
 * therefore several threads write parts of the list at once. Only the first way of writing works for them,
 * since the kernel knows a tracer by its thread. When a part fails, the tracing thread goes through the whole
 * list by itself, finds what is wrong, and restores what they have written. */
#include "trace_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base_pool.h"

#define PAGE   4096u
#define WAYS   3u
#define WORD   sizeof(long)
#define TRIES  3      /* of restoring */
#define WINDOW 65536u /* bytes that are read together */
#define PARTS  16u    /* of a long list */
#define LONG   8192u  /* changes: fewer are written faster than threads start */

int trace_memory_open(struct trace_memory *memory, pid_t tid, struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", tid);
    *memory = (struct trace_memory){tid, open(path, O_RDWR | O_CLOEXEC), 0};
    if (memory->file < 0)
        return base_fail_errno(error, errno, "memory of process %d cannot be opened", tid);
    return BASE_OK;
}

void trace_memory_close(struct trace_memory *memory)
{
    if (memory->file >= 0)
        close(memory->file);
    memory->file = -1;
}

/* --- ways of reading and writing; each way of writing returns how much it wrote, or -1 --- */

int trace_memory_read(const struct trace_memory *memory, uint64_t address, void *bytes, size_t size,
                      struct base_error *error)
{
    size_t done = 0;
    while (done < size) {
        ssize_t got = pread(memory->file, (char *)bytes + done, size - done, (off_t)(address + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            return base_fail(error, BASE_ENOTFOUND,
                             "the memory of process %d is gone: it ended or became another program",
                             memory->tid);
        if (got < 0)
            return base_fail_errno(error, errno, "memory at 0x%llx cannot be read",
                                   (unsigned long long)(address + done));
        done += (size_t)got;
    }
    return BASE_OK;
}

static ssize_t write_file(const struct trace_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    ssize_t put;
    while ((put = pwrite(memory->file, bytes, size, (off_t)address)) < 0 && errno == EINTR)
        ;
    return put;
}

static ssize_t write_vm(const struct trace_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    struct iovec here = {(void *)(uintptr_t)bytes, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_writev(memory->tid, &here, 1, &there, 1, 0);
}

/* The aligned word that holds `address`: its bytes from `address` on, at most `size`. */
static ssize_t write_word(const struct trace_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    uint64_t start = address & ~(uint64_t)(WORD - 1);
    size_t skip = (size_t)(address - start), length = size < WORD - skip ? size : WORD - skip;
    errno = 0;
    long word = ptrace(PTRACE_PEEKDATA, memory->tid, (void *)(uintptr_t)start, 0);
    if (word == -1 && errno)
        return -1;
    if (!memcmp((char *)&word + skip, bytes, length))
        return (ssize_t)length;
    memcpy((char *)&word + skip, bytes, length);
    return ptrace(PTRACE_POKEDATA, memory->tid, (void *)(uintptr_t)start, word) ? -1 : (ssize_t)length;
}

static ssize_t write_some(const struct trace_memory *memory, unsigned way, uint64_t address,
                          const void *bytes, size_t size)
{
    if (way == 0)
        return write_file(memory, address, bytes, size);
    if (way == 1)
        return write_vm(memory, address, bytes, size);
    return write_word(memory, address, bytes, size);
}

int trace_memory_write(struct trace_memory *memory, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error)
{
    size_t done = 0;
    unsigned way = memory->way;
    int number = 0;
    while (done < size) {
        ssize_t put = write_some(memory, way, address + done, (const char *)bytes + done, size - done);
        if (put > 0) {
            done += (size_t)put;
            continue;
        }
        number = put < 0 ? errno : number ? number : ENOENT; /* 0: the memory is gone */
        if (++way == WAYS)
            return base_fail_errno(error, number, "memory at 0x%llx cannot be written",
                                   (unsigned long long)(address + done));
    }
    return BASE_OK;
}

/* --- changes --- */

/* Changes that lie close together: they are read at once, and written page by page. */
struct window {
    const struct trace_memory_change *changes;
    size_t count, size; /* bytes from the first changed one to the last */
    uint64_t address;
};

/* What is done with every window, one after the other, in one buffer. */
struct change_job {
    struct trace_memory *memory;
    const struct trace_memory_change *changes;
    size_t count;
    bool back;
    uint8_t *bytes; /* WINDOW of them, and room for the end of the last change */
};

static int by_address(const void *left, const void *right)
{
    const struct trace_memory_change *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static uint64_t end_of(const struct trace_memory_change *change)
{
    return change->address + change->length;
}

static bool has_valid_range(const struct trace_memory_change *change)
{
    return change->length != 0 && change->length <= TRACE_MEMORY_BYTES && end_of(change) >= change->address;
}

/* The first change that has an invalid length or does not lie behind the one before; `to`: there is none. */
static size_t first_wrong(const struct trace_memory_change *changes, size_t from, size_t to)
{
    while (from < to && has_valid_range(&changes[from]) &&
           (from == 0 || end_of(&changes[from - 1]) <= changes[from].address))
        from++;
    return from;
}

static int check_list(struct trace_memory_change *changes, size_t count, struct base_error *error)
{
    size_t wrong = first_wrong(changes, 0, count);
    if (wrong < count) { /* sorting takes as much memory again */
        qsort(changes, count, sizeof *changes, by_address);
        wrong = first_wrong(changes, 0, count);
    }
    return wrong == count
               ? BASE_OK
               : base_fail(error, BASE_EUSAGE, "changes at 0x%llx overlap or have an invalid length",
                           (unsigned long long)changes[wrong].address);
}

/* The changes from index `from` on that begin in the same or in neighbouring pages, as far as the buffer
 * goes. Between two of them nothing is read that might not be there. */
static struct window window_at(const struct change_job *all, size_t from)
{
    const struct trace_memory_change *first = &all->changes[from];
    struct window window = {.changes = first, .count = 1, .address = first->address};
    while (from + window.count < all->count) {
        const struct trace_memory_change *next = &first[window.count], *last = next - 1;
        if (next->address / PAGE > last->address / PAGE + 1 || next->address - first->address > WINDOW)
            break;
        window.count++;
    }
    window.size = (size_t)(end_of(&first[window.count - 1]) - first->address);
    return window;
}

static const uint8_t *expected_bytes(const struct trace_memory_change *change, bool back)
{
    return back ? change->after : change->before;
}

static const uint8_t *written_bytes(const struct trace_memory_change *change, bool back)
{
    return back ? change->before : change->after;
}

/* The process runs no other program while it is held, so that the quicker call reads the same memory. */
static int read_window(const struct change_job *all, const struct window *window, struct base_error *error)
{
    struct iovec here = {all->bytes, window->size},
                 there = {(void *)(uintptr_t)window->address, window->size};
    if (process_vm_readv(all->memory->tid, &here, 1, &there, 1, 0) == (ssize_t)window->size)
        return BASE_OK;
    return trace_memory_read(all->memory, window->address, all->bytes, window->size, error);
}

/* The first change that does not find the bytes it expects, `back` or forth; the count: all do. */
static size_t first_other(const struct change_job *all, const struct window *window, bool back)
{
    for (size_t i = 0; i < window->count; i++) {
        const struct trace_memory_change *change = &window->changes[i];
        if (memcmp(all->bytes + (change->address - window->address), expected_bytes(change, back),
                   change->length))
            return i;
    }
    return window->count;
}

static int compare_all(const struct change_job *all, size_t *differs, struct base_error *error)
{
    for (size_t from = 0; from < all->count;) {
        struct window window = window_at(all, from);
        int result = read_window(all, &window, error);
        if (result < 0)
            return result;
        size_t other = first_other(all, &window, all->back);
        if (other < window.count) {
            if (differs)
                *differs = from + other;
            return base_fail(
                error, BASE_EBUSY,
                "the code at 0x%llx is not what it was planned to be: something else has changed it; "
                "nothing was written",
                (unsigned long long)window.changes[other].address);
        }
        from += window.count;
    }
    return BASE_OK;
}

/* Changes from `at` on that lie in pages which follow one another: they are written at once. */
static size_t run_from(const struct window *window, size_t at)
{
    size_t end = at + 1;
    while (end < window->count &&
           window->changes[end].address / PAGE <= end_of(&window->changes[end - 1]) / PAGE + 1)
        end++;
    return end;
}

/* Writes the window as it is in the buffer. */
static int write_window(const struct change_job *all, const struct window *window, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t at = 0, end; at < window->count && result == BASE_OK; at = end) {
        end = run_from(window, at);
        uint64_t from = window->changes[at].address, to = end_of(&window->changes[end - 1]);
        result = trace_memory_write(all->memory, from, all->bytes + (from - window->address),
                                    (size_t)(to - from), error);
    }
    return result;
}

static void enter_changes(const struct change_job *all, const struct window *window, bool back)
{
    for (size_t i = 0; i < window->count; i++) {
        const struct trace_memory_change *change = &window->changes[i];
        memcpy(all->bytes + (change->address - window->address), written_bytes(change, back), change->length);
    }
}

/* A window that cannot be read is not written either: the buffer would not hold the bytes between the
 * changes. */
static int restore_window(const struct change_job *all, const struct window *window)
{
    for (int try = 0; try <= TRIES; try++) {
        bool known = read_window(all, window, NULL) == BASE_OK;
        if (known && first_other(all, window, all->back) == window->count)
            return BASE_OK;
        if (known && try < TRIES) {
            enter_changes(all, window, !all->back);
            write_window(all, window, NULL);
        }
    }
    return BASE_EIO;
}

/* The first `count` changes become what they were. The last of them may never have been made, and not be
 * writable. */
static int restore_changes(const struct change_job *all, size_t count)
{
    int worst = BASE_OK;
    for (size_t from = 0; from < count;) {
        struct window window = window_at(all, from);
        int result = restore_window(all, &window);
        worst = result < 0 ? result : worst;
        from += window.count;
    }
    return worst;
}

/* *reached: which of the changes may be made. */
static int write_all(const struct change_job *all, size_t *reached, struct base_error *error)
{
    int result = BASE_OK;
    for (size_t from = 0; from < all->count && result == BASE_OK; *reached = from) {
        struct window window = window_at(all, from);
        result = read_window(all, &window, error);
        if (result == BASE_OK) {
            enter_changes(all, &window, all->back);
            result = write_window(all, &window, error);
        }
        from += window.count;
    }
    return result;
}

/* --- several threads --- */

/* What is done with a part; *reached is not used. */
typedef int part_work(const struct change_job *part, size_t *reached, struct base_error *error);

struct parts {
    const struct change_job *all;
    part_work *work;
    bool fine[PARTS];
};

static uint8_t *make_buffer(void)
{
    return malloc(WINDOW + TRACE_MEMORY_BYTES);
}

static int check_part(const struct change_job *part, size_t *differs, struct base_error *error)
{
    if (first_wrong(part->changes, 0, part->count) < part->count)
        return BASE_EUSAGE;
    return compare_all(part, differs, error);
}

static void run_part(void *context, size_t number)
{
    struct parts *parts = context;
    struct change_job part = *parts->all;
    size_t from = part.count * number / PARTS, to = part.count * (number + 1) / PARTS, reached;
    bool follows = from == 0 || end_of(&part.changes[from - 1]) <= part.changes[from].address;
    part.changes += from;
    part.count = to - from;
    part.bytes = make_buffer();
    parts->fine[number] = follows && part.bytes && parts->work(&part, &reached, NULL) == BASE_OK;
    free(part.bytes);
}

/* False: the list is too short for threads, or something failed, and a part of the work may be done. */
static bool run_parts(const struct change_job *all, part_work *work)
{
    struct parts parts = {.all = all, .work = work};
    bool fine = all->count >= LONG;
    if (fine)
        base_pool(PARTS, run_part, &parts);
    for (unsigned i = 0; i < PARTS && fine; i++)
        fine = parts.fine[i];
    return fine;
}

/* --- the whole list --- */

static int make_changes(const struct change_job *all, struct base_error *error)
{
    if (run_parts(all, write_all))
        return BASE_OK;
    size_t reached = 0;
    int result = write_all(all, &reached, error);
    if (result == BASE_OK || restore_changes(all, all->count >= LONG ? all->count : reached) == BASE_OK)
        return result;
    return base_fail_context(error, result, "a part of the changes is made and cannot be undone");
}

static int change_memory(struct trace_memory *memory, struct trace_memory_change *changes, size_t count,
                         bool back, size_t *differs, struct base_error *error)
{
    struct change_job all = {.memory = memory, .changes = changes, .count = count, .back = back};
    all.bytes = make_buffer();
    if (!all.bytes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = BASE_OK;
    if (!run_parts(&all, check_part)) {
        result = check_list(changes, count, error);
        if (result == BASE_OK)
            result = compare_all(&all, differs, error);
    }
    if (result == BASE_OK)
        result = make_changes(&all, error);
    free(all.bytes);
    return result;
}

int trace_memory_apply(struct trace_memory *memory, struct trace_memory_change *changes, size_t count,
                       size_t *differs, struct base_error *error)
{
    return change_memory(memory, changes, count, false, differs, error);
}

int trace_memory_undo(struct trace_memory *memory, struct trace_memory_change *changes, size_t count,
                      size_t *differs, struct base_error *error)
{
    return change_memory(memory, changes, count, true, differs, error);
}

bool trace_memory_spare(const uint8_t *live, uint8_t *from, uint8_t *to, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (live[i] != from[i] && live[i] != to[i] && live[i] != TRACE_MEMORY_BREAKPOINT)
            return false;
    for (size_t i = 0; i < length; i++)
        if (live[i] != from[i])
            from[i] = to[i] = live[i];
    return true;
}
