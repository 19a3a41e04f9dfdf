/* merge_finish.c - the meta values of the merged profile itself, and the names of its origins. */
#include "merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "merge_parts.h"
#include "profile_extent.h"
#include "profile_heap.h"
#include "wire_loss.h"

struct finish {
    struct profile *into;
    uint32_t origins;
    struct base_map values; /* key "origin.N.KEY", a string, -> its value, a string */
    struct base_map done;   /* KEY -> 1 */
    bool failed;
};

/* NULL when that origin has none. */
static const char *value_of(struct finish *finish, uint32_t origin, const char *key)
{
    char name[256];
    snprintf(name, sizeof name, "origin.%u.%s", origin, key);
    uint32_t value = base_map_find(&finish->values, profile_string(finish->into, name));
    return value == BASE_MAP_NONE ? NULL : profile_text(finish->into, value);
}

static bool is_in(const char *const *list, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(list[i], key))
            return true;
    return false;
}

/* What every recording has spent. Those that all must have, or the sum is one of something else. */
static bool is_sum(const char *key, bool *needs_all)
{
    static const char *const always[] = {"duration_ns", "target_cpu_ns", "overhead_tool_cpu_ns"},
                             *const sometimes[] = {"overhead_stub_samples", "overhead_signals",
                                                   "overhead_signal_ns",    "overhead_births",
                                                   "overhead_stopped_ns",   "overhead_target_memory",
                                                   "overhead_followed_ns",  "overhead_traced_ns",
                                                   "agent_memory",          "agent_memory_left"};
    *needs_all = is_in(always, sizeof always / sizeof *always, key);
    return *needs_all || is_in(sometimes, sizeof sometimes / sizeof *sometimes, key);
}

static void sum_values(struct finish *finish, const char *key, bool needs_all)
{
    uint64_t sum = 0;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (!value && needs_all)
            return;
        if (value && __builtin_add_overflow(sum, strtoull(value, NULL, 10), &sum))
            sum = UINT64_MAX;
    }
    profile_set_metaf(finish->into, key, "%llu", (unsigned long long)sum);
}

/* Seconds since 1970; what is no number is no time. */
static void find_start(struct finish *finish, const char *key)
{
    uint64_t earliest = UINT64_MAX;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        uint64_t start = value && *value >= '0' && *value <= '9' ? strtoull(value, NULL, 10) : UINT64_MAX;
        earliest = start < earliest ? start : earliest;
    }
    if (earliest != UINT64_MAX)
        profile_set_metaf(finish->into, key, "%llu", (unsigned long long)earliest);
}

/* Joins the origins' values, each behind the origin's name. */
static void merge_finish_join(struct finish *finish, const char *key)
{
    struct base_text text = {0};
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key), *name = value_of(finish, i, "name");
        if (value && *value)
            base_text_addf(&text, "%s%s: %s", text.length ? "; " : "", name ? name : "", value);
    }
    finish->failed |= text.failed;
    profile_set_meta(finish->into, key, base_text_string(&text));
    base_text_free(&text);
}

/* A reason for missing figures is kept only if every origin has it. */
static void settle_absent(struct finish *finish, const char *key)
{
    for (uint32_t i = 1; i <= finish->origins; i++)
        if (!value_of(finish, i, key))
            return;
    merge_finish_join(finish, key);
}

static void keep_if_alike(struct finish *finish, const char *key)
{
    const char *first = value_of(finish, 1, key);
    for (uint32_t i = 2; first && i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (!value || strcmp(first, value))
            return;
    }
    if (first)
        profile_set_meta(finish->into, key, first);
}

/* That of the origins that counted memory; `mixed` if they differ. */
static void settle_kind(struct finish *finish, const char *key)
{
    const char *all = NULL;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        const char *value = value_of(finish, i, key);
        if (value)
            all = all && strcmp(all, value) ? profile_heap_overhead_name(PROFILE_HEAP_MIXED) : value;
    }
    profile_set_meta(finish->into, key, all);
}

static void settle_key(struct finish *finish, const char *key)
{
    size_t length = strlen(key);
    bool needs_all;
    static const char *const never[] = {"file", "name", "calls_counted", "counters"};
    if (is_in(never, sizeof never / sizeof *never, key))
        return;
    if (is_sum(key, &needs_all))
        sum_values(finish, key, needs_all);
    else if (!strcmp(key, "start_time"))
        find_start(finish, key);
    else if (!strcmp(key, "heap_overhead") || !strcmp(key, "empty_pages"))
        settle_kind(finish, key);
    else if (!strcmp(key, "throws_absent"))
        settle_absent(finish, key);
    else if (length > 7 && !strcmp(key + length - 7, "_notice"))
        merge_finish_join(finish, key);
    else
        keep_if_alike(finish, key);
}

static const char *last_component(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

/* The host, the file's last component, or all of its path: whatever is another everywhere. */
static const char *candidate_name(struct finish *finish, uint32_t origin, int attempt)
{
    const char *text = value_of(finish, origin, attempt == 0 ? "hostname" : "file");
    if (!text || !*text)
        return NULL;
    return attempt == 1 ? last_component(text) : text;
}

static bool are_distinct(struct finish *finish, int attempt)
{
    struct base_map seen = {0};
    bool distinct = true;
    for (uint32_t i = 1; distinct && i <= finish->origins; i++) {
        const char *text = candidate_name(finish, i, attempt);
        uint32_t string = profile_string(finish->into, text);
        distinct = text && base_map_find(&seen, string) == BASE_MAP_NONE;
        finish->failed |= distinct && !base_map_set(&seen, string, 1);
    }
    base_map_free(&seen);
    return distinct;
}

static void set_name(struct finish *finish, uint32_t origin, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "origin.%u.name", origin);
    profile_set_meta(finish->into, key, name);
    finish->failed |=
        !base_map_set(&finish->values, profile_string(finish->into, key), profile_string(finish->into, name));
}

static void name_origins(struct finish *finish)
{
    int attempt = 0;
    while (attempt < 3 && !are_distinct(finish, attempt))
        attempt++;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        char number[32];
        snprintf(number, sizeof number, "recording %u", i);
        set_name(finish, i, attempt < 3 ? candidate_name(finish, i, attempt) : number);
    }
}

/* Calls counted in some recordings only, or of some names, must not be divided by the time of all:
 * calls_partial. */
static void note_calls(struct finish *finish)
{
    struct profile *into = finish->into;
    const char *notice = profile_meta(into, "calls_notice");
    uint32_t counted = 0, named = 0;
    for (uint32_t i = 1; i <= finish->origins; i++) {
        counted += value_of(finish, i, "calls_counted") != NULL;
        named += value_of(finish, i, "calls_names") != NULL;
    }
    if ((counted && counted < finish->origins) || (named && !profile_meta(into, "calls_names")))
        profile_set_meta(into, "calls_partial", "1");
    if (counted && counted < finish->origins)
        profile_set_metaf(into, "calls_notice", "calls were counted in %u of %u recordings%s%s", counted,
                          finish->origins, notice ? "; " : "", notice ? notice : "");
}

static bool has_counter(struct finish *finish, uint32_t origin, const char *name)
{
    const char *list = value_of(finish, origin, "counters");
    size_t length = strlen(name);
    for (const char *at = list; at && (at = strstr(at, name)); at += length)
        if (at > list && at[-1] == ' ' && at[length] == ' ')
            return true;
    return !list; /* merged by a version that did not keep them: nothing is known */
}

/* Calls are noted by note_calls; a counter that no origin has is left to the losses. */
static void note_counters(struct finish *finish)
{
    struct profile *into = finish->into;
    for (uint32_t i = 1; i < into->counter_count; i++) {
        const char *name = profile_text(into, into->counters[i].name);
        uint32_t having = 0;
        char key[256];
        for (uint32_t origin = 1; origin <= finish->origins && *name; origin++)
            having += has_counter(finish, origin, name);
        snprintf(key, sizeof key, PROFILE_EXTENT_PARTIAL "%s", name);
        if (having && having < finish->origins && i != profile_counts_calls(into))
            profile_set_metaf(into, key, "counted in %u of %u recordings", having, finish->origins);
    }
}

static void settle_keys(struct finish *finish)
{
    struct profile *into = finish->into;
    size_t count = into->meta_count;
    for (size_t i = 0; i < count; i++) {
        struct merge_key key = merge_read_key(profile_text(into, into->meta[i].key));
        uint32_t string = key.origin ? profile_string(into, key.rest) : 0;
        if (!string || base_map_find(&finish->done, string) != BASE_MAP_NONE)
            continue;
        finish->failed |= !base_map_set(&finish->done, string, 1);
        settle_key(finish, profile_text(into, string));
    }
    note_calls(finish);
    note_counters(finish);
}

int merge_finish(struct profile *into, struct base_error *error)
{
    struct finish finish = {.into = into, .origins = merge_count_origins(into)};
    uint64_t before = into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    for (size_t i = 0; i < into->meta_count; i++)
        finish.failed |= !base_map_set(&finish.values, into->meta[i].key, into->meta[i].value);
    name_origins(&finish);
    settle_keys(&finish);
    base_map_free(&finish.values);
    base_map_free(&finish.done);
    if (finish.failed || into->losses[WIRE_LOSS_OUT_OF_MEMORY] != before)
        return base_fail(error, BASE_ENOMEM, "out of memory for merging");
    return BASE_OK;
}
