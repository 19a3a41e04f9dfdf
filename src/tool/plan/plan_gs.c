#include "plan_gs.h"

#include <string.h>

enum { SET_GS = 0x1001, ARCH_PRCTL = 158, NEAR = 64, MOVE = 5 };

/* f3 [REX] 0f ae, and a register that has 3 in its middle: wrgsbase. */
static bool is_wrgsbase(const uint8_t *code, size_t size)
{
    size_t at = size > 1 && code[1] >> 4 == 4 ? 2 : 1;
    return size >= at + 3 && code[0] == 0xf3 && code[at] == 0x0f && code[at + 1] == 0xae &&
           code[at + 2] >> 3 == (0xd8 >> 3);
}

/* mov r32, value */
static bool is_move(const uint8_t *code, size_t size, uint32_t value)
{
    return size >= MOVE && code[0] >> 3 == (0xb8 >> 3) && !memcmp(code + 1, &value, sizeof value);
}

static bool has_move_near(const uint8_t *code, size_t size, size_t at, uint32_t value)
{
    size_t from = at > NEAR ? at - NEAR : 0, to = at + NEAR < size ? at + NEAR : size;
    for (; from < to; from++)
        if (is_move(code + from, size - from, value))
            return true;
    return false;
}

/* memchr seeks a byte that is rare in code: the last one of the opcode. */
static bool has_wrgsbase(const uint8_t *code, size_t size)
{
    const uint8_t *end = code + size, *at = code;
    for (; (at = memchr(at, 0xae, (size_t)(end - at))) != NULL; at++) {
        size_t before = (size_t)(at - code);
        if ((before > 1 && is_wrgsbase(at - 2, (size_t)(end - at) + 2)) ||
            (before > 2 && is_wrgsbase(at - 3, (size_t)(end - at) + 3)))
            return true;
    }
    return false;
}

/* The same for the second byte of the number. */
static bool has_arch_prctl(const uint8_t *code, size_t size)
{
    const uint8_t *end = code + size, *at = code;
    for (; (at = memchr(at, SET_GS >> 8, (size_t)(end - at))) != NULL; at++) {
        size_t before = (size_t)(at - code);
        if (before > 1 && is_move(at - 2, (size_t)(end - at) + 2, SET_GS) &&
            has_move_near(code, size, before - 2, ARCH_PRCTL))
            return true;
    }
    return false;
}

bool plan_gs_is_set_in(const uint8_t *code, size_t size)
{
    return has_wrgsbase(code, size) || has_arch_prctl(code, size);
}

bool plan_gs_is_set(const struct elf_image *image)
{
    const struct elf_segment *segments;
    size_t count = elf_image_segments(image, &segments), available;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *code =
            segments[i].executable ? elf_image_at(image, segments[i].address, &available) : NULL;
        if (code &&
            plan_gs_is_set_in(code, available < segments[i].file_size ? available : segments[i].file_size))
            return true;
    }
    return false;
}
