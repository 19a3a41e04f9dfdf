/* code_return.c - does a function read its own return address?
 *
 * A compiler's __builtin_return_address(0) is a load of the word above everything that the function has
 * pushed:
 *
 *     sub $8, %rsp; ...; mov 8(%rsp), %rax            by rsp, whose distance is followed
 *     push %rbp; mov %rsp, %rbp; ...; mov 8(%rbp)     by the frame pointer
 *     pop %rdi                                        assembly, at the function's beginning
 *
 * The distance is followed in the order of addresses. Behind an instruction that does not go on to the next
 * one it is that of the last branch there, or the largest so far where none is known: blocks out of line
 * mostly lie in the middle of the body. An error costs little: calls of a function that is taken for such a
 * reader are counted by its hook. */
#include "code_scan.h"

#include <string.h>

enum { RSP = 4, RBP = 5, WORD = 8, REX_WIDE = 8, REX_BASE = 1, BRANCHES = 64 };

struct branch {
    uint64_t target;
    int64_t depth;
};

struct frame {
    int64_t depth;                    /* the return address is at rsp + depth */
    int64_t deepest;                  /* of all depths */
    int64_t base;                     /* it is at rbp + base */
    bool known;                       /* depth is */
    bool based;                       /* base is */
    struct branch branches[BRANCHES]; /* forward ones, by target; later ones take the place of others */
};

/* The operand that ModRM names. */
struct operand {
    unsigned reg;         /* ModRM's other field */
    unsigned base;        /* the register, or that which addresses memory */
    int32_t displacement; /* of memory */
    bool memory;          /* base + displacement, with no index */
    bool direct;          /* the register itself */
};

static unsigned rex_of(const struct code_instruction *at, const uint8_t *bytes)
{
    uint8_t before = at->opcode_at ? bytes[at->opcode_at - 1] : 0;
    return (before & 0xf0) == 0x40 ? before : 0;
}

static struct operand operand_of(const struct code_instruction *at, const uint8_t *bytes)
{
    const uint8_t *modrm = bytes + at->modrm_at, *rest = modrm + 1;
    unsigned rex = rex_of(at, bytes), mode = *modrm >> 6, low = *modrm & 7;
    struct operand operand = {
        .reg = (*modrm >> 3 & 7) | (rex & 4) << 1, .base = low | (rex & REX_BASE) << 3, .direct = mode == 3};
    if (operand.direct || at->rip_relative || (mode == 0 && low == RBP))
        return operand;
    if (low == RSP) {
        if ((*rest >> 3 & 7) != RSP || (rex & 2))
            return operand; /* an index */
        operand.base = (*rest & 7) | (rex & REX_BASE) << 3;
        if (mode == 0 && (*rest++ & 7) == RBP)
            return operand; /* no base */
        rest += mode != 0;
    }
    operand.memory = true;
    if (mode == 1)
        operand.displacement = (int8_t)*rest;
    else if (mode == 2)
        memcpy(&operand.displacement, rest, sizeof operand.displacement);
    return operand;
}

static bool is_return_address(const struct frame *frame, const struct operand *operand)
{
    return operand->memory &&
           ((operand->base == RSP && frame->known && operand->displacement == frame->depth) ||
            (operand->base == RBP && frame->based && operand->displacement == frame->base));
}

static void move_stack(struct frame *frame, int64_t bytes)
{
    frame->depth += bytes;
    if (frame->depth > frame->deepest)
        frame->deepest = frame->depth;
}

static void set_depth(struct frame *frame, bool known, int64_t depth)
{
    frame->known = known;
    frame->depth = depth;
    move_stack(frame, 0);
}

static void set_base(struct frame *frame)
{
    frame->based = true;
    frame->base = frame->known ? frame->depth : WORD; /* a copy, where the stack was aligned */
}

/* add, sub and others with an immediate; lea; mov between registers: as far as they change rsp or rbp. */
static void follow_operand(struct frame *frame, const struct code_instruction *at,
                           const struct operand *operand)
{
    enum { ADD = 0, SUB = 5, COMPARE = 7 };
    int64_t value = (int64_t)at->immediate;
    switch (at->opcode) {
    case 0x81:
    case 0x83:
        if (!operand->direct || operand->base != RSP || operand->reg == COMPARE)
            return;
        if (operand->reg == ADD || operand->reg == SUB)
            move_stack(frame, operand->reg == SUB ? value : -value);
        else
            frame->known = false;
        return;
    case 0x8d: /* lea */
        if (operand->reg == RSP && operand->memory && operand->base == RSP)
            move_stack(frame, -(int64_t)operand->displacement);
        else if (operand->reg == RSP)
            set_depth(frame, frame->based && operand->memory && operand->base == RBP,
                      frame->base - operand->displacement);
        return;
    case 0x89: /* mov reg, r/m */
        if (operand->direct && operand->reg == RSP && operand->base == RBP)
            set_base(frame);
        else if (operand->direct && operand->base == RSP)
            set_depth(frame, frame->based && operand->reg == RBP, frame->base);
        return;
    case 0x29: /* sub reg, r/m */
        frame->known &= !operand->direct || operand->base != RSP;
        return;
    case 0xff:
        if (operand->reg == 6) /* push */
            move_stack(frame, WORD);
        return;
    default:
        return;
    }
}

/* Push, pop, leave. True: it takes the return address off the stack. */
static bool follow_stack(struct frame *frame, uint8_t opcode)
{
    bool reads = false;
    switch (opcode) {
    case 0x50 ... 0x57:
    case 0x68:
    case 0x6a:
        move_stack(frame, WORD);
        return false;
    case 0x58 ... 0x5f:
        reads = frame->known && frame->depth == 0;
        move_stack(frame, -WORD);
        return reads;
    case 0xc9: /* leave */
        set_depth(frame, frame->based, frame->base - WORD);
        return false;
    default:
        return false;
    }
}

/* Follows one instruction. True: it reads the word. */
static bool follow_instruction(struct frame *frame, const struct code_instruction *at, const uint8_t *bytes)
{
    if (at->opcode_map != 0)
        return false;
    if (!at->modrm_at)
        return follow_stack(frame, at->opcode);
    if (at->opcode != 0x8b && at->opcode != 0xff && at->opcode != 0x8d && at->opcode != 0x89 &&
        at->opcode != 0x29 && at->opcode != 0x81 && at->opcode != 0x83)
        return false;
    struct operand operand = operand_of(at, bytes);
    bool wide = rex_of(at, bytes) & REX_WIDE, pushes = at->opcode == 0xff && operand.reg == 6;
    if (at->opcode == 0x8b && wide && operand.direct && operand.base == RSP && operand.reg == RBP)
        set_base(frame);
    bool reads = ((at->opcode == 0x8b && wide) || pushes) && is_return_address(frame, &operand);
    if (wide || pushes)
        follow_operand(frame, at, &operand);
    return reads;
}

static void note_branch(struct frame *frame, const struct code_instruction *at)
{
    if (frame->known && (at->flow == CODE_BRANCH || at->flow == CODE_JUMP) && at->target > at->address)
        frame->branches[at->target % BRANCHES] = (struct branch){at->target, frame->depth};
}

/* Control comes to `address` by branches alone. */
static void arrive_by_branch(struct frame *frame, uint64_t address)
{
    const struct branch *branch = &frame->branches[address % BRANCHES];
    if (branch->target == address)
        set_depth(frame, true, branch->depth);
    else
        frame->depth = frame->deepest;
}

bool code_return_is_read(const struct code_instructions *instructions, const uint8_t *code)
{
    struct frame frame = {.known = true};
    for (size_t i = 0; i < instructions->count; i++) {
        const struct code_instruction *at = &instructions->items[i];
        if (follow_instruction(&frame, at, code + (at->address - instructions->items[0].address)))
            return true;
        note_branch(&frame, at);
        if (code_instruction_ends(at))
            arrive_by_branch(&frame, at->address + at->length);
    }
    return false;
}

bool code_return_is_passed(const char *name)
{
    static const char *const names[] = {"__cyg_profile_func_enter", "__cyg_profile_func_exit",
                                        "__tsan_func_entry"};
    return code_scan_is_one(name, names, sizeof names / sizeof *names);
}
