#include "space_text.h"

#include <string.h>
#include <unistd.h>

#include "helper_trace.h"
#include "loader.h"
#include "loader_x86_64_wrap.h"
#include "proc_target.h"

bool space_text_holds(pid_t pid, const struct trace_memory_change *change, const uint8_t *bytes)
{
    uint8_t found[TRACE_MEMORY_BYTES];
    return proc_target_read(pid, change->address, found, change->length) == change->length &&
           !memcmp(found, bytes, change->length);
}

enum space_undo space_text_undo(pid_t pid, struct trace_memory_change *change)
{
    uint8_t found[TRACE_MEMORY_BYTES];
    if (proc_target_read(pid, change->address, found, change->length) != change->length)
        return SPACE_UNDO_GONE;
    if (!memcmp(found, change->after, change->length))
        return SPACE_UNDO_ALL;
    return trace_memory_spare(found, change->after, change->before, change->length) ? SPACE_UNDO_PROBED
                                                                                    : SPACE_UNDO_OTHERS;
}

enum space_undo space_text_lift(struct helper *helper, pid_t pid, struct trace_memory_change *change)
{
    enum space_undo undo = space_text_undo(pid, change);
    bool failed = undo == SPACE_UNDO_PROBED && (helper_trace_stage(helper, pid, change, 1, NULL) < 0 ||
                                                helper_trace_undo(helper, pid, NULL) < 0);
    return failed ? SPACE_UNDO_ALL : undo;
}

static bool leads_to_agent(const struct proc_maps *maps, uint64_t address,
                           const uint8_t jump[LOADER_X86_64_WRAP_JUMP])
{
    int32_t displacement;
    memcpy(&displacement, jump + 1, sizeof displacement);
    uint64_t to = address + LOADER_X86_64_WRAP_JUMP + (uint64_t)(int64_t)displacement;
    if (jump[0] != 0xe9)
        return false;
    for (size_t i = 0; i < maps->count; i++)
        if (to >= maps->items[i].start && to < maps->items[i].end)
            return !strcmp(maps->items[i].path, LOADER_PATH);
    return false;
}

bool space_text_is_hooked(pid_t pid, const struct proc_maps *maps, uint64_t address)
{
    uint8_t jump[LOADER_X86_64_WRAP_JUMP];
    return proc_target_read(pid, address, jump, sizeof jump) == sizeof jump &&
           leads_to_agent(maps, address, jump);
}

bool space_text_has_hook(pid_t pid, const struct proc_maps *maps, uint64_t address, size_t length)
{
    for (uint64_t at = address - (LOADER_X86_64_WRAP_JUMP - 1); at < address + length; at++)
        if (space_text_is_hooked(pid, maps, at))
            return true;
    return false;
}

/* What mmap shows of the file at an image address: whole pages, also past the segment's end; zeros past the
 * file's. */
static bool file_page(const struct elf_image *image, uint64_t address, uint8_t bytes[SPACE_PAGE])
{
    const struct elf_segment *segments;
    size_t count = elf_image_segments(image, &segments), size;
    const uint8_t *file = elf_image_bytes(image, &size);
    for (size_t i = 0; i < count; i++) {
        uint64_t low = segments[i].address & ~(uint64_t)(SPACE_PAGE - 1);
        uint64_t offset = segments[i].offset - (segments[i].address - low) + (address - low);
        if (!segments[i].executable || address < low ||
            address >= segments[i].address + segments[i].file_size || offset >= size)
            continue;
        size_t there = size - offset < SPACE_PAGE ? (size_t)(size - offset) : SPACE_PAGE;
        memset(bytes, 0, SPACE_PAGE);
        memcpy(bytes, file + offset, there);
        return true;
    }
    return false;
}

static bool is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t page)
{
    uint8_t bytes[SPACE_PAGE], expected[SPACE_PAGE];
    return file_page(image, page - bias, expected) &&
           proc_target_read(pid, page, bytes, sizeof bytes) == sizeof bytes &&
           !memcmp(bytes, expected, sizeof bytes);
}

bool space_text_is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t start,
                           uint64_t end, size_t *own)
{
    int pages = proc_target_pages(pid);
    bool same = true;
    *own = 0;
    for (uint64_t page = start; page < end && same; page += SPACE_PAGE) {
        if (!proc_target_page_written(pages, page))
            continue;
        (*own)++;
        same = is_as_file(pid, image, bias, page);
    }
    if (pages >= 0)
        close(pages);
    return same;
}
