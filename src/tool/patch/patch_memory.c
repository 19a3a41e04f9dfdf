/* Applying is planned in one buffer first: a *span* is what changes in one page, from the first changed byte to the last,
 * as it was and as it is to be. Only when all spans are read, compared and made is the first one written. */
#include "patch_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE  4096u
#define WAYS  3u
#define WORD  sizeof(long)
#define TRIES 3 /* of putting back */

int patch_memory_open(struct patch_memory *memory, pid_t tid, struct base_error *error)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", tid);
    *memory = (struct patch_memory){tid, open(path, O_RDWR | O_CLOEXEC), 0};
    if (memory->file < 0)
        return base_fail_errno(error, errno, "memory of process %d cannot be opened", tid);
    return BASE_OK;
}

void patch_memory_close(struct patch_memory *memory)
{
    if (memory->file >= 0)
        close(memory->file);
    memory->file = -1;
}

/* --- ways of reading and writing; each returns how much it did, or -1 --- */

int patch_memory_read(const struct patch_memory *memory, uint64_t address, void *bytes, size_t size,
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

static ssize_t write_file(const struct patch_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    ssize_t put;
    while ((put = pwrite(memory->file, bytes, size, (off_t)address)) < 0 && errno == EINTR)
        ;
    return put;
}

static ssize_t write_vm(const struct patch_memory *memory, uint64_t address, const void *bytes, size_t size)
{
    struct iovec here = {(void *)(uintptr_t)bytes, size}, there = {(void *)(uintptr_t)address, size};
    return process_vm_writev(memory->tid, &here, 1, &there, 1, 0);
}

/* The aligned word that holds `address`: its bytes from `address` on, at most `size`. */
static ssize_t write_word(const struct patch_memory *memory, uint64_t address, const void *bytes, size_t size)
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

static ssize_t write_some(const struct patch_memory *memory, unsigned way, uint64_t address,
                          const void *bytes, size_t size)
{
    if (way == 0)
        return write_file(memory, address, bytes, size);
    if (way == 1)
        return write_vm(memory, address, bytes, size);
    return write_word(memory, address, bytes, size);
}

int patch_memory_write(struct patch_memory *memory, uint64_t address, const void *bytes, size_t size,
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

struct span {
    uint64_t address;
    size_t size;
    uint8_t *was, *will;
};

struct spans {
    struct span *items;
    size_t count;
    uint8_t *bytes; /* what was and will point into */
};

static int by_address(const void *left, const void *right)
{
    const struct patch_memory_change *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static uint64_t end_of(const struct patch_memory_change *change)
{
    return change->address + change->length;
}

static int check_list(struct patch_memory_change *changes, size_t count, struct base_error *error)
{
    if (count == 0)
        return BASE_OK;
    qsort(changes, count, sizeof *changes, by_address);
    for (size_t i = 0; i < count; i++) {
        const struct patch_memory_change *change = &changes[i];
        bool wrong =
            change->length == 0 || change->length > PATCH_MEMORY_BYTES || end_of(change) < change->address;
        if (wrong || (i > 0 && end_of(&changes[i - 1]) > change->address))
            return base_fail(error, BASE_EUSAGE, "changes at 0x%llx overlap or have no sensible length",
                             (unsigned long long)change->address);
    }
    return BASE_OK;
}

/* Changes that begin in the same page make one span; the last may reach into the next page. */
static size_t span_from(const struct patch_memory_change *changes, size_t count, struct span *span)
{
    size_t used = 1;
    uint64_t page = changes[0].address / PAGE;
    while (used < count && changes[used].address / PAGE == page)
        used++;
    span->address = changes[0].address;
    span->size = (size_t)(end_of(&changes[used - 1]) - span->address);
    return used;
}

static int make_spans(const struct patch_memory_change *changes, size_t count, struct spans *spans)
{
    size_t bytes = 0;
    *spans = (struct spans){.items = calloc(count ? count : 1, sizeof *spans->items)};
    if (!spans->items)
        return BASE_ENOMEM;
    for (size_t i = 0; i < count;) {
        struct span *span = &spans->items[spans->count++];
        i += span_from(&changes[i], count - i, span);
        bytes += 2 * span->size;
    }
    spans->bytes = malloc(bytes ? bytes : 1);
    uint8_t *next = spans->bytes;
    for (size_t i = 0; next && i < spans->count; i++) {
        spans->items[i].was = next;
        spans->items[i].will = next + spans->items[i].size;
        next += 2 * spans->items[i].size;
    }
    return spans->bytes ? BASE_OK : BASE_ENOMEM;
}

static void free_spans(struct spans *spans)
{
    free(spans->items);
    free(spans->bytes);
}

static const uint8_t *wanted(const struct patch_memory_change *change, bool back)
{
    return back ? change->after : change->before;
}

static const uint8_t *made(const struct patch_memory_change *change, bool back)
{
    return back ? change->before : change->after;
}

/* Compares one change with its span and enters it. */
static bool enter(struct span *span, const struct patch_memory_change *change, bool back)
{
    size_t at = (size_t)(change->address - span->address);
    if (memcmp(span->was + at, wanted(change, back), change->length))
        return false;
    memcpy(span->will + at, made(change, back), change->length);
    return true;
}

static int read_and_compare(const struct patch_memory *memory, struct spans *spans,
                            const struct patch_memory_change *changes, size_t count, bool back,
                            size_t *differs, struct base_error *error)
{
    size_t next = 0;
    for (size_t i = 0; i < spans->count; i++) {
        struct span *span = &spans->items[i];
        int result = patch_memory_read(memory, span->address, span->was, span->size, error);
        if (result < 0)
            return result;
        memcpy(span->will, span->was, span->size);
        for (; next < count && changes[next].address / PAGE == span->address / PAGE; next++) {
            if (enter(span, &changes[next], back))
                continue;
            if (differs)
                *differs = next;
            return base_fail(
                error, BASE_EBUSY,
                "the code at 0x%llx is not what it was planned to be: something else has changed it; "
                "nothing was written",
                (unsigned long long)changes[next].address);
        }
    }
    return BASE_OK;
}

static bool is_as_it_was(const struct patch_memory *memory, const struct span *span)
{
    /* What it is to be is no longer needed: its room serves. */
    return patch_memory_read(memory, span->address, span->will, span->size, NULL) == BASE_OK &&
           !memcmp(span->will, span->was, span->size);
}

/* The first `count` spans become what they were. The last may never have been written, and not be writable. */
static int put_back(struct patch_memory *memory, const struct spans *spans, size_t count)
{
    int worst = BASE_OK;
    for (size_t i = 0; i < count; i++) {
        const struct span *span = &spans->items[i];
        for (int try = 0; try < TRIES && !is_as_it_was(memory, span); try++)
            patch_memory_write(memory, span->address, span->was, span->size, NULL);
        if (!is_as_it_was(memory, span))
            worst = BASE_EIO;
    }
    return worst;
}

static int write_spans(struct patch_memory *memory, const struct spans *spans, struct base_error *error)
{
    for (size_t i = 0; i < spans->count; i++) {
        const struct span *span = &spans->items[i];
        int result = patch_memory_write(memory, span->address, span->will, span->size, error);
        if (result == BASE_OK)
            continue;
        if (put_back(memory, spans, i + 1) == BASE_OK)
            return result;
        return base_fail_context(error, result, "a part of the changes is made and cannot be put back");
    }
    return BASE_OK;
}

static int change(struct patch_memory *memory, struct patch_memory_change *changes, size_t count, bool back,
                  size_t *differs, struct base_error *error)
{
    struct spans spans;
    int result = check_list(changes, count, error);
    if (result < 0)
        return result;
    result = make_spans(changes, count, &spans);
    if (result < 0)
        base_fail(error, result, "out of memory");
    if (result == BASE_OK)
        result = read_and_compare(memory, &spans, changes, count, back, differs, error);
    if (result == BASE_OK)
        result = write_spans(memory, &spans, error);
    free_spans(&spans);
    return result;
}

int patch_memory_apply(struct patch_memory *memory, struct patch_memory_change *changes, size_t count,
                       size_t *differs, struct base_error *error)
{
    return change(memory, changes, count, false, differs, error);
}

int patch_memory_undo(struct patch_memory *memory, struct patch_memory_change *changes, size_t count,
                      size_t *differs, struct base_error *error)
{
    return change(memory, changes, count, true, differs, error);
}
