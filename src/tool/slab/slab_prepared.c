/* Preparing slabs. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base_map.h"
#include "base_search.h"
#include "base_text.h"
#include "slab_inside.h"
#include "slab_prepared.h"

#define SPAN  0x20000000u /* bytes: text, stubs and block are about so far apart; no image may be longer */
#define SLACK 16          /* bytes of an instruction behind its displacement */

/* Where the slab is made for comparison: what moves by how much. Every byte of every sum of these that a word
 * may change by is neither 0 nor 255, so that all four bytes of a word differ, and no two sums are the
 * same. */
#define CODE_STEP  0x05050505u
#define TEXT_STEP  (CODE_STEP + 0x01020304u)
#define BLOCK_STEP (CODE_STEP + 0x02010503u)
#define INDEX_STEP 0x01010101u
#define WORD_STEP  0x03010204u

struct place {
    uint64_t address, bias, block;
    uint32_t index, word;
};

/* A slab that was made at a place. */
struct proof {
    struct place place;
    struct slab_region region;
    struct slab slab;
    const struct slab_prepared_input *input;
};

static const struct slab_prepared_way *way_of(const struct slab_prepared_input *input, uint64_t slot)
{
    size_t at = base_search_below(input->ways, input->way_count, slot, slot);
    return at < input->way_count && input->ways[at].slot == slot ? &input->ways[at] : NULL;
}

/* A function of another image is as near as the stubs' region. */
static uint64_t resolve_slot(void *context, uint64_t slot)
{
    const struct proof *proof = context;
    const struct slab_prepared_way *way = way_of(proof->input, slot);
    if (way == NULL || way->way == SLAB_PREPARED_THROUGH)
        return 0;
    if (way->way == SLAB_PREPARED_STRAIGHT)
        return proof->place.address - SPAN / 4;
    return proof->place.bias + proof->input->plan->hooks[way->way - SLAB_PREPARED_HOOKED].address;
}

static int make_at(struct proof *proof, const struct slab_prepared_input *input, const struct place *place,
                   struct base_error *error)
{
    size_t size = slab_size(input->plan);
    *proof = (struct proof){.place = *place, .input = input};
    proof->region = (struct slab_region){.address = place->address, .bytes = calloc(1, size), .size = size};
    proof->slab = (struct slab){.plan = input->plan,
                                .wanted = input->wanted,
                                .quiet = input->quiet,
                                .bias = place->bias,
                                .counter = {input->form, place->block, place->word, place->index},
                                .regions = &proof->region,
                                .region_count = 1,
                                .resolve = resolve_slot,
                                .context = proof};
    if (proof->region.bytes == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory to prepare stubs");
    return slab_make(&proof->slab, error);
}

static void free_proof(struct proof *proof)
{
    slab_free(&proof->slab);
    free(proof->region.bytes);
}

/* --- the key --- */

static uint64_t hash_choice(const uint8_t *bytes, size_t count)
{
    return bytes != NULL ? base_hash_bytes(bytes, count) : 1;
}

#define ANYWHERE 0x7e0000000000

static uint64_t hash_code(uint64_t hash, const struct stub_x86_64_code *code)
{
    return base_hash(hash ^ base_hash_bytes(code->bytes, code->size) ^ code->refused);
}

static uint64_t hash_stubs(uint64_t hash, const struct stub_x86_64_request *like,
                           const struct stub_x86_64_counter *counter)
{
    for (unsigned i = 0; i < 4; i++) {
        struct stub_x86_64_request site = *like;
        struct stub_x86_64_code code;
        site.by_slot = (i & 1) != 0;
        site.quiet = (i & 2) != 0;
        stub_x86_64_code_begin(&code, ANYWHERE);
        stub_x86_64_site(&code, &site, counter);
        hash = hash_code(hash, &code);
    }
    return hash;
}

static uint64_t hash_hooks(uint64_t hash, const struct stub_x86_64_counter *counter)
{
    static const uint8_t entries[][5] = {{0x55, 0x48, 0x89, 0xe5, 0x53}, {0xf3, 0x0f, 0x1e, 0xfa, 0x55}};
    for (unsigned i = 0; i < 4; i++) {
        bool endbr = (i & 1) != 0;
        struct stub_x86_64_entry entry = {.kind = endbr ? STUB_ENTRY_ENDBR : STUB_ENTRY,
                                          .length = endbr ? 4 : 5,
                                          .address = ANYWHERE - SPAN,
                                          .old = entries[endbr],
                                          .brief = i >= 2};
        struct stub_x86_64_code code;
        struct stub_x86_64_hook hook;
        stub_x86_64_code_begin(&code, ANYWHERE);
        stub_x86_64_entry_hook(&code, &entry, counter, ANYWHERE + SPAN / 2, &hook);
        hash = hash_code(hash, &code);
        stub_x86_64_code_begin(&code, ANYWHERE);
        stub_x86_64_entry_recorder(&code, counter);
        hash = hash_code(hash, &code);
    }
    return hash;
}

/* A version that makes other stubs has another key. One stub of each kind shows it. */
static uint64_t hash_makers(enum stub_form form)
{
    static const struct {
        enum stub_kind kind;
        uint8_t length, old[7];
    } kinds[] = {
        {STUB_CALL, 5, {0xe8, 1, 2, 3, 4}},
        {STUB_JUMP, 5, {0xe9, 1, 2, 3, 4}},
        {STUB_BRANCH, 6, {0x0f, 0x84, 1, 2, 3, 4}},
        {STUB_CALL_INDIRECT, 6, {0xff, 0x15, 1, 2, 3, 4}},
        {STUB_JUMP_INDIRECT, 6, {0xff, 0x25, 1, 2, 3, 4}},
        {STUB_CALL_GROUP, 5, {0x48, 0x89, 0xc7, 0xff, 0xd0}},
        {STUB_JUMP_GROUP, 5, {0x48, 0x89, 0xc7, 0xff, 0xe0}},
        {STUB_JUMP_GROUP_SHORT, 5, {0x48, 0x89, 0xc7, 0xeb, 1}},
        {STUB_JUMP_INDIRECT_SHORT, 2, {0xff, 0xe0}},
    };
    const struct stub_x86_64_counter counter = {form, ANYWHERE + SPAN, SPAN, STUB_BLOCK_WORDS};
    uint64_t hash = SLAB_PREPARED_VERSION;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct stub_x86_64_request site = {.kind = kinds[i].kind,
                                           .length = kinds[i].length,
                                           .address = ANYWHERE - SPAN,
                                           .old = kinds[i].old,
                                           .target = ANYWHERE - SPAN / 2};
        hash = hash_stubs(hash, &site, &counter);
    }
    return hash_hooks(hash, &counter);
}

uint64_t slab_prepared_key(const struct slab_prepared_input *input)
{
    const struct plan_header *header = input->plan->header;
    size_t choices = (size_t)header->site_count + header->hook_count;
    uint64_t key = base_hash(header->content ^ hash_makers(input->form));
    key = base_hash(key ^ hash_choice(input->wanted, choices));
    return base_hash(key ^ hash_choice(input->quiet, header->site_count));
}

/* --- what is stored --- */

static uint32_t offset_of(const struct proof *proof, uint64_t address)
{
    return address != 0 ? (uint32_t)(address - proof->place.address) : PLAN_NONE;
}

static struct slab_prepared_hook flat_hook(const struct proof *proof, uint32_t index)
{
    const struct stub_x86_64_hook *hook = &proof->slab.hooks[index];
    struct slab_prepared_hook flat = {.entry = PLAN_NONE, .body_size = proof->slab.bodies[index]};
    if (proof->slab.entries[index] == 0)
        return flat;
    flat.entry = offset_of(proof, proof->slab.entries[index]);
    flat.body = offset_of(proof, hook->body);
    flat.slow = offset_of(proof, hook->slow);
    flat.copied = hook->copied;
    flat.count = (uint8_t)hook->count;
    memcpy(flat.from, hook->from, sizeof flat.from);
    memcpy(flat.to, hook->to, sizeof flat.to);
    return flat;
}

static void pad_to_8(struct base_text *block)
{
    static const uint8_t zeros[8];
    base_text_add_bytes(block, zeros, -block->length % sizeof zeros);
}

/* A slot that is not among the ways leads nowhere yet. */
static void add_users(struct base_text *block, const struct proof *proof)
{
    for (size_t i = 0; i < proof->slab.by_slot_count; i++) {
        uint32_t site = proof->slab.by_slot[i];
        const struct slab_prepared_way *way = way_of(proof->input, proof->input->plan->sites[site].slot);
        struct slab_prepared_user user = {site, way ? (uint32_t)(way - proof->input->ways) : PLAN_NONE};
        base_text_add_bytes(block, &user, sizeof user);
    }
}

static void add_places(struct base_text *block, const struct proof *proof)
{
    const struct plan_header *plan = proof->input->plan->header;
    for (uint32_t i = 0; i < plan->hook_count; i++) {
        struct slab_prepared_hook flat = flat_hook(proof, i);
        base_text_add_bytes(block, &flat, sizeof flat);
    }
    for (uint32_t i = 0; i < plan->site_count; i++) {
        uint32_t stub = offset_of(proof, proof->slab.stubs[i]);
        base_text_add_bytes(block, &stub, sizeof stub);
    }
    pad_to_8(block);
    base_text_add_bytes(block, proof->slab.inlined, plan->site_count * sizeof *proof->slab.inlined);
    pad_to_8(block);
}

/* --- words --- */

struct words {
    struct base_text lists[SLAB_PREPARED_SORTS];
    size_t last[SLAB_PREPARED_SORTS]; /* where the list is */
    int64_t low, high;
};

static uint32_t load_32(const uint8_t *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

static enum slab_prepared_sort sort_of(uint32_t difference)
{
    static const uint32_t steps[SLAB_PREPARED_SORTS] = {TEXT_STEP - CODE_STEP,
                                                        BLOCK_STEP - CODE_STEP,
                                                        BLOCK_STEP + 8 * INDEX_STEP - CODE_STEP,
                                                        0u - INDEX_STEP,
                                                        WORD_STEP,
                                                        WORD_STEP + 8 * INDEX_STEP,
                                                        8 * INDEX_STEP,
                                                        TEXT_STEP};
    unsigned sort = 0;
    while (sort < SLAB_PREPARED_SORTS && steps[sort] != difference)
        sort++;
    return (enum slab_prepared_sort)sort;
}

static void note_word(struct words *words, enum slab_prepared_sort sort, size_t at)
{
    size_t distance = at - words->last[sort];
    for (; distance > UINT8_MAX; distance -= UINT8_MAX)
        base_text_add_bytes(&words->lists[sort], "", 1);
    uint8_t step = (uint8_t)distance;
    base_text_add_bytes(&words->lists[sort], &step, 1);
    words->last[sort] = at;
}

static void note_target(struct words *words, const struct proof *proof, size_t at)
{
    int32_t displacement = (int32_t)load_32(proof->region.bytes + at);
    int64_t target = (int64_t)(proof->place.address + at + 4 - proof->place.bias) + displacement;
    words->low = target - SLACK < words->low ? target - SLACK : words->low;
    words->high = target + SLACK > words->high ? target + SLACK : words->high;
}

/* False: something differs by what no word may. */
static bool find_words(const struct proof *one, const struct proof *other, struct words *words)
{
    const uint8_t *a = one->region.bytes, *b = other->region.bytes;
    size_t size = one->region.used;
    *words = (struct words){.low = INT64_MAX, .high = INT64_MIN};
    for (size_t at = 0; at < size; at++) {
        if (a[at] == b[at])
            continue;
        if (size - at < sizeof(uint32_t))
            return false;
        enum slab_prepared_sort sort = sort_of(load_32(b + at) - load_32(a + at));
        if (sort == SLAB_PREPARED_SORTS)
            return false;
        note_word(words, sort, at + 1); /* at least 1 */
        if (sort == SLAB_PREPARED_TEXT)
            note_target(words, one, at);
        at += (sort == SLAB_PREPARED_ADDRESS ? sizeof(uint64_t) : sizeof(uint32_t)) - 1;
    }
    return true;
}

static void free_words(struct words *words)
{
    for (unsigned i = 0; i < SLAB_PREPARED_SORTS; i++)
        base_text_free(&words->lists[i]);
}

/* --- the block --- */

static struct slab_prepared_header header_of(const struct proof *proof, const struct words *words)
{
    struct slab_prepared_header header = {.magic = SLAB_PREPARED_MAGIC,
                                          .version = SLAB_PREPARED_VERSION,
                                          .way_count = (uint32_t)proof->input->way_count,
                                          .key = proof->input->key,
                                          .plan = proof->input->plan->header->content,
                                          .site_count = proof->input->plan->header->site_count,
                                          .hook_count = proof->input->plan->header->hook_count,
                                          .user_count = (uint32_t)proof->slab.by_slot_count,
                                          .code_size = proof->region.used,
                                          .recorder = offset_of(proof, proof->slab.recorder),
                                          .index = proof->place.index,
                                          .word = proof->place.word,
                                          .block = proof->place.block,
                                          .bias = proof->place.bias,
                                          .address = proof->place.address,
                                          .low = words->low,
                                          .high = words->high};
    if (proof->slab.stubs_end != 0)
        header.stubs_end = proof->slab.stubs_end - proof->place.address;
    for (unsigned i = 0; i < SLAB_PREPARED_SORTS; i++)
        header.word_bytes[i] = words->lists[i].length;
    memcpy(header.reasons, proof->slab.reasons, sizeof header.reasons);
    return header;
}

static bool flatten_slab(const struct proof *proof, const struct words *words, struct base_text *block)
{
    struct slab_prepared_header header = header_of(proof, words);
    bool failed = false;
    base_text_add_bytes(block, &header, sizeof header);
    base_text_add_bytes(block, proof->input->ways, proof->input->way_count * sizeof *proof->input->ways);
    add_users(block, proof);
    add_places(block, proof);
    for (unsigned i = 0; i < SLAB_PREPARED_SORTS; i++) {
        base_text_add_bytes(block, words->lists[i].data, words->lists[i].length);
        pad_to_8(block);
        failed |= words->lists[i].failed;
    }
    base_text_add_bytes(block, proof->region.bytes, proof->region.used);
    pad_to_8(block);
    if (failed || block->failed)
        return false;
    struct slab_prepared_header *stored = (struct slab_prepared_header *)(void *)block->data;
    stored->byte_count = block->length;
    stored->checksum = slab_prepared_sum(block->data, block->length);
    return true;
}

static int open_made(const struct proof *proof, const struct words *words, struct slab_prepared *prepared,
                     struct base_error *error)
{
    struct base_text block = {0};
    if (!flatten_slab(proof, words, &block)) {
        base_text_free(&block);
        return base_fail(error, BASE_ENOMEM, "no memory to prepare stubs");
    }
    size_t size = block.length;
    void *bytes = base_text_detach(&block);
    if (!slab_prepared_open(prepared, proof->input->plan, bytes, size)) {
        free(bytes);
        return base_fail(error, BASE_EUNSUPPORTED, "prepared stubs make no sense");
    }
    prepared->blob = bytes;
    return BASE_OK;
}

void slab_prepared_free(struct slab_prepared *prepared)
{
    if (prepared->mapped)
        munmap(prepared->blob, prepared->size);
    else
        free(prepared->blob);
    *prepared = (struct slab_prepared){0};
}

/* --- the three places --- */

/* Addresses of the image that its stubs are about. */
static bool choose_place(const struct plan *plan, struct place *place)
{
    const struct plan_header *header = plan->header;
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; i < header->function_count; i++) {
        low = plan->functions[i].start < low ? plan->functions[i].start : low;
        high = plan->functions[i].start > high ? plan->functions[i].start : high;
    }
    *place = (struct place){
        .address = 0x7e0000000000, .index = STUB_BLOCK_WORDS, .word = SPAN, .block = 0x7e0000000000 + SPAN};
    place->bias = place->address - SPAN - high;
    return header->site_count > 0 && low <= high && high - low < SPAN && slab_size(plan) < SPAN / 2;
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

static bool same_regions(const struct proof *a, const struct proof *b)
{
    return a->region.used == b->region.used && same_bytes(a->region.bytes, b->region.bytes, a->region.used);
}

/* Has `placed` become what was made there? */
static bool same_outcome(const struct proof *made, const struct proof *placed)
{
    const struct slab *a = &made->slab, *b = &placed->slab;
    size_t sites = made->input->plan->header->site_count, hooks = made->input->plan->header->hook_count;
    bool same = same_regions(made, placed) && a->stubs_end == b->stubs_end && a->recorder == b->recorder &&
                a->write_count == b->write_count && a->piece_count == b->piece_count &&
                same_bytes(a->reasons, b->reasons, sizeof a->reasons) &&
                same_bytes(a->stubs, b->stubs, sites * sizeof *a->stubs) &&
                a->by_slot_count == b->by_slot_count &&
                same_bytes(a->by_slot, b->by_slot, a->by_slot_count * sizeof *a->by_slot) &&
                same_bytes(a->inlined, b->inlined, sites * sizeof *a->inlined) &&
                same_bytes(a->bodies, b->bodies, hooks) &&
                same_bytes(a->entries, b->entries, hooks * sizeof *a->entries);
    for (size_t i = 0; same && i < a->write_count; i++)
        same = a->writes[i].address == b->writes[i].address && a->writes[i].length == b->writes[i].length &&
               same_bytes(a->writes[i].fresh, b->writes[i].fresh, a->writes[i].length) &&
               same_bytes(a->writes[i].old, b->writes[i].old, a->writes[i].length) &&
               a->writes[i].site == b->writes[i].site && a->writes[i].hook == b->writes[i].hook;
    for (size_t i = 0; same && i < hooks; i++)
        same = a->hooks[i].body == b->hooks[i].body && a->hooks[i].slow == b->hooks[i].slow &&
               a->hooks[i].copied == b->hooks[i].copied && a->hooks[i].count == b->hooks[i].count &&
               same_bytes(a->hooks[i].from, b->hooks[i].from, a->hooks[i].count) &&
               same_bytes(a->hooks[i].to, b->hooks[i].to, a->hooks[i].count);
    return same;
}

/* Made at a third place, and moved there. */
static bool holds_elsewhere(const struct slab_prepared *prepared, const struct slab_prepared_input *input,
                            struct place place)
{
    struct proof made, placed = {.input = input};
    place.address += 0x123450;
    place.bias -= 0x2345670;
    place.block += 0x3456788;
    place.index += 0x12345;
    place.word += 0x23458;
    bool holds = make_at(&made, input, &place, NULL) == BASE_OK;
    placed = made;
    placed.region.used = 0;
    placed.region.bytes = calloc(1, made.region.size);
    placed.slab.regions = &placed.region;
    placed.slab.context = &placed;
    holds = holds && placed.region.bytes != NULL && slab_prepared_place(prepared, input, &placed.slab);
    holds = holds && same_outcome(&made, &placed);
    if (holds)
        slab_free(&placed.slab);
    free(placed.region.bytes);
    free_proof(&made);
    return holds;
}

/* A hook over endbr64 must lie in a window of its own; whether the stubs' region is in it too is decided by
 * the place. */
static bool has_windows(const struct slab_prepared_input *input)
{
    const struct plan_header *header = input->plan->header;
    bool found = false;
    for (uint32_t i = 0; i < header->hook_count && !found; i++)
        found = input->plan->hooks[i].kind == STUB_ENTRY_ENDBR &&
                (input->wanted == NULL || input->wanted[header->site_count + i] != 0);
    return found;
}

int slab_prepared_make(const struct slab_prepared_input *input, struct slab_prepared *prepared,
                       struct base_error *error)
{
    struct place place, other;
    struct proof here = {0}, there = {0};
    struct words words = {0};
    if (has_windows(input))
        return base_fail(error, BASE_EUNSUPPORTED, "hooks over endbr64 are not prepared");
    if (!choose_place(input->plan, &place))
        return base_fail(error, BASE_EUNSUPPORTED, "the image is empty or too large to prepare stubs");
    other = place;
    other.address += CODE_STEP;
    other.bias += TEXT_STEP;
    other.block += BLOCK_STEP;
    other.index += INDEX_STEP;
    other.word += WORD_STEP;
    int result = make_at(&here, input, &place, error);
    if (result == BASE_OK)
        result = make_at(&there, input, &other, error);
    if (result == BASE_OK && (here.region.used != there.region.used || !find_words(&here, &there, &words)))
        result = base_fail(error, BASE_EUNSUPPORTED, "stubs differ by more than where they lie");
    free_proof(&there);
    if (result == BASE_OK)
        result = open_made(&here, &words, prepared, error);
    free_words(&words);
    free_proof(&here);
    if (result == BASE_OK && !holds_elsewhere(prepared, input, place)) {
        slab_prepared_free(prepared);
        result = base_fail(error, BASE_EUNSUPPORTED, "prepared stubs are not those that would be made");
    }
    return result;
}
