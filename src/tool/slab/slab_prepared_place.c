/* Reading a prepared slab, and moving it. */
#include <stdlib.h>
#include <string.h>

#include "base_map.h"
#include "slab_inside.h"
#include "slab_prepared.h"

#define REACH   (INT32_MAX - 4096) /* of a displacement, with room for an instruction */
#define SAMPLES 32                 /* stubs, and hooks, that are made anew for comparison */

/* --- checks --- */

#define LANES 4

/* Four sums side by side, because one must wait for its own last product. */
static uint64_t sum_of(const uint8_t *at, size_t length)
{
    uint64_t lanes[LANES] = {length, 1, 2, 3};
    for (; length >= sizeof lanes; at += sizeof lanes, length -= sizeof lanes)
        for (unsigned i = 0; i < LANES; i++) {
            uint64_t word;
            memcpy(&word, at + i * sizeof word, sizeof word);
            lanes[i] = (lanes[i] ^ word) * 0x9e3779b97f4a7c15u;
            lanes[i] ^= lanes[i] >> 32;
        }
    uint64_t sum = base_hash_bytes(at, length);
    for (unsigned i = 0; i < LANES; i++)
        sum = base_hash(sum ^ lanes[i]);
    return sum;
}

uint64_t slab_prepared_sum(const void *blob, size_t size)
{
    size_t from = offsetof(struct slab_prepared_header, checksum) + sizeof(uint64_t);
    return sum_of((const uint8_t *)blob + from, size - from);
}

/* Cuts off `count` items of `size` bytes, and what fills the last 8; NULL: they are not there. */
static const void *cut_items(const uint8_t **at, size_t *left, uint64_t count, size_t size)
{
    const uint8_t *items = *at;
    if (count > *left / size)
        return NULL;
    size_t whole = (size_t)(count * size + 7) / 8 * 8;
    if (whole > *left)
        return NULL;
    *at += whole;
    *left -= whole;
    return items;
}

static bool divide_block(struct slab_prepared *prepared, const uint8_t *blob, size_t size)
{
    const struct slab_prepared_header *header = (const void *)blob;
    const uint8_t *at = blob + sizeof *header;
    size_t left = size - sizeof *header;
    *prepared = (struct slab_prepared){.header = header, .size = size};
    prepared->ways = cut_items(&at, &left, header->way_count, sizeof *prepared->ways);
    prepared->users = cut_items(&at, &left, header->user_count, sizeof *prepared->users);
    prepared->hooks = cut_items(&at, &left, header->hook_count, sizeof *prepared->hooks);
    prepared->stubs = cut_items(&at, &left, header->site_count, sizeof *prepared->stubs);
    prepared->inlined = cut_items(&at, &left, header->site_count, sizeof *prepared->inlined);
    bool there = prepared->ways && prepared->users && prepared->hooks && prepared->stubs && prepared->inlined;
    for (unsigned i = 0; there && i < SLAB_PREPARED_SORTS; i++)
        there = (prepared->words[i] = cut_items(&at, &left, header->word_bytes[i], 1)) != NULL;
    return there && (prepared->code = cut_items(&at, &left, header->code_size, 1)) != NULL && left == 0;
}

static bool is_code_offset(const struct slab_prepared *prepared, uint32_t offset)
{
    return offset < prepared->header->code_size;
}

static bool are_hooks_valid(const struct slab_prepared *prepared)
{
    for (uint32_t i = 0; i < prepared->header->hook_count; i++) {
        const struct slab_prepared_hook *hook = &prepared->hooks[i];
        if (hook->entry == PLAN_NONE)
            continue;
        if (!is_code_offset(prepared, hook->entry) || !is_code_offset(prepared, hook->body) ||
            !is_code_offset(prepared, hook->slow) || hook->copied > 1 ||
            hook->count > STUB_X86_64_ENTRY_MOVED)
            return false;
    }
    return true;
}

static bool are_stubs_valid(const struct slab_prepared *prepared)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < prepared->header->site_count; i++) {
        uint32_t stub = prepared->stubs[i], hook = prepared->inlined[i];
        if (hook != PLAN_NONE &&
            (hook >= prepared->header->hook_count || prepared->hooks[hook].entry == PLAN_NONE))
            return false;
        if (stub == PLAN_NONE)
            continue;
        if (stub < end)
            return false;
        end = stub + 1u;
    }
    return end <= prepared->header->stubs_end && prepared->header->stubs_end <= prepared->header->code_size;
}

static bool are_users_valid(const struct slab_prepared *prepared, const struct plan *plan)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < prepared->header->user_count; i++) {
        const struct slab_prepared_user *user = &prepared->users[i];
        bool known = user->way != PLAN_NONE;
        if (user->site < least || user->site >= plan->header->site_count ||
            prepared->stubs[user->site] == PLAN_NONE || (known && user->way >= prepared->header->way_count) ||
            (known && plan->sites[user->site].slot != prepared->ways[user->way].slot))
            return false;
        least = user->site + 1;
    }
    return true;
}

bool slab_prepared_open(struct slab_prepared *prepared, const struct plan *plan, const void *blob,
                        size_t size)
{
    const struct slab_prepared_header *header = blob;
    struct slab_prepared found;
    if ((uintptr_t)blob % 8 != 0 || size < sizeof *header || header->magic != SLAB_PREPARED_MAGIC ||
        header->version != SLAB_PREPARED_VERSION || header->byte_count != size ||
        header->plan != plan->header->content || header->site_count != plan->header->site_count ||
        header->hook_count != plan->header->hook_count || header->code_size >= PLAN_NONE ||
        header->checksum != slab_prepared_sum(blob, size) || !divide_block(&found, blob, size) ||
        !are_hooks_valid(&found) || !are_stubs_valid(&found) || !are_users_valid(&found, plan) ||
        (header->recorder != PLAN_NONE && !is_code_offset(&found, header->recorder)))
        return false;
    *prepared = found;
    return true;
}

/* --- ways --- */

static bool is_within_reach(uint64_t low, uint64_t high, uint64_t other_low, uint64_t other_high)
{
    uint64_t least = low < other_low ? low : other_low, most = high > other_high ? high : other_high;
    return most - least < REACH;
}

/* 1: every stub reaches it; 0: none does; -1: some do. */
static int reach_of(const struct slab_region *region, uint64_t address)
{
    uint64_t end = region->address + region->size;
    if (is_within_reach(region->address, end, address, address))
        return 1;
    uint64_t nearest = address < region->address ? region->address - address : address - end;
    return nearest > (uint64_t)INT32_MAX + 4096 ? 0 : -1;
}

bool slab_prepared_ways(const struct slab *slab, const uint64_t *slots, size_t count,
                        struct slab_prepared_way *ways)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t end = slab->resolve != NULL ? slab->resolve(slab->context, slots[i]) : 0;
        int reach = end != 0 ? reach_of(&slab->regions[0], end) : 0;
        if (reach < 0)
            return false;
        ways[i] = (struct slab_prepared_way){.slot = slots[i], .way = SLAB_PREPARED_THROUGH};
        if (reach == 0)
            continue;
        uint32_t hook = slab_hook_at(slab, end);
        ways[i].way = hook != PLAN_NONE ? SLAB_PREPARED_HOOKED + hook : SLAB_PREPARED_STRAIGHT;
    }
    return true;
}

/* --- does it fit? --- */

static bool all_in_reach(const struct slab_prepared *prepared, const struct slab *slab)
{
    const struct slab_prepared_header *header = prepared->header;
    const struct plan *plan = slab->plan;
    const struct slab_region *region = &slab->regions[0];
    const struct stub_x86_64_counter *counter = &slab->counter;
    uint64_t start = region->address, end = start + header->code_size;
    uint64_t words = counter->index + (uint64_t)plan_words(plan) + STUB_HOOK_WORDS;
    bool fine = counter->word + 8 * words <= INT32_MAX;
    if (header->low <= header->high)
        fine = fine && is_within_reach(start, end, slab->bias + (uint64_t)header->low,
                                       slab->bias + (uint64_t)header->high);
    if (plan->header->site_count > 0)
        fine = fine && is_within_reach(start, end, slab->bias + plan->sites[0].address,
                                       slab->bias + plan->sites[plan->header->site_count - 1].address);
    if (plan->header->hook_count > 0)
        fine = fine && is_within_reach(start, end, slab->bias + plan->hooks[0].address,
                                       slab->bias + plan->hooks[plan->header->hook_count - 1].address);
    return fine && (counter->form == STUB_THREAD ||
                    is_within_reach(start, end, counter->block, counter->block + 8 * words));
}

static bool fits_process(const struct slab_prepared *prepared, const struct slab_prepared_input *input,
                         const struct slab *slab)
{
    const struct slab_prepared_header *header = prepared->header;
    return slab->region_count == 1 && slab->regions[0].used == 0 &&
           slab->regions[0].size >= header->code_size && slab->counter.index >= STUB_BLOCK_WORDS &&
           slab->counter.form == input->form && header->key == input->key &&
           header->way_count == input->way_count &&
           (input->way_count == 0 ||
            memcmp(prepared->ways, input->ways, input->way_count * sizeof *input->ways) == 0) &&
           all_in_reach(prepared, slab);
}

/* --- moving --- */

static void add_32(uint8_t *bytes, uint64_t by)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    word += (uint32_t)by;
    memcpy(bytes, &word, sizeof word);
}

static void add_64(uint8_t *bytes, uint64_t by)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    word += by;
    memcpy(bytes, &word, sizeof word);
}

/* False: a word's offset is out of range. */
static bool change_words(const struct slab_prepared *prepared, enum slab_prepared_sort sort, uint64_t by,
                         uint8_t *bytes)
{
    const uint8_t *step = prepared->words[sort], *end = step + prepared->header->word_bytes[sort];
    bool whole = sort == SLAB_PREPARED_ADDRESS;
    size_t at = (size_t)-1, size = prepared->header->code_size;
    for (; step < end; step++) {
        at += *step == 0 ? UINT8_MAX : *step;
        if (*step == 0)
            continue;
        if (at >= size || size - at < (whole ? sizeof(uint64_t) : sizeof(uint32_t)))
            return false;
        if (whole)
            add_64(bytes + at, by);
        else
            add_32(bytes + at, by);
    }
    return true;
}

static bool move_code(const struct slab_prepared *prepared, const struct slab *slab)
{
    const struct slab_prepared_header *header = prepared->header;
    const struct slab_region *region = &slab->regions[0];
    uint64_t code = region->address - header->address, text = slab->bias - header->bias,
             block = slab->counter.block - header->block;
    uint64_t index = (uint64_t)slab->counter.index - header->index,
             word = (uint64_t)slab->counter.word - header->word;
    const uint64_t changes[SLAB_PREPARED_SORTS] = {text - code, block - code, block + 8 * index - code,
                                                   0u - index,  word,         word + 8 * index,
                                                   8 * index,   text};
    bool fine = true;
    memcpy(region->bytes, prepared->code, header->code_size);
    for (unsigned i = 0; i < SLAB_PREPARED_SORTS && fine; i++)
        fine = change_words(prepared, (enum slab_prepared_sort)i, changes[i], region->bytes);
    return fine;
}

static uint64_t address_of(const struct slab *slab, uint32_t offset)
{
    return offset != PLAN_NONE ? slab->regions[0].address + offset : 0;
}

static bool place_hook(const struct slab_prepared *prepared, struct slab *slab, uint32_t index)
{
    const struct slab_prepared_hook *flat = &prepared->hooks[index];
    struct stub_x86_64_hook *hook = &slab->hooks[index];
    slab->bodies[index] = flat->body_size;
    if (flat->entry == PLAN_NONE)
        return true;
    slab->entries[index] = address_of(slab, flat->entry);
    hook->body = address_of(slab, flat->body);
    hook->slow = address_of(slab, flat->slow);
    hook->copied = flat->copied != 0;
    hook->count = flat->count;
    memcpy(hook->from, flat->from, sizeof flat->from);
    memcpy(hook->to, flat->to, sizeof flat->to);
    return slab_hook_lead(slab, index);
}

/* Where the slots lead now. Those of hooks in this slab have moved with it, and stubs go through those that
 * they cannot reach the end of. */
static bool aim_users(const struct slab_prepared *prepared, struct slab *slab)
{
    const struct slab_prepared_header *header = prepared->header;
    uint64_t *ends = calloc(header->way_count + 1u, sizeof *ends);
    for (uint32_t i = 0; ends != NULL && slab->resolve != NULL && i < header->way_count; i++)
        ends[i] = slab->resolve(slab->context, prepared->ways[i].slot);
    for (uint32_t i = 0; ends != NULL && i < header->user_count; i++) {
        const struct slab_prepared_user *user = &prepared->users[i];
        slab->by_slot[i] = user->site;
        if (user->way == PLAN_NONE)
            continue;
        slab->ends[user->site] = ends[user->way];
        if (prepared->ways[user->way].way == SLAB_PREPARED_STRAIGHT)
            slab_stub_aim(slab, user->site, ends[user->way]);
    }
    slab->by_slot_count = header->user_count;
    free(ends);
    return ends != NULL;
}

static bool fill_slab(const struct slab_prepared *prepared, struct slab *slab)
{
    const struct slab_prepared_header *header = prepared->header;
    bool fine = true;
    slab->regions[0].used = header->code_size;
    slab->recorder = address_of(slab, header->recorder);
    slab->stubs_end = header->stubs_end != 0 ? slab->regions[0].address + header->stubs_end : 0;
    memcpy(slab->reasons, header->reasons, sizeof slab->reasons);
    for (uint32_t i = 0; i < header->site_count; i++)
        slab->stubs[i] = address_of(slab, prepared->stubs[i]);
    memcpy(slab->inlined, prepared->inlined, header->site_count * sizeof *slab->inlined);
    for (uint32_t i = 0; i < header->hook_count && fine; i++)
        fine = place_hook(prepared, slab, i);
    return fine && aim_users(prepared, slab) && slab_finish(slab);
}

/* A sample of those that are there. */
static bool samples_hold(const struct slab *slab)
{
    const struct plan_header *header = slab->plan->header;
    uint32_t step = header->site_count / SAMPLES + 1;
    bool hold = true;
    for (uint32_t i = 0; i < header->site_count && hold; i += step)
        hold = slab->stubs[i] == 0 || slab_stub_holds(slab, i);
    step = header->hook_count / SAMPLES + 1;
    for (uint32_t i = 0; i < header->hook_count && hold; i += step)
        hold = slab->entries[i] == 0 || slab_hook_holds(slab, i);
    return hold;
}

bool slab_prepared_place(const struct slab_prepared *prepared, const struct slab_prepared_input *input,
                         struct slab *slab)
{
    if (!fits_process(prepared, input, slab) || !move_code(prepared, slab))
        return false;
    if (slab_begin(slab) && fill_slab(prepared, slab) && samples_hold(slab))
        return true;
    slab_free(slab);
    slab->regions[0].used = 0;
    return false;
}
