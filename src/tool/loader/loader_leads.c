#include "loader_leads.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "elf_image.h"
#include "loader.h"
#include "proc_target.h"

#define OURS      "/memfd:tally" /* the path of every mapping of ours begins so */
#define PAGE      PROC_TARGET_PAGE
#define AROUND    160u /* bytes before and behind a page that are read with it: islands lie within 135 */
#define FILL_MOST 9u   /* cs prefixes before REX and call */

bool loader_leads_is_ours(const struct proc_mapping *mapping)
{
    return strncmp(mapping->path, OURS, strlen(OURS)) == 0;
}

bool loader_leads_is_of_calls(const struct proc_mapping *mapping)
{
    return strcmp(mapping->path, OURS) == 0;
}

const struct loader_range *loader_range_of(const struct loader_range *ranges, size_t count, uint64_t address)
{
    for (size_t i = 0; i < count; i++)
        if (ranges[i].code && address - ranges[i].address < ranges[i].size)
            return &ranges[i];
    return NULL;
}

struct search {
    pid_t pid;
    const struct proc_maps *maps;
    const struct loader_range *ranges;
    size_t count;
    struct loader_leads *leads;
    int pages;          /* proc_target_pages */
    uint64_t low, high; /* around all ranges of code */
};

static bool is_in_code(const struct search *search, uint64_t address)
{
    return address - search->low < search->high - search->low &&
           loader_range_of(search->ranges, search->count, address) != NULL;
}

/* --- instructions --- */

/* A stretch of text as it is now. */
struct stretch {
    uint64_t address;
    const uint8_t *bytes;
    size_t size;
};

static bool jumps_to_ours(const struct search *search, const struct stretch *text, size_t displacement_at)
{
    int32_t displacement;
    if (displacement_at + sizeof displacement > text->size)
        return false;
    memcpy(&displacement, text->bytes + displacement_at, sizeof displacement);
    uint64_t target = text->address + displacement_at + sizeof displacement + (uint64_t)(int64_t)displacement;
    return is_in_code(search, target);
}

/* Has the short jump at `at` a displacement to an island of ours? */
static bool leads_to_island(const struct search *search, const struct stretch *text, size_t at)
{
    int64_t island = (int64_t)at + 2 + (int8_t)text->bytes[at + 1];
    return island >= 0 && (size_t)island < text->size && text->bytes[island] == 0xe9 &&
           jumps_to_ours(search, text, (size_t)island + 1);
}

/* Where the instruction at `at` ends when it leads to ours; else 0. call, jmp, jcc with 32 bits; jmp and jcc
 * with 8 bits to an island that does. */
static size_t leads_to_ours(const struct search *search, const struct stretch *text, size_t at)
{
    uint8_t opcode = text->bytes[at];
    if (opcode == 0xe8 || opcode == 0xe9)
        return jumps_to_ours(search, text, at + 1) ? at + 5 : 0;
    if (opcode == 0x0f && at + 1 < text->size && text->bytes[at + 1] >> 4 == 8)
        return jumps_to_ours(search, text, at + 2) ? at + 6 : 0;
    if ((opcode == 0xeb || opcode >> 4 == 7) && at + 1 < text->size)
        return leads_to_island(search, text, at) ? at + 2 : 0;
    return 0;
}

/* The same with the prefixes that fill a longer site up (stub_x86_64_site.h). */
static size_t filled_leads_to_ours(const struct search *search, const struct stretch *text, size_t at)
{
    size_t start = at;
    if (text->bytes[at] != 0x2e && text->bytes[at] != 0x40)
        return leads_to_ours(search, text, at);
    while (at < text->size && at - start < FILL_MOST && text->bytes[at] == 0x2e)
        at++;
    if (at < text->size && text->bytes[at] == 0xeb)
        return leads_to_ours(search, text, at);
    bool filled = at + 1 < text->size && text->bytes[at] == 0x40 && (text->bytes[at + 1] & 0xfe) == 0xe8;
    return filled ? leads_to_ours(search, text, at + 1) : 0;
}

/* The same where the first byte is another tool's: a breakpoint (a uprobe's) was set over our instruction,
 * or removed again, which leaves the file's byte there. */
static size_t probed_leads_to_ours(const struct search *search, const struct stretch *text,
                                   const uint8_t *file, size_t at)
{
    uint8_t now = text->bytes[at];
    size_t end = 0;
    if (at + 1 >= text->size || (now != TRACE_MEMORY_BREAKPOINT && now != file[at]))
        return 0;
    if (jumps_to_ours(search, text, at + 1))
        end = at + 5;
    else if (text->bytes[at + 1] >> 4 == 8 && jumps_to_ours(search, text, at + 2))
        end = at + 6;
    else if (leads_to_island(search, text, at))
        end = at + 2;
    return end && memcmp(text->bytes + at + 1, file + at + 1, end - at - 1) ? end : 0;
}

/* Does the instruction at `at` explain a changed byte behind `end`? */
static bool explains_more(const struct search *search, const struct stretch *text, const uint8_t *file,
                          size_t at, size_t end)
{
    size_t leads = filled_leads_to_ours(search, text, at);
    size_t its = leads ? leads : probed_leads_to_ours(search, text, file, at);
    return its > end && memcmp(text->bytes + end, file + end, its - end) != 0;
}

/* Is a displacement that was found from `at` on only a part of another one, whose bytes happen to lead to
 * ours where they are read some bytes earlier? Then an instruction that begins within explains more
 * changed bytes. */
static bool is_part_of_another(const struct search *search, const struct stretch *text, const uint8_t *file,
                               size_t at, size_t end)
{
    if (end < text->size &&
        (filled_leads_to_ours(search, text, end) || probed_leads_to_ours(search, text, file, end)))
        return false;
    for (size_t other = at + 1; other < end; other++)
        if (explains_more(search, text, file, other, end))
            return true;
    return false;
}

/* --- text of files --- */

/* Bytes first..end-1 differ from the file, and we have changed them. */
static bool add_lead(struct search *search, const struct stretch *text, const uint8_t *file, size_t first,
                     size_t end)
{
    struct loader_leads *leads = search->leads;
    struct trace_memory_change change = {.address = text->address + first, .length = end - first};
    memcpy(change.before, text->bytes + first, end - first);
    memcpy(change.after, file + first, end - first);
    if (!base_array_room(leads->changes, leads->count, leads->capacity))
        return false;
    leads->changes[leads->count++] = change;
    return true;
}

/* from..to-1 are the page itself; the bytes around it are only read. A difference is ours within an
 * instruction that jumps to us, and nowhere else: bytes of such an instruction may happen to be those of
 * the file, and another tool's change may lie next to it. */
static bool compare_page(struct search *search, const struct stretch *text, const uint8_t *file, size_t from,
                         size_t to)
{
    size_t ours = 0;
    for (size_t at = from > TRACE_MEMORY_BYTES ? from - TRACE_MEMORY_BYTES : 0; at < to; at++) {
        size_t leads = filled_leads_to_ours(search, text, at), end = at;
        /* a displacement may have any byte */
        size_t probed = leads || at < ours ? 0 : probed_leads_to_ours(search, text, file, at);
        if (probed && is_part_of_another(search, text, file, at, probed))
            probed = 0;
        ours = leads > ours ? leads : ours;
        ours = probed > ours ? probed : ours;
        if (probed && text->bytes[at] == TRACE_MEMORY_BREAKPOINT)
            continue; /* another tool's */
        while (at >= from && end < to && end < ours && end - at < TRACE_MEMORY_BYTES &&
               text->bytes[end] != file[end])
            end++;
        if (end > at && !add_lead(search, text, file, at, end))
            return false;
        at = end > at ? end - 1 : at;
    }
    return true;
}

static bool search_page(struct search *search, const struct proc_mapping *mapping,
                        const struct elf_image *image, uint64_t bias, uint64_t page)
{
    uint8_t bytes[PAGE + 2 * AROUND];
    size_t available;
    uint64_t start = page - mapping->start >= AROUND ? page - AROUND : page;
    size_t wanted = (size_t)(page - start) + PAGE + AROUND;
    if (wanted > mapping->end - start)
        wanted = (size_t)(mapping->end - start);
    const uint8_t *file = elf_image_at(image, start - bias, &available);
    size_t got = proc_target_read(search->pid, start, bytes, wanted);
    got = got < available ? got : available;
    if (!file || got <= page - start)
        return true;
    size_t from = (size_t)(page - start), to = from + PAGE < got ? from + PAGE : got;
    return !memcmp(bytes + from, file + from, to - from) ||
           compare_page(search, &(struct stretch){start, bytes, got}, file, from, to);
}

static bool search_file(struct search *search, const struct proc_mapping *mapping)
{
    struct elf_image *image = NULL;
    uint64_t address;
    bool room = true;
    for (uint64_t page = mapping->start; page < mapping->end && room; page += PAGE) {
        if (!proc_target_page_written(search->pages, page))
            continue;
        if (!image) {
            int file = proc_maps_open(search->pid, mapping, NULL);
            if (file < 0 || elf_image_open_fd(file, mapping->path, &image, NULL) < 0 ||
                !elf_image_address_of_offset(image, mapping->offset, &address)) {
                search->leads->unreadable++;
                break;
            }
        }
        room = search_page(search, mapping, image, mapping->start - address, page);
    }
    if (image)
        elf_image_close(image);
    return room;
}

/* --- other code --- */

static bool holds_address(const struct search *search, const struct stretch *text, size_t at)
{
    uint64_t word;
    if (at + sizeof word > text->size)
        return false;
    memcpy(&word, text->bytes + at, sizeof word);
    return is_in_code(search, word);
}

/* A page, with what an instruction at its end needs of the next one. */
static void search_other_page(struct search *search, const struct proc_mapping *mapping, uint64_t page,
                              bool addresses)
{
    uint8_t bytes[PAGE + AROUND];
    size_t wanted = mapping->end - page < sizeof bytes ? (size_t)(mapping->end - page) : sizeof bytes;
    size_t got = proc_target_read(search->pid, page, bytes, wanted);
    const struct stretch text = {page, bytes, got};
    for (size_t at = 0; at < got && at < PAGE; at++)
        search->leads->others +=
            leads_to_ours(search, &text, at) != 0 || (addresses && holds_address(search, &text, at));
}

/* Hooks of the agent are few, and any of them may be entered next. Memory for stubs is mostly holes, which
 * reading would fill: stubs that no thread has run yet are reached only through text, which is searched as
 * well. */
static void search_other(struct search *search, const struct proc_mapping *mapping, bool agent, bool ours)
{
    for (uint64_t page = mapping->start; page < mapping->end; page += PAGE)
        if (agent || proc_target_page_present(search->pages, page))
            search_other_page(search, mapping, page, ours);
}

static bool is_file_mapping_at(const struct proc_maps *maps, size_t index, uint64_t border)
{
    const struct proc_mapping *mapping = index < maps->count ? &maps->items[index] : NULL;
    return mapping && mapping->inode && mapping->path[0] == '/' &&
           (mapping->end == border || mapping->start == border);
}

/* Anonymous memory in the middle of an image, or at its end. */
static bool was_text(const struct proc_maps *maps, size_t index)
{
    const struct proc_mapping *mapping = &maps->items[index];
    if (mapping->path[0])
        return false;
    return is_file_mapping_at(maps, index + 1, mapping->end) ||
           (index && is_file_mapping_at(maps, index - 1, mapping->start));
}

/* All ranges are unmapped together: jumps from one to another do not count. */
static bool is_in_ranges(const struct search *search, const struct proc_mapping *mapping)
{
    for (size_t i = 0; i < search->count; i++)
        if (mapping->start - search->ranges[i].address < search->ranges[i].size)
            return true;
    return false;
}

static bool search_mapping(struct search *search, size_t index)
{
    const struct proc_mapping *mapping = &search->maps->items[index];
    if (!mapping->executable || is_in_ranges(search, mapping))
        return true;
    if (!mapping->shared && mapping->path[0] == '/' && mapping->inode)
        return search_file(search, mapping);
    bool ours = loader_leads_is_ours(mapping);
    if (ours || was_text(search->maps, index))
        search_other(search, mapping, !strcmp(mapping->path, LOADER_PATH), ours);
    return true;
}

static void set_bounds(struct search *search)
{
    for (size_t i = 0; i < search->count; i++) {
        const struct loader_range *range = &search->ranges[i];
        if (!range->code)
            continue;
        bool first = !search->high;
        search->low = first || range->address < search->low ? range->address : search->low;
        search->high =
            range->address + range->size > search->high ? range->address + range->size : search->high;
    }
}

int loader_leads_find(pid_t pid, const struct proc_maps *maps, const struct loader_range *ranges,
                      size_t count, struct loader_leads *leads, struct base_error *error)
{
    struct search search = {.pid = pid, .maps = maps, .ranges = ranges, .count = count, .leads = leads};
    bool room = true;
    set_bounds(&search);
    search.pages = proc_target_pages(pid);
    for (size_t i = 0; i < maps->count && room; i++)
        room = search_mapping(&search, i);
    if (search.pages >= 0)
        close(search.pages);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

void loader_leads_free(struct loader_leads *leads)
{
    free(leads->changes);
    *leads = (struct loader_leads){0};
}
