/* The stubs of sites: steps 1 and 3 of slab.h, and stubs that change until the first write is made, because a
 * slot has been bound or a guess found its hook.
 *
 * A stub is made first as if nothing were hooked, so that it has a place before any hook has one; hooks move
 * sites among their first bytes and need those places. Once hooks have theirs, stubs of sites that go to one
 * are made again in the same place. Where the second version is longer than the room that was set aside, or
 * cannot reach, the first one stays: its calls go through the hook, and readers subtract them. */
#include <string.h>

#include "base_search.h"
#include "slab.h"
#include "slab_inside.h"

#define STUB_ALIGN 4
#define BODY_MOST  16  /* bytes of moved instructions that go into a stub */
#define WAYS       256 /* of slots, kept at a time */

/* Where a direct site ends, which its stub can go to at once, or past the hook that is, or will be, there. */
struct way {
    uint64_t end; /* run-time; 0: not known, or its own target without a hook */
    uint32_t hook;
};

static bool goes_by_slot(const struct plan_site *site)
{
    return site->slot != 0 && stub_x86_64_site_is_direct((enum stub_kind)site->kind);
}

static uint64_t end_of_slot(const struct slab *slab, uint64_t slot)
{
    return slab->resolve != NULL ? slab->resolve(slab->context, slot) : 0;
}

static struct way way_to(const struct slab *slab, uint64_t end)
{
    return (struct way){end, slab_hook_at(slab, end)};
}

/* Thousands of sites go through a few hundred slots, and each way needs a search through all functions. */
static struct way way_by_slot(const struct slab *slab, uint64_t slot, struct way ways[WAYS])
{
    uint64_t end = end_of_slot(slab, slot);
    struct way *known = &ways[slot / sizeof slot % WAYS];
    if (end != 0 && known->end != end)
        *known = way_to(slab, end);
    return end != 0 ? *known : (struct way){0, PLAN_NONE};
}

static struct way way_of(const struct slab *slab, const struct plan_site *site, struct way ways[WAYS])
{
    if (goes_by_slot(site))
        return way_by_slot(slab, site->slot, ways);
    uint32_t hook = stub_x86_64_site_is_direct((enum stub_kind)site->kind)
                        ? slab_hook_over(slab, site->callee, site->target)
                        : PLAN_NONE;
    return (struct way){hook != PLAN_NONE ? site->target + slab->bias : 0, hook};
}

/* A stub that goes to `target`: a function, or the place past a hook. */
static bool put_straight(const struct slab *slab, uint32_t index, uint64_t target,
                         struct stub_x86_64_code *code)
{
    struct stub_x86_64_request site = slab_site(slab, index);
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_site_word(index));
    stub_x86_64_code_begin(code, code->address);
    site.target = target;
    site.by_slot = false;
    stub_x86_64_site(code, &site, &counter);
    return code->refused == STUB_FINE;
}

/* One that has the hook's body. Most bodies are the same bytes anywhere; the others are moved once more. */
static bool put_inlined(const struct slab *slab, uint32_t index, uint32_t hook, struct stub_x86_64_code *code)
{
    const struct plan_hook *planned = &slab->plan->hooks[hook];
    enum stub_kind kind = (enum stub_kind)slab->plan->sites[index].kind;
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_site_word(index));
    uint64_t address = planned->address + slab->bias;
    struct stub_x86_64_hook unused;
    uint8_t bytes[20];
    if (slab->bodies[hook] == 0 || stub_x86_64_site_is_group(kind))
        return false;
    stub_x86_64_code_begin(code, code->address);
    stub_x86_64_site_count(code, &counter, stub_x86_64_site_is_jump(kind));
    if (slab->hooks[hook].copied) {
        stub_x86_64_code_bytes(code, planned->old, planned->length);
        stub_x86_64_code_jump(code, address + planned->length);
    } else {
        slab_hook_bytes(slab, hook, bytes);
        struct stub_x86_64_entry entry = {
            .kind = STUB_ENTRY, .length = planned->length, .address = address, .old = bytes};
        stub_x86_64_entry_body(code, &entry, &unused);
    }
    return code->refused == STUB_FINE;
}

/* NULL: none. */
static const struct slab_guess *guess_at(const struct slab *slab, uint32_t index)
{
    if (slab->guess_count == 0)
        return NULL;
    size_t at = base_search_below(slab->guesses, slab->guess_count, site, index);
    bool known = at < slab->guess_count && slab->guesses[at].site == index;
    return known && slab_wants_hook(slab, slab->guesses[at].hook) ? &slab->guesses[at] : NULL;
}

/* A stub that tries a function first. While its hook has no place, it goes to itself. */
static bool put_guessing(const struct slab *slab, const struct slab_guess *guess,
                         struct stub_x86_64_code *code)
{
    struct stub_x86_64_request site = slab_site(slab, (uint32_t)guess->site);
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_site_word((uint32_t)guess->site));
    bool placed = slab->entries[guess->hook] != 0;
    struct stub_x86_64_guess tried = {.callee = slab->plan->hooks[guess->hook].address + slab->bias,
                                      .past = placed ? slab->hooks[guess->hook].body : code->address,
                                      .index = slab->counter.index + guess->word};
    stub_x86_64_code_begin(code, code->address);
    stub_x86_64_site_guessing(code, &site, &counter, &tried);
    return code->refused == STUB_FINE;
}

/* What the moved instructions of each hook will need, known before any stub has its place. */
static void measure_bodies(struct slab *slab)
{
    for (uint32_t i = 0; i < slab->plan->header->hook_count; i++) {
        const struct plan_hook *planned = &slab->plan->hooks[i];
        struct stub_x86_64_entry entry = {.kind = STUB_ENTRY,
                                          .length = planned->length,
                                          .address = planned->address + slab->bias,
                                          .old = planned->old};
        struct stub_x86_64_hook unused;
        struct stub_x86_64_code code;
        if (planned->kind == STUB_ENTRY_ENDBR || !slab_wants_hook(slab, i))
            continue;
        stub_x86_64_code_begin(&code, slab->regions[0].address);
        stub_x86_64_entry_body(&code, &entry, &unused);
        if (code.refused == STUB_FINE && code.size <= BODY_MOST + 5u)
            slab->bodies[i] = (uint8_t)(code.size - 5);
    }
}

/* As if nothing were hooked; straight to the end if that is known and within reach. Returns the room to set
 * aside. */
static size_t put_stub(const struct slab *slab, const struct stub_x86_64_request *site, uint32_t index,
                       const struct way *way, struct stub_x86_64_code *code)
{
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_site_word(index));
    const struct slab_guess *guess = guess_at(slab, index);
    if (guess != NULL && put_guessing(slab, guess, code))
        return code->size;
    if (way->end != 0 && put_straight(slab, index, way->end, code))
        return code->size + (way->hook != PLAN_NONE ? slab->bodies[way->hook] : 0u);
    stub_x86_64_code_begin(code, code->address);
    stub_x86_64_site(code, site, &counter);
    return code->size;
}

static void emit_stub(struct slab *slab, uint32_t index, struct way ways[WAYS])
{
    struct slab_region *region = &slab->regions[0];
    size_t at = slab_aligned(region->used, STUB_ALIGN);
    struct stub_x86_64_request site = slab_site(slab, index);
    struct way way = way_of(slab, &slab->plan->sites[index], ways);
    struct stub_x86_64_code code;
    uint8_t fresh[16], island[5];
    stub_x86_64_code_begin(&code, region->address + at);
    size_t room = put_stub(slab, &site, index, &way, &code);
    enum stub_reason reason = code.refused;
    if (reason == STUB_FINE)
        reason = slab_site_redirect(&site, code.address, fresh, island);
    if (reason != STUB_FINE || at + room > region->size || !slab_region_put(region, at, &code)) {
        slab_refuse(slab, reason != STUB_FINE ? reason : STUB_REASON_TOO_MANY);
        return;
    }
    slab->stubs[index] = code.address;
    slab->inlined[index] = way.hook; /* provisional: see emit_site_past_hook */
    slab->ends[index] = way.end;
    if (goes_by_slot(&slab->plan->sites[index]))
        slab->by_slot[slab->by_slot_count++] = index;
    region->used = at + room;
    slab->stubs_end = region->address + region->used;
}

/* Again, now that all hooks have their places. What cannot reach the place past its hook goes through it, and
 * readers subtract. */
static void emit_past_hook(struct slab *slab, uint32_t index, const struct way *way, size_t room)
{
    struct stub_x86_64_code code;
    bool hooked = way->hook != PLAN_NONE && slab->entries[way->hook] != 0;
    uint32_t inlined = PLAN_NONE;
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    if (way->end == 0 || (!hooked && slab->plan->sites[index].slot == 0))
        return;
    if (hooked && put_inlined(slab, index, way->hook, &code) && code.size <= room)
        inlined = way->hook;
    else if (!put_straight(slab, index, hooked ? slab->hooks[way->hook].body : way->end, &code) ||
             code.size > room)
        return;
    slab->inlined[index] = inlined;
    slab_region_put(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* The same for a guess. Where the guess has no hook, or is out of reach after all, the stub is as if there
 * were none. */
static void emit_guess(struct slab *slab, uint32_t index, const struct slab_guess *guess, size_t room)
{
    struct stub_x86_64_code code;
    struct stub_x86_64_request site = slab_site(slab, index);
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_site_word(index));
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    if (slab->entries[guess->hook] == 0 || !put_guessing(slab, guess, &code) || code.size > room) {
        stub_x86_64_code_begin(&code, slab->stubs[index]);
        stub_x86_64_site(&code, &site, &counter);
    }
    slab_region_put(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* The way is what emit_stub found: to search again would walk through all functions of the image, of which a
 * large one has too many to stay in the processor's cache. */
static void emit_site_past_hook(struct slab *slab, uint32_t index, size_t room)
{
    struct way way = {slab->ends[index], slab->inlined[index]};
    const struct slab_guess *guess = guess_at(slab, index);
    slab->inlined[index] = PLAN_NONE;
    if (guess != NULL)
        emit_guess(slab, index, guess, room);
    else if (way.hook != PLAN_NONE)
        emit_past_hook(slab, index, &way, room);
}

/* The stub as it came to be, once more. */
static bool put_stub_again(const struct slab *slab, uint32_t index, struct stub_x86_64_code *code)
{
    struct way ways[WAYS] = {0}, way = way_of(slab, &slab->plan->sites[index], ways);
    struct stub_x86_64_request site = slab_site(slab, index);
    bool hooked = way.hook != PLAN_NONE && slab->entries[way.hook] != 0;
    if (slab->inlined[index] != PLAN_NONE)
        return put_inlined(slab, index, slab->inlined[index], code);
    if (hooked && put_straight(slab, index, slab->hooks[way.hook].body, code))
        return true;
    put_stub(slab, &site, index, &way, code);
    return code->refused == STUB_FINE;
}

bool slab_stub_holds(const struct slab *slab, uint32_t index)
{
    const struct slab_region *region = &slab->regions[0];
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    size_t at = (size_t)(slab->stubs[index] - region->address);
    return put_stub_again(slab, index, &code) && code.size <= region->size - at &&
           memcmp(region->bytes + at, code.bytes, code.size) == 0;
}

void slab_stub_emit(struct slab *slab)
{
    struct way ways[WAYS] = {0};
    measure_bodies(slab);
    for (uint32_t i = 0; i < slab->plan->header->site_count; i++)
        if (slab->wanted == NULL || slab->wanted[i] != 0)
            emit_stub(slab, i, ways);
}

/* Backwards: a stub's room ends where the next one begins. */
void slab_stub_emit_past_hooks(struct slab *slab)
{
    uint64_t end = slab->stubs_end;
    for (uint32_t i = slab->plan->header->site_count; i-- > 0;) {
        if (slab->stubs[i] == 0)
            continue;
        emit_site_past_hook(slab, i, (size_t)(end - slab->stubs[i]));
        end = slab->stubs[i];
    }
}

/* A slot that leads where it led before leaves its stubs as they are. */
static void bind_stub(struct slab *slab, uint32_t index, size_t room, struct way ways[WAYS])
{
    uint64_t end = end_of_slot(slab, slab->plan->sites[index].slot);
    if (end == slab->ends[index])
        return;
    struct way way = way_by_slot(slab, slab->plan->sites[index].slot, ways);
    slab->ends[index] = end;
    emit_past_hook(slab, index, &way, room);
}

static size_t room_of(const struct slab *slab, uint32_t index)
{
    uint32_t next = index + 1;
    while (next < slab->plan->header->site_count && slab->stubs[next] == 0)
        next++;
    uint64_t end = next < slab->plan->header->site_count ? slab->stubs[next] : slab->stubs_end;
    return (size_t)(end - slab->stubs[index]);
}

void slab_stub_bind(struct slab *slab)
{
    struct way ways[WAYS] = {0};
    for (size_t i = 0; i < slab->by_slot_count; i++)
        bind_stub(slab, slab->by_slot[i], room_of(slab, slab->by_slot[i]), ways);
}

void slab_stub_aim(struct slab *slab, uint32_t index, uint64_t end)
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    if (put_straight(slab, index, end, &code) && code.size <= room_of(slab, index))
        slab_region_put(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}
