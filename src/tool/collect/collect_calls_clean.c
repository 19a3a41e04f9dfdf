#include "collect_calls_clean.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "collect_calls_leave.h"
#include "collect_calls_text.h"
#include "elf_image.h"
#include "elf_maps.h"
#include "patch_target.h"
#include "patch_trace.h"

#define PAGE      COLLECT_CALLS_PAGE
#define AROUND    160u /* bytes before and behind a page that are read with it: islands lie within 135 */
#define FILL_MOST 9u   /* cs prefixes before REX and call */
#define OWN_NAME  "/memfd:tally" /* patch_helper_share */
#define LOW_END   (1ull << 31)

struct cleaning {
    struct patch_helper *helper;
    pid_t pid;
    struct elf_maps maps;
    struct collect_calls_ranges ours;
    struct patch_memory_change *changes;
    size_t count, capacity;
    int pagemap;
    bool low; /* a block below 2 GiB: gs bases were set */
};

/* --- what is ours --- */

static bool find_ours(struct cleaning *cleaning)
{
    bool room = true;
    for (size_t i = 0; i < cleaning->maps.count && room; i++) {
        const struct elf_mapping *mapping = &cleaning->maps.items[i];
        if (strcmp(mapping->path, OWN_NAME))
            continue;
        cleaning->low |= mapping->start < LOW_END;
        room = collect_calls_ranges_add(
            &cleaning->ours, &(struct collect_calls_range){mapping->start, mapping->end - mapping->start,
                                                           mapping->executable, false});
    }
    return room;
}

/* --- what leads there --- */

/* A stretch of text as it is now. */
struct stretch {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

static bool jumps_to_ours(const struct cleaning *cleaning, const struct stretch *text, size_t displacement_at)
{
    int32_t displacement;
    if (displacement_at + sizeof displacement > text->size)
        return false;
    memcpy(&displacement, text->bytes + displacement_at, sizeof displacement);
    uint64_t target = text->address + displacement_at + sizeof displacement + (uint64_t)(int64_t)displacement;
    return collect_calls_ranges_code(&cleaning->ours, target) != NULL;
}

/* Where the instruction at `at` ends when it leads to ours; else 0. call, jmp, jcc with 32 bits; jmp and jcc
 * with 8 bits to an island that does. */
static size_t leads_to_ours(const struct cleaning *cleaning, const struct stretch *text, size_t at)
{
    uint8_t opcode = text->bytes[at];
    if (opcode == 0xe8 || opcode == 0xe9)
        return jumps_to_ours(cleaning, text, at + 1) ? at + 5 : 0;
    if (opcode == 0x0f && at + 1 < text->size && text->bytes[at + 1] >> 4 == 8)
        return jumps_to_ours(cleaning, text, at + 2) ? at + 6 : 0;
    if ((opcode == 0xeb || opcode >> 4 == 7) && at + 1 < text->size) {
        int64_t island = (int64_t)at + 2 + (int8_t)text->bytes[at + 1];
        return island >= 0 && (size_t)island < text->size && text->bytes[island] == 0xe9 &&
                       jumps_to_ours(cleaning, text, (size_t)island + 1)
                   ? at + 2
                   : 0;
    }
    return 0;
}

/* The same with the prefixes that fill a longer site up (patch_x86_64_stub.h). */
static size_t filled_leads_to_ours(const struct cleaning *cleaning, const struct stretch *text, size_t at)
{
    size_t start = at;
    if (text->bytes[at] != 0x2e && text->bytes[at] != 0x40)
        return leads_to_ours(cleaning, text, at);
    while (at < text->size && at - start < FILL_MOST && text->bytes[at] == 0x2e)
        at++;
    bool filled = at + 1 < text->size && text->bytes[at] == 0x40 && (text->bytes[at + 1] & 0xfe) == 0xe8;
    return filled ? leads_to_ours(cleaning, text, at + 1) : 0;
}

/* Bytes first..end-1 differ from the file, and we have changed them. */
static bool add_change(struct cleaning *cleaning, const struct stretch *text, const uint8_t *file,
                       size_t first, size_t end)
{
    struct patch_memory_change change = {.address = text->address + first, .length = end - first};
    memcpy(change.before, text->bytes + first, end - first);
    memcpy(change.after, file + first, end - first);
    if (!base_array_room(cleaning->changes, cleaning->count, cleaning->capacity))
        return false;
    cleaning->changes[cleaning->count++] = change;
    return true;
}

/* from..to-1 are the page itself; what lies around it is only looked at. What differs is ours within an
 * instruction that leads to us, and nowhere else: bytes of such a one may by chance be those of the file, and
 * a stranger's change may lie next to it. */
static bool compare(struct cleaning *cleaning, const struct stretch *text, const uint8_t *file, size_t from,
                    size_t to)
{
    size_t ours = 0;
    for (size_t at = from > PATCH_MEMORY_BYTES ? from - PATCH_MEMORY_BYTES : 0; at < to; at++) {
        size_t leads = filled_leads_to_ours(cleaning, text, at), end = at;
        ours = leads > ours ? leads : ours;
        while (at >= from && end < to && end < ours && end - at < PATCH_MEMORY_BYTES &&
               text->bytes[end] != file[end])
            end++;
        if (end > at && !add_change(cleaning, text, file, at, end))
            return false;
        at = end > at ? end - 1 : at;
    }
    return true;
}

/* --- pages --- */

static bool clean_page(struct cleaning *cleaning, const struct elf_mapping *mapping,
                       const struct elf_image *image, uint64_t bias, uint64_t page)
{
    uint8_t bytes[PAGE + 2 * AROUND];
    size_t available;
    uint64_t start = page - mapping->start >= AROUND ? page - AROUND : page;
    size_t wanted = (size_t)(page - start) + PAGE + AROUND;
    if (wanted > mapping->end - start)
        wanted = (size_t)(mapping->end - start);
    const uint8_t *file = elf_image_at(image, start - bias, &available);
    size_t got = patch_target_read(cleaning->pid, start, bytes, wanted);
    got = got < available ? got : available;
    if (!file || got <= page - start)
        return true;
    size_t from = (size_t)(page - start), to = from + PAGE < got ? from + PAGE : got;
    return !memcmp(bytes + from, file + from, to - from) ||
           compare(cleaning, &(struct stretch){start, bytes, got}, file, from, to);
}

static bool clean_mapping(struct cleaning *cleaning, const struct elf_mapping *mapping,
                          struct collect_calls_cleaned *cleaned)
{
    struct elf_image *image = NULL;
    uint64_t address;
    bool room = true;
    for (uint64_t page = mapping->start; page < mapping->end && room; page += PAGE) {
        if (!collect_calls_text_written(cleaning->pagemap, page))
            continue;
        if (!image) {
            int file = elf_maps_open(cleaning->pid, mapping, NULL);
            if (file < 0 || elf_image_open_fd(file, mapping->path, &image, NULL) < 0 ||
                !elf_image_address_of_offset(image, mapping->offset, &address)) {
                cleaned->unreadable++;
                break;
            }
        }
        room = clean_page(cleaning, mapping, image, mapping->start - address, page);
    }
    if (image)
        elf_image_close(image);
    return room;
}

static int find_changes(struct cleaning *cleaning, struct collect_calls_cleaned *cleaned,
                        struct base_error *error)
{
    bool room = true;
    cleaning->pagemap = collect_calls_text_pages(cleaning->pid);
    for (size_t i = 0; i < cleaning->maps.count && room; i++) {
        const struct elf_mapping *mapping = &cleaning->maps.items[i];
        if (mapping->executable && !mapping->shared && mapping->path[0] == '/' && mapping->inode)
            room = clean_mapping(cleaning, mapping, cleaned);
    }
    if (cleaning->pagemap >= 0)
        close(cleaning->pagemap);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- all --- */

/* A file that cannot be read may hold places that lead to our memory: then it must stay. */
static int clean_held(struct cleaning *cleaning, struct collect_calls_cleaned *cleaned,
                      struct base_error *error)
{
    int result = find_changes(cleaning, cleaned, error);
    if (result == BASE_OK)
        result =
            patch_trace_stage(cleaning->helper, cleaning->pid, cleaning->changes, cleaning->count, error);
    if (result == BASE_OK)
        result = patch_trace_apply(cleaning->helper, cleaning->pid, error);
    if (result < 0)
        return result;
    cleaned->places = cleaning->count;
    if (!cleaned->unreadable)
        return collect_calls_leave_memory(cleaning->helper, cleaning->pid, &cleaning->ours, cleaning->low,
                                          false, &cleaned->bytes_left, error);
    for (size_t i = 0; i < cleaning->ours.count; i++)
        cleaned->bytes_left += cleaning->ours.items[i].size;
    return BASE_OK;
}

static int hold_and_clean(struct cleaning *cleaning, struct collect_calls_cleaned *cleaned,
                          struct base_error *error)
{
    int result = patch_trace_hold(cleaning->helper, cleaning->pid, NULL, error);
    if (result < 0)
        return result;
    elf_maps_free(&cleaning->maps);
    cleaning->ours.count = 0;
    result = elf_maps_read(cleaning->pid, &cleaning->maps, error);
    if (result == BASE_OK && !find_ours(cleaning))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = clean_held(cleaning, cleaned, error);
    patch_trace_release(cleaning->helper, cleaning->pid, NULL, NULL);
    return result;
}

int collect_calls_clean(struct patch_helper *helper, pid_t pid, struct collect_calls_cleaned *cleaned,
                        struct base_error *error)
{
    struct cleaning cleaning = {.helper = helper, .pid = pid, .pagemap = -1};
    *cleaned = (struct collect_calls_cleaned){0};
    int result = elf_maps_read(pid, &cleaning.maps, error);
    if (result == BASE_OK && !find_ours(&cleaning))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    cleaned->mappings = cleaning.ours.count;
    if (result == BASE_OK && cleaning.ours.count)
        result = hold_and_clean(&cleaning, cleaned, error);
    elf_maps_free(&cleaning.maps);
    free(cleaning.ours.items);
    free(cleaning.changes);
    return result;
}

int collect_calls_clean_process(pid_t pid, struct collect_calls_cleaned *cleaned, struct base_error *error)
{
    struct patch_helper helper;
    int result = patch_helper_begin(&helper, error);
    if (result < 0)
        return result;
    result = patch_trace_follow(&helper, pid, error);
    if (result == BASE_OK) {
        result = collect_calls_clean(&helper, pid, cleaned, error);
        patch_trace_leave(&helper, pid, NULL);
    }
    patch_helper_end(&helper);
    return result;
}
