/* The walk: a short loop for the rules that nearly every frame has, and unwind_step for the rest.
 *
 * A frame of the short loop costs a chain of dependent instructions: the return address is loaded, its low
 * bits pick a cache entry, the entry's offset gives the CFA, the CFA the next return address; about fifteen
 * cycles, and nothing else in the loop is on that chain. The rules it knows:
 *   CFA = sp + n or fp + n;  return address at CFA + m;  fp the same, or saved at CFA + k.
 * They are told apart by the four bytes of wire_rule behind the offsets (its *shape*) in one comparison
 * each. Whatever else comes - another rule, a cache miss, a word outside memory, no progress - leaves the
 * loop with the state as it was, and unwind_step does that frame again in full and judges it.
 *
 * A looked-up address is pc in frame 0 and after a signal frame, pc - 1 elsewhere: a call may be the last
 * instruction of its function. The cache is keyed by the looked-up address, so one pc met in both roles
 * cannot get the other's rule. */
#include "bare_bytes.h"
#include "unwind_cache.h"
#include "unwind_step.h"

/* wire_rule's last four bytes as one number. */
static inline uint32_t shape_of(const struct wire_rule *rule)
{
    return bare_load32(&rule->cfa_add);
}

static uint32_t shape(uint8_t cfa_register, enum wire_save_kind fp_kind)
{
    struct wire_rule rule = {.cfa_register = cfa_register,
                             .cfa_kind = WIRE_CFA_REGISTER,
                             .save_kinds = (uint8_t)(fp_kind | WIRE_SAVE_CFA << 4)};
    return shape_of(&rule);
}

struct shapes {
    uint32_t sp_same, sp_saved, fp_same, fp_saved;
};

static struct shapes shapes_of(const struct arch *arch)
{
    return (struct shapes){shape(arch->sp, WIRE_SAVE_SAME), shape(arch->sp, WIRE_SAVE_CFA),
                           shape(arch->fp, WIRE_SAVE_SAME), shape(arch->fp, WIRE_SAVE_CFA)};
}

/* The frames, and how many of them are written. */
struct output {
    struct unwind_frame *frames;
    size_t count, max, frame_pointer_frames;
};

static inline void put_frame(struct output *output, uint64_t pc, uint32_t cookie, uint32_t flags)
{
    output->frames[output->count++] = (struct unwind_frame){pc, cookie, flags};
}

/* The short loop. Returns with `state` at a frame that is looked up nowhere and written nowhere yet. */
static void walk_fast(struct unwind_state *state, struct unwind_cache *cache, struct output *output)
{
    const struct unwind_memory *memory = state->memory;
    const struct shapes shapes = shapes_of(state->space->arch);
    const uint64_t mask = state->space->arch->code_mask, low = memory->low;
    const uint64_t last = memory->high - low - 8; /* the last word's offset */
    const uint32_t generation = state->space->generation;
    const uint8_t *bytes = memory->bytes;
    uint64_t pc = state->pc, sp = state->sp, fp = state->fp, key = state->key, base_at = 0;
    uint32_t flags = state->flags;
    struct output out = *output;
    if (memory->high < low || memory->high - low < 8)
        return;
    while (out.count < out.max) {
        const struct unwind_entry *entry = unwind_cache_slot(cache, key);
        const struct wire_rule *rule = &entry->rule;
        if (entry->key != key || entry->generation != generation)
            break;
        uint32_t form = shape_of(rule);
        bool by_sp = form == shapes.sp_same || form == shapes.sp_saved;
        if (!by_sp && form != shapes.fp_saved && form != shapes.fp_same)
            break;
        uint64_t cfa = (by_sp ? sp : fp) + (uint64_t)(int64_t)rule->cfa_offset;
        uint64_t return_at = cfa + (uint64_t)rule->ra_slot * 8 - low;
        if (return_at > last || cfa <= sp || (cfa & 7) != 0)
            break;
        uint64_t next = bare_load64(bytes + return_at) & mask;
        if (next == 0)
            break;
        if (form == shapes.sp_saved || form == shapes.fp_saved) {
            uint64_t fp_at = cfa + (uint64_t)rule->fp_slot * 8 - low;
            if (fp_at > last)
                break;
            fp = bare_load64(bytes + fp_at);
        }
        put_frame(&out, pc, entry->cookie, flags);
        uint64_t saved_at = cfa + (uint64_t)rule->base_slot * 8;
        base_at = rule->base_slot != 0 && saved_at >= sp ? saved_at : base_at;
        sp = cfa;
        pc = next;
        key = pc - 1;
        flags = 0;
    }
    if (out.count == output->count)
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
    output->count = out.count;
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

static void start(struct unwind_state *state, const struct unwind_space *space,
                  const struct unwind_memory *memory, const struct arch_registers *registers)
{
    const struct arch *arch = space->arch;
    state->space = space;
    state->memory = memory;
    state->pc = state->key = registers->value[arch->pc];
    state->sp = registers->value[arch->sp];
    state->fp = registers->value[arch->fp];
    state->flags = 0;
    state->fp_known = registers->valid >> arch->fp & 1;
    unwind_step_base(state, registers);
    state->sp_known = true;
    state->moved = false;
    state->full = registers;
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
    start(&state, space, memory, registers);
    int outcome = UNWIND_STEP_ON;
    while (outcome == UNWIND_STEP_ON) {
        if (cache != NULL && state.fp_known && state.sp_known && state.flags != UNWIND_BY_FRAME_POINTER)
            walk_fast(&state, cache, &output);
        outcome = output.count < max ? walk_general(&state, cache, &output) : UNWIND_FULL;
    }
    return (struct unwind_result){output.count, (enum unwind_end)outcome, output.frame_pointer_frames};
}
