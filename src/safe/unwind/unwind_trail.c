/* Walking with a trail. The essay is in unwind_trail.h, that of the short loop in unwind_walk.c.
 *
 *   1. Frames are walked one by one into `fresh`.
 *   2. Before each, the last walk is looked at: is there a frame with this sp, and is it the same in pc and fp?
 *   3. If so, the words it and its callers were reached by are compared. All the same: the rest is the last walk's.
 *      Else the walk goes on from the first frame whose words differ; those before it are copied.
 *   4. In the end `fresh` is turned round and put where the frames belong that were replaced. The others stay where they are. */
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

/* Do pc, sp and fp say all? Not behind a signal frame, where sp no longer rises: such a frame is kept with sp 0, which is never met. */
static bool can_be_met(const struct unwind_state *state)
{
    return state->fp_known && state->sp_known && !state->moved && state->flags == 0;
}

static void put(struct walk *walk, uint32_t cookie)
{
    struct unwind_trail_frames *fresh = &walk->trail->fresh;
    uint32_t at = walk->fresh++;
    fresh->pc[at] = walk->state.pc;
    fresh->sp[at] = can_be_met(&walk->state) ? walk->state.sp : 0;
    fresh->fp[at] = walk->state.fp;
    fresh->return_at[at] = fresh->fp_at[at] = 0;
    fresh->base_at[at] = walk->base_at;
    fresh->cookie[at] = cookie;
    fresh->flags[at] = walk->state.flags;
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
    put(walk, entry->cookie);
    walk->by_fp += (state->flags & UNWIND_BY_FRAME_POINTER) != 0;
    int outcome = unwind_step(state, &entry->rule);
    walk->certain = entry->rule.cfa_kind == WIRE_CFA_END;
    if (state->base_known && state->base_saved)
        walk->base_at = state->base;
    return outcome;
}

/* The first frame, from `from` outwards, whose words are no longer what they were; ALL_SAME: none. */
#define ALL_SAME UINT32_MAX
static inline uint32_t compare_words(const struct unwind_trail *trail, uint32_t from, uint64_t mask)
{
    const struct unwind_trail_frames *last = &trail->last;
    for (uint32_t at = from; at > 0; at--) {
        const void *return_at = (const void *)last->return_at[at], *fp_at = (const void *)last->fp_at[at];
        if (return_at == NULL || (bare_load64(return_at) & mask) != last->pc[at - 1])
            return at;
        if (fp_at != NULL &&
            bare_load64(fp_at) != last->fp[at - 1]) /* NULL: it is this frame's, and that is the same */
            return at;
    }
    return trail->certain ? ALL_SAME : 0;
}

static void copy_frame(struct unwind_trail_frames *to, uint32_t at, const struct unwind_trail_frames *from,
                       uint32_t index)
{
    to->pc[at] = from->pc[index];
    to->sp[at] = from->sp[index];
    to->fp[at] = from->fp[index];
    to->return_at[at] = from->return_at[index];
    to->fp_at[at] = from->fp_at[index];
    to->base_at[at] = from->base_at[index];
    to->cookie[at] = from->cookie[index];
    to->flags[at] = from->flags[index];
}

/* The frame `differs` and all between it and the match are as before, but what comes after it is not: they are copied, the
 * walk stands at `differs` again. */
static void resume_at(struct walk *walk, uint32_t match, uint32_t differs)
{
    const struct unwind_trail_frames *last = &walk->trail->last;
    for (uint32_t at = match; at > differs; at--)
        copy_frame(&walk->trail->fresh, walk->fresh++, last, at);
    walk->cursor = (int32_t)differs - 1;
    if (match == differs)
        return; /* the state is there already */
    walk->state.pc = last->pc[differs];
    walk->state.sp = last->sp[differs];
    walk->state.fp = last->fp[differs];
    walk->state.key = walk->state.pc - 1;
    walk->state.full = NULL;
    if (last->base_at[differs] >=
        last->sp[match]) /* saved by one of the frames between; else it is where it was */
        walk->base_at = last->base_at[differs];
}

/* The walk stands at a frame of the last one. True: the rest is the same. */
static bool rest_is_same(struct walk *walk)
{
    uint32_t match = (uint32_t)walk->cursor;
    if (walk->fresh + match + 1 > UNWIND_TRAIL_FRAMES || walk->trail->end == UNWIND_FULL) {
        walk->cursor = -1;
        return false;
    }
    uint32_t differs = compare_words(walk->trail, match, walk->state.space->arch->code_mask);
    if (differs == ALL_SAME) {
        walk->tail = match + 1;
        return true;
    }
    resume_at(walk, match, differs);
    return false;
}

enum fast_end {
    FAST_STUCK, /* at a frame of another rule */
    FAST_MET,   /* at a frame of the last walk: walk->cursor */
};

/* The short loop, as in unwind_walk.c with one thing more: it stops where the last walk has been. The state is written back. */
static enum fast_end walk_fast(struct walk *walk)
{
    struct unwind_state *state = &walk->state;
    struct unwind_trail_frames *fresh = &walk->trail->fresh;
    const struct unwind_trail_frames *last = &walk->trail->last;
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
        while (cursor >= 0 && last->sp[cursor] < sp)
            cursor--;
        if (cursor >= 0 && last->sp[cursor] == sp && last->pc[cursor] == pc && last->fp[cursor] == fp &&
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
        uint64_t cfa =
            unwind_fast_choose(sp, fp, form & UNWIND_FORM_BY_FP) + (uint64_t)(int64_t)rule->cfa_offset;
        uint64_t return_at = cfa + (uint64_t)rule->ra_slot * 8, fp_at = 0, caller_fp = fp;
        if (return_at - low > size - 8 || !unwind_fast_rises(sp, cfa))
            break;
        if (form & UNWIND_FORM_FP_SAVED) {
            fp_at = cfa + (uint64_t)rule->fp_slot * 8;
            if (fp_at - low > size - 8)
                break;
            caller_fp = bare_load64(bytes + (fp_at - low));
        }
        fresh->pc[at] = pc;
        fresh->sp[at] = rising && flags == 0 ? sp : 0;
        fresh->fp[at] = fp;
        fresh->return_at[at] = return_at;
        fresh->fp_at[at] = fp_at;
        fresh->base_at[at] = base_at;
        fresh->cookie[at] = entry->cookie;
        fresh->flags[at++] = flags;
        if (form & UNWIND_FORM_BASE_SAVED) {
            uint64_t saved_at = cfa + (uint64_t)rule->base_slot * 8;
            base_at = saved_at >= sp ? saved_at : base_at;
        }
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

static void start(struct walk *walk, const struct unwind_space *space, const struct unwind_memory *memory,
                  const struct arch_registers *registers)
{
    const struct arch *arch = space->arch;
    struct unwind_state *state = &walk->state;
    state->space = space;
    state->memory = memory;
    state->pc = registers->value[arch->pc];
    state->key = state->pc - 1;
    state->sp = registers->value[arch->sp];
    state->fp = registers->value[arch->fp];
    state->flags = 0;
    state->fp_known = registers->valid >> arch->fp & 1;
    unwind_step_base(state, registers);
    state->sp_known = true;
    state->moved = false;
    state->full = registers;
}

static void commit(struct walk *walk)
{
    struct unwind_trail *trail = walk->trail;
    trail->count = walk->tail + walk->fresh;
    for (uint32_t i = 0; i < walk->fresh; i++)
        copy_frame(&trail->last, trail->count - 1 - i, &trail->fresh, i);
}

struct unwind_trail_result unwind_trail_walk(struct unwind_trail *trail, const struct unwind_space *space,
                                             const struct unwind_memory *memory,
                                             const struct arch_registers *registers,
                                             struct unwind_cache *cache)
{
    struct walk walk;
    walk.trail = trail;
    walk.cache = cache;
    walk.fresh = walk.tail = walk.by_fp = 0;
    walk.cursor = (int32_t)trail->count - 1;
    walk.base_at = 0;
    walk.certain = false;
    start(&walk, space, memory, registers);
    int outcome = UNWIND_STEP_ON;
    while (outcome == UNWIND_STEP_ON) {
        const struct unwind_state *state = &walk.state;
        bool fast = state->fp_known && state->sp_known && state->flags != UNWIND_BY_FRAME_POINTER;
        enum fast_end end = fast ? walk_fast(&walk) : FAST_STUCK;
        if (state->pc == 0 && state->full == NULL)
            outcome = UNWIND_OUTERMOST;
        else if (end == FAST_MET)
            outcome = rest_is_same(&walk) ? (int)trail->end : UNWIND_STEP_ON;
        else if (walk.fresh == UNWIND_TRAIL_FRAMES)
            outcome = UNWIND_FULL;
        else
            outcome = step_general(&walk);
    }
    if (walk.tail == 0)
        trail->certain = walk.certain;
    commit(&walk);
    trail->end = (uint32_t)outcome;
    return (struct unwind_trail_result){trail->count, walk.tail, (enum unwind_end)outcome, walk.by_fp};
}

bool unwind_trail_is_same(const struct unwind_trail *trail, uint64_t pc, uint64_t sp, uint64_t fp,
                          uint64_t mask)
{
    const struct unwind_trail_frames *last = &trail->last;
    uint32_t at = trail->count - 1;
    return trail->count != 0 && last->sp[at] == sp && last->pc[at] == pc && last->fp[at] == fp &&
           trail->end == UNWIND_OUTERMOST && compare_words(trail, at, mask) == ALL_SAME;
}
