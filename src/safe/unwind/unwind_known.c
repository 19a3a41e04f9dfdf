/* Stacks that were met before. unwind_known.h explains it. */
#include "unwind_known.h"

#include "unwind_fast.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t hash_on(uint64_t hash, uint64_t word)
{
    return (hash << 13 | hash >> 51) + word;
}

static inline uint64_t word_of(const struct unwind_shape *shape, uint64_t sp, unsigned number)
{
    return unwind_fast_word(sp + shape->offset[number] * UINT64_C(8));
}

/* Of the stack as it is. Two chains, of every other word: neither waits for the other. */
static inline uint64_t hash_of_stack(const struct unwind_shape *shape, const struct unwind_known_start *start)
{
    uint64_t even = shape->serial, odd = 0;
    for (unsigned i = 0; i < shape->count; i += 2) {
        even = hash_on(even, word_of(shape, start->sp, i));
        odd = hash_on(odd, word_of(shape, start->sp, i + 1));
    }
    if (shape->by_fp)
        odd = hash_on(odd, start->fp);
    return even * GOLDEN + odd;
}

static inline size_t slot_of(uint64_t hash)
{
    return hash * GOLDEN >> 54;
}
_Static_assert(UNWIND_KNOWN_SLOTS == 1 << (64 - 54), "slot_of's shift");

static inline size_t set_of(const struct unwind_known_start *start)
{
    return ((start->pc ^ start->sp << 7) * GOLDEN >> 40) % (UNWIND_SHAPES / UNWIND_SHAPE_WAYS) *
           UNWIND_SHAPE_WAYS;
}

static inline bool begins_at(const struct unwind_shape *shape, const struct unwind_known_start *start)
{
    return shape->pc == start->pc && shape->sp == start->sp && shape->scope == start->scope;
}

/* --- finding --- */

static inline bool is_same(const struct unwind_shape *shape, const struct unwind_known_start *start,
                           const uint64_t *words)
{
    for (unsigned at = 0; at < shape->count; at += UNWIND_SHAPE_UNIT) {
        uint64_t differs = 0;
#pragma GCC unroll 8
        for (unsigned i = at; i < at + UNWIND_SHAPE_UNIT; i++)
            differs |= word_of(shape, start->sp, i) ^ words[i];
        if (differs != 0)
            return false;
    }
    return !shape->by_fp || words[shape->count] == start->fp;
}

/* The value of the stack that is kept at `at`, if it is this one. */
static inline uint32_t value_at(const struct unwind_known *known, const struct unwind_shape *shape,
                                const struct unwind_known_start *start, uint64_t at)
{
    const uint64_t *stack = &known->ring[at % UNWIND_KNOWN_WORDS];
    bool kept = known->head - at <= UNWIND_KNOWN_WORDS && *stack >> 32 == shape->serial;
    return kept && is_same(shape, start, stack + 1) ? (uint32_t)*stack : 0;
}

static inline uint32_t find_of_shape(const struct unwind_known *known, struct unwind_shape *shape,
                                     const struct unwind_known_start *start)
{
    uint32_t value = value_at(known, shape, start, shape->last);
    if (__builtin_expect(value == 0, 0)) {
        uint64_t hash = hash_of_stack(shape, start);
        const struct unwind_known_slot *slot = &known->slots[slot_of(hash)];
        value = slot->hash == hash ? value_at(known, shape, start, slot->at) : 0;
        if (value == 0)
            return 0;
        shape->last = slot->at;
    }
    shape->found = 1;
    return value;
}

uint32_t unwind_known_find(struct unwind_known *known, const struct unwind_known_start *start, uint64_t high)
{
    struct unwind_shape *shape = &known->shapes[set_of(start)];
    for (unsigned i = 0; i < UNWIND_SHAPE_WAYS; i++, shape++) {
        if (!begins_at(shape, start) || shape->high > high)
            continue;
        uint32_t value = find_of_shape(known, shape, start);
        if (value != 0)
            return value;
    }
    return 0;
}

/* --- insertion --- */

/* False: no room, or it is not what the walk has read. */
static bool take_shape(struct unwind_known *known, uint64_t at, uint64_t expected, uint64_t mask)
{
    struct unwind_shape *shape = &known->fresh;
    uint64_t offset = at - shape->sp;
    if (offset / 8 > UINT16_MAX || offset % 8 != 0 || shape->count == UNWIND_SHAPE_WORDS)
        return false;
    uint64_t word = unwind_fast_word(at);
    known->fresh_words[shape->count] = word;
    shape->offset[shape->count++] = (uint16_t)(offset / 8);
    shape->high = at + 8 > shape->high ? at + 8 : shape->high;
    return (word & mask) == expected;
}

/* From the outermost frame inwards: so it is known of a frame whether its fp leads to others. */
static bool read_trail(struct unwind_known *known, const struct unwind_trail *trail, uint64_t mask)
{
    struct unwind_shape *shape = &known->fresh;
    bool by_fp = false;
    for (uint32_t at = 1; at < trail->count; at++) {
        const struct unwind_trail_frame *frame = &trail->last[at], *outer = frame - 1;
        if (!take_shape(known, frame->return_at, outer->pc, mask) ||
            (frame->fp_at != 0 && by_fp && !take_shape(known, frame->fp_at, outer->fp, UINT64_MAX)))
            return false;
        by_fp = frame->by_fp || (frame->fp_at == 0 && by_fp);
    }
    shape->by_fp = by_fp;
    return shape->count != 0;
}

static void fill_unit(struct unwind_known *known)
{
    struct unwind_shape *shape = &known->fresh;
    for (; shape->count % UNWIND_SHAPE_UNIT != 0; shape->count++) {
        known->fresh_words[shape->count] = known->fresh_words[shape->count - 1];
        shape->offset[shape->count] = shape->offset[shape->count - 1];
    }
}

static bool is_same_shape(const struct unwind_shape *one, const struct unwind_shape *other)
{
    if (one->count != other->count || one->by_fp != other->by_fp)
        return false;
    for (unsigned i = 0; i < one->count; i++)
        if (one->offset[i] != other->offset[i])
            return false;
    return true;
}

/* The shape of the set that makes room: a free one, or one that no stack was found by since the last time. */
static struct unwind_shape *replaceable_shape(struct unwind_shape *set)
{
    for (struct unwind_shape *shape = set; shape < set + UNWIND_SHAPE_WAYS; shape++)
        if (shape->pc == 0 || !shape->found)
            return shape;
    for (struct unwind_shape *shape = set; shape < set + UNWIND_SHAPE_WAYS; shape++)
        shape->found = 0;
    return set;
}

/* The shape's place, whether it is new or known. */
static const struct unwind_shape *keep_shape(struct unwind_known *known,
                                             const struct unwind_known_start *start,
                                             const struct unwind_shape *wanted)
{
    struct unwind_shape *set = &known->shapes[set_of(start)], *place;
    for (struct unwind_shape *shape = set; shape < set + UNWIND_SHAPE_WAYS; shape++)
        if (begins_at(shape, start) && is_same_shape(shape, wanted))
            return shape;
    place = replaceable_shape(set);
    place->pc = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *place = *wanted; /* of pc 0 */
    place->serial = ++known->serial;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    place->pc = start->pc;
    return place;
}

/* Space in the ring, which is not published yet. */
static uint64_t claim_words(struct unwind_known *known, unsigned words)
{
    uint64_t at = known->head, left = UNWIND_KNOWN_WORDS - at % UNWIND_KNOWN_WORDS;
    at += left < words ? left : 0;
    known->head = at + words;
    known->ring[at % UNWIND_KNOWN_WORDS] = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return at;
}

void unwind_known_insert(struct unwind_known *known, const struct unwind_known_start *start,
                         const struct unwind_trail *trail, uint64_t mask, uint32_t value)
{
    struct unwind_shape *fresh = &known->fresh;
    if (trail->count == 0 || trail->end != UNWIND_OUTERMOST || trail->last[trail->count - 1].rarer >= 0)
        return;
    fresh->pc = 0;
    fresh->sp = start->sp;
    fresh->high = fresh->count = 0;
    fresh->found = 1;
    fresh->scope = start->scope;
    if (!read_trail(known, trail, mask))
        return;
    fill_unit(known);
    known->fresh_words[fresh->count] = start->fp;
    const struct unwind_shape *shape = keep_shape(known, start, fresh);
    unsigned count = fresh->count + fresh->by_fp;
    uint64_t at = claim_words(known, count + 1), *stack = &known->ring[at % UNWIND_KNOWN_WORDS];
    for (unsigned i = 0; i < count; i++)
        stack[i + 1] = known->fresh_words[i];
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    *stack = (uint64_t)shape->serial << 32 | value;
    uint64_t hash = hash_of_stack(shape, start);
    known->slots[slot_of(hash)] = (struct unwind_known_slot){hash, at};
}
