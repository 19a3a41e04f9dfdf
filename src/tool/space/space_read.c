#include "space_read.h"

#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "base_search.h"
#include "elf_export.h"
#include "symbol.h"
#include "wire_loss.h"

struct publishing {
    const struct space_reading *reading;
    struct space *space;
    struct profile *profile;
    struct slab_counts *counts;
    uint64_t *matched;             /* by word of a site: arrivals that are its calls */
    uint64_t *stale;               /* by first word of a hook: arrivals that came through tail jumps */
    uint64_t *callees;             /* by word of a site: a callee that hooks named, run-time */
    struct space_published *fresh; /* with replace: the totals now */
    size_t fresh_count, fresh_capacity;
    struct base_map fresh_of; /* edge -> index in fresh */
    uint32_t unknown;         /* address that stands for any callee */
};

/* --- addresses --- */

/* A run-time address in the profile; 0: in nothing that is known. */
static uint32_t address_at(const struct publishing *publishing, uint64_t address)
{
    const struct space_mapping *mapping = space_mapping(publishing->space, address);
    if (!mapping)
        return 0;
    const struct sample_image *image = &publishing->reading->session->images.images->items[mapping->image];
    return profile_address(publishing->profile, image->profile_image, address - mapping->bias);
}

static uint32_t address_in(const struct publishing *publishing, const struct space_object *object,
                           uint64_t address)
{
    const struct sample_image *image = &publishing->reading->session->images.images->items[object->image];
    return profile_address(publishing->profile, image->profile_image, address);
}

/* Objects are in the order of their words. */
static const struct space_object *object_of_word(const struct space *space, uint32_t word)
{
    size_t count = base_search_up_to(space->objects, space->object_count, base, word);
    return count ? &space->objects[count - 1] : NULL;
}

/* --- edges --- */

static void publish_fresh(struct publishing *publishing, uint32_t edge, uint64_t calls)
{
    uint32_t index = base_map_find(&publishing->fresh_of, edge);
    if (index != BASE_MAP_NONE) {
        publishing->fresh[index].calls += calls;
        return;
    }
    if (!base_array_room(publishing->fresh, publishing->fresh_count, publishing->fresh_capacity) ||
        !base_map_set(&publishing->fresh_of, edge, (uint32_t)publishing->fresh_count)) {
        profile_lose(publishing->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
        return;
    }
    publishing->fresh[publishing->fresh_count++] = (struct space_published){edge, calls};
}

static void publish_edge(struct publishing *publishing, uint32_t site, uint32_t callee,
                         enum profile_call_kind kind, uint64_t calls)
{
    if (!calls)
        return;
    uint32_t edge = profile_edge(publishing->profile, site, callee ? callee : publishing->unknown,
                                 publishing->reading->thread, kind);
    if (publishing->reading->replace)
        publish_fresh(publishing, edge, calls);
    else
        profile_add_calls(publishing->profile, edge, calls);
}

static void set_published(struct publishing *publishing, uint32_t edge, uint64_t calls)
{
    struct space *space = publishing->space;
    uint32_t index = base_map_find(&space->published_of, edge);
    if (index == BASE_MAP_NONE) {
        if (!base_array_room(space->published, space->published_count, space->published_capacity) ||
            !base_map_set(&space->published_of, edge, (uint32_t)space->published_count)) {
            profile_lose(publishing->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
            return;
        }
        index = (uint32_t)space->published_count++;
        space->published[index] = (struct space_published){edge, 0};
    }
    uint64_t others = publishing->profile->edges[edge].calls - space->published[index].calls;
    profile_set_calls(publishing->profile, edge, others + calls);
    space->published[index].calls = calls;
}

/* The totals of this thread's edges take the place of those of the last time. */
static void commit_totals(struct publishing *publishing)
{
    struct space *space = publishing->space;
    for (size_t i = 0; i < space->published_count; i++) {
        uint32_t edge = space->published[i].edge;
        if (publishing->profile->edges[edge].thread == publishing->reading->thread &&
            base_map_find(&publishing->fresh_of, edge) == BASE_MAP_NONE)
            set_published(publishing, edge, 0);
    }
    for (size_t i = 0; i < publishing->fresh_count; i++)
        set_published(publishing, publishing->fresh[i].edge, publishing->fresh[i].calls);
}

/* --- sites --- */

static enum profile_call_kind kind_of(const struct plan_site *site)
{
    switch ((enum stub_kind)site->kind) {
    case STUB_CALL:
        return PROFILE_CALL_DIRECT;
    case STUB_CALL_INDIRECT:
    case STUB_CALL_GROUP:
        return site->slot ? PROFILE_CALL_DIRECT : PROFILE_CALL_INDIRECT;
    default:
        return PROFILE_CALL_TAIL;
    }
}

/* Where the site's calls end, as far as it is fixed; run-time. 0: anywhere. */
static uint64_t callee_of(const struct space_object *object, const struct plan_site *site)
{
    const struct space_image *image = object->planned;
    if (!site->slot)
        return site->target ? site->target + object->bias : 0;
    size_t at = space_image_slot(image, site->slot);
    uint64_t value = at == SIZE_MAX ? 0 : object->slots[at], inside = value - object->bias;
    return inside >= image->linkage_low && inside < image->linkage_high ? 0 : value;
}

/* A slot that was not filled when it was last read (a short lifetime, a late first call): the function that
 * ld.so would have filled it with, by name. Good enough for a report; nothing that runs depends on it. 0:
 * none is known. */
static uint64_t callee_by_name(const struct publishing *publishing, const struct space_object *object,
                               const struct plan_site *site)
{
    const struct space *space = publishing->space;
    const struct sample_images *images = publishing->reading->session->images.images;
    const char *name = plan_slots_name(&object->planned->names, site->slot);
    for (size_t i = 0; name && name[0] && i < space->mapping_count; i++) {
        const struct elf_image *elf = images->items[space->mappings[i].image].elf;
        uint64_t address;
        if (elf && elf_export_find(elf, name, &address))
            return address + space->mappings[i].bias;
    }
    return 0;
}

/* The callee of a site in the profile. Where an object that is gone called itself, another object may be
 * now. */
static uint32_t callee_address(const struct publishing *publishing, const struct space_object *object,
                               const struct plan_site *site, uint64_t callee)
{
    if (!site->slot)
        return address_in(publishing, object, site->target);
    bool own = !object->live && callee >= object->low && callee < object->high;
    return own ? address_in(publishing, object, callee - object->bias) : address_at(publishing, callee);
}

static uint32_t site_address(const struct publishing *publishing, const struct space_object *object,
                             const struct plan_site *site)
{
    return address_in(publishing, object, site->address + site->length - 1);
}

/* --- arrivals --- */

/* From code where no site is counted (any more); `from` is the object, if it is one, `site` what a mark
 * names. */
static void publish_foreign(struct publishing *publishing, const struct space_object *from, uint32_t site,
                            const struct slab_arrival *arrival, uint32_t callee)
{
    enum profile_call_kind kind = PROFILE_CALL_INDIRECT;
    uint32_t address = 0;
    if (stub_block_is_mark(arrival->return_address)) {
        const struct plan_site *jump = site == PLAN_NONE ? NULL : &from->planned->plan.sites[site];
        address = jump ? site_address(publishing, from, jump) : 0;
        kind = PROFILE_CALL_TAIL;
    } else if (from) {
        address = address_in(publishing, from, arrival->return_address - 1 - from->bias);
    } else {
        address = address_at(publishing, arrival->return_address - 1);
    }
    publish_edge(publishing, address, callee, address ? kind : PROFILE_CALL_ENTRY, arrival->calls);
}

static bool is_named_function(const struct space_object *object, uint64_t address)
{
    const struct space_image *image = object->planned;
    uint32_t function = plan_function_at(&image->plan, address - object->bias);
    return !image->named || (function != PLAN_NONE && image->named[function]);
}

/* With names requested, hooks count more than was wanted: those of an image with a matching caller are all
 * there. */
static bool is_wanted_call(const struct space_object *from, uint64_t caller, const struct space_object *at,
                           uint64_t entry)
{
    return is_named_function(at, entry) || (from && is_named_function(from, caller));
}

const struct space_object *space_read_origin(const struct space *space, uint64_t *return_address,
                                             uint32_t *site)
{
    const struct space_object *from;
    *site = PLAN_NONE;
    if (!stub_block_is_mark(*return_address)) {
        from = space_closed(space, return_address);
        if (!from)
            from = space_object(space, *return_address - 1);
        if (from && from->patch)
            *site = plan_site_ending(&from->planned->plan, *return_address - from->bias);
        return from;
    }
    uint64_t word = stub_block_mark_index(*return_address);
    from = word < space->word_end ? object_of_word(space, (uint32_t)word) : NULL;
    if (from && from->patch && word - from->base < from->planned->plan.header->site_count)
        *site = (uint32_t)word - from->base;
    return from;
}

const struct space_object *space_read_hook(const struct space *space, uint32_t word, uint32_t *hook)
{
    const struct space_object *at = object_of_word(space, word);
    const struct plan_header *header = at ? at->planned->plan.header : NULL;
    *hook = PLAN_NONE;
    if (at && word - at->base >= header->site_count)
        *hook = (word - at->base - header->site_count) / STUB_HOOK_WORDS;
    if (at && *hook >= header->hook_count)
        *hook = PLAN_NONE;
    return at;
}

/* The address that stands for the caller. */
static uint64_t caller_of(const struct space_object *from, uint32_t site, uint64_t return_address)
{
    return stub_block_is_mark(return_address) && site != PLAN_NONE
               ? from->planned->plan.sites[site].address + from->bias
               : return_address - 1;
}

/* Stubs of direct sites go to the function's body at once: a call that arrives at its hook with such a site's
 * return address has jumped there from the site's callee. */
static bool goes_past_hooks(const struct plan_site *site)
{
    return stub_x86_64_site_is_direct((enum stub_kind)site->kind) && !site->slot;
}

/* A function whose return address the agent has replaced jumped to one that is hooked. */
static uint64_t real_return(const struct publishing *publishing, uint64_t word)
{
    const struct space_session *session = publishing->reading->session;
    return session->real && !stub_block_is_mark(word)
               ? session->real(session->real_context, publishing->space->pid, word)
               : word;
}

static void match_arrival(struct publishing *publishing, const struct slab_arrival *arrival)
{
    uint32_t site, hook;
    const struct space_object *at = space_read_hook(publishing->space, arrival->word, &hook);
    uint64_t return_address = real_return(publishing, arrival->return_address);
    const struct space_object *from = space_read_origin(publishing->space, &return_address, &site);
    if (hook == PLAN_NONE || arrival->word >= publishing->counts->word_count)
        return;
    const struct plan *plan = &at->planned->plan;
    uint64_t entry = plan->hooks[hook].address;
    if (!is_wanted_call(from, caller_of(from, site, return_address), at, entry + at->bias))
        return;
    uint32_t callee = address_in(publishing, at, entry);
    if (site == PLAN_NONE || !from->patch->slab.stubs[site]) {
        publish_foreign(publishing, from, site, &(struct slab_arrival){return_address, 0, arrival->calls},
                        callee);
        return;
    }
    const struct plan_site *planned = &from->planned->plan.sites[site];
    uint32_t word = from->base + plan_site_word(site);
    uint64_t known = callee_of(from, planned), here = entry + at->bias;
    if (known && (known != here || goes_past_hooks(planned))) {
        publishing->stale[arrival->word] += arrival->calls;
        return;
    }
    publishing->matched[word] += arrival->calls;
    if (!known && planned->slot)
        publishing->callees[word] = here;
    else if (!known)
        publish_edge(publishing, site_address(publishing, from, planned), callee, kind_of(planned),
                     arrival->calls);
}

/* A jump to a function whose hook counted it too, as an arrival with a return address that has nothing to do
 * with it. */
static void count_stale_arrivals(struct publishing *publishing, uint64_t callee, uint64_t calls)
{
    const struct space_object *at = space_object(publishing->space, callee);
    uint32_t function = at ? plan_function_at(&at->planned->plan, callee - at->bias) : PLAN_NONE;
    uint32_t hook = function == PLAN_NONE ? PLAN_NONE : at->planned->plan.functions[function].hook;
    if (hook == PLAN_NONE)
        return;
    uint32_t word = at->base + plan_hook_word(&at->planned->plan, hook);
    if (word >= publishing->counts->word_count)
        return;
    uint64_t *stale = &publishing->stale[word];
    *stale -= calls < *stale ? calls : *stale;
}

static void publish_site(struct publishing *publishing, const struct space_object *object, uint32_t index)
{
    const struct plan_site *site = &object->planned->plan.sites[index];
    uint32_t word = object->base + plan_site_word(index);
    uint64_t calls = publishing->counts->words[word], callee = callee_of(object, site);
    enum profile_call_kind kind = kind_of(site);
    if (!callee && site->slot)
        callee = publishing->callees[word];
    if (!callee && site->slot && publishing->reading->final)
        callee = callee_by_name(publishing, object, site);
    if (callee) {
        publish_edge(publishing, site_address(publishing, object, site),
                     callee_address(publishing, object, site, callee), kind, calls);
        if (kind == PROFILE_CALL_TAIL && site->slot && !(object->patch && object->patch->past[index]))
            count_stale_arrivals(publishing, callee,
                                 calls -
                                     (publishing->matched[word] < calls ? publishing->matched[word] : calls));
    } else if (publishing->reading->final && calls > publishing->matched[word]) {
        uint32_t stub = site->target ? address_in(publishing, object, site->target) : 0;
        publish_edge(publishing, site_address(publishing, object, site), stub, kind,
                     calls - publishing->matched[word]);
    }
}

static void publish_hook(struct publishing *publishing, const struct space_object *object, uint32_t hook)
{
    uint32_t word = object->base + plan_hook_word(&object->planned->plan, hook);
    uint64_t entry = object->planned->plan.hooks[hook].address;
    uint32_t callee = address_in(publishing, object, entry);
    if (!is_named_function(object, entry + object->bias))
        return;
    uint32_t overflow = word + (uint32_t)(offsetof(struct stub_hook_words, overflow) / 8);
    if (publishing->reading->final)
        publish_edge(publishing, 0, callee, PROFILE_CALL_TAIL, publishing->stale[word]);
    publish_edge(publishing, 0, callee, PROFILE_CALL_ENTRY, publishing->counts->words[overflow]);
}

static void publish_object(struct publishing *publishing, const struct space_object *object, bool hooks)
{
    const struct plan_header *header = object->planned->plan.header;
    if (object->base + plan_words(&object->planned->plan) > publishing->counts->word_count)
        return;
    for (uint32_t i = 0; !hooks && i < header->site_count; i++)
        if (publishing->counts->words[object->base + plan_site_word(i)])
            publish_site(publishing, object, i);
    for (uint32_t i = 0; hooks && i < header->hook_count; i++)
        publish_hook(publishing, object, i);
}

static void publish_all(struct publishing *publishing)
{
    const struct space *space = publishing->space;
    for (size_t i = 0; i < publishing->counts->arrival_count; i++)
        match_arrival(publishing, &publishing->counts->arrivals[i]);
    for (int hooks = 0; hooks < 2; hooks++) /* sites first: they explain stale slots */
        for (size_t i = 0; i < space->object_count; i++)
            publish_object(publishing, &space->objects[i], hooks);
    if (publishing->reading->replace)
        commit_totals(publishing);
}

/* --- guesses --- */

/* The return address or mark of its arrivals. */
static uint64_t name_of_site(const struct space *space, size_t index, uint32_t site)
{
    const struct space_object *object = &space->objects[index];
    const struct plan_site *planned = &object->planned->plan.sites[site];
    uint64_t end = planned->address + planned->length;
    if (stub_x86_64_site_is_jump((enum stub_kind)planned->kind))
        return ~(uint64_t)(object->base + plan_site_word(site));
    return object->live ? end + object->bias : space_closed_name(index, end);
}

/* What a guess has counted becomes what site and hook would have counted without it. False: no memory. */
static bool fold_guess(const struct publishing *publishing, size_t index, const struct slab_guess *guess)
{
    const struct space_object *object = &publishing->space->objects[index];
    struct slab_counts *counts = publishing->counts;
    uint32_t word = object->base + guess->word;
    uint64_t calls = word < counts->word_count ? counts->words[word] : 0;
    if (!calls)
        return true;
    if (!base_array_room(counts->arrivals, counts->arrival_count, counts->arrival_capacity))
        return false;
    counts->arrivals[counts->arrival_count++] =
        (struct slab_arrival){.return_address = name_of_site(publishing->space, index, (uint32_t)guess->site),
                              .word = object->base + plan_hook_word(&object->planned->plan, guess->hook),
                              .calls = calls};
    counts->words[object->base + plan_site_word((uint32_t)guess->site)] += calls;
    counts->words[word] = 0;
    return true;
}

static bool fold_guesses(const struct publishing *publishing)
{
    const struct space *space = publishing->space;
    bool room = true;
    for (size_t i = 0; i < space->object_count; i++)
        for (size_t j = 0; j < space->objects[i].guess_count && room; j++)
            room = fold_guess(publishing, i, &space->objects[i].guesses[j]);
    return room;
}

int space_read(const struct space_reading *reading, struct slab_counts *counts, struct base_error *error)
{
    struct profile *profile = reading->session->profile;
    struct publishing publishing = {
        .reading = reading, .space = reading->space, .profile = profile, .counts = counts};
    publishing.matched = calloc(counts->word_count + 1, sizeof *publishing.matched);
    publishing.stale = calloc(counts->word_count + 1, sizeof *publishing.stale);
    publishing.callees = calloc(counts->word_count + 1, sizeof *publishing.callees);
    uint32_t special = profile_image(profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0);
    publishing.unknown = profile_address(profile, special, 0);
    bool room = publishing.matched && publishing.stale && publishing.callees && fold_guesses(&publishing);
    if (room) {
        slab_counts_sort(counts);
        publish_all(&publishing);
    }
    free(publishing.matched);
    free(publishing.stale);
    free(publishing.callees);
    free(publishing.fresh);
    base_map_free(&publishing.fresh_of);
    return room ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

/* --- blocks --- */

static struct slab_hook_range *list_hooks(const struct space *space)
{
    struct slab_hook_range *hooks = malloc((space->object_count + 1) * sizeof *hooks);
    for (size_t i = 0; hooks && i < space->object_count; i++) {
        const struct plan *plan = &space->objects[i].planned->plan;
        hooks[i] = (struct slab_hook_range){space->objects[i].base + plan_hook_word(plan, 0),
                                            plan->header->hook_count};
    }
    return hooks;
}

int space_read_block(const struct space *space, const struct slab_block *block, struct slab_counts *counts,
                     struct base_error *error)
{
    struct slab_hook_range *hooks = list_hooks(space);
    if (!hooks)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = slab_counts_add(counts, block, space->word_end, hooks, space->object_count, error);
    free(hooks);
    return result;
}

/* What cannot be renamed is published as if it came from what is there later: no more can be done. */
void space_read_close(const struct space *space, size_t index)
{
    const struct space_object *object = &space->objects[index];
    struct slab_renaming renaming = {.low = object->low,
                                     .high = object->high,
                                     .first = space_closed_name(index, object->low - object->bias)};
    struct slab_hook_range *hooks = list_hooks(space);
    for (size_t i = 0; hooks && i < space->arena_count; i++)
        slab_block_rename(&space->arenas[i].block, space->word_end, hooks, space->object_count, &renaming,
                          NULL);
    if (hooks && space->gs_offset)
        slab_block_rename(&space->fallback, space->word_end, hooks, space->object_count, &renaming, NULL);
    for (size_t i = 0; hooks && i < space->thread_count; i++)
        if (space->threads[i].state == SPACE_USED || space->threads[i].state == SPACE_ENDED)
            slab_block_rename(&space->threads[i].block, space->word_end, hooks, space->object_count,
                              &renaming, NULL);
    free(hooks);
}

/* --- coverage --- */

static void publish_uncovered(struct space_session *session, uint32_t image, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->header->function_count; i++) {
        const struct plan_function *function = &plan->functions[i];
        if (!(function->facts & PLAN_FUNCTION_CALLABLE) || function->facts & PLAN_FUNCTION_COVERED)
            continue;
        const char *raw = plan_function_name(plan, i);
        char *name = symbol_demangle(raw);
        profile_set_uncovered(session->profile, image, function->start, name ? name : raw,
                              stub_reason_text((enum stub_reason)function->reason));
        free(name);
    }
}

static void publish_plan(struct space_session *session, uint32_t image, const struct space_object *object)
{
    const struct plan *plan = &object->planned->plan;
    const struct plan_header *header = plan->header;
    struct profile *profile = session->profile;
    uint64_t differing = object->differing < header->planned ? object->differing : header->planned;
    profile_set_coverage(profile, image, PROFILE_COVERAGE_SITES, header->found, header->planned - differing);
    profile_set_coverage(profile, image, PROFILE_COVERAGE_INDIRECT, header->indirect_found,
                         header->indirect_planned);
    profile_set_coverage(profile, image, PROFILE_COVERAGE_FUNCTIONS, header->callable, header->covered);
    profile_set_coverage(profile, image, PROFILE_COVERAGE_TAKEN, header->taken, header->hooked);
    for (unsigned i = 1; i < STUB_REASON_END; i++) {
        uint64_t count = header->reasons[i] + (object->patch ? object->patch->slab.reasons[i] : 0);
        if (i == STUB_REASON_TEXT_DIFFERS)
            count += differing;
        if (count)
            profile_set_left(profile, image, i, stub_reason_text((enum stub_reason)i), count);
    }
    publish_uncovered(session, image, plan);
}

void space_read_coverage(const struct space *space, struct space_session *session)
{
    for (size_t i = 0; i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        uint32_t image = session->images.images->items[object->image].profile_image;
        if (image && object->patch)
            publish_plan(session, image, object);
    }
}
