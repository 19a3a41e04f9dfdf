/* Walking with a trail. unwind_trail.h explains it, unwind_walk.c the short loop.
 *
 *   1. Frames are walked one by one into `fresh`, until one of the unchanged frames of the last walk is met:
 *      its sp, pc and fp.
 *   2. The rest is the last walk's; but from the first frame on that was left by a rarer rule, of which it is
 *      not known what it read, the walk goes on, and the frames before that one are copied.
 *   3. In the end `fresh` is turned round and put where the frames belong that were replaced. The others stay
 *      where they are.
 *
 * Calls from another branch of the same functions have other return addresses in frames of the same sizes.
 * Where the innermost frame is as high as the last one, its callers are therefore looked for first where they
 * were then (retrace_frames): those places are known before, so no frame waits for the one before it, and
 * that the rule leads to the same places is only checked. */
#include "unwind_trail.h"
#include "bare_bytes.h"
#include "unwind_cache.h"
#include "unwind_fast.h"
#include "unwind_step.h"

struct walk {
    struct unwind_trail *trail;
    struct unwind_cache *cache;
    struct unwind_state state;
    uint32_t fresh; /* frames in trail->fresh */
    uint32_t tail;  /* outermost frames that stay */
    int32_t cursor; /* in trail->last: the innermost frame that may still be met */
    uint32_t by_fp; /* frames by frame pointer */
    uint64_t base_at;
    bool certain; /* the end does not depend on memory */
};

/* Do pc, sp and fp say all? Not behind a signal frame, where sp no longer rises: such a frame is kept with sp
 * 0, which is never met. */
static bool can_be_met(const struct unwind_state *state)
{
    return state->fp_known && state->sp_known && !state->moved && state->flags == 0;
}

static void put_frame(struct walk *walk, uint32_t cookie)
{
    const struct unwind_state *state = &walk->state;
    struct unwind_trail_frame *frame = &walk->trail->fresh[walk->fresh++];
    frame->pc = state->pc;
    frame->sp = can_be_met(state) ? state->sp : 0;
    frame->fp = state->fp;
    frame->return_at = frame->fp_at = 0;
    frame->base_at = walk->base_at;
    frame->cookie = cookie;
    frame->flags = state->flags;
    frame->by_fp = 0; /* not known: return_at is 0 */
}

static int step_general(struct walk *walk)
{
    struct unwind_state *state = &walk->state;
    struct unwind_entry *entry = unwind_cache_slot(walk->cache, state->key), own;
    if (state->key == 0)
        entry = &own; /* key 0 marks a free entry */
    if (entry == &own || entry->key != state->key || entry->generation != state->space->generation)
        unwind_cache_fill(entry, state->space, state->key);
    if (walk->base_at != 0) {
        state->base = walk->base_at;
        state->base_known = state->base_saved = true;
    }
    walk->base_at = 0; /* from here on the state knows */
    put_frame(walk, entry->cookie);
    walk->by_fp += (state->flags & UNWIND_BY_FRAME_POINTER) != 0;
    int outcome = unwind_step(state, &entry->rule);
    walk->certain = entry->rule.cfa_kind == WIRE_CFA_END;
    if (state->base_known && state->base_saved)
        walk->base_at = state->base;
    return outcome;
}

/* Was the frame left by the words that are there now? */
static inline bool leaves_alike(const struct unwind_trail_frame *frame,
                                const struct unwind_trail_frame *outer, uint64_t mask)
{
    uint64_t fp_at = frame->fp_at != 0 ? frame->fp_at : (uint64_t)&frame->fp; /* a choice, no jump */
    uint64_t pc = unwind_fast_word(frame->return_at) & mask, fp = unwind_fast_word(fp_at);
    return ((pc ^ outer->pc) | (fp ^ outer->fp)) == 0;
}

uint32_t unwind_trail_unchanged(const struct unwind_trail *trail, uint64_t sp, uint64_t mask)
{
    const struct unwind_trail_frame *last = trail->last;
    uint32_t count = trail->end == UNWIND_FULL ? 0 : trail->count, at = 1;
    while (count > 0 && last[count - 1].sp < sp)
        count--; /* of calls that are over */
    while (at < count && (last[at].return_at == 0 || leaves_alike(&last[at], &last[at - 1], mask)))
        at++;
    return at < count ? at : count;
}

/* The walk stands at an unchanged frame of the last one. True: the rest is the same. Else it stands, now or
 * still, at the first one that was left by a rarer rule, and the frames before that are copied. */
static bool rest_is_same(struct walk *walk)
{
    const struct unwind_trail_frame *last = walk->trail->last;
    int32_t match = walk->cursor, rarer = last[match].rarer;
    if (walk->fresh + (uint32_t)match + 1 > UNWIND_TRAIL_FRAMES) {
        walk->cursor = -1;
        return false;
    }
    if (rarer < 0) {
        walk->tail = (uint32_t)match + 1;
        return true;
    }
    walk->cursor = rarer - 1;
    if (match == rarer)
        return false;
    for (int32_t at = match; at > rarer; at--)
        walk->trail->fresh[walk->fresh++] = last[at];
    walk->state.pc = last[rarer].pc;
    walk->state.sp = last[rarer].sp;
    walk->state.fp = last[rarer].fp;
    walk->state.key = walk->state.pc - 1;
    walk->state.full = NULL;
    if (last[rarer].base_at >=
        last[match].sp) /* saved by one of the frames between; else it is where it was */
        walk->base_at = last[rarer].base_at;
    return false;
}

enum fast_end {
    FAST_STUCK, /* at a frame of another rule */
    FAST_MET,   /* at a frame of the last walk: walk->cursor */
};

/* The short loop, as in unwind_walk.c with one thing more: it stops where the last walk has been. The state
 * is written back. */
static __attribute__((noinline)) enum fast_end walk_fast(struct walk *walk)
{
    struct unwind_state *state = &walk->state;
    struct unwind_trail_frame *fresh = walk->trail->fresh;
    const struct unwind_trail_frame *last = walk->trail->last;
    struct unwind_cache *cache = walk->cache;
    const uint64_t low = state->memory->low, size = state->memory->high - low,
                   mask = state->space->arch->code_mask;
    const uint8_t *bytes = state->memory->bytes;
    const uint32_t generation = state->space->generation;
    const bool rising = !state->moved; /* behind a signal frame sp says nothing */
    uint64_t pc = state->pc, sp = state->sp, fp = state->fp, key = state->key, base_at = walk->base_at;
    uint32_t at = walk->fresh, flags = state->flags;
    int32_t cursor = rising ? walk->cursor : -1;
    enum fast_end end = FAST_STUCK;
    struct unwind_entry *entry = unwind_cache_slot(cache, key), *last_entry = entry;
    for (; at < UNWIND_TRAIL_FRAMES && size >= 8;
         last_entry = entry, entry = unwind_cache_next(cache, entry)) {
        while (cursor >= 0 && last[cursor].sp < sp)
            cursor--;
        if (cursor >= 0 && last[cursor].sp == sp && last[cursor].pc == pc && last[cursor].fp == fp &&
            flags == 0) {
            end = FAST_MET;
            break;
        }
        if (entry->key != key) {
            entry = unwind_cache_slot(cache, key);
            if (entry->key != key)
                break;
            unwind_cache_set_next(cache, last_entry, entry);
        }
        const struct wire_rule *rule = &entry->rule;
        const unsigned form = entry->form;
        if (entry->generation != generation || !(form & UNWIND_FORM_FAST))
            break;
        uint64_t cfa = unwind_fast_cfa(rule, form, sp, fp);
        uint64_t return_at = cfa + (uint64_t)rule->ra_slot * 8, fp_at = 0, caller_fp = fp;
        if (return_at - low > size - 8 || !unwind_fast_rises(sp, cfa))
            break;
        if (form & UNWIND_FORM_FP_SAVED) {
            fp_at = cfa + (uint64_t)rule->fp_slot * 8;
            if (fp_at - low > size - 8)
                break;
            caller_fp = bare_load64(bytes + (fp_at - low));
        }
        struct unwind_trail_frame *frame = &fresh[at++];
        frame->pc = pc;
        frame->sp = rising && flags == 0 ? sp : 0;
        frame->fp = fp;
        frame->return_at = return_at;
        frame->fp_at = fp_at;
        frame->base_at = base_at;
        frame->cookie = entry->cookie;
        frame->flags = flags;
        frame->by_fp = form & UNWIND_FORM_BY_FP;
        base_at = unwind_fast_base(rule, form, sp, cfa, base_at);
        sp = cfa;
        fp = caller_fp;
        pc = bare_load64(bytes + (return_at - low)) & mask;
        key = pc - 1;
        flags = 0;
    }
    walk->cursor = cursor;
    if (at == walk->fresh)
        return end; /* nothing done: frame 0 keeps its full registers */
    walk->fresh = at;
    walk->base_at = base_at;
    state->pc = pc;
    state->sp = sp;
    state->fp = fp;
    state->key = key;
    state->flags = flags;
    state->full = NULL;
    return end;
}

/* From the innermost frame on, as far as frames lie where they lay in the last walk; what differs is written
 * over them. True: an unchanged frame was met, and the rest is the same. Else the walk goes on from where it
 * stands now. */
static __attribute__((noinline)) bool retrace_frames(struct walk *walk, uint32_t count, uint32_t unchanged)
{
    struct unwind_state *state = &walk->state;
    struct unwind_trail_frame *last = walk->trail->last;
    const uint64_t mask = state->space->arch->code_mask;
    const uint32_t generation = state->space->generation;
    uint32_t at = count - 1;
    uint64_t pc = state->pc, fp = state->fp, base_at = walk->base_at;
    for (; at > 0 && last[at].return_at != 0; at--) {
        struct unwind_trail_frame *frame = &last[at];
        if (at < unchanged && frame->pc == pc && frame->fp == fp)
            break;
        const struct unwind_entry *entry = unwind_cache_slot(walk->cache, pc - 1);
        const struct wire_rule *rule = &entry->rule;
        const unsigned form = entry->form;
        uint64_t cfa = unwind_fast_cfa(rule, form, frame->sp, fp);
        uint64_t fp_at = form & UNWIND_FORM_FP_SAVED ? cfa + (uint64_t)rule->fp_slot * 8 : 0;
        if (entry->key != pc - 1 || entry->generation != generation || !(form & UNWIND_FORM_FAST) ||
            cfa != frame[-1].sp || cfa + (uint64_t)rule->ra_slot * 8 != frame->return_at ||
            fp_at != frame->fp_at)
            break;
        frame->pc = pc;
        frame->fp = fp;
        frame->base_at = base_at;
        frame->cookie = entry->cookie;
        frame->by_fp = form & UNWIND_FORM_BY_FP;
        base_at = unwind_fast_base(rule, form, frame->sp, cfa, base_at);
        fp = fp_at != 0 ? bare_load64((const void *)fp_at) : fp;
        pc = bare_load64((const void *)frame->return_at) & mask;
    }
    walk->tail = at + 1;
    if (at < unchanged && last[at].pc == pc && last[at].fp == fp && last[at].rarer < 0)
        return true;
    walk->tail = 0;
    walk->cursor = (int32_t)(at < unchanged ? at : unchanged - 1);
    if (at == count - 1)
        return false; /* nothing done: frame 0 keeps its full registers */
    for (uint32_t i = count - 1; i > at; i--)
        walk->trail->fresh[walk->fresh++] = last[i];
    walk->base_at = base_at;
    state->pc = pc;
    state->sp = last[at].sp;
    state->fp = fp;
    state->key = pc - 1;
    state->full = NULL;
    return false;
}

/* The fresh frames to their places. */
static void replace_frames(const struct walk *walk)
{
    struct unwind_trail *trail = walk->trail;
    int32_t rarer = walk->tail != 0 ? trail->last[walk->tail - 1].rarer : -1;
    for (uint32_t at = walk->tail, i = walk->fresh; i-- > 0; at++) {
        struct unwind_trail_frame *frame = &trail->last[at];
        *frame = trail->fresh[i];
        if (frame->return_at == 0 || at == 0)
            rarer = at == 0 && walk->certain ? -1 : (int32_t)at;
        frame->rarer = rarer;
    }
}

static int walk_out(struct walk *walk)
{
    int outcome = UNWIND_STEP_ON;
    while (outcome == UNWIND_STEP_ON) {
        const struct unwind_state *state = &walk->state;
        bool fast = state->fp_known && state->sp_known && state->flags != UNWIND_BY_FRAME_POINTER;
        enum fast_end end = fast ? walk_fast(walk) : FAST_STUCK;
        if (state->pc == 0 && state->full == NULL)
            outcome = UNWIND_OUTERMOST;
        else if (end == FAST_MET)
            outcome = rest_is_same(walk) ? (int)walk->trail->end : UNWIND_STEP_ON;
        else if (walk->fresh == UNWIND_TRAIL_FRAMES)
            outcome = UNWIND_FULL;
        else
            outcome = step_general(walk);
    }
    return outcome;
}

/* A trail's count is 0 while its frames change. */
static void set_count(struct unwind_trail *trail, uint32_t count)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    __atomic_store_n(&trail->count, count, __ATOMIC_RELAXED);
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

struct unwind_trail_result unwind_trail_walk(struct unwind_trail *trail, uint32_t unchanged,
                                             const struct unwind_space *space,
                                             const struct unwind_memory *memory,
                                             const struct arch_registers *registers,
                                             struct unwind_cache *cache)
{
    struct walk walk;
    uint32_t count = trail->count;
    walk.trail = trail;
    walk.cache = cache;
    walk.fresh = walk.tail = walk.by_fp = 0;
    walk.cursor = (int32_t)unchanged - 1;
    walk.base_at = 0;
    walk.certain = false;
    unwind_step_start(&walk.state, space, memory, registers);
    walk.state.key--; /* a return address */
    set_count(trail, 0);
    if (unchanged == 0 || !walk.state.fp_known || trail->last[count - 1].sp != walk.state.sp ||
        !retrace_frames(&walk, count, unchanged)) {
        trail->end = (uint32_t)walk_out(&walk);
        replace_frames(&walk);
        count = walk.tail + walk.fresh;
    }
    set_count(trail, count);
    return (struct unwind_trail_result){count, walk.tail, (enum unwind_end)trail->end, walk.by_fp};
}
