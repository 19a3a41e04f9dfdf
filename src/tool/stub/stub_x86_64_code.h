/* stub_x86_64_code.h - writing x86-64 machine code into a small buffer that will lie at a known address.
 *
 * The first thing that does not fit or is out of reach makes the buffer refuse for good; callers look once,
 * at the end. In the header, because a library has a million stubs of three or four such pieces each, which a
 * target waits for. Pure: bytes in, bytes out, on any host. Context: tool. Source: Intel SDM volume 2. */
#ifndef STUB_X86_64_CODE_H
#define STUB_X86_64_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "stub_reason.h"

#define STUB_X86_64_CODE_MAX 248

struct stub_x86_64_code {
    uint64_t address;         /* where bytes[0] will lie */
    enum stub_reason refused; /* STUB_FINE, else the bytes are worth nothing */
    uint8_t size;
    uint8_t bytes[STUB_X86_64_CODE_MAX];
};

static inline void stub_x86_64_code_begin(struct stub_x86_64_code *code, uint64_t address)
{
    code->address = address;
    code->refused = STUB_FINE;
    code->size = 0;
}

static inline void stub_x86_64_code_refuse(struct stub_x86_64_code *code, enum stub_reason reason)
{
    if (code->refused == STUB_FINE)
        code->refused = reason;
}

/* The address of the next byte. */
static inline uint64_t stub_x86_64_code_here(const struct stub_x86_64_code *code)
{
    return code->address + code->size;
}

static inline void stub_x86_64_code_bytes(struct stub_x86_64_code *code, const void *bytes, size_t count)
{
    if (count > (size_t)(STUB_X86_64_CODE_MAX - code->size)) {
        stub_x86_64_code_refuse(code, STUB_REASON_IMMOVABLE);
        return;
    }
    memcpy(code->bytes + code->size, bytes, count);
    code->size = (uint8_t)(code->size + count);
}

/* stub_x86_64_code_put(code, 0x48, 0x89, 0xe5): the usual spelling of bytes. */
#define stub_x86_64_code_put(code, ...)                                                                      \
    stub_x86_64_code_bytes(code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

static inline void stub_x86_64_code_32(struct stub_x86_64_code *code, uint32_t value)
{
    stub_x86_64_code_put(code, (uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                         (uint8_t)(value >> 24));
}

/* True when `target` is within a signed 32-bit distance of `next`. */
static inline bool stub_x86_64_code_reaches(uint64_t next, uint64_t target)
{
    int64_t distance = (int64_t)(target - next);
    return distance >= INT32_MIN && distance <= INT32_MAX;
}

/* The displacement that leads from the end of an instruction, `after` bytes past the displacement, to
 * `target`. */
static inline void stub_x86_64_code_relative(struct stub_x86_64_code *code, uint64_t target, unsigned after)
{
    uint64_t next = stub_x86_64_code_here(code) + 4 + after;
    if (!stub_x86_64_code_reaches(next, target))
        stub_x86_64_code_refuse(code, STUB_REASON_OUT_OF_REACH);
    stub_x86_64_code_32(code, (uint32_t)(target - next));
}

/* jmp rel32 */
static inline void stub_x86_64_code_jump(struct stub_x86_64_code *code, uint64_t target)
{
    stub_x86_64_code_put(code, 0xe9);
    stub_x86_64_code_relative(code, target, 0);
}

#endif
