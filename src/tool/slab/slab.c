/* Slabs. The numbers are those of the header. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_array.h"
#include "base_search.h"
#include "slab.h"
#include "slab_inside.h"

#define STUB_ALIGN  4
#define HOOK_ALIGN  16
#define BODY_MOST   16 /* bytes of moved instructions that go into a stub */
#define DIRECT_MOST 40 /* with a mark (36), or a body (23 and 16), and alignment */
#define STUB_MOST   64 /* of a group: 15 bytes, each instruction grown by at most four; counter, mark */
#define GUESS_MOST                                                                                           \
    64 /* more with a guess: two moves, a comparison, a counter, a jump, a constant and its alignment */
#define HOOK_MOST  256 /* all that one piece of code may hold */
#define WAYS       256 /* of slots, kept at a time */
#define LARGE_PAGE (2u << 20)
#define MANY_HOOKS 10000 /* few of so many are gone through often; all are waited for */

static size_t stub_most(const struct plan *plan, const struct plan_site *site)
{
    enum stub_kind kind = (enum stub_kind)site->kind;
    if (stub_x86_64_site_is_group(kind) || !stub_x86_64_site_is_direct(kind))
        return STUB_MOST;
    bool hooked = site->callee != PLAN_NONE && plan->functions[site->callee].hook != PLAN_NONE;
    return site->slot != 0 || hooked ? DIRECT_MOST : 24;
}

size_t slab_size(const struct plan *plan)
{
    size_t size = STUB_X86_64_CODE_MAX + HOOK_ALIGN; /* the recorder */
    size += SLAB_GUESSES * GUESS_MOST;
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        size += stub_most(plan, &plan->sites[i]);
    return size + plan->header->hook_count * (size_t)HOOK_MOST;
}

static bool wants_site(const struct slab *slab, uint32_t site)
{
    return slab->wanted == NULL || slab->wanted[site] != 0;
}

static bool wants_hook(const struct slab *slab, uint32_t hook)
{
    return slab->wanted == NULL || slab->wanted[slab->plan->header->site_count + hook] != 0;
}

static void refuse(struct slab *slab, enum stub_reason reason)
{
    slab->reasons[reason]++;
}

static size_t aligned(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

static bool put_at(struct slab_region *region, size_t at, const struct stub_x86_64_code *code)
{
    if (at + code->size > region->size)
        return false;
    memcpy(region->bytes + at, code->bytes, code->size);
    return true;
}

static bool add_write(struct slab *slab, const struct slab_write *write)
{
    if (!base_array_room(slab->writes, slab->write_count, slab->write_capacity))
        return false;
    slab->writes[slab->write_count++] = *write;
    return true;
}

/* Fresh memory of a large image's lists comes in large pages, if there are any: a fault for each small one
 * would take longer than what is written there. */
static void *in_large_pages(void *memory, size_t size)
{
    uintptr_t from = ((uintptr_t)memory + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE;
    uintptr_t to = ((uintptr_t)memory + size) / LARGE_PAGE * LARGE_PAGE;
    if (memory != NULL && from < to)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    return memory;
}

static void *listed(size_t count, size_t size)
{
    return in_large_pages(malloc((count + 1) * size), (count + 1) * size);
}

static void *cleared(size_t count, size_t size)
{
    return in_large_pages(calloc(count + 1, size), (count + 1) * size);
}

/* --- 1. and 3.: sites --- */

struct stub_x86_64_request slab_site(const struct slab *slab, uint32_t index)
{
    const struct plan_site *site = &slab->plan->sites[index];
    bool quiet = slab->quiet != NULL && slab->quiet[index] != 0;
    return (struct stub_x86_64_request){.kind = (enum stub_kind)site->kind,
                                        .length = site->length,
                                        .address = site->address + slab->bias,
                                        .old = site->old,
                                        .target = site->target + slab->bias,
                                        .island = site->island + slab->bias,
                                        .by_slot = site->slot != 0 && !quiet,
                                        .quiet = quiet};
}

static struct stub_x86_64_counter counter_at(const struct slab *slab, uint32_t word)
{
    struct stub_x86_64_counter counter = slab->counter;
    counter.index += word;
    return counter;
}

static bool is_short(const struct stub_x86_64_request *site)
{
    return site->kind == STUB_JUMP_SHORT || site->kind == STUB_BRANCH_SHORT;
}

/* Can the site be made to lead to `stub`? */
static enum stub_reason aim(const struct stub_x86_64_request *site, uint64_t stub, uint8_t fresh[16],
                            uint8_t island[5])
{
    enum stub_reason reason = stub_x86_64_site_site(site, stub, fresh);
    if (reason == STUB_FINE && is_short(site))
        reason = stub_x86_64_site_island(site->island, stub, island);
    return reason;
}

/* The hook over function `function` that begins at `address` (of the image); PLAN_NONE: it has none here. */
static uint32_t hook_over(const struct slab *slab, uint32_t function, uint64_t address)
{
    uint32_t hook = function != PLAN_NONE ? slab->plan->functions[function].hook : PLAN_NONE;
    bool hooked = hook != PLAN_NONE && wants_hook(slab, hook) && slab->plan->hooks[hook].address == address;
    return hooked ? hook : PLAN_NONE;
}

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

uint32_t slab_hook_at(const struct slab *slab, uint64_t end)
{
    uint64_t address = end - slab->bias;
    return end != 0 ? hook_over(slab, plan_function_at(slab->plan, address), address) : PLAN_NONE;
}

static struct way way_to(const struct slab *slab, uint64_t end)
{
    return (struct way){end, slab_hook_at(slab, end)};
}

/* Thousands of sites go through a few hundred slots, and each way is a walk through all functions. */
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
                        ? hook_over(slab, site->callee, site->target)
                        : PLAN_NONE;
    return (struct way){hook != PLAN_NONE ? site->target + slab->bias : 0, hook};
}

/* A stub that goes to `target`: a function, or the place past a hook. */
static bool put_straight(const struct slab *slab, uint32_t index, uint64_t target,
                         struct stub_x86_64_code *code)
{
    struct stub_x86_64_request site = slab_site(slab, index);
    struct stub_x86_64_counter counter = counter_at(slab, plan_site_word(index));
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
    struct stub_x86_64_counter counter = counter_at(slab, plan_site_word(index));
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
    return known && wants_hook(slab, slab->guesses[at].hook) ? &slab->guesses[at] : NULL;
}

/* A stub that tries a function first. While its hook has no place, it goes to itself. */
static bool put_guessing(const struct slab *slab, const struct slab_guess *guess,
                         struct stub_x86_64_code *code)
{
    struct stub_x86_64_request site = slab_site(slab, (uint32_t)guess->site);
    struct stub_x86_64_counter counter = counter_at(slab, plan_site_word((uint32_t)guess->site));
    bool placed = slab->entries[guess->hook] != 0;
    struct stub_x86_64_guess tried = {.callee = slab->plan->hooks[guess->hook].address + slab->bias,
                                      .past = placed ? slab->hooks[guess->hook].body : code->address,
                                      .index = slab->counter.index + guess->word};
    stub_x86_64_code_begin(code, code->address);
    stub_x86_64_site_guessing(code, &site, &counter, &tried);
    return code->refused == STUB_FINE;
}

/* What the moved instructions of each hook will need: told before any stub has its place. */
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
        if (planned->kind == STUB_ENTRY_ENDBR || !wants_hook(slab, i))
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
    struct stub_x86_64_counter counter = counter_at(slab, plan_site_word(index));
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
    size_t at = aligned(region->used, STUB_ALIGN);
    struct stub_x86_64_request site = slab_site(slab, index);
    struct way way = way_of(slab, &slab->plan->sites[index], ways);
    struct stub_x86_64_code code;
    uint8_t fresh[16], island[5];
    stub_x86_64_code_begin(&code, region->address + at);
    size_t room = put_stub(slab, &site, index, &way, &code);
    enum stub_reason reason = code.refused;
    if (reason == STUB_FINE)
        reason = aim(&site, code.address, fresh, island);
    if (reason != STUB_FINE || at + room > region->size || !put_at(region, at, &code)) {
        refuse(slab, reason != STUB_FINE ? reason : STUB_REASON_TOO_MANY);
        return;
    }
    slab->stubs[index] = code.address;
    slab->inlined[index] = way.hook; /* to be: emit_site_past_hook */
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
    put_at(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* The same for a guess. What has no hook, or is out of reach after all, is gone to as if there were none. */
static void emit_guess(struct slab *slab, uint32_t index, const struct slab_guess *guess, size_t room)
{
    struct stub_x86_64_code code;
    struct stub_x86_64_request site = slab_site(slab, index);
    struct stub_x86_64_counter counter = counter_at(slab, plan_site_word(index));
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    if (slab->entries[guess->hook] == 0 || !put_guessing(slab, guess, &code) || code.size > room) {
        stub_x86_64_code_begin(&code, slab->stubs[index]);
        stub_x86_64_site(&code, &site, &counter);
    }
    put_at(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* The way is what emit_stub found: to ask again would be a walk through all functions of the image, of which
 * a large one has too many to stay in the processor's cache. */
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
static bool put_again(const struct slab *slab, uint32_t index, struct stub_x86_64_code *code)
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
    return put_again(slab, index, &code) && code.size <= region->size - at &&
           memcmp(region->bytes + at, code.bytes, code.size) == 0;
}

/* Backwards: a stub's room ends where the next one begins. */
static void emit_past_hooks(struct slab *slab)
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

void slab_bind(struct slab *slab)
{
    struct way ways[WAYS] = {0};
    for (size_t i = 0; i < slab->by_slot_count; i++)
        bind_stub(slab, slab->by_slot[i], room_of(slab, slab->by_slot[i]), ways);
}

void slab_aim(struct slab *slab, uint32_t index, uint64_t end)
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, slab->stubs[index]);
    if (put_straight(slab, index, end, &code) && code.size <= room_of(slab, index))
        put_at(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* --- 2.: hooks --- */

bool slab_window(const struct plan *plan, uint32_t hook, uint64_t bias, uint64_t *low, uint64_t *high)
{
    const struct plan_hook *planned = &plan->hooks[hook];
    struct stub_x86_64_entry entry = {.kind = (enum stub_kind)planned->kind,
                                      .length = planned->length,
                                      .address = planned->address + bias,
                                      .old = planned->old};
    if (entry.kind != STUB_ENTRY_ENDBR)
        return false;
    stub_x86_64_entry_window(&entry, low, high);
    return true;
}

static uint32_t first_site_from(const struct plan *plan, uint64_t address)
{
    return (uint32_t)base_search_below(plan->sites, plan->header->site_count, address, address);
}

void slab_hook_bytes(const struct slab *slab, uint32_t index, uint8_t bytes[20])
{
    const struct plan *plan = slab->plan;
    const struct plan_hook *hook = &plan->hooks[index];
    memcpy(bytes, hook->old, 20);
    if (hook->kind == STUB_ENTRY_ENDBR)
        return;
    for (uint32_t i = first_site_from(plan, hook->address);
         i < plan->header->site_count && plan->sites[i].address < hook->address + hook->length; i++) {
        struct stub_x86_64_request site = slab_site(slab, i);
        size_t offset = (size_t)(plan->sites[i].address - hook->address);
        uint8_t fresh[16], island[5];
        if (slab->stubs[i] != 0 && offset + site.length <= hook->length &&
            aim(&site, slab->stubs[i], fresh, island) == STUB_FINE)
            memcpy(bytes + offset, fresh, site.length);
    }
}

/* A region where the hook can begin. */
static struct slab_region *region_for(struct slab *slab, uint32_t hook)
{
    uint64_t low, high;
    if (!slab_window(slab->plan, hook, slab->bias, &low, &high))
        return &slab->regions[0];
    for (size_t i = 0; i < slab->region_count; i++) {
        struct slab_region *region = &slab->regions[i];
        uint64_t at = region->address + aligned(region->used, HOOK_ALIGN);
        if (at >= low && at <= high && aligned(region->used, HOOK_ALIGN) + HOOK_MOST <= region->size)
            return region;
    }
    return NULL;
}

/* What leads to the hook at `address`. Returns how many writes; 0: it is out of reach. */
static unsigned lead_to_hook(const struct slab *slab, uint32_t index, const struct stub_x86_64_entry *entry,
                             uint64_t address, struct slab_write writes[2])
{
    const struct plan_hook *hook = &slab->plan->hooks[index];
    struct slab_write *first = &writes[0], *island = &writes[1];
    *first = (struct slab_write){.site = PLAN_NONE, .hook = index, .address = entry->address};
    first->length = (uint8_t)stub_x86_64_entry_site(entry, address, first->fresh);
    memcpy(first->old, hook->old, first->length);
    if (first->length == 0 || hook->kind != STUB_ENTRY_SHORT)
        return first->length != 0;
    *island = (struct slab_write){
        .site = PLAN_NONE, .hook = index, .address = entry->island, .length = sizeof hook->island_old};
    memcpy(island->old, hook->island_old, sizeof hook->island_old);
    return stub_x86_64_site_island(entry->island, address, island->fresh) == STUB_FINE ? 2 : 0;
}

static struct stub_x86_64_entry entry_of(const struct slab *slab, uint32_t index, const uint8_t *bytes)
{
    const struct plan_hook *hook = &slab->plan->hooks[index];
    return (struct stub_x86_64_entry){.kind = (enum stub_kind)hook->kind,
                                      .length = hook->length,
                                      .address = hook->address + slab->bias,
                                      .old = bytes,
                                      .island = plan_hook_island(hook) + slab->bias,
                                      .brief = slab->plan->header->hook_count > MANY_HOOKS};
}

static bool emit_hook(struct slab *slab, uint32_t index)
{
    struct slab_region *region = region_for(slab, index);
    struct stub_x86_64_counter counter = counter_at(slab, plan_hook_word(slab->plan, index));
    struct stub_x86_64_code code;
    struct slab_write writes[2];
    uint8_t bytes[20];
    if (region == NULL) {
        refuse(slab, STUB_REASON_OUT_OF_REACH);
        return true;
    }
    size_t at = aligned(region->used, HOOK_ALIGN);
    slab_hook_bytes(slab, index, bytes);
    struct stub_x86_64_entry entry = entry_of(slab, index, bytes);
    stub_x86_64_code_begin(&code, region->address + at);
    stub_x86_64_entry_hook(&code, &entry, &counter, slab->recorder, &slab->hooks[index]);
    unsigned count = lead_to_hook(slab, index, &entry, code.address, writes);
    if (code.refused != STUB_FINE || count == 0 || !put_at(region, at, &code)) {
        refuse(slab, code.refused != STUB_FINE ? code.refused : STUB_REASON_OUT_OF_REACH);
        return true;
    }
    slab->entries[index] = code.address;
    region->used = at + code.size;
    return add_write(slab, &writes[0]) && (count < 2 || add_write(slab, &writes[1]));
}

bool slab_lead(struct slab *slab, uint32_t index)
{
    struct slab_write writes[2];
    struct stub_x86_64_entry entry = entry_of(slab, index, slab->plan->hooks[index].old);
    unsigned count = lead_to_hook(slab, index, &entry, slab->entries[index], writes);
    return count > 0 && add_write(slab, &writes[0]) && (count < 2 || add_write(slab, &writes[1]));
}

bool slab_hook_holds(const struct slab *slab, uint32_t index)
{
    const struct slab_region *region = &slab->regions[0];
    struct stub_x86_64_counter counter = counter_at(slab, plan_hook_word(slab->plan, index));
    struct stub_x86_64_code code;
    struct stub_x86_64_hook hook;
    uint8_t bytes[20];
    size_t at = (size_t)(slab->entries[index] - region->address);
    slab_hook_bytes(slab, index, bytes);
    struct stub_x86_64_entry entry = entry_of(slab, index, bytes);
    stub_x86_64_code_begin(&code, slab->entries[index]);
    stub_x86_64_entry_hook(&code, &entry, &counter, slab->recorder, &hook);
    return code.refused == STUB_FINE && code.size <= region->size - at &&
           memcmp(region->bytes + at, code.bytes, code.size) == 0;
}

static void emit_recorder(struct slab *slab)
{
    struct slab_region *region = &slab->regions[0];
    struct stub_x86_64_code code;
    size_t at = aligned(region->used, HOOK_ALIGN);
    stub_x86_64_code_begin(&code, region->address + at);
    stub_x86_64_entry_recorder(&code, &slab->counter);
    if (code.refused != STUB_FINE || !put_at(region, at, &code))
        return; /* then no hook reaches it either */
    slab->recorder = code.address;
    region->used = at + code.size;
}

/* --- the writes --- */

/* Lies the site in the bytes that a hook replaced? Then it was moved along. */
static bool is_absorbed(const struct slab *slab, const struct plan_site *site)
{
    uint32_t hook = slab->plan->functions[site->function].hook;
    if (hook == PLAN_NONE || slab->entries[hook] == 0)
        return false;
    const struct plan_hook *planned = &slab->plan->hooks[hook];
    return planned->kind != STUB_ENTRY_ENDBR && site->address >= planned->address &&
           site->address < planned->address + planned->length;
}

static bool write_site(struct slab *slab, uint32_t index)
{
    const struct plan_site *planned = &slab->plan->sites[index];
    struct stub_x86_64_request site = slab_site(slab, index);
    struct slab_write write = {
        .site = index, .hook = PLAN_NONE, .address = site.address, .length = site.length};
    struct slab_write island = {.site = index, .hook = PLAN_NONE, .address = site.island, .length = 5};
    aim(&site, slab->stubs[index], write.fresh, island.fresh); /* tried in emit_stub */
    memcpy(write.old, planned->old, sizeof write.old);
    memcpy(island.old, planned->island_old, sizeof planned->island_old);
    if (is_short(&site) && !add_write(slab, &island))
        return false;
    return is_absorbed(slab, planned) || add_write(slab, &write);
}

/* Only islands stand where they do not belong, and not far from there: a two-byte jump reaches them. */
static void order(struct slab_write *writes, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        size_t at = i;
        while (at > 0 && writes[at - 1].address > writes[i].address)
            at--;
        if (at == i)
            continue;
        struct slab_write moved = writes[i];
        memmove(&writes[at + 1], &writes[at], (i - at) * sizeof *writes);
        writes[at] = moved;
    }
}

/* Hooks' writes ascend, and so do those of sites, but for islands: one list of both. */
static bool write_sites(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    struct slab_write *hooks = slab->writes;
    size_t hook_count = slab->write_count, hook = 0;
    bool room = true;
    slab->write_count = 0;
    slab->write_capacity = hook_count + header->site_count + header->site_count / 16 + 1;
    slab->writes = listed(slab->write_capacity, sizeof *slab->writes);
    if (slab->writes == NULL)
        slab->write_capacity = 0;
    for (uint32_t i = 0; room && i < header->site_count; i++) {
        uint64_t address = slab->plan->sites[i].address + slab->bias;
        while (room && hook < hook_count && hooks[hook].address <= address)
            room = add_write(slab, &hooks[hook++]);
        room = room && (slab->stubs[i] == 0 || write_site(slab, i));
    }
    while (room && hook < hook_count)
        room = add_write(slab, &hooks[hook++]);
    free(hooks);
    if (room)
        order(slab->writes, slab->write_count);
    return room;
}

static bool emit(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    struct way ways[WAYS] = {0};
    measure_bodies(slab);
    for (uint32_t i = 0; i < header->site_count; i++)
        if (wants_site(slab, i))
            emit_stub(slab, i, ways);
    if (header->hook_count > 0)
        emit_recorder(slab);
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (wants_hook(slab, i) && !emit_hook(slab, i))
            return false;
    emit_past_hooks(slab);
    return true;
}

static int by_start(const void *a, const void *b)
{
    uint64_t left = ((const struct slab_piece *)a)->address, right = ((const struct slab_piece *)b)->address;
    return (left > right) - (left < right);
}

static bool add_piece(struct slab *slab, uint64_t address, uint32_t site, uint32_t hook)
{
    slab->pieces[slab->piece_count++] = (struct slab_piece){address, site, hook};
    return slab->piece_count < 2 || slab->pieces[slab->piece_count - 2].address < address;
}

/* Sites' stubs ascend already, and so do hooks, but where they lie in several regions. */
static bool list_pieces(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    bool ordered = true;
    slab->pieces = listed(header->site_count + (size_t)header->hook_count, sizeof *slab->pieces);
    if (slab->pieces == NULL)
        return false;
    for (uint32_t i = 0; i < header->site_count; i++)
        if (slab->stubs[i] != 0)
            ordered &= add_piece(slab, slab->stubs[i], i, PLAN_NONE);
    if (slab->recorder != 0)
        ordered &= add_piece(slab, slab->recorder, PLAN_NONE, PLAN_NONE);
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (slab->entries[i] != 0)
            ordered &= add_piece(slab, slab->entries[i], PLAN_NONE, i);
    if (!ordered)
        qsort(slab->pieces, slab->piece_count, sizeof *slab->pieces, by_start);
    return true;
}

bool slab_begin(struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    slab->writes = NULL;
    slab->write_count = slab->write_capacity = 0;
    slab->pieces = NULL;
    slab->piece_count = 0;
    slab->recorder = slab->stubs_end = 0;
    memset(slab->reasons, 0, sizeof slab->reasons);
    slab->stubs = cleared(header->site_count, sizeof *slab->stubs);
    slab->ends = cleared(header->site_count, sizeof *slab->ends);
    slab->by_slot = listed(header->site_count, sizeof *slab->by_slot);
    slab->by_slot_count = 0;
    slab->inlined = listed(header->site_count, sizeof *slab->inlined);
    slab->bodies = calloc(header->hook_count + 1u, 1);
    slab->entries = calloc(header->hook_count + 1u, sizeof *slab->entries);
    slab->hooks = calloc(header->hook_count + 1u, sizeof *slab->hooks);
    if (slab->inlined != NULL)
        memset(slab->inlined, 0xff, (header->site_count + 1u) * sizeof *slab->inlined); /* PLAN_NONE */
    return slab->stubs != NULL && slab->ends != NULL && slab->by_slot != NULL && slab->inlined != NULL &&
           slab->bodies != NULL && slab->entries != NULL && slab->hooks != NULL;
}

bool slab_finish(struct slab *slab)
{
    return write_sites(slab) && list_pieces(slab);
}

int slab_make(struct slab *slab, struct base_error *error)
{
    bool room = slab_begin(slab);
    if (slab->region_count == 0 || slab->counter.index < STUB_BLOCK_WORDS)
        return base_fail(error, BASE_EUNSUPPORTED, "no place for stubs or counters");
    if (!room || !emit(slab) || !slab_finish(slab))
        return base_fail(error, BASE_ENOMEM, "no memory for the stubs of a program's calls");
    return BASE_OK;
}

void slab_free(struct slab *slab)
{
    free(slab->writes);
    free(slab->stubs);
    free(slab->ends);
    free(slab->by_slot);
    free(slab->inlined);
    free(slab->bodies);
    free(slab->entries);
    free(slab->hooks);
    free(slab->pieces);
    slab->writes = NULL;
    slab->pieces = NULL;
    slab->stubs = slab->ends = slab->entries = NULL;
    slab->inlined = slab->by_slot = NULL;
    slab->by_slot_count = 0;
    slab->bodies = NULL;
    slab->hooks = NULL;
    slab->write_count = slab->write_capacity = slab->piece_count = 0;
}

/* Both lists are in order; an island may be written for two sites only in a damaged plan. */
bool slab_follow(struct slab *slab, const struct slab *before)
{
    size_t at = 0;
    bool all = true;
    for (size_t i = 0; i < before->write_count; i++) {
        const struct slab_write *earlier = &before->writes[i];
        while (at < slab->write_count && slab->writes[at].address < earlier->address)
            at++;
        if (at < slab->write_count && slab->writes[at].address == earlier->address &&
            slab->writes[at].length == earlier->length)
            memcpy(slab->writes[at].old, earlier->fresh, sizeof earlier->fresh);
        else
            all = false;
    }
    return all;
}

const struct slab_write *slab_write_around(const struct slab *slab, uint64_t pc)
{
    size_t before = base_search_below(slab->writes, slab->write_count, address, pc);
    const struct slab_write *write = before > 0 ? &slab->writes[before - 1] : NULL;
    return write != NULL && pc - write->address < write->length ? write : NULL;
}

enum slab_place slab_place(const struct slab *slab, uint64_t pc, uint64_t *other)
{
    const struct slab_write *write = slab_write_around(slab, pc);
    if (write == NULL)
        return SLAB_FREE;
    if (write->hook == PLAN_NONE)
        return SLAB_STEP;
    const struct plan_hook *planned = &slab->plan->hooks[write->hook];
    struct stub_x86_64_entry entry = {.kind = (enum stub_kind)planned->kind,
                                      .length = planned->length,
                                      .address = planned->address + slab->bias,
                                      .old = planned->old};
    *other = stub_x86_64_entry_body_of(&entry, &slab->hooks[write->hook], pc);
    return *other != 0 ? SLAB_MOVED : SLAB_STEP;
}
