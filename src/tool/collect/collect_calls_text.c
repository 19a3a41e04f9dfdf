#include "collect_calls_text.h"

#include <string.h>
#include <unistd.h>

#include "patch_agent.h"
#include "patch_target.h"
#include "patch_trace.h"
#include "patch_x86_64_wrap.h"

bool collect_calls_text_holds(pid_t pid, const struct patch_memory_change *change, const uint8_t *bytes)
{
    uint8_t found[PATCH_MEMORY_BYTES];
    return patch_target_read(pid, change->address, found, change->length) == change->length &&
           !memcmp(found, bytes, change->length);
}

enum collect_calls_undo collect_calls_text_undo(pid_t pid, struct patch_memory_change *change)
{
    uint8_t found[PATCH_MEMORY_BYTES];
    if (patch_target_read(pid, change->address, found, change->length) != change->length)
        return COLLECT_CALLS_UNDO_GONE;
    if (!memcmp(found, change->after, change->length))
        return COLLECT_CALLS_UNDO_ALL;
    return patch_memory_spare(found, change->after, change->before, change->length)
               ? COLLECT_CALLS_UNDO_PROBED
               : COLLECT_CALLS_UNDO_OTHERS;
}

enum collect_calls_undo collect_calls_text_lift(struct patch_helper *helper, pid_t pid,
                                                struct patch_memory_change *change)
{
    enum collect_calls_undo undo = collect_calls_text_undo(pid, change);
    bool failed = undo == COLLECT_CALLS_UNDO_PROBED && (patch_trace_stage(helper, pid, change, 1, NULL) < 0 ||
                                                        patch_trace_undo(helper, pid, NULL) < 0);
    return failed ? COLLECT_CALLS_UNDO_ALL : undo;
}

static bool leads_to_agent(const struct elf_maps *maps, uint64_t address,
                           const uint8_t jump[PATCH_X86_64_WRAP_JUMP])
{
    int32_t displacement;
    memcpy(&displacement, jump + 1, sizeof displacement);
    uint64_t to = address + PATCH_X86_64_WRAP_JUMP + (uint64_t)(int64_t)displacement;
    if (jump[0] != 0xe9)
        return false;
    for (size_t i = 0; i < maps->count; i++)
        if (to >= maps->items[i].start && to < maps->items[i].end)
            return !strcmp(maps->items[i].path, PATCH_AGENT_PATH);
    return false;
}

bool collect_calls_text_is_hooked(pid_t pid, const struct elf_maps *maps, uint64_t address)
{
    uint8_t jump[PATCH_X86_64_WRAP_JUMP];
    return patch_target_read(pid, address, jump, sizeof jump) == sizeof jump &&
           leads_to_agent(maps, address, jump);
}

bool collect_calls_text_has_hook(pid_t pid, const struct elf_maps *maps, uint64_t address, size_t length)
{
    for (uint64_t at = address - (PATCH_X86_64_WRAP_JUMP - 1); at < address + length; at++)
        if (collect_calls_text_is_hooked(pid, maps, at))
            return true;
    return false;
}

/* What mmap shows of the file at an image address: whole pages, also past the segment's end; zeros past the
 * file's. */
static bool file_page(const struct elf_image *image, uint64_t address, uint8_t bytes[COLLECT_CALLS_PAGE])
{
    const struct elf_segment *segments;
    size_t count = elf_image_segments(image, &segments), size;
    const uint8_t *file = elf_image_bytes(image, &size);
    for (size_t i = 0; i < count; i++) {
        uint64_t low = segments[i].address & ~(uint64_t)(COLLECT_CALLS_PAGE - 1);
        uint64_t offset = segments[i].offset - (segments[i].address - low) + (address - low);
        if (!segments[i].executable || address < low ||
            address >= segments[i].address + segments[i].file_size || offset >= size)
            continue;
        size_t there = size - offset < COLLECT_CALLS_PAGE ? (size_t)(size - offset) : COLLECT_CALLS_PAGE;
        memset(bytes, 0, COLLECT_CALLS_PAGE);
        memcpy(bytes, file + offset, there);
        return true;
    }
    return false;
}

static bool is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t page)
{
    uint8_t bytes[COLLECT_CALLS_PAGE], expected[COLLECT_CALLS_PAGE];
    return file_page(image, page - bias, expected) &&
           patch_target_read(pid, page, bytes, sizeof bytes) == sizeof bytes &&
           !memcmp(bytes, expected, sizeof bytes);
}

bool collect_calls_text_is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t start,
                                   uint64_t end, size_t *own)
{
    int pages = patch_target_pages(pid);
    bool same = true;
    *own = 0;
    for (uint64_t page = start; page < end && same; page += COLLECT_CALLS_PAGE) {
        if (!patch_target_page_written(pages, page))
            continue;
        (*own)++;
        same = is_as_file(pid, image, bias, page);
    }
    if (pages >= 0)
        close(pages);
    return same;
}
