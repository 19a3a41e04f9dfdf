#include "view_complete.h"

#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "symbol_name.h"

enum fact { COUNTED = 1, COVERED = 2, NAMED = 4, EVERYTHING = 7 };

struct spot {
    uint64_t address;
    uint32_t image;
};

static int complete_by_place(const void *a, const void *b)
{
    const struct spot *x = a, *y = b;
    if (x->image != y->image)
        return x->image < y->image ? -1 : 1;
    return (x->address > y->address) - (x->address < y->address);
}

/* The functions that are not covered, in order. */
static struct spot *uncovered_spots(const struct profile *profile)
{
    size_t count = profile->uncovered_count - 1;
    struct spot *spots = calloc(count + 1, sizeof *spots);
    for (size_t i = 0; spots && i < count; i++)
        spots[i] = (struct spot){profile->uncovered[i + 1].address, profile->uncovered[i + 1].image};
    if (spots && count)
        qsort(spots, count, sizeof *spots, complete_by_place);
    return spots;
}

/* Which images are counted; all when the profile does not say. */
static bool *counted_images(const struct profile *profile)
{
    bool *counted = calloc(profile->image_count, sizeof *counted);
    for (size_t i = 1; counted && i < profile->coverage_count; i++)
        counted[profile->coverage[i].image] = true;
    for (size_t i = 0; counted && profile->coverage_count == 1 && i < profile->image_count; i++)
        counted[i] = true;
    return counted;
}

/* One behind the other, each with its end. */
struct patterns {
    char *text;
    size_t count;
};

static struct patterns take_apart(const char *list)
{
    struct patterns patterns = {.text = strdup(list)};
    for (char *pattern = patterns.text; pattern; pattern = symbol_name_cut(pattern))
        patterns.count++;
    return patterns;
}

static bool complete_matches(const struct patterns *patterns, const char *shown)
{
    struct symbol_name name;
    const char *pattern = patterns->text;
    bool found = false;
    symbol_name_begin(&name, shown, true);
    for (size_t i = 0; i < patterns->count && !found; i++, pattern += strlen(pattern) + 1)
        found = symbol_name_means(&name, pattern);
    symbol_name_end(&name);
    return found;
}

static void find_facts(struct view_complete *complete, const struct profile *profile,
                       const struct spot *spots, const bool *counted, const struct patterns *patterns)
{
    bool partial = profile_extent_named(profile, PROFILE_CALLS).anywhere;
    for (size_t i = 1; i < profile->address_count; i++) {
        const struct profile_address *address = &profile->addresses[i];
        struct spot spot = {address->address, address->image};
        const char *name = profile_text(profile, profile->functions[address->function].name);
        uint8_t facts = counted[address->image] ? COUNTED : 0;
        if (profile->uncovered_count == 1 ||
            !bsearch(&spot, spots, profile->uncovered_count - 1, sizeof *spots, complete_by_place))
            facts |= COVERED;
        if (!patterns->count || complete_matches(patterns, name))
            facts |= NAMED;
        complete->facts[i] = partial ? 0 : facts;
    }
}

bool view_complete_init(struct view_complete *complete, const struct profile *profile)
{
    const char *names = profile_meta(profile, "calls_names");
    struct patterns patterns = names && *names ? take_apart(names) : (struct patterns){0};
    struct spot *spots = uncovered_spots(profile);
    bool *counted = counted_images(profile);
    complete->facts = calloc(profile->address_count, sizeof *complete->facts);
    bool done = complete->facts && spots && counted && (patterns.count || !names || !*names);
    if (done)
        find_facts(complete, profile, spots, counted, &patterns);
    free(patterns.text);
    free(spots);
    free(counted);
    return done;
}

void view_complete_free(struct view_complete *complete)
{
    free(complete->facts);
    *complete = (struct view_complete){0};
}

bool view_complete_callee(const struct view_complete *complete, uint32_t callee)
{
    return complete->facts[callee] == EVERYTHING;
}

/* Of a callee in an image that is not counted, calls are seen where they are made; of one that is not
 * covered, which sites are missed is not known. */
bool view_complete_edge(const struct view_complete *complete, uint32_t site, uint32_t callee)
{
    uint8_t from = complete->facts[site], to = complete->facts[callee];
    if (to == EVERYTHING)
        return true;
    return site && from & COUNTED && to & COVERED && (from | to) & NAMED;
}
