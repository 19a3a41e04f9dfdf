/* patch_x86_64_code.h - writing x86-64 machine code into a small buffer that will lie at a known address.
 *
 * The first thing that does not fit or is out of reach makes the buffer refuse for good; callers look once, at
 * the end. Pure: bytes in, bytes out, on any host. Context: tool. Source: Intel SDM volume 2. */
#ifndef PATCH_X86_64_CODE_H
#define PATCH_X86_64_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "patch_reason.h"

#define PATCH_X86_64_CODE_MAX 248

struct patch_x86_64_code {
    uint64_t address;          /* where bytes[0] will lie */
    enum patch_reason refused; /* PATCH_FINE, else the bytes are worth nothing */
    uint8_t size;
    uint8_t bytes[PATCH_X86_64_CODE_MAX];
};

void patch_x86_64_code_begin(struct patch_x86_64_code *code, uint64_t address);
void patch_x86_64_code_refuse(struct patch_x86_64_code *code, enum patch_reason reason);
uint64_t patch_x86_64_code_here(const struct patch_x86_64_code *code); /* the address of the next byte */

void patch_x86_64_code_bytes(struct patch_x86_64_code *code, const void *bytes, size_t count);
void patch_x86_64_code_32(struct patch_x86_64_code *code, uint32_t value);
/* The displacement that leads from the end of an instruction, `after` bytes past the displacement, to `target`. */
void patch_x86_64_code_relative(struct patch_x86_64_code *code, uint64_t target, unsigned after);
void patch_x86_64_code_jump(struct patch_x86_64_code *code, uint64_t target); /* jmp rel32 */

/* True when `target` is within a signed 32-bit distance of `next`. */
bool patch_x86_64_code_reaches(uint64_t next, uint64_t target);

/* patch_x86_64_code_put(code, 0x48, 0x89, 0xe5): the usual spelling of bytes. */
#define patch_x86_64_code_put(code, ...)                                                                     \
    patch_x86_64_code_bytes(code, (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}))

#endif
