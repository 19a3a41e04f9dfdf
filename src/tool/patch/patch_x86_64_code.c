/* Writing x86-64 machine code. */
#include <string.h>

#include "patch_x86_64_code.h"

void patch_x86_64_code_begin(struct patch_x86_64_code *code, uint64_t address)
{
    code->address = address;
    code->refused = PATCH_FINE;
    code->size = 0;
}

void patch_x86_64_code_refuse(struct patch_x86_64_code *code, enum patch_reason reason)
{
    if (code->refused == PATCH_FINE)
        code->refused = reason;
}

uint64_t patch_x86_64_code_here(const struct patch_x86_64_code *code)
{
    return code->address + code->size;
}

void patch_x86_64_code_bytes(struct patch_x86_64_code *code, const void *bytes, size_t count)
{
    if (count > (size_t)(PATCH_X86_64_CODE_MAX - code->size)) {
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
        return;
    }
    memcpy(code->bytes + code->size, bytes, count);
    code->size = (uint8_t)(code->size + count);
}

void patch_x86_64_code_32(struct patch_x86_64_code *code, uint32_t value)
{
    patch_x86_64_code_put(code, (uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                          (uint8_t)(value >> 24));
}

bool patch_x86_64_code_reaches(uint64_t next, uint64_t target)
{
    int64_t distance = (int64_t)(target - next);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

void patch_x86_64_code_relative(struct patch_x86_64_code *code, uint64_t target, unsigned after)
{
    uint64_t next = patch_x86_64_code_here(code) + 4 + after;
    if (!patch_x86_64_code_reaches(next, target))
        patch_x86_64_code_refuse(code, PATCH_REASON_OUT_OF_REACH);
    patch_x86_64_code_32(code, (uint32_t)(target - next));
}

void patch_x86_64_code_jump(struct patch_x86_64_code *code, uint64_t target)
{
    patch_x86_64_code_put(code, 0xe9);
    patch_x86_64_code_relative(code, target, 0);
}
