/* Running call-frame instructions, once through and forwards.
 *
 * A program describes a table with a line for every address of a function; asking a general interpreter for
 * the line of one address runs the program from its start. Here it is run once, and a row is put down
 * whenever the location moves on and the state has become a different rule. That makes the cost proportional
 * to the bytes of the section.
 *   1. The CIE's program runs once when the CIE is parsed; its outcome is where each FDE begins, and what
 *      DW_CFA_restore goes back to.
 *   2. remember/restore keep whole states, the CFA included (as GCC means it), on a real stack: they nest in
 *      code with several early returns, and GCC has been seen to nest them deeply.
 *   3. An instruction that is unknown, cut off, or moves backwards breaks the function: it gets no rows,
 *      since half a table would be believed. What a rule cannot express does not break the function: it
 *      becomes WIRE_CFA_ODD for the addresses where it matters. A frame pointer saved in an odd way is only
 *      lost (WIRE_SAVE_UNDEFINED): most callers do not need it, and a walk that does will say so. */
#include "cfi_program.h"

#include "base_array.h"
#include "cfi_expression.h"

enum {
    CFA_ADVANCE = 0x40, /* these three with six bits of operand */
    CFA_OFFSET = 0x80,
    CFA_RESTORE = 0xc0,
    CFA_NOP = 0x00,
    CFA_SET_LOC,
    CFA_ADVANCE1,
    CFA_ADVANCE2,
    CFA_ADVANCE4,
    CFA_OFFSET_EXTENDED,
    CFA_RESTORE_EXTENDED,
    CFA_UNDEFINED,
    CFA_SAME_VALUE,
    CFA_REGISTER,
    CFA_REMEMBER_STATE,
    CFA_RESTORE_STATE,
    CFA_DEF_CFA,
    CFA_DEF_CFA_REGISTER,
    CFA_DEF_CFA_OFFSET,
    CFA_DEF_CFA_EXPRESSION,
    CFA_EXPRESSION,
    CFA_OFFSET_EXTENDED_SF,
    CFA_DEF_CFA_SF,
    CFA_DEF_CFA_OFFSET_SF,
    CFA_VAL_OFFSET,
    CFA_VAL_OFFSET_SF,
    CFA_VAL_EXPRESSION,
    CFA_ADVANCE8 = 0x1d,                /* MIPS's, used nowhere else but harmless */
    CFA_NEGATE_RA_STATE_WITH_PC = 0x2c, /* AArch64: the return address is signed from here on, or no more */
    CFA_NEGATE_RA_STATE = 0x2d,         /* (SPARC's window save) */
    CFA_ARGS_SIZE = 0x2e,
    CFA_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

#define STACK_DEPTH 64

struct machine {
    const struct arch *arch;
    const struct cfi_section *section;
    const struct cfi_cie *cie;
    struct cfi_reader code;
    struct cfi_state state;
    const struct cfi_state *initial; /* NULL while the CIE's own program runs */
    uint64_t location, start, end;
    bool broken;
    unsigned depth;
    struct cfi_state stack[STACK_DEPTH];
};

static struct cfi_column *column_of(struct machine *machine, uint64_t number)
{
    if (number == machine->arch->fp)
        return &machine->state.fp;
    if (number == machine->cie->return_column)
        return &machine->state.ra;
    if (number == machine->arch->base)
        return &machine->state.base;
    return number == machine->arch->sp ? &machine->state.sp : NULL;
}

static void set_column(struct machine *machine, uint64_t number, uint32_t kind, int64_t offset)
{
    struct cfi_column *column = column_of(machine, number);
    if (column != NULL)
        *column = (struct cfi_column){offset, kind};
}

static int64_t factored_offset(const struct machine *machine, uint64_t value)
{
    return (int64_t)(value * (uint64_t)machine->cie->data_alignment);
}

static int64_t factored_uleb(struct machine *machine)
{
    return factored_offset(machine, cfi_reader_uleb(&machine->code));
}

static int64_t factored_sleb(struct machine *machine)
{
    return factored_offset(machine, (uint64_t)cfi_reader_sleb(&machine->code));
}

static void restore_column(struct machine *machine, uint64_t number)
{
    const struct cfi_state *initial = machine->initial;
    struct cfi_column *column = column_of(machine, number);
    if (initial == NULL) {
        machine->broken = true; /* a CIE has nothing to go back to */
        return;
    }
    if (column == &machine->state.fp)
        *column = initial->fp;
    else if (column == &machine->state.ra)
        *column = initial->ra;
    else if (column == &machine->state.base)
        *column = initial->base;
    else if (column != NULL)
        *column = initial->sp;
}

static void define_cfa(struct machine *machine, uint64_t number, int64_t offset)
{
    machine->state.cfa_kind = WIRE_CFA_REGISTER;
    machine->state.cfa_register = number;
    machine->state.cfa_offset = offset;
    machine->state.cfa_add = 0;
}

/* The instructions that change one half of "register + offset" make no sense after an expression. */
static void change_cfa(struct machine *machine, const uint64_t *number, const int64_t *offset)
{
    if (machine->state.cfa_kind != WIRE_CFA_REGISTER)
        machine->broken = true;
    if (number != NULL)
        machine->state.cfa_register = *number;
    if (offset != NULL)
        machine->state.cfa_offset = *offset;
}

static void remember_state(struct machine *machine)
{
    if (machine->depth == STACK_DEPTH)
        machine->broken = true;
    else
        machine->stack[machine->depth++] = machine->state;
}

static void recall_state(struct machine *machine)
{
    if (machine->depth == 0)
        machine->broken = true;
    else
        machine->state = machine->stack[--machine->depth];
}

static struct cfi_reader read_block(struct machine *machine)
{
    uint64_t size = cfi_reader_uleb(&machine->code);
    return cfi_reader_sub(&machine->code, size);
}

static void set_by_expression(struct machine *machine, bool value)
{
    uint64_t number = cfi_reader_uleb(&machine->code);
    struct cfi_column *column = column_of(machine, number);
    struct cfi_reader block = read_block(machine);
    if (column != NULL)
        *column = value ? (struct cfi_column){0, CFI_SAVE_ODD} : cfi_expression_place(machine->arch, block);
}

/* Register rules with the register number in front. */
static bool run_register_instruction(struct machine *machine, uint8_t op)
{
    static const bool known[] = {
        [CFA_OFFSET_EXTENDED] = true, [CFA_RESTORE_EXTENDED] = true, [CFA_UNDEFINED] = true,
        [CFA_SAME_VALUE] = true,      [CFA_REGISTER] = true,         [CFA_OFFSET_EXTENDED_SF] = true,
        [CFA_VAL_OFFSET] = true,      [CFA_VAL_OFFSET_SF] = true,    [CFA_NEGATIVE_OFFSET_EXTENDED] = true,
    };
    struct cfi_reader *code = &machine->code;
    if (op >= sizeof known || !known[op])
        return false;
    uint64_t number = cfi_reader_uleb(code);
    switch (op) {
    case CFA_OFFSET_EXTENDED:
        set_column(machine, number, WIRE_SAVE_CFA, factored_uleb(machine));
        break;
    case CFA_OFFSET_EXTENDED_SF:
        set_column(machine, number, WIRE_SAVE_CFA, factored_sleb(machine));
        break;
    case CFA_NEGATIVE_OFFSET_EXTENDED:
        set_column(machine, number, WIRE_SAVE_CFA, (int64_t)(0 - (uint64_t)factored_uleb(machine)));
        break;
    case CFA_VAL_OFFSET:
        set_column(machine, number, WIRE_SAVE_CFA_VALUE, factored_uleb(machine));
        break;
    case CFA_VAL_OFFSET_SF:
        set_column(machine, number, WIRE_SAVE_CFA_VALUE, factored_sleb(machine));
        break;
    case CFA_RESTORE_EXTENDED:
        restore_column(machine, number);
        break;
    case CFA_UNDEFINED:
        set_column(machine, number, WIRE_SAVE_UNDEFINED, 0);
        break;
    case CFA_SAME_VALUE:
        set_column(machine, number, WIRE_SAVE_SAME, 0);
        break;
    default: /* CFA_REGISTER */
        set_column(machine, number, WIRE_SAVE_REGISTER, (int64_t)cfi_reader_uleb(code));
        break;
    }
    return true;
}

static bool run_cfa_instruction(struct machine *machine, uint8_t op)
{
    struct cfi_reader *code = &machine->code;
    uint64_t number;
    int64_t offset;
    switch (op) {
    case CFA_DEF_CFA:
        number = cfi_reader_uleb(code);
        define_cfa(machine, number, (int64_t)cfi_reader_uleb(code));
        return true;
    case CFA_DEF_CFA_SF:
        number = cfi_reader_uleb(code);
        define_cfa(machine, number, factored_sleb(machine));
        return true;
    case CFA_DEF_CFA_REGISTER:
        number = cfi_reader_uleb(code);
        change_cfa(machine, &number, NULL);
        return true;
    case CFA_DEF_CFA_OFFSET:
        offset = (int64_t)cfi_reader_uleb(code);
        change_cfa(machine, NULL, &offset);
        return true;
    case CFA_DEF_CFA_OFFSET_SF:
        offset = factored_sleb(machine);
        change_cfa(machine, NULL, &offset);
        return true;
    case CFA_DEF_CFA_EXPRESSION:
        cfi_expression_cfa(machine->arch, read_block(machine), &machine->state);
        return true;
    default:
        return false;
    }
}

/* Everything else that does not move the location. */
static void run_other_instruction(struct machine *machine, uint8_t op)
{
    switch (op) {
    case CFA_NOP:
    case CFA_NEGATE_RA_STATE: /* signatures are stripped from every return address */
    case CFA_NEGATE_RA_STATE_WITH_PC:
        break;
    case CFA_REMEMBER_STATE:
        remember_state(machine);
        break;
    case CFA_RESTORE_STATE:
        recall_state(machine);
        break;
    case CFA_EXPRESSION:
        set_by_expression(machine, false);
        break;
    case CFA_VAL_EXPRESSION:
        set_by_expression(machine, true);
        break;
    case CFA_ARGS_SIZE: /* what is pushed for a call: matters to exceptions, not to the CFA */
        cfi_reader_uleb(&machine->code);
        break;
    default:
        machine->broken = true;
    }
}

static void advance_location(struct machine *machine, uint64_t delta)
{
    uint64_t distance;
    if (__builtin_mul_overflow(delta, machine->cie->code_alignment, &distance) ||
        __builtin_add_overflow(machine->location, distance, &machine->location))
        machine->broken = true;
}

/* Moves the location; false when `op` is no such instruction. */
static bool run_advance(struct machine *machine, uint8_t op)
{
    static const uint8_t sizes[] = {
        [CFA_ADVANCE1] = 1, [CFA_ADVANCE2] = 2, [CFA_ADVANCE4] = 4, [CFA_ADVANCE8] = 8};
    if ((op & 0xc0) == CFA_ADVANCE) {
        advance_location(machine, op & 0x3f);
        return true;
    }
    if (op < sizeof sizes && sizes[op] != 0) {
        advance_location(machine, cfi_reader_fixed(&machine->code, sizes[op]));
        return true;
    }
    if (op != CFA_SET_LOC)
        return false;
    uint64_t location = cfi_pointer_read(&machine->code, machine->section, machine->cie->address_encoding);
    machine->broken = machine->broken || location < machine->location;
    machine->location = location;
    return true;
}

/* Runs until the location moves or the code ends. */
static void run_to_advance(struct machine *machine)
{
    uint64_t before = machine->location;
    while (machine->code.at != machine->code.end && machine->location == before && !machine->broken) {
        uint8_t op = cfi_reader_u8(&machine->code);
        if (run_advance(machine, op))
            continue;
        if ((op & 0xc0) == CFA_OFFSET)
            set_column(machine, op & 0x3f, WIRE_SAVE_CFA, factored_uleb(machine));
        else if ((op & 0xc0) == CFA_RESTORE)
            restore_column(machine, op & 0x3f);
        else if (!run_cfa_instruction(machine, op) && !run_register_instruction(machine, op))
            run_other_instruction(machine, op);
    }
    machine->broken = machine->broken || machine->code.failed;
}

/* Lets an FDE's program, or a CIE's (initial NULL), begin. The stack is left as it is: depth guards it. */
static void start_machine(struct machine *machine, const struct arch *arch, const struct cfi_section *section,
                          const struct cfi_cie *cie, const struct cfi_state *initial)
{
    machine->arch = arch;
    machine->section = section;
    machine->cie = cie;
    machine->initial = initial;
    machine->state = initial != NULL ? *initial : (struct cfi_state){0};
    machine->broken = false;
    machine->depth = 0;
    machine->location = machine->start = 0;
    machine->end = UINT64_MAX;
    machine->code = cie->program;
}

bool cfi_program_initial(const struct arch *arch, const struct cfi_section *section, struct cfi_cie *cie)
{
    struct machine machine;
    start_machine(&machine, arch, section, cie, NULL);
    run_to_advance(&machine);
    cie->initial = machine.state;
    return !machine.broken && machine.code.at == machine.code.end;
}

static bool is_int32(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

static bool fits_slot(int64_t value)
{
    return value % 8 == 0 && value / 8 >= INT16_MIN && value / 8 <= INT16_MAX;
}

/* A column as a rule can hold it: an sp-based place becomes a CFA-based one where the CFA is sp-based too. */
static struct cfi_column settle_row(const struct arch *arch, const struct cfi_state *state,
                                    struct cfi_column column)
{
    if (column.kind == CFI_SAVE_SP && state->cfa_kind == WIRE_CFA_REGISTER && state->cfa_register == arch->sp)
        column = (struct cfi_column){(int64_t)((uint64_t)column.offset - (uint64_t)state->cfa_offset),
                                     WIRE_SAVE_CFA};
    bool known = column.kind <= WIRE_SAVE_CFA_VALUE && fits_slot(column.offset);
    if (column.kind == WIRE_SAVE_REGISTER)
        known = column.offset >= 0 && column.offset < arch->register_count;
    return known ? column : (struct cfi_column){0, CFI_SAVE_ODD};
}

/* The kernel's signal frame, spelt out in expressions: sp and pc come from the context above sp. */
static bool is_signal_frame(const struct arch *arch, const struct cfi_state *state)
{
    const struct arch_signal_slot *slots = arch->signal_slots;
    if (state->cfa_kind != WIRE_CFA_DEREFERENCE || state->cfa_register != arch->sp || state->cfa_add != 0 ||
        state->ra.kind != CFI_SAVE_SP)
        return false;
    unsigned agreeing = 0;
    for (unsigned i = 0; i < arch->signal_count; i++) {
        int64_t offset = arch->signal_context + slots[i].offset;
        agreeing += slots[i].register_number == arch->sp && offset == state->cfa_offset;
        agreeing += slots[i].register_number == arch->pc && offset == state->ra.offset;
    }
    return agreeing == 2;
}

/* The return address: a register that keeps its value is the link register's rule only where it is that. */
static struct cfi_column settle_return(const struct arch *arch, uint64_t return_column,
                                       const struct cfi_state *state)
{
    struct cfi_column ra = settle_row(arch, state, state->ra);
    if (ra.kind != WIRE_SAVE_SAME || return_column == arch->link)
        return ra;
    bool usable = return_column < arch->register_count && return_column != arch->pc;
    return usable ? (struct cfi_column){(int64_t)return_column, WIRE_SAVE_REGISTER}
                  : (struct cfi_column){0, CFI_SAVE_ODD};
}

static bool cfa_is_odd(const struct arch *arch, const struct cfi_state *state)
{
    if (state->cfa_kind == WIRE_CFA_PLT)
        return false;
    return (state->cfa_kind != WIRE_CFA_REGISTER && state->cfa_kind != WIRE_CFA_DEREFERENCE) ||
           state->cfa_register >= arch->register_count || !is_int32(state->cfa_offset) ||
           state->cfa_add % 8 != 0 || state->cfa_add / 8 < INT8_MIN || state->cfa_add / 8 > INT8_MAX;
}

/* A settled column's offset in a rule. */
static int16_t slot_of(struct cfi_column column)
{
    if (column.kind == WIRE_SAVE_SAME || column.kind == WIRE_SAVE_UNDEFINED)
        return 0;
    return (int16_t)(column.kind == WIRE_SAVE_REGISTER ? column.offset : column.offset / 8);
}

/* Adds what is known of the base register. */
static void settle_base(const struct arch *arch, const struct cfi_state *state, struct wire_rule *rule)
{
    struct cfi_column base = settle_row(arch, state, state->base);
    if (base.kind == WIRE_SAVE_CFA && base.offset != 0)
        rule->base_slot = slot_of(base);
    else if (base.kind != WIRE_SAVE_SAME)
        rule->save_kinds |= WIRE_BASE_LOST;
}

/* The rule that a state amounts to. */
static struct wire_rule rule_of_state(const struct arch *arch, uint64_t return_column,
                                      const struct cfi_state *state)
{
    if (is_signal_frame(arch, state))
        return (struct wire_rule){.cfa_kind = WIRE_CFA_SIGNAL};
    struct cfi_column fp = settle_row(arch, state, state->fp), ra = settle_return(arch, return_column, state);
    if (ra.kind == WIRE_SAVE_UNDEFINED)
        return (struct wire_rule){.cfa_kind = WIRE_CFA_END};
    bool sp_is_cfa =
        state->sp.kind == WIRE_SAVE_SAME || (state->sp.kind == WIRE_SAVE_CFA_VALUE && state->sp.offset == 0);
    if (ra.kind == CFI_SAVE_ODD || !sp_is_cfa || cfa_is_odd(arch, state))
        return (struct wire_rule){.cfa_kind = WIRE_CFA_ODD};
    if (fp.kind == CFI_SAVE_ODD)
        fp = (struct cfi_column){0, WIRE_SAVE_UNDEFINED};
    bool plt = state->cfa_kind == WIRE_CFA_PLT;
    struct wire_rule rule = {
        .cfa_offset = (int32_t)state->cfa_offset,
        .fp_slot = slot_of(fp),
        .ra_slot = slot_of(ra),
        .cfa_add = plt ? 0 : (int8_t)(state->cfa_add / 8),
        .cfa_register = plt ? arch->sp : (uint8_t)state->cfa_register,
        .cfa_kind = (uint8_t)state->cfa_kind,
        .save_kinds = (uint8_t)(fp.kind | ra.kind << 4),
    };
    settle_base(arch, state, &rule);
    return rule;
}

/* A row from `offset` on, unless the last one says the same; at the same offset it replaces the last one. */
static bool put_row(struct cfi_row_list *rows, size_t first, uint64_t offset, uint32_t rule)
{
    if (rows->count > first && rows->items[rows->count - 1].offset == offset)
        rows->count--;
    if (rows->count > first && rows->items[rows->count - 1].rule == rule)
        return true;
    if (!base_array_room(rows->items, rows->count, rows->capacity))
        return false;
    rows->items[rows->count++] = (struct cfi_row){(uint32_t)offset, (uint16_t)rule};
    return true;
}

enum cfi_program_result cfi_program_run(const struct arch *arch, const struct cfi_section *section,
                                        const struct cfi_cie *cie, const struct cfi_fde *fde,
                                        struct cfi_rules *rules, struct cfi_row_list *rows)
{
    struct machine machine;
    size_t first = rows->count;
    start_machine(&machine, arch, section, cie, &cie->initial);
    machine.location = fde->start;
    machine.code = fde->program;
    uint64_t length = fde->end - fde->start < UINT32_MAX ? fde->end - fde->start : UINT32_MAX;
    for (;;) {
        uint64_t offset = machine.location - fde->start;
        if (offset >= length)
            return CFI_PROGRAM_DONE;
        run_to_advance(&machine);
        if (machine.broken) {
            rows->count = first;
            return CFI_PROGRAM_BROKEN;
        }
        struct wire_rule rule = rule_of_state(arch, cie->return_column, &machine.state);
        uint32_t number = cfi_rules_number(rules, &rule);
        if (number == UINT32_MAX || !put_row(rows, first, offset, number)) {
            rows->count = first;
            return CFI_PROGRAM_NO_MEMORY;
        }
        if (machine.location - fde->start == offset)
            return CFI_PROGRAM_DONE;
    }
}
