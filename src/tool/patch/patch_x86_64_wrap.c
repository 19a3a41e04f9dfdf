#include "patch_x86_64_wrap.h"

#include <string.h>

static void put_stub(struct patch_x86_64_code *code, uint64_t hook, bool whole)
{
    if (whole)
        patch_x86_64_code_put(code, 0x41, 0x53);   /* push r11 */
    patch_x86_64_code_put(code, 0x4c, 0x8d, 0x1d); /* lea r11, [rip+hook] */
    patch_x86_64_code_relative(code, hook, 0);
    _Static_assert(offsetof(struct wire_hook, handler) == 0, "no displacement");
    patch_x86_64_code_put(code, 0x41, 0xff, 0x23); /* jmp [r11] */
}

enum patch_reason patch_x86_64_wrap_make(struct patch_x86_64_wrap *wrap, uint64_t address, uint64_t function,
                                         const uint8_t *old, uint8_t length, bool whole,
                                         struct patch_x86_64_hook *moved)
{
    struct patch_x86_64_code code;
    struct patch_x86_64_hook where;
    const struct patch_x86_64_entry entry = {PATCH_ENTRY, length, function, old, 0, false};
    *wrap = (struct patch_x86_64_wrap){.length = length};
    if (length < PATCH_X86_64_WRAP_JUMP || length > sizeof wrap->old)
        return PATCH_REASON_ENTRY_SHORT;
    if (!patch_x86_64_code_reaches(function + PATCH_X86_64_WRAP_JUMP, patch_x86_64_wrap_code(address)))
        return PATCH_REASON_OUT_OF_REACH;
    patch_x86_64_code_begin(&code, patch_x86_64_wrap_code(address));
    put_stub(&code, address, whole);
    patch_x86_64_entry_body(&code, &entry, &where);
    if (code.refused != PATCH_FINE)
        return code.refused;
    if (code.size > PATCH_X86_64_WRAP_CODE)
        return PATCH_REASON_ENTRY_IMMOVABLE;
    memcpy(wrap->old, old, length);
    memset(wrap->code, 0xcc, sizeof wrap->code);
    memcpy(wrap->code, code.bytes, code.size);
    wrap->hook.body = where.body;
    wrap->hook.function = function;
    if (moved != NULL)
        *moved = where;
    return PATCH_FINE;
}

enum patch_reason patch_x86_64_wrap_over(struct patch_x86_64_wrap *wrap, uint64_t address,
                                         struct patch_x86_64_wrap *beneath, uint64_t below, bool whole)
{
    struct patch_x86_64_code code;
    uint64_t function = beneath->hook.function;
    if (!patch_x86_64_code_reaches(function + PATCH_X86_64_WRAP_JUMP, patch_x86_64_wrap_code(address)))
        return PATCH_REASON_OUT_OF_REACH;
    *wrap = *beneath;
    patch_x86_64_code_begin(&code, patch_x86_64_wrap_code(address));
    put_stub(&code, address, whole);
    memset(wrap->code, 0xcc, sizeof wrap->code);
    memcpy(wrap->code, code.bytes, code.size);
    wrap->hook = (struct wire_hook){.body = patch_x86_64_wrap_code(below), .function = function};
    beneath->beneath = 1;
    return PATCH_FINE;
}

void patch_x86_64_wrap_jump(uint64_t function, uint64_t address, uint8_t fresh[PATCH_X86_64_WRAP_JUMP])
{
    struct patch_x86_64_code code;
    patch_x86_64_code_begin(&code, function);
    patch_x86_64_code_jump(&code, patch_x86_64_wrap_code(address));
    memcpy(fresh, code.bytes, PATCH_X86_64_WRAP_JUMP);
}
