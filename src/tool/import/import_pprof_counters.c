/* import_pprof_counters.c - sample types to counters. */
#include <string.h>

#include "import_pprof.h"

bool import_pprof_is_text(const struct import_pprof *pprof, uint64_t string, const char *text)
{
    return !strcmp(import_pprof_string(pprof, string), text);
}

/* The type that counts samples of `type` by its name: "NAME.samples", or "NAME_sample" beside
 * "NAME_event". */
static bool counts_samples_of(const struct import_pprof *pprof, const struct import_pprof_type *count,
                              const struct import_pprof_type *type)
{
    const char *name = import_pprof_string(pprof, type->name),
               *other = import_pprof_string(pprof, count->name);
    size_t length = strlen(name);
    if (!strncmp(other, name, length) && !strcmp(other + length, ".samples"))
        return true;
    return length > 6 && !strcmp(name + length - 6, "_event") && !strncmp(other, name, length - 6) &&
           !strcmp(other + length - 6, "_sample");
}

static int find_type(const struct import_pprof *pprof, uint64_t name)
{
    for (size_t i = 0; i < pprof->type_count; i++)
        if (*import_pprof_string(pprof, name) &&
            import_pprof_is_text(pprof, pprof->types[i].name, import_pprof_string(pprof, name)))
            return (int)i;
    return -1;
}

/* Which type's samples the plain "samples" are. */
static void pair_samples(struct import_pprof *pprof, size_t samples)
{
    int of = find_type(pprof, pprof->period_type.name);
    if (of < 0 || of == (int)samples)
        of = samples + 1 < pprof->type_count ? (int)samples + 1 : -1;
    if (of < 0)
        return;
    pprof->types[of].samples = (int)samples;
    pprof->types[samples].counts = true;
}

static void pair_types(struct import_pprof *pprof)
{
    for (size_t i = 0; i < pprof->type_count; i++) {
        struct import_pprof_type *type = &pprof->types[i];
        if (!import_pprof_is_text(pprof, type->unit, "count"))
            continue;
        if (import_pprof_is_text(pprof, type->name, "samples"))
            pair_samples(pprof, i);
        type->calls = pprof->from_tally && import_pprof_is_text(pprof, type->name, PROFILE_CALLS);
        for (size_t j = 0; j < pprof->type_count; j++) {
            if (j == i || !counts_samples_of(pprof, type, &pprof->types[j]))
                continue;
            pprof->types[j].samples = (int)i;
            type->counts = true;
        }
    }
    for (size_t i = 0; i < pprof->type_count; i++)
        if (import_pprof_is_text(pprof, pprof->types[i].name, "samples") && !pprof->types[i].counts)
            pprof->types[i].samples = (int)i; /* nothing but samples: they count themselves */
}

const char *import_pprof_unit(const struct import_pprof *pprof, struct import_pprof_type *type)
{
    static const struct {
        const char *unit;
        int64_t scale;
    } times[] = {
        {"nanoseconds", 1}, {"microseconds", 1000}, {"milliseconds", 1000000}, {"seconds", 1000000000}};
    const char *unit = import_pprof_string(pprof, type->unit);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        if (strcmp(unit, times[i].unit))
            continue;
        type->scale = times[i].scale;
        return "ns";
    }
    return unit;
}

static uint32_t combine_of(const struct import_pprof *pprof, const char *name)
{
    if (!pprof->from_tally)
        return PROFILE_SUM;
    static const char *const live[] = {"heap.peak", "heap.live", "heap.live.count", "map.live"};
    static const char *const peaks[] = {"heap.max", "heap.largest", "heap.live.age"};
    for (size_t i = 0; i < sizeof live / sizeof *live; i++)
        if (!strcmp(name, live[i]))
            return PROFILE_LIVE;
    for (size_t i = 0; i < sizeof peaks / sizeof *peaks; i++)
        if (!strcmp(name, peaks[i]))
            return PROFILE_PEAK;
    return PROFILE_SUM;
}

/* "cpu" in nanoseconds is what Tally calls time.cpu. */
static bool make_counter(struct import_pprof *pprof, struct import_pprof_type *type)
{
    const char *unit = import_pprof_unit(pprof, type), *name = import_pprof_string(pprof, type->name);
    if (!strcmp(name, "cpu") && !strcmp(unit, "ns"))
        name = "time.cpu";
    type->counter = (uint16_t)profile_counter(pprof->profile, *name ? name : "value", unit, type->samples < 0,
                                              combine_of(pprof, name));
    return type->counter;
}

bool import_pprof_counters(struct import_pprof *pprof)
{
    int first = find_type(pprof, pprof->default_type);
    pair_types(pprof);
    if (first >= 0 && !pprof->types[first].counts && !pprof->types[first].calls &&
        !make_counter(pprof, &pprof->types[first]))
        return false;
    for (size_t i = 0; i < pprof->type_count; i++) {
        struct import_pprof_type *type = &pprof->types[i];
        if (type->calls && !profile_calls_counter(pprof->profile))
            return false;
        if (!type->counter && !type->counts && !type->calls && !make_counter(pprof, type))
            return false;
    }
    return true;
}
