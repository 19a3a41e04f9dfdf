#include "code_aarch64.h"

#include <string.h>

#include "base_array.h"

enum { WORD = 4 };
#define NOP 0xd503201fu

/* A signed field of `bits` from bit `low`, in words, relative to `address`. */
static uint64_t branch_target(uint32_t word, unsigned low, unsigned bits, uint64_t address)
{
    uint64_t field = (word >> low) & ((UINT64_C(1) << bits) - 1), sign = UINT64_C(1) << (bits - 1);
    return address + ((field ^ sign) - sign) * WORD;
}

/* Unconditional branches to registers: C4.1.66, "opc" says which; bit 3 of it is pointer authentication. */
static enum code_flow flow_of_register(uint32_t word)
{
    switch (word >> 21 & 7) {
    case 0:
        return CODE_JUMP_INDIRECT;
    case 1:
        return CODE_CALL_INDIRECT;
    default: /* ret, eret, drps */
        return CODE_RETURN;
    }
}

/* Exception generation: svc, hvc, smc go on; brk, hlt, dcps do not. */
static enum code_flow flow_of_exception(uint32_t word)
{
    return (word >> 21 & 7) == 0 ? CODE_SYSTEM : CODE_STOP;
}

static enum code_flow flow_of(uint32_t word, uint64_t address, uint64_t *to)
{
    if ((word & 0x7c000000) == 0x14000000) { /* b, bl */
        *to = branch_target(word, 0, 26, address);
        return word >> 31 ? CODE_CALL : CODE_JUMP;
    }
    if ((word & 0xfe000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) { /* b.cond, cbz, cbnz */
        *to = branch_target(word, 5, 19, address);
        return CODE_BRANCH;
    }
    if ((word & 0x7e000000) == 0x36000000) { /* tbz, tbnz */
        *to = branch_target(word, 5, 14, address);
        return CODE_BRANCH;
    }
    if ((word & 0xfe000000) == 0xd6000000)
        return flow_of_register(word);
    if ((word & 0xff000000) == 0xd4000000)
        return flow_of_exception(word);
    return (word & 0xffff0000) == 0 ? CODE_STOP : CODE_STRAIGHT; /* udf */
}

void code_aarch64_decode(uint32_t word, uint64_t address, struct code_instruction *instruction)
{
    *instruction = (struct code_instruction){.address = address, .length = WORD};
    instruction->flow = (uint8_t)flow_of(word, address, &instruction->target);
    instruction->displacement_size = instruction->target ? WORD : 0;
    if (word == NOP)
        instruction->marks = CODE_PADDING;
}

int code_aarch64_decode_all(const struct code_text *text, uint64_t start, uint64_t end,
                            struct code_instructions *instructions, uint64_t *where)
{
    size_t available;
    instructions->count = 0;
    *where = start;
    if (end <= start)
        return CODE_VERDICT_EMPTY;
    const uint8_t *bytes = code_text_at(text, start, &available);
    if (bytes == NULL)
        return CODE_VERDICT_NO_BYTES;
    for (uint64_t at = 0; at < end - start; at += WORD) {
        uint32_t word;
        *where = start + at;
        if (available - at < WORD || at > available)
            return CODE_VERDICT_NO_BYTES;
        if (end - start - at < WORD)
            return CODE_VERDICT_PAST_END;
        if (!base_array_room(instructions->items, instructions->count, instructions->capacity))
            return BASE_ENOMEM;
        memcpy(&word, bytes + at, sizeof word);
        code_aarch64_decode(word, *where, &instructions->items[instructions->count++]);
    }
    *where = start;
    return CODE_VERDICT_FINE;
}
