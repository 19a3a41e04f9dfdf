#include "proc_gap.h"

#include <stdbool.h>
#include <string.h>

#define PAGE        4096u
#define LOWEST      0x10000u        /* vm.mmap_min_addr, as usual */
#define HIGHEST     0x7ffffffff000u /* end of user space with four-level page tables */
#define REACH       0x7fff0000u     /* 2 GiB less what an instruction and a page need */
#define HEAP_ROOM   (1024ull << 20)
#define STACK_ROOM  (128ull << 20)
#define LITTLE_ROOM (1ull << 20) /* the kernel's own stack guard gap */

struct range {
    uint64_t start, end;
};

static uint64_t lower_address(uint64_t from, uint64_t amount, uint64_t least)
{
    return from > amount && from - amount > least ? from - amount : least;
}

/* The range that a mapping takes, with the room that it may grow into. */
static struct range mapping_range(const struct proc_mapping *mapping, bool generous)
{
    struct range range = {mapping->start, mapping->end};
    if (!strcmp(mapping->path, "[heap]"))
        range.end += generous ? HEAP_ROOM : LITTLE_ROOM;
    else if (!strcmp(mapping->path, "[stack]"))
        range.start = lower_address(range.start, generous ? STACK_ROOM : LITTLE_ROOM, 0);
    return range;
}

/* Where in the gap the mapping comes nearest to the image. False: it is too small, or out of reach. */
static bool place_in_gap(struct range gap, const struct range *reach, const struct proc_gap_request *request,
                         uint64_t *address)
{
    uint64_t start = gap.start > reach->start ? gap.start : reach->start;
    uint64_t end = gap.end < reach->end ? gap.end : reach->end;
    start = (start + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    end &= ~(uint64_t)(PAGE - 1);
    if (end <= start || end - start < request->size)
        return false;
    *address = start >= request->high ? start : end - request->size;
    return true;
}

static uint64_t distance_to_range(uint64_t address, const struct proc_gap_request *request)
{
    return address >= request->high ? address - request->high : request->low - address - request->size;
}

struct search {
    const struct proc_gap_request *request;
    struct range reach;
    uint64_t free_from, address;
    bool found;
};

/* Ranges are passed in the order of their start addresses: what lies between two is free. */
static void pass_range(struct search *search, struct range used)
{
    struct range gap = {search->free_from, used.start};
    uint64_t candidate;
    if (gap.end > gap.start && place_in_gap(gap, &search->reach, search->request, &candidate) &&
        (!search->found || distance_to_range(candidate, search->request) <
                               distance_to_range(search->address, search->request))) {
        search->address = candidate;
        search->found = true;
    }
    search->free_from = used.end > search->free_from ? used.end : search->free_from;
}

/* A heap that has not grown yet has no mapping, but room is reserved for it. */
static bool find_gap(const struct proc_maps *maps, const struct proc_gap_request *request, bool generous,
                     uint64_t *address)
{
    struct range heap = {request->heap, request->heap + (generous ? HEAP_ROOM : LITTLE_ROOM)};
    struct search search = {.request = request,
                            .reach = {lower_address(request->high, REACH, LOWEST), request->low + REACH},
                            .free_from = LOWEST};
    bool passed = request->heap == 0;
    if (search.reach.end > HIGHEST)
        search.reach.end = HIGHEST;
    for (size_t i = 0; i <= maps->count; i++) {
        struct range used =
            i < maps->count ? mapping_range(&maps->items[i], generous) : (struct range){HIGHEST, HIGHEST};
        if (!passed && heap.start <= used.start) {
            pass_range(&search, heap);
            passed = true;
        }
        pass_range(&search, used);
    }
    if (search.found)
        *address = search.address;
    return search.found;
}

int proc_gap_find(const struct proc_maps *maps, const struct proc_gap_request *request, uint64_t *address,
                  struct base_error *error)
{
    struct proc_gap_request whole = *request;
    whole.size = (request->size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    if (whole.high < whole.low || whole.size == 0 || whole.size < request->size)
        return base_fail(error, BASE_EUSAGE, "zero bytes are requested, or the image ends before it begins");
    if (find_gap(maps, &whole, true, address) || find_gap(maps, &whole, false, address))
        return BASE_OK;
    return base_fail(error, BASE_ENOTFOUND,
                     "%llu bytes are not free within 2 GiB of the code at 0x%llx, which a jump could reach",
                     (unsigned long long)whole.size, (unsigned long long)request->low);
}
