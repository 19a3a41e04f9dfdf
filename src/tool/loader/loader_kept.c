#include "loader_kept.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base_array.h"
#include "helper_trace.h"
#include "proc_target.h"

#define MAGIC     UINT64_C(0x5450454b594c4c54) /* "TLLYKEPT" */
#define KEPT_PATH "/memfd:" LOADER_KEPT_NAME

/* A page as it is mapped. */
struct page {
    uint64_t magic, count;
    struct loader_kept_range ranges[LOADER_KEPT_MOST];
};
_Static_assert(sizeof(struct page) == PROC_TARGET_PAGE, "one page");

static bool add_kept_range(struct loader_kept *kept, const struct loader_kept_range *range)
{
    if (!base_array_room(kept->items, kept->count, kept->capacity))
        return false;
    kept->items[kept->count++] = *range;
    return true;
}

static bool read_page(pid_t pid, uint64_t address, struct loader_kept *kept)
{
    struct page page;
    bool room = true;
    if (proc_target_read(pid, address, &page, sizeof page) != sizeof page || page.magic != MAGIC)
        return true;
    for (uint64_t i = 0; i < page.count && i < LOADER_KEPT_MOST && room; i++)
        room = add_kept_range(kept, &page.ranges[i]);
    return room;
}

int loader_kept_read(pid_t pid, const struct proc_maps *maps, struct loader_kept *kept,
                     struct base_error *error)
{
    bool room = true;
    for (size_t i = 0; i < maps->count && room; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        for (uint64_t at = mapping->start; at < mapping->end && room && !strcmp(mapping->path, KEPT_PATH);
             at += PROC_TARGET_PAGE)
            room = read_page(pid, at, kept);
    }
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

static bool is_overlapping_range(const struct loader_kept_range *kept, uint64_t address, uint64_t size)
{
    return address < kept->address + kept->size && kept->address < address + size;
}

bool loader_kept_has(const struct loader_kept *kept, const struct loader_range *range)
{
    for (size_t i = 0; i < kept->count; i++)
        if (is_overlapping_range(&kept->items[i], range->address, range->size))
            return true;
    return false;
}

void loader_kept_free(struct loader_kept *kept)
{
    free(kept->items);
    *kept = (struct loader_kept){0};
}

static uint64_t mapped_bytes(const struct proc_maps *maps, const struct loader_kept_range *range)
{
    uint64_t bytes = 0, end = range->address + range->size;
    for (size_t i = 0; i < maps->count; i++) {
        const struct proc_mapping *mapping = &maps->items[i];
        uint64_t from = mapping->start > range->address ? mapping->start : range->address;
        uint64_t to = mapping->end < end ? mapping->end : end;
        bytes += to > from ? to - from : 0;
    }
    return bytes;
}

uint64_t loader_kept_bytes(pid_t pid)
{
    struct proc_maps maps = {0};
    struct loader_kept kept = {0};
    uint64_t bytes = 0;
    if (proc_maps_read(pid, &maps, NULL) == BASE_OK)
        loader_kept_read(pid, &maps, &kept, NULL);
    for (size_t i = 0; i < kept.count; i++)
        bytes += mapped_bytes(&maps, &kept.items[i]);
    loader_kept_free(&kept);
    proc_maps_free(&maps);
    return bytes;
}

/* The page is mapped near the ranges, as all memory of ours is. */
static int map_page(const struct loader_target *target, const struct page *page, struct base_error *error)
{
    const struct loader_kept_range *near = &page->ranges[0];
    const struct helper_room room = {.low = near->address,
                                     .high = near->address + near->size,
                                     .size = sizeof *page,
                                     .protection = PROT_READ,
                                     .name = LOADER_KEPT_NAME};
    uint64_t address;
    int file = -1;
    int result = helper_trace_share(target->helper, target->trace, &room, &address, &file, error);
    if (result < 0)
        return result;
    if (pwrite(file, page, sizeof *page, 0) != (ssize_t)sizeof *page) {
        helper_trace_unmap(target->helper, target->trace, address, sizeof *page, NULL);
        result = base_fail(error, BASE_EIO, "what stays cannot be written down");
    }
    close(file);
    return result;
}

static int note_new_ranges(const struct loader_target *target, const struct loader_range *ranges,
                           size_t count, const struct loader_kept *kept, struct base_error *error)
{
    struct page page = {.magic = MAGIC};
    int result = BASE_OK;
    for (size_t i = 0; i < count && result == BASE_OK; i++) {
        if (!loader_kept_has(kept, &ranges[i]))
            page.ranges[page.count++] = (struct loader_kept_range){ranges[i].address, ranges[i].size};
        if (page.count < LOADER_KEPT_MOST && (i + 1 < count || !page.count))
            continue;
        result = map_page(target, &page, error);
        page.count = 0;
    }
    return result;
}

int loader_kept_note(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                     struct base_error *error)
{
    struct proc_maps maps = {0};
    struct loader_kept kept = {0};
    int result = proc_maps_read(target->pid, &maps, error);
    if (result == BASE_OK)
        result = loader_kept_read(target->pid, &maps, &kept, error);
    if (result == BASE_OK)
        result = note_new_ranges(target, ranges, count, &kept, error);
    loader_kept_free(&kept);
    proc_maps_free(&maps);
    return result;
}
