#include "remains_clean.h"

#include <stdlib.h>
#include <string.h>

#include "helper_trace.h"
#include "loader_kept.h"
#include "loader_leads.h"
#include "proc_maps.h"
#include "remains_drain.h"
#include "slab_block.h"

#define LOW_END (1ull << 31)

struct cleaning {
    struct helper *helper;
    pid_t pid;
    struct proc_maps maps;
    struct remains_ranges ours;
    struct loader_leads leads;
    uint64_t gs_offset; /* 0: there are no blocks of threads */
};

/* The fallback of the latest tally: each maps it in the highest room that is free, below that of an earlier
 * one. */
static uint64_t find_offset(const struct proc_mapping *mapping)
{
    bool fallback = mapping->start < LOW_END && !mapping->executable && mapping->offset == 0 &&
                    mapping->end - mapping->start == SLAB_BLOCK_SIZE;
    return fallback ? mapping->start : 0;
}

static bool find_ours(struct cleaning *cleaning)
{
    bool room = true;
    for (size_t i = 0; i < cleaning->maps.count && room; i++) {
        const struct proc_mapping *mapping = &cleaning->maps.items[i];
        if (!loader_leads_is_of_calls(mapping))
            continue;
        if (!cleaning->gs_offset)
            cleaning->gs_offset = find_offset(mapping);
        room = remains_ranges_add(&cleaning->ours,
                                  &(struct loader_range){mapping->start, mapping->end - mapping->start,
                                                         mapping->executable, false});
    }
    return room;
}

static int clean_held(struct cleaning *cleaning, struct remains_cleaned *cleaned, struct base_error *error)
{
    struct loader_leads *leads = &cleaning->leads;
    loader_leads_free(leads);
    int result = loader_leads_find(cleaning->pid, &cleaning->maps, cleaning->ours.items, cleaning->ours.count,
                                   leads, error);
    if (result == BASE_OK)
        result = helper_trace_stage(cleaning->helper, cleaning->pid, leads->changes, leads->count, error);
    if (result == BASE_OK)
        result = helper_trace_apply(cleaning->helper, cleaning->pid, error);
    if (result < 0)
        return result;
    cleaned->places = leads->count;
    cleaned->unreadable = leads->unreadable;
    return remains_drain_memory(&(struct remains_memory){.helper = cleaning->helper,
                                                         .pid = cleaning->pid,
                                                         .ranges = &cleaning->ours,
                                                         .gs_offset = cleaning->gs_offset},
                                &cleaned->bytes_left, error);
}

static int hold_and_clean(struct cleaning *cleaning, struct remains_cleaned *cleaned,
                          struct base_error *error)
{
    int result = helper_trace_hold(cleaning->helper, cleaning->pid, NULL, error);
    if (result < 0)
        return result;
    proc_maps_free(&cleaning->maps);
    cleaning->ours.count = 0;
    cleaning->gs_offset = 0;
    result = proc_maps_read(cleaning->pid, &cleaning->maps, error);
    if (result == BASE_OK && !find_ours(cleaning))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = clean_held(cleaning, cleaned, error);
    helper_trace_release(cleaning->helper, cleaning->pid, NULL, NULL);
    return result;
}

int remains_clean(struct helper *helper, pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    struct cleaning cleaning = {.helper = helper, .pid = pid};
    *cleaned = (struct remains_cleaned){0};
    int result = proc_maps_read(pid, &cleaning.maps, error);
    if (result == BASE_OK && !find_ours(&cleaning))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    cleaned->mappings = cleaning.ours.count;
    if (result == BASE_OK && cleaning.ours.count)
        result = hold_and_clean(&cleaning, cleaned, error);
    cleaned->bytes_kept = cleaned->bytes_left ? loader_kept_bytes(pid) : 0;
    proc_maps_free(&cleaning.maps);
    free(cleaning.ours.items);
    loader_leads_free(&cleaning.leads);
    return result;
}

int remains_clean_process(pid_t pid, struct remains_cleaned *cleaned, struct base_error *error)
{
    struct helper helper;
    int result = helper_begin(&helper, error);
    if (result < 0)
        return result;
    result = helper_trace_follow(&helper, pid, error);
    if (result == BASE_OK) {
        result = remains_clean(&helper, pid, cleaned, error);
        helper_trace_leave(&helper, pid, NULL);
    }
    helper_end(&helper);
    return result;
}
