#include "cfi_expression.h"

enum {
    OP_DEREF = 0x06,
    OP_CONST1U = 0x08,
    OP_AND = 0x1a,
    OP_PLUS = 0x22,
    OP_PLUS_UCONST = 0x23,
    OP_SHL = 0x24,
    OP_GE = 0x2a,
    OP_LIT0 = 0x30,
    OP_LIT31 = 0x4f,
    OP_BREG0 = 0x70,
    OP_BREG31 = 0x8f,
    OP_BREGX = 0x92,
};

static bool read_breg(struct cfi_reader *bytes, uint64_t *number, int64_t *offset)
{
    uint8_t op = cfi_reader_u8(bytes);
    if (op >= OP_BREG0 && op <= OP_BREG31)
        *number = (uint64_t)(op - OP_BREG0);
    else if (op == OP_BREGX)
        *number = cfi_reader_uleb(bytes);
    else
        return false;
    *offset = cfi_reader_sleb(bytes);
    return !bytes->failed;
}

/* The constant that is added in the end; true also for none at all. */
static bool read_addition(struct cfi_reader *bytes, int64_t *add)
{
    *add = 0;
    if (cfi_reader_left(bytes) == 0)
        return true;
    uint8_t op = cfi_reader_u8(bytes);
    if (op == OP_PLUS_UCONST) {
        *add = (int64_t)cfi_reader_uleb(bytes);
        return !bytes->failed && cfi_reader_left(bytes) == 0;
    }
    if (op >= OP_LIT0 && op <= OP_LIT31)
        *add = op - OP_LIT0;
    else if (op == OP_CONST1U)
        *add = cfi_reader_u8(bytes);
    else
        return false;
    return cfi_reader_u8(bytes) == OP_PLUS && !bytes->failed && cfi_reader_left(bytes) == 0;
}

/* The linker's PLT: litN is where in a 16-byte entry the pushed word is on the stack. */
static bool is_plt(const struct arch *arch, struct cfi_reader bytes, int64_t *after)
{
    const uint8_t head[] = {
        (uint8_t)(OP_BREG0 + arch->sp), 8, (uint8_t)(OP_BREG0 + arch->pc), 0, OP_LIT0 + 15, OP_AND};
    const uint8_t tail[] = {OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS};
    if (arch->link != ARCH_NO_REGISTER || cfi_reader_left(&bytes) != sizeof head + 1 + sizeof tail)
        return false;
    uint8_t literal = bytes.at[sizeof head];
    *after = literal - OP_LIT0;
    return memcmp(bytes.at, head, sizeof head) == 0 && literal >= OP_LIT0 && literal <= OP_LIT0 + 15 &&
           memcmp(bytes.at + sizeof head + 1, tail, sizeof tail) == 0;
}

void cfi_expression_cfa(const struct arch *arch, struct cfi_reader bytes, struct cfi_state *state)
{
    state->cfa_kind = WIRE_CFA_ODD;
    state->cfa_add = 0;
    if (is_plt(arch, bytes, &state->cfa_offset)) {
        state->cfa_kind = WIRE_CFA_PLT;
        return;
    }
    if (!read_breg(&bytes, &state->cfa_register, &state->cfa_offset))
        return;
    if (cfi_reader_left(&bytes) == 0)
        state->cfa_kind = WIRE_CFA_REGISTER;
    else if (cfi_reader_u8(&bytes) == OP_DEREF && read_addition(&bytes, &state->cfa_add))
        state->cfa_kind = WIRE_CFA_DEREFERENCE;
}

struct cfi_column cfi_expression_place(const struct arch *arch, struct cfi_reader bytes)
{
    struct cfi_column odd = {0, CFI_SAVE_ODD};
    struct cfi_reader again = bytes;
    uint64_t number;
    int64_t offset;
    if (cfi_reader_u8(&again) == OP_PLUS_UCONST) {
        offset = (int64_t)cfi_reader_uleb(&again);
        return again.failed || cfi_reader_left(&again) != 0 ? odd
                                                            : (struct cfi_column){offset, WIRE_SAVE_CFA};
    }
    if (!read_breg(&bytes, &number, &offset) || cfi_reader_left(&bytes) != 0)
        return odd;
    if (number == arch->fp)
        return (struct cfi_column){offset, WIRE_SAVE_FP};
    return number == arch->sp ? (struct cfi_column){offset, CFI_SAVE_SP} : odd;
}
