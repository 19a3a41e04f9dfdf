#include "loader_x86_64_wrap.h"

#include <string.h>

static void put_stub(struct stub_x86_64_code *code, uint64_t hook, bool whole)
{
    if (whole)
        stub_x86_64_code_put(code, 0x41, 0x53);   /* push r11 */
    stub_x86_64_code_put(code, 0x4c, 0x8d, 0x1d); /* lea r11, [rip+hook] */
    stub_x86_64_code_relative(code, hook, 0);
    _Static_assert(offsetof(struct wire_hook, handler) == 0, "no displacement");
    stub_x86_64_code_put(code, 0x41, 0xff, 0x23); /* jmp [r11] */
}

enum stub_reason loader_x86_64_wrap_make(struct loader_x86_64_wrap *wrap, uint64_t address,
                                         const struct loader_x86_64_wrapped *wrapped,
                                         struct stub_x86_64_hook *moved)
{
    const uint64_t function = wrapped->function;
    const uint8_t length = wrapped->length;
    struct stub_x86_64_code code;
    struct stub_x86_64_hook where;
    const struct stub_x86_64_entry entry = {STUB_ENTRY, length, function, wrapped->old, 0, false};
    *wrap = (struct loader_x86_64_wrap){.length = length};
    if (length < LOADER_X86_64_WRAP_JUMP || length > sizeof wrap->old)
        return STUB_REASON_ENTRY_SHORT;
    if (!stub_x86_64_code_reaches(function + LOADER_X86_64_WRAP_JUMP, loader_x86_64_wrap_code(address)))
        return STUB_REASON_OUT_OF_REACH;
    stub_x86_64_code_begin(&code, loader_x86_64_wrap_code(address));
    put_stub(&code, address, wrapped->whole);
    stub_x86_64_entry_body(&code, &entry, &where);
    if (code.refused != STUB_FINE)
        return code.refused;
    if (code.size > LOADER_X86_64_WRAP_CODE)
        return STUB_REASON_ENTRY_IMMOVABLE;
    memcpy(wrap->old, wrapped->old, length);
    memset(wrap->code, 0xcc, sizeof wrap->code);
    memcpy(wrap->code, code.bytes, code.size);
    wrap->hook.body = where.body;
    wrap->hook.function = function;
    if (moved != NULL)
        *moved = where;
    return STUB_FINE;
}

enum stub_reason loader_x86_64_wrap_over(struct loader_x86_64_wrap *wrap, uint64_t address,
                                         struct loader_x86_64_wrap *beneath, uint64_t below, bool whole)
{
    struct stub_x86_64_code code;
    uint64_t function = beneath->hook.function;
    if (!stub_x86_64_code_reaches(function + LOADER_X86_64_WRAP_JUMP, loader_x86_64_wrap_code(address)))
        return STUB_REASON_OUT_OF_REACH;
    *wrap = *beneath;
    stub_x86_64_code_begin(&code, loader_x86_64_wrap_code(address));
    put_stub(&code, address, whole);
    memset(wrap->code, 0xcc, sizeof wrap->code);
    memcpy(wrap->code, code.bytes, code.size);
    wrap->hook = (struct wire_hook){.body = loader_x86_64_wrap_code(below), .function = function};
    beneath->beneath = 1;
    return STUB_FINE;
}

void loader_x86_64_wrap_jump(uint64_t function, uint64_t address, uint8_t fresh[LOADER_X86_64_WRAP_JUMP])
{
    struct stub_x86_64_code code;
    stub_x86_64_code_begin(&code, function);
    stub_x86_64_code_jump(&code, loader_x86_64_wrap_code(address));
    memcpy(fresh, code.bytes, LOADER_X86_64_WRAP_JUMP);
}
