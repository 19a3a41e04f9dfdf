/* Slabs. The numbers are those of the header. */
#include <stdlib.h>
#include <string.h>

#include "base_array.h"
#include "patch_slab.h"

#define STUB_ALIGN 4
#define HOOK_ALIGN 16
#define STUB_MOST  64  /* of a group: 15 bytes, each instruction grown by at most four; counter, mark */
#define HOOK_MOST  192 /* the count, and five bytes' worth of instructions moved */

static size_t stub_most(const struct patch_plan_site *site)
{
    if (site->kind < PATCH_CALL_INDIRECT)
        return site->slot == 0 ? 24 : 40;
    return STUB_MOST;
}

size_t patch_slab_size(const struct patch_plan *plan)
{
    size_t size = PATCH_X86_64_CODE_MAX + HOOK_ALIGN; /* the recorder */
    for (uint32_t i = 0; i < plan->header->site_count; i++)
        size += stub_most(&plan->sites[i]);
    return size + plan->header->hook_count * (size_t)HOOK_MOST;
}

static bool wants_site(const struct patch_slab *slab, uint32_t site)
{
    return slab->wanted == NULL || slab->wanted[site] != 0;
}

static bool wants_hook(const struct patch_slab *slab, uint32_t hook)
{
    return slab->wanted == NULL || slab->wanted[slab->plan->header->site_count + hook] != 0;
}

static void refuse(struct patch_slab *slab, enum patch_reason reason)
{
    slab->reasons[reason]++;
}

static size_t aligned(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

static bool put_at(struct patch_slab_region *region, size_t at, const struct patch_x86_64_code *code)
{
    if (at + code->size > region->size)
        return false;
    memcpy(region->bytes + at, code->bytes, code->size);
    return true;
}

static bool add_write(struct patch_slab *slab, const struct patch_write *write)
{
    if (!base_array_room(slab->writes, slab->write_count, slab->write_capacity))
        return false;
    slab->writes[slab->write_count++] = *write;
    return true;
}

/* --- 1. and 3.: sites --- */

struct patch_x86_64_site patch_slab_site(const struct patch_slab *slab, uint32_t index)
{
    const struct patch_plan_site *site = &slab->plan->sites[index];
    bool quiet = slab->quiet != NULL && slab->quiet[index] != 0;
    return (struct patch_x86_64_site){.kind = (enum patch_kind)site->kind,
                                      .length = site->length,
                                      .address = site->address + slab->bias,
                                      .old = site->old,
                                      .target = site->target + slab->bias,
                                      .island = site->island + slab->bias,
                                      .by_slot = site->slot != 0 && !quiet};
}

static struct patch_x86_64_counter counter_at(const struct patch_slab *slab, uint32_t word)
{
    struct patch_x86_64_counter counter = slab->counter;
    counter.index += word;
    return counter;
}

static bool is_short(const struct patch_x86_64_site *site)
{
    return site->kind == PATCH_JUMP_SHORT || site->kind == PATCH_BRANCH_SHORT;
}

/* Can the site be made to lead to `stub`? */
static enum patch_reason aim(const struct patch_x86_64_site *site, uint64_t stub, uint8_t fresh[16],
                             uint8_t island[5])
{
    enum patch_reason reason = patch_x86_64_stub_site(site, stub, fresh);
    if (reason == PATCH_FINE && is_short(site))
        reason = patch_x86_64_stub_island(site->island, stub, island);
    return reason;
}

static uint64_t short_cut(const struct patch_slab *slab, const struct patch_plan_site *site);

/* The stub that goes past a hook or a linkage stub; false: there is no such way, or it is too far. */
static bool put_short_cut(const struct patch_slab *slab, uint32_t index, struct patch_x86_64_code *code)
{
    struct patch_x86_64_site site = patch_slab_site(slab, index);
    struct patch_x86_64_counter counter = counter_at(slab, patch_plan_site_word(index));
    site.target = short_cut(slab, &slab->plan->sites[index]);
    site.by_slot = false;
    if (site.target == 0)
        return false;
    patch_x86_64_stub(code, &site, &counter);
    return code->refused == PATCH_FINE;
}

static void put_stub(const struct patch_slab *slab, uint32_t index, struct patch_x86_64_code *code)
{
    struct patch_x86_64_site site = patch_slab_site(slab, index);
    struct patch_x86_64_counter counter = counter_at(slab, patch_plan_site_word(index));
    uint64_t address = code->address;
    if (put_short_cut(slab, index, code))
        return;
    patch_x86_64_code_begin(code, address);
    patch_x86_64_stub(code, &site, &counter);
}

static void emit_stub(struct patch_slab *slab, uint32_t index)
{
    struct patch_slab_region *region = &slab->regions[0];
    size_t at = aligned(region->used, STUB_ALIGN);
    struct patch_x86_64_site site = patch_slab_site(slab, index);
    struct patch_x86_64_code code;
    uint8_t fresh[16], island[5];
    patch_x86_64_code_begin(&code, region->address + at);
    put_stub(slab, index, &code);
    enum patch_reason reason = code.refused;
    if (reason == PATCH_FINE)
        reason = aim(&site, code.address, fresh, island);
    if (reason != PATCH_FINE || !put_at(region, at, &code)) {
        refuse(slab, reason != PATCH_FINE ? reason : PATCH_REASON_TOO_MANY);
        return;
    }
    slab->stubs[index] = code.address;
    region->used = at + code.size;
}

/* The hook over function `function` that begins at `address` (of the image); PATCH_NONE: it has none here. */
static uint32_t hook_over(const struct patch_slab *slab, uint32_t function, uint64_t address)
{
    uint32_t hook = function != PATCH_NONE ? slab->plan->functions[function].hook : PATCH_NONE;
    bool hooked =
        hook != PATCH_NONE && slab->entries[hook] != 0 && slab->plan->hooks[hook].address == address;
    return hooked ? hook : PATCH_NONE;
}

/* Where a direct site goes when not to its own target: past a hook, or past a linkage stub; 0: to its target. */
static uint64_t short_cut(const struct patch_slab *slab, const struct patch_plan_site *site)
{
    uint32_t hook;
    if (site->kind >= PATCH_CALL_INDIRECT)
        return 0;
    if (site->slot == 0) {
        hook = hook_over(slab, site->callee, site->target);
        return hook != PATCH_NONE ? slab->hooks[hook].body : 0;
    }
    uint64_t end = slab->resolve != NULL ? slab->resolve(slab->context, site->slot) : 0;
    if (end == 0)
        return 0;
    hook = hook_over(slab, patch_plan_function_at(slab->plan, end - slab->bias), end - slab->bias);
    return hook != PATCH_NONE ? slab->hooks[hook].body : end;
}

static void emit_past_hook(struct patch_slab *slab, uint32_t index)
{
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, slab->stubs[index]);
    if (slab->stubs[index] != 0 && put_short_cut(slab, index, &code))
        put_at(&slab->regions[0], (size_t)(slab->stubs[index] - slab->regions[0].address), &code);
}

/* --- 2.: hooks --- */

bool patch_slab_window(const struct patch_plan *plan, uint32_t hook, uint64_t bias, uint64_t *low,
                       uint64_t *high)
{
    const struct patch_plan_hook *planned = &plan->hooks[hook];
    struct patch_x86_64_entry entry = {.kind = (enum patch_kind)planned->kind,
                                       .length = planned->length,
                                       .address = planned->address + bias,
                                       .old = planned->old};
    if (entry.kind != PATCH_ENTRY_ENDBR)
        return false;
    patch_x86_64_entry_window(&entry, low, high);
    return true;
}

static uint32_t first_site_from(const struct patch_plan *plan, uint64_t address)
{
    uint32_t low = 0, high = plan->header->site_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->sites[middle].address < address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void patch_slab_hook_bytes(const struct patch_slab *slab, uint32_t index, uint8_t bytes[20])
{
    const struct patch_plan *plan = slab->plan;
    const struct patch_plan_hook *hook = &plan->hooks[index];
    memcpy(bytes, hook->old, 20);
    if (hook->kind != PATCH_ENTRY)
        return;
    for (uint32_t i = first_site_from(plan, hook->address);
         i < plan->header->site_count && plan->sites[i].address < hook->address + hook->length; i++) {
        struct patch_x86_64_site site = patch_slab_site(slab, i);
        size_t offset = (size_t)(plan->sites[i].address - hook->address);
        uint8_t fresh[16], island[5];
        if (slab->stubs[i] != 0 && offset + site.length <= hook->length &&
            aim(&site, slab->stubs[i], fresh, island) == PATCH_FINE)
            memcpy(bytes + offset, fresh, site.length);
    }
}

/* A region where the hook can begin. */
static struct patch_slab_region *region_for(struct patch_slab *slab, uint32_t hook)
{
    uint64_t low, high;
    if (!patch_slab_window(slab->plan, hook, slab->bias, &low, &high))
        return &slab->regions[0];
    for (size_t i = 0; i < slab->region_count; i++) {
        struct patch_slab_region *region = &slab->regions[i];
        uint64_t at = region->address + aligned(region->used, HOOK_ALIGN);
        if (at >= low && at <= high && aligned(region->used, HOOK_ALIGN) + HOOK_MOST <= region->size)
            return region;
    }
    return NULL;
}

static bool emit_hook(struct patch_slab *slab, uint32_t index)
{
    const struct patch_plan_hook *hook = &slab->plan->hooks[index];
    struct patch_slab_region *region = region_for(slab, index);
    struct patch_x86_64_counter counter = counter_at(slab, patch_plan_hook_word(slab->plan, index));
    struct patch_x86_64_code code;
    struct patch_write write = {.site = PATCH_NONE, .hook = index, .address = hook->address + slab->bias};
    uint8_t bytes[20];
    if (region == NULL) {
        refuse(slab, PATCH_REASON_OUT_OF_REACH);
        return true;
    }
    size_t at = aligned(region->used, HOOK_ALIGN);
    patch_slab_hook_bytes(slab, index, bytes);
    struct patch_x86_64_entry entry = {(enum patch_kind)hook->kind, hook->length, write.address, bytes};
    patch_x86_64_code_begin(&code, region->address + at);
    patch_x86_64_entry_hook(&code, &entry, &counter, slab->recorder, &slab->hooks[index]);
    write.length = (uint8_t)patch_x86_64_entry_site(&entry, code.address, write.fresh);
    memcpy(write.old, hook->old, write.length);
    if (code.refused != PATCH_FINE || write.length == 0 || !put_at(region, at, &code)) {
        refuse(slab, code.refused != PATCH_FINE ? code.refused : PATCH_REASON_OUT_OF_REACH);
        return true;
    }
    slab->entries[index] = code.address;
    region->used = at + code.size;
    return add_write(slab, &write);
}

static void emit_recorder(struct patch_slab *slab)
{
    struct patch_slab_region *region = &slab->regions[0];
    struct patch_x86_64_code code;
    size_t at = aligned(region->used, HOOK_ALIGN);
    patch_x86_64_code_begin(&code, region->address + at);
    patch_x86_64_entry_recorder(&code, &slab->counter);
    if (code.refused != PATCH_FINE || !put_at(region, at, &code))
        return; /* then no hook reaches it either */
    slab->recorder = code.address;
    region->used = at + code.size;
}

/* --- the writes --- */

/* Lies the site in the bytes that a hook replaced? Then it was moved along. */
static bool is_absorbed(const struct patch_slab *slab, const struct patch_plan_site *site)
{
    uint32_t hook = slab->plan->functions[site->function].hook;
    if (hook == PATCH_NONE || slab->entries[hook] == 0)
        return false;
    const struct patch_plan_hook *planned = &slab->plan->hooks[hook];
    return planned->kind == PATCH_ENTRY && site->address >= planned->address &&
           site->address < planned->address + planned->length;
}

static bool write_site(struct patch_slab *slab, uint32_t index)
{
    const struct patch_plan_site *planned = &slab->plan->sites[index];
    struct patch_x86_64_site site = patch_slab_site(slab, index);
    struct patch_write write = {
        .site = index, .hook = PATCH_NONE, .address = site.address, .length = site.length};
    struct patch_write island = {.site = index, .hook = PATCH_NONE, .address = site.island, .length = 5};
    aim(&site, slab->stubs[index], write.fresh, island.fresh); /* tried in emit_stub */
    memcpy(write.old, planned->old, sizeof write.old);
    memcpy(island.old, planned->island_old, sizeof planned->island_old);
    if (is_short(&site) && !add_write(slab, &island))
        return false;
    return is_absorbed(slab, planned) || add_write(slab, &write);
}

static int by_address(const void *a, const void *b)
{
    uint64_t left = ((const struct patch_write *)a)->address,
             right = ((const struct patch_write *)b)->address;
    return (left > right) - (left < right);
}

static bool is_ordered(const struct patch_write *writes, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (writes[i].address < writes[i - 1].address)
            return false;
    return true;
}

/* Two runs in order, but for islands: those of hooks and those of sites. */
static bool order(struct patch_slab *slab, size_t hooks)
{
    size_t count = slab->write_count, i = 0, j = hooks, at = 0;
    struct patch_write *merged = malloc((count + 1) * sizeof *merged);
    if (merged == NULL)
        return false;
    while (i < hooks || j < count) {
        bool first = j == count || (i < hooks && slab->writes[i].address <= slab->writes[j].address);
        merged[at++] = slab->writes[first ? i++ : j++];
    }
    free(slab->writes);
    slab->writes = merged;
    slab->write_capacity = count + 1;
    if (!is_ordered(merged, count))
        qsort(merged, count, sizeof *merged, by_address);
    return true;
}

static bool emit(struct patch_slab *slab)
{
    const struct patch_plan_header *header = slab->plan->header;
    for (uint32_t i = 0; i < header->site_count; i++)
        if (wants_site(slab, i))
            emit_stub(slab, i);
    if (header->hook_count > 0)
        emit_recorder(slab);
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (wants_hook(slab, i) && !emit_hook(slab, i))
            return false;
    size_t hooks = slab->write_count;
    for (uint32_t i = 0; i < header->site_count; i++)
        if (slab->stubs[i] != 0 && !write_site(slab, i))
            return false;
    patch_slab_bind(slab);
    return order(slab, hooks);
}

void patch_slab_bind(struct patch_slab *slab)
{
    for (uint32_t i = 0; i < slab->plan->header->site_count; i++)
        emit_past_hook(slab, i);
}

static int by_start(const void *a, const void *b)
{
    uint64_t left = ((const struct patch_slab_piece *)a)->address,
             right = ((const struct patch_slab_piece *)b)->address;
    return (left > right) - (left < right);
}

/* Sites' stubs ascend already; hooks may lie in several regions. */
static bool list_pieces(struct patch_slab *slab)
{
    const struct patch_plan_header *header = slab->plan->header;
    slab->pieces = calloc(header->site_count + (size_t)header->hook_count + 1, sizeof *slab->pieces);
    if (slab->pieces == NULL)
        return false;
    for (uint32_t i = 0; i < header->site_count; i++)
        if (slab->stubs[i] != 0)
            slab->pieces[slab->piece_count++] = (struct patch_slab_piece){slab->stubs[i], i, PATCH_NONE};
    if (slab->recorder != 0)
        slab->pieces[slab->piece_count++] = (struct patch_slab_piece){slab->recorder, PATCH_NONE, PATCH_NONE};
    for (uint32_t i = 0; i < header->hook_count; i++)
        if (slab->entries[i] != 0)
            slab->pieces[slab->piece_count++] = (struct patch_slab_piece){slab->entries[i], PATCH_NONE, i};
    if (slab->piece_count > 0)
        qsort(slab->pieces, slab->piece_count, sizeof *slab->pieces, by_start);
    return true;
}

int patch_slab_make(struct patch_slab *slab, struct base_error *error)
{
    const struct patch_plan_header *header = slab->plan->header;
    slab->writes = NULL;
    slab->write_count = slab->write_capacity = 0;
    slab->pieces = NULL;
    slab->piece_count = 0;
    slab->recorder = 0;
    memset(slab->reasons, 0, sizeof slab->reasons);
    slab->stubs = calloc(header->site_count + 1u, sizeof *slab->stubs);
    slab->entries = calloc(header->hook_count + 1u, sizeof *slab->entries);
    slab->hooks = calloc(header->hook_count + 1u, sizeof *slab->hooks);
    if (slab->region_count == 0 || slab->counter.index < PATCH_BLOCK_WORDS)
        return base_fail(error, BASE_EUNSUPPORTED, "no place for stubs or counters");
    if (slab->stubs == NULL || slab->entries == NULL || slab->hooks == NULL || !emit(slab) ||
        !list_pieces(slab))
        return base_fail(error, BASE_ENOMEM, "no memory for the stubs of a program's calls");
    return BASE_OK;
}

void patch_slab_free(struct patch_slab *slab)
{
    free(slab->writes);
    free(slab->stubs);
    free(slab->entries);
    free(slab->hooks);
    free(slab->pieces);
    slab->writes = NULL;
    slab->pieces = NULL;
    slab->stubs = slab->entries = NULL;
    slab->hooks = NULL;
    slab->write_count = slab->write_capacity = slab->piece_count = 0;
}

/* Both lists are in order; an island may be written for two sites only in a damaged plan. */
bool patch_slab_follow(struct patch_slab *slab, const struct patch_slab *before)
{
    size_t at = 0;
    bool all = true;
    for (size_t i = 0; i < before->write_count; i++) {
        const struct patch_write *earlier = &before->writes[i];
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

/* The write whose bytes hold `pc` behind their first one. */
static const struct patch_write *write_around(const struct patch_slab *slab, uint64_t pc)
{
    size_t low = 0, high = slab->write_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slab->writes[middle].address < pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && pc - slab->writes[low - 1].address < slab->writes[low - 1].length
               ? &slab->writes[low - 1]
               : NULL;
}

enum patch_slab_place patch_slab_place(const struct patch_slab *slab, uint64_t pc, uint64_t *other)
{
    const struct patch_write *write = write_around(slab, pc);
    if (write == NULL)
        return PATCH_SLAB_FREE;
    if (write->hook == PATCH_NONE)
        return PATCH_SLAB_STEP;
    const struct patch_plan_hook *planned = &slab->plan->hooks[write->hook];
    struct patch_x86_64_entry entry = {(enum patch_kind)planned->kind, planned->length, write->address,
                                       planned->old};
    *other = patch_x86_64_entry_body_of(&entry, &slab->hooks[write->hook], pc);
    return *other != 0 ? PATCH_SLAB_MOVED : PATCH_SLAB_STEP;
}
