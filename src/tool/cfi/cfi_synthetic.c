/* Rows out of known shapes.
 *
 * The PLT of x86-64, 16 bytes an entry:   entry 0: push GOT+8; jmp *GOT+16     others: jmp *slot; push n; jmp
 * entry 0 so that one word is on the stack behind byte 11 of an entry, two in entry 0 behind byte 6. That is
 * what GNU ld says in the one expression that nearly every image has; for other linkers it is said here, once
 * the bytes were seen to be these. The PLT of AArch64: entry 0 is 32 bytes and begins with stp x16, x30, [sp,
 * #-16]! (after a bti c, perhaps); the others touch neither sp nor the link register. */
#include "cfi_synthetic.h"

#include "base_array.h"

#define ENTRY_SIZE 64 /* musl's _start is 22 bytes, ld.so's with _dl_start_user 64 */

struct step {
    uint32_t offset;
    struct wire_rule rule;
};

static bool add_span(struct cfi_material *material, struct cfi_span_list *spans, uint64_t start, uint64_t end,
                     const struct step *steps, size_t count)
{
    struct cfi_row_list *rows = &material->rows;
    struct cfi_span span = {start, end, start, (uint32_t)rows->count, (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        uint32_t number = cfi_rules_number(&material->rules, &steps[i].rule);
        if (number == UINT32_MAX || !base_array_room(rows->items, rows->count, rows->capacity))
            return false;
        rows->items[rows->count++] = (struct cfi_row){steps[i].offset, (uint16_t)number};
    }
    return cfi_spans_add(spans, &span);
}

bool cfi_synthetic_trampoline(struct cfi_material *material, uint64_t at, uint64_t end,
                              struct cfi_span_list *spans)
{
    const struct step step = {0, {.cfa_kind = WIRE_CFA_SIGNAL}};
    return add_span(material, spans, at - (at > 0), end, &step, 1);
}

static struct wire_rule call_frame(const struct arch *arch, int32_t size)
{
    bool link = arch->link != ARCH_NO_REGISTER && size == 0;
    return (struct wire_rule){.cfa_offset = size,
                              .ra_slot = link ? 0 : -1,
                              .cfa_register = arch->sp,
                              .cfa_kind = WIRE_CFA_REGISTER,
                              .save_kinds = (uint8_t)((link ? WIRE_SAVE_SAME : WIRE_SAVE_CFA) << 4)};
}

static bool is_x86_plt(const uint8_t *bytes, size_t size)
{
    return size >= 32 && bytes[0] == 0xff && bytes[1] == 0x35 && bytes[6] == 0xff && bytes[7] == 0x25 &&
           bytes[16] == 0xff && bytes[17] == 0x25 && bytes[22] == 0x68 && bytes[27] == 0xe9;
}

/* Entries that only jump: [endbr64] [bnd] jmp *slot. */
static bool is_x86_jump(const uint8_t *bytes, size_t size)
{
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    size_t at = size >= 8 && memcmp(bytes, endbr64, sizeof endbr64) == 0 ? sizeof endbr64 : 0;
    at += size >= 8 && bytes[at] == 0xf2;
    return size >= 8 && bytes[at] == 0xff && bytes[at + 1] == 0x25;
}

static bool add_x86_plt(struct cfi_material *material, const struct elf_section *section,
                        struct cfi_span_list *spans)
{
    const struct arch *arch = material->arch;
    struct wire_rule entry = call_frame(arch, 11);
    entry.cfa_kind = WIRE_CFA_PLT;
    const struct step lazy[] = {{0, call_frame(arch, 16)}, {6, call_frame(arch, 24)}, {16, entry}};
    const struct step plain = {0, call_frame(arch, 8)};
    uint64_t end = section->address + section->size;
    if (is_x86_plt(section->bytes, section->size))
        return add_span(material, spans, section->address, end, lazy, 3);
    if (is_x86_jump(section->bytes, section->size))
        return add_span(material, spans, section->address, end, &plain, 1);
    return true;
}

static bool add_aarch64_plt(struct cfi_material *material, const struct elf_section *section,
                            struct cfi_span_list *spans)
{
    static const uint8_t bti[] = {0x5f, 0x24, 0x03, 0xd5}, push[] = {0xf0, 0x7b, 0xbf, 0xa9};
    const struct arch *arch = material->arch;
    if (section->size < 32)
        return true;
    uint32_t at = memcmp(section->bytes, bti, sizeof bti) == 0 ? 4 : 0;
    if (memcmp(section->bytes + at, push, sizeof push) != 0)
        return true;
    const struct step steps[] = {
        {0, call_frame(arch, 0)}, {at + 4, call_frame(arch, 16)}, {32, call_frame(arch, 0)}};
    return add_span(material, spans, section->address, section->address + section->size, steps, 3);
}

bool cfi_synthetic_plt(struct cfi_material *material, struct cfi_span_list *spans)
{
    static const char *const names[] = {".plt", ".plt.got", ".plt.sec", ".iplt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct elf_section section;
        if (!elf_image_section(material->image, names[i], &section) || section.bytes == NULL)
            continue;
        uint64_t end = section.address + section.size;
        if (end < section.address || !cfi_find_in_code(&material->code, section.address, &end))
            continue;
        section.size = end - section.address;
        bool fine = material->arch->link == ARCH_NO_REGISTER ? add_x86_plt(material, &section, spans)
                                                             : add_aarch64_plt(material, &section, spans);
        if (!fine)
            return false;
    }
    return true;
}

/* crti.o and crtn.o: [endbr64]; sub $8,%rsp; ... add $8,%rsp; ret */
static bool add_x86_start_up(struct cfi_material *material, const struct elf_section *section,
                             struct cfi_span_list *spans)
{
    static const uint8_t down[] = {0x48, 0x83, 0xec, 0x08}, up[] = {0x48, 0x83, 0xc4, 0x08, 0xc3};
    const uint8_t *bytes = section->bytes;
    if (section->size < sizeof down + sizeof up ||
        memcmp(bytes + section->size - sizeof up, up, sizeof up) != 0)
        return true;
    uint32_t at = memcmp(bytes, down, sizeof down) == 0 ? 0 : 4, size = (uint32_t)section->size;
    if (at + sizeof down + sizeof up > size || memcmp(bytes + at, down, sizeof down) != 0)
        return true;
    const struct step steps[] = {{0, call_frame(material->arch, 8)},
                                 {at + 4, call_frame(material->arch, 16)},
                                 {size - 1, call_frame(material->arch, 8)}};
    return add_span(material, spans, section->address, section->address + section->size, steps, 3);
}

bool cfi_synthetic_start_up(struct cfi_material *material, struct cfi_span_list *spans)
{
    static const char *const names[] = {".init", ".fini"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct elf_section section;
        uint64_t end;
        if (material->arch->link != ARCH_NO_REGISTER ||
            !elf_image_section(material->image, names[i], &section) || section.bytes == NULL ||
            __builtin_add_overflow(section.address, section.size, &end) || section.size > UINT32_MAX ||
            !cfi_find_in_code(&material->code, section.address, &end) ||
            end - section.address != section.size)
            continue;
        if (!add_x86_start_up(material, &section, spans))
            return false;
    }
    return true;
}

bool cfi_synthetic_entry(struct cfi_material *material, struct cfi_span_list *spans)
{
    const struct step step = {0, {.cfa_kind = WIRE_CFA_END}};
    uint64_t start = cfi_find_entry(material->image), end = start + ENTRY_SIZE;
    if (start == 0 || end < start || !cfi_find_in_code(&material->code, start, &end))
        return true;
    return add_span(material, spans, start, end, &step, 1);
}
