/* One frame outwards, by any rule.
 *
 * What is known of a frame. Of frame 0, and of a frame that a signal interrupted, all registers are known;
 * of any other only pc, sp, (mostly) fp and the base register, because rows carry nothing else: rules that
 * need another register there end the walk as odd. That is no loss in practice: compilers compute the CFA
 * from sp or fp at every call, and hand-written code that does otherwise does it in leaves. The exception is
 * glibc's lazy binding, whose CFA is rbx + n while it looks a symbol up: that is what the base register is
 * for. Nearly no walk asks for it, so only *where* it was saved is noted on the way, and it is read when
 * asked for.
 *
 * What is checked, since the memory and the registers are a foreign program's:
 *   1. every read is inside the given memory, or answered by read_outside;
 *   2. the CFA lies above sp and is aligned, so a walk cannot go round in a cycle. Only a frame with full
 *      registers may keep sp where it is (its return address is in a register), and then must change pc;
 *   3. across a signal frame sp may go anywhere (alternate signal stacks), which therefore cannot be
 *      checked; `moved` remembers that the copy's upper end no longer means "cut".
 *
 * A saved fp below sp. Compilers go on describing rbp as saved in its slot after `pop %rbp`, where the slot
 * is below sp. In a live process the slot still holds the value; in the kernel's copy, which begins at sp, it
 * is out of reach, but then the register itself already has it. So such a read may fail, and the register is
 * kept.
 *
 * Frame pointers, only where rows are missing and the caller allows it. A frame record (fp, return address)
 * must be aligned, at or above sp, lead upwards, and its return address must be in a known mapping. On x86-64
 * the record's end is the CFA; on AArch64 it may be anywhere in the frame, so sp is unknown from there on and
 * sp-based rules are replaced by further frame-pointer steps until an fp-based one comes. In frame 0 on
 * x86-64 the word at sp is tried too: after a call through a bad pointer it is the return address. */
#include "unwind_step.h"

#include "bare_bytes.h"

static void find_base(struct unwind_state *state, const struct arch_registers *registers)
{
    unsigned base = state->space->arch->base;
    state->base_saved = false;
    state->base_known = base != ARCH_NO_REGISTER && registers->valid >> base & 1;
    state->base = state->base_known ? registers->value[base] : 0;
}

void unwind_step_start(struct unwind_state *state, const struct unwind_space *space,
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
    find_base(state, registers);
    state->sp_known = true;
    state->moved = false;
    state->full = registers;
}

static bool word_is_inside(const struct unwind_memory *memory, uint64_t address)
{
    uint64_t size = memory->high - memory->low, at = address - memory->low;
    return memory->high >= memory->low && address >= memory->low && size >= 8 && at <= size - 8;
}

/* UNWIND_STEP_ON, or how the read failed. */
static int read_word(const struct unwind_state *state, uint64_t address, uint64_t *word)
{
    const struct unwind_memory *memory = state->memory;
    if (word_is_inside(memory, address)) {
        *word = bare_load64(memory->bytes + (address - memory->low));
        return UNWIND_STEP_ON;
    }
    if (memory->read_outside != NULL && memory->read_outside(memory->context, address, word))
        return UNWIND_STEP_ON;
    bool above = address >= memory->low && address < UINT64_C(1) << 63;
    return above && !state->moved ? UNWIND_CUT : UNWIND_BAD_READ;
}

static bool register_value(const struct unwind_state *state, unsigned number, uint64_t *value)
{
    const struct arch *arch = state->space->arch;
    if (number == arch->sp) {
        *value = state->sp;
        return state->sp_known;
    }
    if (number == arch->fp) {
        *value = state->fp;
        return state->fp_known;
    }
    if (number == arch->base && state->base_known) {
        *value = state->base;
        return !state->base_saved || read_word(state, state->base, value) == UNWIND_STEP_ON;
    }
    if (state->full == NULL || number >= ARCH_REGISTERS || !(state->full->valid >> number & 1))
        return false;
    *value = state->full->value[number];
    return true;
}

static int find_cfa(const struct unwind_state *state, const struct wire_rule *rule, uint64_t *cfa)
{
    uint64_t base;
    if (rule->cfa_kind == WIRE_CFA_PLT) {
        *cfa = state->sp + 8 + ((state->pc & 15) >= (uint64_t)(int64_t)rule->cfa_offset ? 8 : 0);
        return state->sp_known ? UNWIND_STEP_ON : UNWIND_ODD_RULE;
    }
    if (!register_value(state, rule->cfa_register, &base))
        return UNWIND_ODD_RULE;
    base += (uint64_t)(int64_t)rule->cfa_offset;
    if (rule->cfa_kind == WIRE_CFA_REGISTER) {
        *cfa = base;
        return UNWIND_STEP_ON;
    }
    int outcome = read_word(state, base, cfa);
    *cfa += (uint64_t)((int64_t)rule->cfa_add * 8);
    return outcome;
}

/* The caller's value of a register that is saved so. */
static int find_saved(const struct unwind_state *state, unsigned kind, int16_t slot, uint64_t cfa,
                      uint64_t *value)
{
    uint64_t distance = (uint64_t)slot * 8;
    switch (kind) {
    case WIRE_SAVE_CFA:
        return read_word(state, cfa + distance, value);
    case WIRE_SAVE_FP:
        return state->fp_known ? read_word(state, state->fp + distance, value) : UNWIND_ODD_RULE;
    case WIRE_SAVE_REGISTER:
        return register_value(state, (unsigned)slot, value) ? UNWIND_STEP_ON : UNWIND_ODD_RULE;
    case WIRE_SAVE_CFA_VALUE:
        *value = cfa + distance;
        return UNWIND_STEP_ON;
    default:
        return UNWIND_ODD_RULE;
    }
}

static int find_return_address(const struct unwind_state *state, const struct wire_rule *rule, uint64_t cfa,
                               uint64_t *pc)
{
    const struct arch *arch = state->space->arch;
    unsigned kind = wire_rule_ra_kind(rule);
    int outcome;
    if (kind == WIRE_SAVE_UNDEFINED)
        return UNWIND_OUTERMOST;
    if (kind == WIRE_SAVE_SAME) /* in the link register still: only where all registers are known */
        outcome = arch->link != ARCH_NO_REGISTER && register_value(state, arch->link, pc) ? UNWIND_STEP_ON
                                                                                          : UNWIND_ODD_RULE;
    else
        outcome = find_saved(state, kind, rule->ra_slot, cfa, pc);
    *pc &= arch->code_mask;
    return outcome;
}

/* The caller's frame pointer; not to have it is no failure (see above). */
static void restore_fp(struct unwind_state *state, const struct wire_rule *rule, uint64_t cfa)
{
    unsigned kind = wire_rule_fp_kind(rule);
    uint64_t value = 0;
    if (kind == WIRE_SAVE_SAME)
        return;
    if (kind == WIRE_SAVE_UNDEFINED) {
        state->fp_known = false;
        return;
    }
    if (find_saved(state, kind, rule->fp_slot, cfa, &value) == UNWIND_STEP_ON) {
        state->fp = value;
        state->fp_known = true;
        return;
    }
    bool popped =
        kind == WIRE_SAVE_CFA && state->full != NULL && cfa + (uint64_t)rule->fp_slot * 8 < state->sp;
    state->fp_known = state->fp_known && popped;
}

static void restore_base(struct unwind_state *state, const struct wire_rule *rule, uint64_t cfa)
{
    if (rule->save_kinds & WIRE_BASE_LOST)
        state->base_known = false;
    if (rule->base_slot == 0)
        return;
    uint64_t at = cfa + (uint64_t)rule->base_slot * 8;
    if (state->full != NULL && at < state->sp)
        return; /* popped: still in the register, as with fp */
    state->base = at;
    state->base_known = state->base_saved = true;
}

/* The state becomes the caller's. */
static int enter_caller(struct unwind_state *state, uint64_t pc, uint64_t sp)
{
    state->pc = pc;
    state->sp = sp;
    state->key = pc - 1;
    state->flags = 0;
    state->full = NULL;
    return pc == 0 ? UNWIND_OUTERMOST : UNWIND_STEP_ON;
}

static int step_by_rule(struct unwind_state *state, const struct wire_rule *rule)
{
    uint64_t cfa = 0, pc = 0;
    int outcome = find_cfa(state, rule, &cfa);
    if (outcome != UNWIND_STEP_ON)
        return outcome;
    bool rises = state->sp_known ? cfa > state->sp : true;
    bool may_stay = state->full != NULL && cfa == state->sp;
    if ((cfa & 7) != 0 || !(rises || may_stay))
        return UNWIND_NO_PROGRESS;
    outcome = find_return_address(state, rule, cfa, &pc);
    if (outcome != UNWIND_STEP_ON)
        return outcome;
    if (!rises && pc == state->pc)
        return UNWIND_NO_PROGRESS;
    restore_fp(state, rule, cfa);
    restore_base(state, rule, cfa);
    state->sp_known = true;
    return enter_caller(state, pc, cfa);
}

/* A signal trampoline: the interrupted frame's registers are in the context above sp. Those that cannot be
 * read stay unknown, but not without pc and sp. */
static int step_by_signal(struct unwind_state *state)
{
    const struct arch *arch = state->space->arch;
    struct arch_registers *registers = &state->interrupted;
    if (!state->sp_known)
        return UNWIND_ODD_RULE;
    uint64_t context = state->sp + arch->signal_context;
    int failure = UNWIND_BAD_READ;
    registers->valid = 0;
    for (unsigned i = 0; i < arch->signal_count; i++) {
        const struct arch_signal_slot *slot = &arch->signal_slots[i];
        int outcome = read_word(state, context + slot->offset, &registers->value[slot->register_number]);
        if (outcome == UNWIND_STEP_ON)
            registers->valid |= UINT64_C(1) << slot->register_number;
        else
            failure = outcome;
    }
    if (!(registers->valid >> arch->pc & 1) || !(registers->valid >> arch->sp & 1))
        return failure;
    state->pc = state->key = registers->value[arch->pc];
    state->sp = registers->value[arch->sp];
    state->fp = registers->value[arch->fp];
    state->fp_known = registers->valid >> arch->fp & 1;
    find_base(state, registers);
    state->moved = true;
    state->flags = UNWIND_SIGNAL;
    state->full = registers;
    return UNWIND_STEP_ON;
}

static bool is_code(const struct unwind_state *state, uint64_t pc)
{
    struct unwind_place place;
    return pc > 1 && state->space->find(state->space->context, pc - 1, &place);
}

/* Is the code at a return address in an image with call-frame information? */
static bool has_rows(const struct unwind_state *state, uint64_t pc)
{
    struct unwind_place place = {0};
    return state->space->find(state->space->context, pc - 1, &place) && place.rows != NULL &&
           unwind_rows_find(place.rows, pc - 1 - place.bias)->cfa_kind != WIRE_CFA_NONE;
}

static bool step_by_frame_pointer(struct unwind_state *state)
{
    uint64_t fp, pc;
    bool reaches = state->fp_known && (state->fp & 7) == 0 &&
                   (state->fp >= state->sp || (!state->sp_known && state->fp != 0));
    if (!reaches || read_word(state, state->fp, &fp) != UNWIND_STEP_ON ||
        read_word(state, state->fp + 8, &pc) != UNWIND_STEP_ON)
        return false;
    pc &= state->space->arch->code_mask;
    /* a caller with rows of its own may keep anything in the register */
    bool leads_on = pc == 0 || (is_code(state, pc) && (fp == 0 || fp > state->fp || has_rows(state, pc)));
    if (!leads_on)
        return false;
    uint64_t sp = state->fp + 16;
    state->fp = fp;
    state->sp_known = state->space->arch->link == ARCH_NO_REGISTER;
    state->base_known = false;
    enter_caller(state, pc, sp);
    state->flags = UNWIND_BY_FRAME_POINTER;
    return true;
}

/* Frame 0 or an interrupted frame in code that nobody described: perhaps it has pushed nothing yet. */
static bool step_by_top_word(struct unwind_state *state)
{
    const struct arch *arch = state->space->arch;
    uint64_t pc;
    if (state->full == NULL || !state->sp_known)
        return false;
    bool read = arch->link == ARCH_NO_REGISTER ? read_word(state, state->sp, &pc) == UNWIND_STEP_ON
                                               : register_value(state, arch->link, &pc);
    if (!read)
        return false;
    pc &= arch->code_mask;
    if (pc == state->pc || !is_code(state, pc))
        return false;
    enter_caller(state, pc, state->sp + (arch->link == ARCH_NO_REGISTER ? 8 : 0));
    state->flags = UNWIND_BY_FRAME_POINTER;
    return true;
}

/* Without rows. Outside every mapping the program counter came from a call by mistake, and in an image that
 * has rows elsewhere this is a bit of assembly, mostly a leaf: the top word is more reliable. In
 * generated code the frame pointer is. */
static int step_without_rows(struct unwind_state *state)
{
    struct unwind_place place = {0};
    bool mapped = state->key != 0 && state->space->find(state->space->context, state->key, &place);
    bool generated = mapped && place.rows == NULL;
    if (state->space->frame_pointers && (mapped || state->full != NULL)) {
        bool stepped = generated ? step_by_frame_pointer(state) || step_by_top_word(state)
                                 : step_by_top_word(state) || step_by_frame_pointer(state);
        if (stepped)
            return state->pc == 0 ? UNWIND_OUTERMOST : UNWIND_STEP_ON;
    }
    return mapped ? UNWIND_NO_ROWS : UNWIND_NO_MAPPING;
}

int unwind_step(struct unwind_state *state, const struct wire_rule *rule)
{
    switch (rule->cfa_kind) {
    case WIRE_CFA_END:
        return UNWIND_OUTERMOST;
    case WIRE_CFA_NONE:
        return step_without_rows(state);
    case WIRE_CFA_SIGNAL:
        return step_by_signal(state);
    case WIRE_CFA_REGISTER:
    case WIRE_CFA_DEREFERENCE:
    case WIRE_CFA_PLT:
        if (!state->sp_known &&
            (rule->cfa_kind == WIRE_CFA_PLT || rule->cfa_register == state->space->arch->sp))
            return step_without_rows(state);
        return step_by_rule(state, rule);
    default:
        return UNWIND_ODD_RULE;
    }
}
