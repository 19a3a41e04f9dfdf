#include "space_guess.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "space_memory.h"
#include "space_read.h"
#include "space_totals.h"

#define FORMS_LEFT                                                                                           \
    4 /* slabs of the object for which room must be left: one more, and others of other forms */
#define LEAST_CALLS 20000 /* of a site, so far */
#define WORTH_CALLS                                                                                          \
    500000 /* of all sites: about half a millisecond, what it may take to lead sites to other stubs */

/* A site and its callees. */
struct candidate {
    struct space_object *object;
    uint32_t site, hook;
    uint64_t calls;
};

struct candidates {
    struct candidate *items;
    size_t count, capacity;
};

static bool is_guessed(const struct space_object *object, uint32_t site)
{
    size_t at = base_search_below(object->guesses, object->guess_count, site, site);
    return at < object->guess_count && object->guesses[at].site == site;
}

static bool is_indirect(const struct space_object *object, uint32_t site)
{
    return !stub_x86_64_site_is_direct((enum stub_kind)object->planned->plan.sites[site].kind);
}

/* Is there room for more slabs than are certain to be needed? In windows there is not. */
static bool has_room(const struct space *space, const struct space_object *object)
{
    const struct space_code *code = space->arenas[object->arena].code;
    return !object->window_count && code->top - code->used >= FORMS_LEFT * object->planned->slab_size;
}

/* Can the site's stub guess, and is the hook one to go past? */
static bool can_guess(const struct space_object *from, uint32_t site, const struct space_object *at,
                      uint32_t hook)
{
    return from && from == at && site != PLAN_NONE && hook != PLAN_NONE && from->live && from->patch &&
           from->patch->slab.stubs[site] && from->patch->slab.entries[hook] && is_indirect(from, site) &&
           !is_guessed(from, site) && from->guess_count < SLAB_GUESSES;
}

/* Arrivals [first, end) have one caller. False: no memory. */
static bool consider_caller(const struct space *space, const struct slab_counts *counts, size_t first,
                            size_t end, struct candidates *found)
{
    size_t most = first;
    uint64_t calls = 0, caller = counts->arrivals[first].return_address;
    uint32_t site, hook;
    for (size_t i = first; i < end; i++) {
        calls += counts->arrivals[i].calls;
        most = counts->arrivals[i].calls > counts->arrivals[most].calls ? i : most;
    }
    uint64_t right = counts->arrivals[most].calls;
    if (right < LEAST_CALLS || right / 3 < calls / 4)
        return true;
    const struct space_object *from = space_read_origin(space, &caller, &site);
    const struct space_object *at = space_read_hook(space, counts->arrivals[most].word, &hook);
    if (!can_guess(from, site, at, hook) || !has_room(space, from) ||
        right / 3 < counts->words[from->base + plan_site_word(site)] / 4) /* other callees have no hook */
        return true;
    if (!base_array_room(found->items, found->count, found->capacity))
        return false;
    found->items[found->count++] =
        (struct candidate){&space->objects[from - space->objects], site, hook, right};
    return true;
}

static int by_calls(const void *a, const void *b)
{
    const struct candidate *left = a, *right = b;
    if (left->calls != right->calls)
        return left->calls < right->calls ? 1 : -1;
    return left->site < right->site ? -1 : left->site > right->site;
}

static void add_guess(struct space *space, const struct candidate *candidate)
{
    struct space_object *object = candidate->object;
    if (!object->guesses)
        object->guesses = calloc(SLAB_GUESSES, sizeof *object->guesses);
    if (!object->guesses || object->guess_count == SLAB_GUESSES || space->word_end == SLAB_BLOCK_WORDS ||
        space_memory_commit(space, space->word_end + 1, NULL) < 0)
        return;
    size_t at = base_search_below(object->guesses, object->guess_count, site, candidate->site);
    memmove(&object->guesses[at + 1], &object->guesses[at],
            (object->guess_count - at) * sizeof *object->guesses);
    object->guesses[at] =
        (struct slab_guess){candidate->site, candidate->hook, space->word_end++ - object->base};
    object->guess_count++;
    object->stale = true;
}

static bool add_guesses(struct space *space, const struct candidates *found)
{
    uint64_t calls = 0;
    for (size_t i = 0; i < found->count; i++)
        calls += found->items[i].calls;
    if (calls < WORTH_CALLS)
        return false;
    qsort(found->items, found->count, sizeof *found->items, by_calls);
    for (size_t i = 0; i < found->count; i++)
        add_guess(space, &found->items[i]);
    return true;
}

bool space_guess_mark(struct space *space)
{
    struct slab_counts counts = {0};
    struct candidates found = {0};
    bool room = true;
    space_totals_read(space, &counts);
    slab_counts_sort(&counts);
    for (size_t i = 0, end; i < counts.arrival_count && room; i = end) {
        for (end = i + 1; end < counts.arrival_count &&
                          counts.arrivals[end].return_address == counts.arrivals[i].return_address;)
            end++;
        room = consider_caller(space, &counts, i, end, &found);
    }
    bool guessed = room && found.count && add_guesses(space, &found);
    free(found.items);
    slab_counts_free(&counts);
    return guessed;
}
