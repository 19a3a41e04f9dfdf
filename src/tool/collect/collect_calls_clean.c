#include "collect_calls_clean.h"

#include <stdlib.h>
#include <string.h>

#include "collect_calls_block.h"
#include "collect_calls_leave.h"
#include "elf_maps.h"
#include "patch_kept.h"
#include "patch_leads.h"
#include "patch_trace.h"

#define OWN_NAME "/memfd:tally" /* patch_helper_share */
#define LOW_END  (1ull << 31)

struct cleaning {
    struct patch_helper *helper;
    pid_t pid;
    struct elf_maps maps;
    struct collect_calls_ranges ours;
    struct patch_leads leads;
    uint64_t gs_offset; /* 0: there are no blocks of threads */
};

/* The fallback of the latest tally: each takes the highest room that is free, below what another one's left. */
static uint64_t find_offset(const struct elf_mapping *mapping)
{
    bool fallback = mapping->start < LOW_END && !mapping->executable && mapping->offset == 0 &&
                    mapping->end - mapping->start == COLLECT_BLOCK_SIZE;
    return fallback ? mapping->start : 0;
}

static bool find_ours(struct cleaning *cleaning)
{
    bool room = true;
    for (size_t i = 0; i < cleaning->maps.count && room; i++) {
        const struct elf_mapping *mapping = &cleaning->maps.items[i];
        if (strcmp(mapping->path, OWN_NAME))
            continue;
        if (!cleaning->gs_offset)
            cleaning->gs_offset = find_offset(mapping);
        room = collect_calls_ranges_add(
            &cleaning->ours,
            &(struct patch_range){mapping->start, mapping->end - mapping->start, mapping->executable, false});
    }
    return room;
}

static int clean_held(struct cleaning *cleaning, struct collect_calls_cleaned *cleaned,
                      struct base_error *error)
{
    struct patch_leads *leads = &cleaning->leads;
    patch_leads_free(leads);
    int result = patch_leads_find(cleaning->pid, &cleaning->maps, cleaning->ours.items, cleaning->ours.count,
                                  leads, error);
    if (result == BASE_OK)
        result = patch_trace_stage(cleaning->helper, cleaning->pid, leads->changes, leads->count, error);
    if (result == BASE_OK)
        result = patch_trace_apply(cleaning->helper, cleaning->pid, error);
    if (result < 0)
        return result;
    cleaned->places = leads->count;
    cleaned->unreadable = leads->unreadable;
    return collect_calls_leave_memory(cleaning->helper, cleaning->pid, &cleaning->ours, cleaning->gs_offset,
                                      false, &cleaned->bytes_left, error);
}

static int hold_and_clean(struct cleaning *cleaning, struct collect_calls_cleaned *cleaned,
                          struct base_error *error)
{
    int result = patch_trace_hold(cleaning->helper, cleaning->pid, NULL, error);
    if (result < 0)
        return result;
    elf_maps_free(&cleaning->maps);
    cleaning->ours.count = 0;
    cleaning->gs_offset = 0;
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
    struct cleaning cleaning = {.helper = helper, .pid = pid};
    *cleaned = (struct collect_calls_cleaned){0};
    int result = elf_maps_read(pid, &cleaning.maps, error);
    if (result == BASE_OK && !find_ours(&cleaning))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    cleaned->mappings = cleaning.ours.count;
    if (result == BASE_OK && cleaning.ours.count)
        result = hold_and_clean(&cleaning, cleaned, error);
    cleaned->bytes_kept = cleaned->bytes_left ? patch_kept_bytes(pid) : 0;
    elf_maps_free(&cleaning.maps);
    free(cleaning.ours.items);
    patch_leads_free(&cleaning.leads);
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
