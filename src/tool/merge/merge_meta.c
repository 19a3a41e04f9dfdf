/* merge_meta.c - the meta values of a recording, kept as those of an origin, and its timeline. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "merge_parts.h"
#include "profile_extent.h"
#include "store_timeline.h"
#include "wire_loss.h"

struct merge_key merge_read_key(const char *key)
{
    char *end;
    if (strncmp(key, "origin.", 7) || key[7] < '1' || key[7] > '9')
        return (struct merge_key){0, NULL};
    unsigned long number = strtoul(key + 7, &end, 10);
    if (*end != '.' || number > INT32_MAX)
        return (struct merge_key){0, NULL};
    return (struct merge_key){(uint32_t)number, end + 1};
}

/* Each origin has meta values: a number above theirs is none that merging has written, and would be counted
 * to for ever. */
uint32_t merge_count_origins(const struct profile *profile)
{
    const char *text = profile_meta(profile, "origins");
    unsigned long count = text ? strtoul(text, NULL, 10) : 0;
    return count <= profile->meta_count ? (uint32_t)count : 0;
}

static void set_origin_meta(struct merge *merge, uint32_t origin, const char *key, const char *value)
{
    char name[256];
    snprintf(name, sizeof name, "origin.%u.%s", origin, key);
    profile_set_meta(merge->into, name, value);
}

/* Which counters a recording had: of those that it had not, a sum of 0 says nothing of it. Exceptions that
 * could not be counted were not. */
static void set_counters(struct merge *merge)
{
    struct base_text names = {0};
    bool no_throws = profile_meta(merge->from, "throws_absent");
    for (uint32_t i = 1; i < merge->from->counter_count; i++) {
        bool absent = no_throws && profile_extent_kinds(merge->from, i) == PROFILE_EXTENT_THROWS;
        if (!absent)
            base_text_addf(&names, " %s", merge_text(merge, merge->from->counters[i].name));
    }
    base_text_add(&names, " ");
    set_origin_meta(merge, merge->first_origin, "counters", base_text_string(&names));
    if (names.failed)
        profile_lose(merge->into, WIRE_LOSS_OUT_OF_MEMORY, 1);
    base_text_free(&names);
}

/* Of a merged profile its origins' values; its own can be made again from them. */
bool merge_meta(struct merge *merge, const char *file)
{
    uint64_t before = merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY];
    bool merged = merge_count_origins(merge->from) != 0;
    for (size_t i = 0; i < merge->from->meta_count; i++) {
        const char *key = merge_text(merge, merge->from->meta[i].key),
                   *value = merge_text(merge, merge->from->meta[i].value);
        struct merge_key of = merge_read_key(key);
        if (merged && of.origin && of.origin <= merge->origins)
            set_origin_meta(merge, merge->first_origin + of.origin - 1, of.rest, value);
        else if (!merged && strcmp(key, "recorder_pid"))
            set_origin_meta(merge, merge->first_origin, key, value);
    }
    if (!merged) {
        set_origin_meta(merge, merge->first_origin, "file", file);
        set_counters(merge);
    }
    if (!merged && profile_counts_calls(merge->from))
        set_origin_meta(merge, merge->first_origin, "calls_counted", "1");
    profile_set_metaf(merge->into, "origins", "%u", merge->first_origin + merge->origins - 1);
    return merge->into->losses[WIRE_LOSS_OUT_OF_MEMORY] == before;
}

/* The file may have grown since it was loaded, while it is being recorded: what is not in the tree stays
 * out. */
bool merge_sample(void *context, const struct store_timeline_sample *sample)
{
    struct merge *merge = context;
    const struct profile *from = merge->from;
    if (sample->thread < from->thread_count && sample->node < from->node_count &&
        sample->counter < from->counter_count)
        profile_timeline_add(merge->into, sample->time_ns, merge->threads[sample->thread],
                             merge->nodes[sample->node], sample->cpu,
                             (uint16_t)merge->counters[sample->counter]);
    return true;
}
