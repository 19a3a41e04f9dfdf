#include "cfi_find.h"

#include <elf.h>
#include <string.h>

#include "base_search.h"
#include "cfi_blob.h"

static uint64_t section_address(const struct elf_image *image, const char *name)
{
    struct elf_section section;
    return elf_image_section(image, name, &section) ? section.address : 0;
}

/* The program header of a type, from the raw file: the elf module names only PT_LOAD. */
static bool find_program_header(const struct elf_image *image, uint32_t type, Elf64_Phdr *found)
{
    size_t size;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    Elf64_Ehdr header;
    if (bytes == NULL || size < sizeof header)
        return false;
    memcpy(&header, bytes, sizeof header);
    if (header.e_phentsize != sizeof *found || header.e_phoff > size ||
        (size - header.e_phoff) / sizeof *found < header.e_phnum)
        return false;
    for (unsigned i = 0; i < header.e_phnum; i++) {
        memcpy(found, bytes + header.e_phoff + i * sizeof *found, sizeof *found);
        if (found->p_type == type)
            return true;
    }
    return false;
}

/* .eh_frame_hdr: version 1, three encodings, then the pointer to .eh_frame, whose size nobody says. */
static bool find_by_header(const struct elf_image *image, struct cfi_section *section)
{
    Elf64_Phdr program;
    size_t available;
    if (!find_program_header(image, PT_GNU_EH_FRAME, &program))
        return false;
    const uint8_t *bytes = elf_image_at(image, program.p_vaddr, &available);
    if (bytes == NULL || available < 8 || bytes[0] != 1)
        return false;
    struct cfi_section header = {bytes, available, program.p_vaddr, true, false, 0, program.p_vaddr};
    struct cfi_reader reader = {bytes + 4, bytes + available, false};
    uint64_t address = cfi_pointer_read(&reader, &header, bytes[1]);
    bytes = reader.failed ? NULL : elf_image_at(image, address, &available);
    if (bytes == NULL)
        return false;
    *section = (struct cfi_section){bytes, available, address, true, true, 0, 0};
    return true;
}

bool cfi_find_eh_frame(const struct elf_image *image, struct cfi_section *section)
{
    struct elf_section found;
    if (!elf_image_section(image, ".eh_frame", &found) || found.bytes == NULL || found.size == 0)
        return find_by_header(image, section);
    *section = (struct cfi_section){.bytes = found.bytes,
                                    .size = found.size,
                                    .address = found.address,
                                    .eh = true,
                                    .text_base = section_address(image, ".text"),
                                    .data_base = section_address(image, ".got")};
    return true;
}

bool cfi_find_debug_frame(const struct elf_image *image, struct cfi_section *section)
{
    struct elf_section found;
    if (!elf_image_section(image, ".debug_frame", &found) || found.bytes == NULL)
        return false;
    *section = (struct cfi_section){.bytes = found.bytes, .size = found.size, .address = found.address};
    return true;
}

bool cfi_find_code(const struct elf_image *image, struct cfi_span_list *code)
{
    const struct elf_segment *segments;
    size_t count = elf_image_segments(image, &segments);
    for (size_t i = 0; i < count; i++) {
        struct cfi_span span = {.start = segments[i].address, .origin = segments[i].address};
        if (!segments[i].executable || __builtin_add_overflow(span.start, segments[i].memory_size, &span.end))
            continue;
        if (!cfi_spans_add(code, &span))
            return false;
    }
    if (!cfi_spans_order(code))
        return false;
    while (code->count > 0) {
        struct cfi_span *last = &code->items[code->count - 1];
        uint64_t limit = code->items[0].start > UINT64_MAX - CFI_BLOB_SPAN_MAX
                             ? UINT64_MAX
                             : code->items[0].start + CFI_BLOB_SPAN_MAX;
        if (last->end > limit)
            last->end = limit;
        if (last->start < last->end)
            break;
        code->count--;
    }
    return true;
}

bool cfi_find_in_code(const struct cfi_span_list *code, uint64_t start, uint64_t *end)
{
    size_t at = base_search_up_to(code->items, code->count, end, start);
    if (at == code->count || start < code->items[at].start)
        return false;
    if (*end > code->items[at].end)
        *end = code->items[at].end;
    return true;
}

bool cfi_find_sigreturn(const struct elf_image *image, const struct arch *arch, uint64_t start, uint64_t end,
                        uint64_t *at)
{
    size_t available;
    const uint8_t *bytes = end > start ? elf_image_at(image, start, &available) : NULL;
    if (bytes == NULL)
        return false;
    size_t size = end - start < available ? end - start : available;
    const uint8_t *hit = memmem(bytes, size, arch->sigreturn, arch->sigreturn_size);
    *at = hit != NULL ? start + (uint64_t)(hit - bytes) : 0;
    return hit != NULL;
}

uint64_t cfi_find_entry(const struct elf_image *image)
{
    size_t size;
    Elf64_Ehdr header;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    if (bytes == NULL || size < sizeof header)
        return 0;
    memcpy(&header, bytes, sizeof header);
    return header.e_entry;
}
