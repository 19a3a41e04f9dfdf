/* code_instruction.h - one x86-64 instruction: its length, what it does to the flow of control, and where its
 * pc-relative displacement lies.
 *
 * Only what Tally needs of an instruction is reported, and only what Zydis' minimal mode gives (55-68 ns
 * each): operands are not decoded. What an instruction does to the flags costs a full decoding and is asked
 * for separately. Branches are decoded as Intel's processors do (an operand-size prefix on a near branch is
 * ignored); where AMD's would take two bytes of displacement instead, the instruction is marked
 * CODE_AMBIGUOUS. Context: anywhere in the tool; no allocation except in code_instructions_decode. Source:
 * Intel SDM volume 2. */
#ifndef CODE_INSTRUCTION_H
#define CODE_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "code_function.h"
#include "code_text.h"

enum code_flow {
    CODE_STRAIGHT,      /* goes on with the next one */
    CODE_CALL,          /* call rel32, however prefixed (66 66 48 e8, 67 e8, 2e e8, f2 e8) */
    CODE_CALL_INDIRECT, /* call r/m64 (ff /2); ff /3 (far) as well, marked CODE_FAR */
    CODE_JUMP,          /* jmp rel8, rel32 */
    CODE_JUMP_INDIRECT, /* jmp r/m64 (ff /4); ff /5 (far) as well, marked CODE_FAR */
    CODE_BRANCH,        /* jcc rel8, rel32 */
    CODE_LOOP,          /* loop, loope, loopne, jrcxz, jecxz: rel8 only, counting in rcx, flags untouched */
    CODE_XBEGIN,        /* goes on, or to its target after an abort */
    CODE_RETURN,        /* ret, ret imm16, far ret, iret, sysret */
    CODE_STOP,          /* ud0, ud1, ud2, hlt, int3: nothing that is meant to go on */
    CODE_SYSTEM         /* syscall, sysenter, int imm8: the kernel, then the next one */
};

/* Of CALL_INDIRECT and JUMP_INDIRECT: where the target comes from. */
enum code_operand {
    CODE_OPERAND_NONE,
    CODE_OPERAND_REGISTER,
    CODE_OPERAND_MEMORY,
    CODE_OPERAND_RIP /* [rip + disp32]: `memory` is the slot, mostly one of the GOT */
};

/* Bits of `marks`. */
enum code_mark {
    CODE_LEA = 1,     /* `memory` is taken as an address, not read */
    CODE_ENDBR = 2,   /* endbr64 */
    CODE_PADDING = 4, /* nop in any length, or int3 */
    CODE_NOTRACK = 8, /* prefix 3e on an indirect branch: a compiler's jump table */
    CODE_LOCK = 16,   /* prefix f0: a branch may go to the byte after it */
    CODE_STACK = 32,  /* explicit operand is rsp, or memory addressed by rsp */
    CODE_GS = 64,     /* prefix 65 (memory addressed by gs), wrgsbase, rdgsbase, swapgs, mov gs */
    CODE_AMBIGUOUS = 128,
    CODE_FAR = 256,
    CODE_BND = 512,      /* prefix f2 on a branch */
    CODE_ABSOLUTE = 1024 /* memory operand [disp32 + ...] without rip: `absolute` */
};

struct code_instruction {
    uint64_t address;
    uint64_t target; /* of CALL, JUMP, BRANCH, LOOP, XBEGIN: absolute; else 0 */
    uint64_t memory; /* address of a rip-relative memory operand (rip_relative), else 0 */
    /* the last immediate, sign-extended; 0 where immediate_size is 0 (or it is a displacement) */
    uint64_t immediate;
    int32_t absolute; /* disp32 of a memory operand with CODE_ABSOLUTE: in non-PIE code a table's address */
    uint16_t marks;   /* enum code_mark */
    uint8_t length;   /* 1..15 */
    uint8_t flow;     /* enum code_flow */
    uint8_t operand;  /* enum code_operand */
    bool rip_relative;
    /* offset in the instruction of its pc-relative displacement (branch or memory) */
    uint8_t displacement_at;
    uint8_t displacement_size; /* 1, 4 bytes; 0: it has none and moves as it is */
    uint8_t immediate_at, immediate_size;
    uint8_t opcode_at, modrm_at; /* offsets; modrm_at 0: it has none */
    uint8_t opcode_map, opcode;  /* map 0: one byte; 1: 0f; 2: 0f 38; 3: 0f 3a; others: VEX, EVEX, XOP */
};

/* Decodes the instruction at `bytes`, of which `available` may be looked at. False: no instruction, or it
 * does not end within them. */
bool code_instruction_decode(const uint8_t *bytes, size_t available, uint64_t address,
                             struct code_instruction *instruction);

/* Does control never go on to the next instruction? (JUMP, JUMP_INDIRECT, RETURN, STOP) */
bool code_instruction_ends(const struct code_instruction *instruction);

/* --- one function --- */

struct code_instructions {
    struct code_instruction *items;
    size_t count, capacity;
};

/* Decodes [start, end) into `instructions` (emptied first; memory is reused). Returns the verdict; *where is
 * the address at which it was found (start when fine). Verdicts that need the whole function (into an
 * instruction, data in text) are reached too; `instructions` then holds what was decoded until there.
 * BASE_ENOMEM (negative) when memory ran out. */
int code_instructions_decode(const struct code_text *text, uint64_t start, uint64_t end,
                             struct code_instructions *instructions, uint64_t *where);
/* The index of the instruction that begins at exactly `address`; SIZE_MAX: none does. */
size_t code_instructions_find(const struct code_instructions *instructions, uint64_t address);
void code_instructions_free(struct code_instructions *instructions);

#endif
