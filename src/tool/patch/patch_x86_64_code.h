/* patch_x86_64_code.h - writing x86-64 machine code into a small buffer that will lie at a known address.
 *
 * The first thing that does not fit or is out of reach makes the buffer refuse for good; callers look once,
 * at the end. In the header, because a library has a million stubs of three or four such pieces each, which a
 * target waits for. Pure: bytes in, bytes out, on any host. Context: tool. Source: Intel SDM volume 2. */
#ifndef PATCH_X86_64_CODE_H
#define PATCH_X86_64_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "patch_reason.h"

#define PATCH_X86_64_CODE_MAX 248

struct patch_x86_64_code {
    uint64_t address;          /* where bytes[0] will lie */
    enum patch_reason refused; /* PATCH_FINE, else the bytes are worth nothing */
    uint8_t size;
    uint8_t bytes[PATCH_X86_64_CODE_MAX];
};

static inline void patch_x86_64_code_begin(struct patch_x86_64_code *code, uint64_t address)
{
    code->address = address;
    code->refused = PATCH_FINE;
    code->size = 0;
}

static inline void patch_x86_64_code_refuse(struct patch_x86_64_code *code, enum patch_reason reason)
{
    if (code->refused == PATCH_FINE)
        code->refused = reason;
}

/* The address of the next byte. */
static inline uint64_t patch_x86_64_code_here(const struct patch_x86_64_code *code)
{
    return code->address + code->size;
}

static inline void patch_x86_64_code_bytes(struct patch_x86_64_code *code, const void *bytes, size_t count)
{
    if (count > (size_t)(PATCH_X86_64_CODE_MAX - code->size)) {
        patch_x86_64_code_refuse(code, PATCH_REASON_IMMOVABLE);
        return;
    }
    memcpy(code->bytes + code->size, bytes, count);
    code->size = (uint8_t)(code->size + count);
}

/* patch_x86_64_code_put(code, 0x48, 0x89, 0xe5): the usual spelling of bytes. */
#define patch_x86_64_code_put(code, ...)                                                                     \
    patch_x86_64_code_bytes(code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void patch_x86_64_code_32(struct patch_x86_64_code *code, uint32_t value)
{
    patch_x86_64_code_put(code, (uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                          (uint8_t)(value >> 24));
}

/* True when `target` is within a signed 32-bit distance of `next`. */
static inline bool patch_x86_64_code_reaches(uint64_t next, uint64_t target)
{
    int64_t distance = (int64_t)(target - next);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

/* The displacement that leads from the end of an instruction, `after` bytes past the displacement, to
 * `target`. */
static inline void patch_x86_64_code_relative(struct patch_x86_64_code *code, uint64_t target, unsigned after)
{
    uint64_t next = patch_x86_64_code_here(code) + 4 + after;
    if (!patch_x86_64_code_reaches(next, target))
        patch_x86_64_code_refuse(code, PATCH_REASON_OUT_OF_REACH);
    patch_x86_64_code_32(code, (uint32_t)(target - next));
}

/* jmp rel32 */
static inline void patch_x86_64_code_jump(struct patch_x86_64_code *code, uint64_t target)
{
    patch_x86_64_code_put(code, 0xe9);
    patch_x86_64_code_relative(code, target, 0);
}

#endif
