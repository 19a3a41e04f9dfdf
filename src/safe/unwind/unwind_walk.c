/* The walk: a short loop for the rules that nearly every frame has, and unwind_step for the rest.
 *
 * What a walk waits for is a chain: the return address is loaded, its low bits pick a cache entry, the
 * entry's offset gives the CFA, the CFA the next return address; about fifteen cycles a frame, measured
 * 4.9 ns. The loop breaks the chain with the branch predictor's help (2.4 ns):
 *   1. The entry says which entry came after it last time; that one is taken for the next frame's.
 *   2. Its offset is added to the CFA. So the CFA waits for entries only, one load a frame, and not for
 *      the stack.
 *   3. The return address, when it has come from the stack, must be the key of the entry that was taken.
 *      The processor has predicted that it is, and gone on; where it is not, it comes back and the entry is
 *      looked up by the address.
 *
 * The rules that the loop knows:
 *   CFA = sp + n or fp + n;  return address at CFA + m;  fp the same, or saved at CFA + k.
 * Which of them a rule is was found out when it was cached (its *form*, unwind_cache.h). Whatever else
 * comes (another rule, a cache miss, a word outside memory, no progress) leaves the loop with the state as
 * it was, and unwind_step does that frame again in full and judges it.
 *
 * A looked-up address is pc in frame 0 and after a signal frame, pc - 1 elsewhere: a call may be the last
 * instruction of its function. The cache is keyed by the looked-up address, so one pc met in both roles
 * cannot get the other's rule. */
#include "bare_bytes.h"
#include "unwind_cache.h"
#include "unwind_fast.h"
#include "unwind_step.h"

/* The frames, and how many of them are written. */
struct output {
    struct unwind_frame *frames;
    size_t count, max, frame_pointer_frames;
};

static inline void put_frame(struct output *output, uint64_t pc, uint32_t cookie, uint32_t flags)
{
    output->frames[output->count++] = (struct unwind_frame){pc, cookie, flags};
}

/* The short loop. Returns with `state` at a frame that is not written yet; its pc is 0 behind the last one.
 */
static void walk_fast(struct unwind_state *state, struct unwind_cache *cache, struct output *output)
{
    const struct unwind_memory *memory = state->memory;
    const uint64_t mask = state->space->arch->code_mask, low = memory->low;
    const uint64_t last = memory->high - low - 8; /* the last word's offset */
    const uint32_t generation = state->space->generation;
    const uint8_t *bytes = memory->bytes;
    struct unwind_frame *frame = output->frames + output->count, *first = frame;
    struct unwind_frame *const end = output->frames + output->max;
    uint64_t pc = state->pc, sp = state->sp, fp = state->fp, key = state->key, base_at = 0;
    uint32_t flags = state->flags;
    if (memory->high < low || memory->high - low < 8 || (sp & 7) != 0)
        return;
    struct unwind_entry *entry = unwind_cache_slot(cache, key), *last_entry = entry;
    for (; frame < end; frame++, last_entry = entry, entry = unwind_cache_next(cache, entry)) {
        if (entry->key != key) { /* 3. */
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
        uint64_t return_at = cfa + (uint64_t)rule->ra_slot * 8 - low;
        if (return_at > last || !unwind_fast_rises(sp, cfa))
            break;
        if (form & UNWIND_FORM_FP_SAVED) {
            uint64_t fp_at = cfa + (uint64_t)rule->fp_slot * 8 - low;
            if (fp_at > last)
                break;
            fp = bare_load64(bytes + fp_at);
        }
        base_at = unwind_fast_base(rule, form, sp, cfa, base_at);
        *frame = (struct unwind_frame){pc, entry->cookie, flags};
        sp = cfa;
        pc = bare_load64(bytes + return_at) & mask;
        key = pc - 1;
        flags = 0;
    }
    if (frame == first)
        return; /* nothing done: frame 0 keeps its full registers */
    state->pc = pc;
    state->sp = sp;
    state->fp = fp;
    state->key = key;
    state->flags = flags;
    state->full = NULL;
    if (base_at != 0) {
        state->base = base_at;
        state->base_known = state->base_saved = true;
    }
    output->count = (size_t)(frame - output->frames);
}

/* The frame that the state is at, by the general way. UNWIND_STEP_ON or the end. */
static int walk_general(struct unwind_state *state, struct unwind_cache *cache, struct output *output)
{
    struct unwind_entry own, *entry = cache != NULL ? unwind_cache_slot(cache, state->key) : &own;
    if (cache == NULL || state->key == 0 || entry->key != state->key ||
        entry->generation != state->space->generation) {
        entry = state->key != 0 ? entry : &own; /* key 0 marks a free entry */
        unwind_cache_fill(entry, state->space, state->key);
    }
    put_frame(output, state->pc, entry->cookie, state->flags);
    output->frame_pointer_frames += (state->flags & UNWIND_BY_FRAME_POINTER) != 0;
    return unwind_step(state, &entry->rule);
}

struct unwind_result unwind_walk(const struct unwind_space *space, const struct unwind_memory *memory,
                                 const struct arch_registers *registers, struct unwind_cache *cache,
                                 struct unwind_frame *frames, size_t max)
{
    struct unwind_state state;
    struct output output = {frames, 0, max, 0};
    uint64_t needed = UINT64_C(1) << space->arch->pc | UINT64_C(1) << space->arch->sp;
    if ((registers->valid & needed) != needed)
        return (struct unwind_result){0, UNWIND_BAD_READ, 0};
    unwind_step_start(&state, space, memory, registers);
    int outcome = UNWIND_STEP_ON;
    while (outcome == UNWIND_STEP_ON) {
        if (cache != NULL && state.fp_known && state.sp_known && state.flags != UNWIND_BY_FRAME_POINTER)
            walk_fast(&state, cache, &output);
        if (state.pc == 0 && state.full == NULL)
            outcome = UNWIND_OUTERMOST;
        else
            outcome = output.count < max ? walk_general(&state, cache, &output) : UNWIND_FULL;
    }
    return (struct unwind_result){output.count, (enum unwind_end)outcome, output.frame_pointer_frames};
}
