/* The hooks of functions: step 2 of slab.h. Each lies in the first region, or, over endbr64, in a region of
 * the window that stub_x86_64_entry.h describes. */
#include <string.h>

#include "base_search.h"
#include "slab.h"
#include "slab_inside.h"

#define MANY_HOOKS 10000 /* of so many few run often, but the target waits for all of them */

/* The hook over function `function` that begins at `address` (of the image); PLAN_NONE: it has none here. */
uint32_t slab_hook_over(const struct slab *slab, uint32_t function, uint64_t address)
{
    uint32_t hook = function != PLAN_NONE ? slab->plan->functions[function].hook : PLAN_NONE;
    bool hooked =
        hook != PLAN_NONE && slab_wants_hook(slab, hook) && slab->plan->hooks[hook].address == address;
    return hooked ? hook : PLAN_NONE;
}

uint32_t slab_hook_at(const struct slab *slab, uint64_t end)
{
    uint64_t address = end - slab->bias;
    return end != 0 ? slab_hook_over(slab, plan_function_at(slab->plan, address), address) : PLAN_NONE;
}

bool slab_hook_window(const struct plan *plan, uint32_t hook, uint64_t bias, uint64_t *low, uint64_t *high)
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
            slab_site_redirect(&site, slab->stubs[i], fresh, island) == STUB_FINE)
            memcpy(bytes + offset, fresh, site.length);
    }
}

/* A region where the hook can begin. */
static struct slab_region *region_for(struct slab *slab, uint32_t hook)
{
    uint64_t low, high;
    if (!slab_hook_window(slab->plan, hook, slab->bias, &low, &high))
        return &slab->regions[0];
    for (size_t i = 0; i < slab->region_count; i++) {
        struct slab_region *region = &slab->regions[i];
        uint64_t at = region->address + slab_aligned(region->used, SLAB_HOOK_ALIGN);
        if (at >= low && at <= high &&
            slab_aligned(region->used, SLAB_HOOK_ALIGN) + SLAB_HOOK_MOST <= region->size)
            return region;
    }
    return NULL;
}

/* The writes that lead to the hook at `address`. Returns how many; 0: it is out of reach. */
static unsigned lead_to_hook(const struct slab *slab, uint32_t index, const struct stub_x86_64_entry *entry,
                             uint64_t address, struct slab_write writes[2])
{
    const struct plan_hook *hook = &slab->plan->hooks[index];
    struct slab_write *first = &writes[0], *island = &writes[1];
    *first = (struct slab_write){.site = PLAN_NONE, .hook = index, .address = entry->address};
    first->length = (uint8_t)stub_x86_64_entry_bytes(entry, address, first->fresh);
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

bool slab_hook_emit(struct slab *slab, uint32_t index)
{
    struct slab_region *region = region_for(slab, index);
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_hook_word(slab->plan, index));
    struct stub_x86_64_code code;
    struct slab_write writes[2];
    uint8_t bytes[20];
    if (region == NULL) {
        slab_refuse(slab, STUB_REASON_OUT_OF_REACH);
        return true;
    }
    size_t at = slab_aligned(region->used, SLAB_HOOK_ALIGN);
    slab_hook_bytes(slab, index, bytes);
    struct stub_x86_64_entry entry = entry_of(slab, index, bytes);
    stub_x86_64_code_begin(&code, region->address + at);
    stub_x86_64_entry_hook(&code, &entry, &counter, slab->recorder, &slab->hooks[index]);
    unsigned count = lead_to_hook(slab, index, &entry, code.address, writes);
    if (code.refused != STUB_FINE || count == 0 || !slab_region_put(region, at, &code)) {
        slab_refuse(slab, code.refused != STUB_FINE ? code.refused : STUB_REASON_OUT_OF_REACH);
        return true;
    }
    slab->entries[index] = code.address;
    region->used = at + code.size;
    return slab_write_add(slab, &writes[0]) && (count < 2 || slab_write_add(slab, &writes[1]));
}

bool slab_hook_lead(struct slab *slab, uint32_t index)
{
    struct slab_write writes[2];
    struct stub_x86_64_entry entry = entry_of(slab, index, slab->plan->hooks[index].old);
    unsigned count = lead_to_hook(slab, index, &entry, slab->entries[index], writes);
    return count > 0 && slab_write_add(slab, &writes[0]) && (count < 2 || slab_write_add(slab, &writes[1]));
}

bool slab_hook_holds(const struct slab *slab, uint32_t index)
{
    const struct slab_region *region = &slab->regions[0];
    struct stub_x86_64_counter counter = slab_counter_at(slab, plan_hook_word(slab->plan, index));
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

void slab_hook_emit_recorder(struct slab *slab)
{
    struct slab_region *region = &slab->regions[0];
    struct stub_x86_64_code code;
    size_t at = slab_aligned(region->used, SLAB_HOOK_ALIGN);
    stub_x86_64_code_begin(&code, region->address + at);
    stub_x86_64_entry_recorder(&code, &slab->counter);
    if (code.refused != STUB_FINE || !slab_region_put(region, at, &code))
        return; /* then no hook reaches it either */
    slab->recorder = code.address;
    region->used = at + code.size;
}
