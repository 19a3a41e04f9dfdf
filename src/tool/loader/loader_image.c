#include "loader_image.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"

#define PAGE      4096ull
#define SPAN_MOST (64ull << 20)

struct loader_image {
    struct elf_image *elf;
    uint64_t span, fixed;
};

static int refuse_image(struct base_error *error, const char *why)
{
    return base_fail(error, BASE_EFORMAT, "the agent's image: %s", why);
}

static uint64_t round_to_pages(uint64_t size)
{
    return (size + PAGE - 1) & ~(PAGE - 1);
}

/* --- program headers --- */

static bool header_of(const struct elf_image *elf, Elf64_Ehdr *header)
{
    size_t size;
    const uint8_t *bytes = elf_image_bytes(elf, &size);
    if (bytes == NULL || size < sizeof *header)
        return false;
    memcpy(header, bytes, sizeof *header);
    return header->e_type == ET_DYN && header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phoff < size &&
           (size - header->e_phoff) / sizeof(Elf64_Phdr) >= header->e_phnum;
}

static Elf64_Phdr segment_at(const struct elf_image *elf, const Elf64_Ehdr *header, unsigned index)
{
    size_t size;
    Elf64_Phdr segment;
    memcpy(&segment, elf_image_bytes(elf, &size) + header->e_phoff + index * sizeof segment, sizeof segment);
    return segment;
}

static bool is_sound(const struct elf_image *elf, const Elf64_Phdr *segment)
{
    size_t size;
    elf_image_bytes(elf, &size);
    return segment->p_filesz <= segment->p_memsz && segment->p_offset <= size &&
           segment->p_filesz <= size - segment->p_offset && segment->p_vaddr < SPAN_MOST &&
           segment->p_memsz < SPAN_MOST;
}

/* Writable segments must lie behind the executable ones, in other pages. */
static int measure_image(struct loader_image *image, struct base_error *error)
{
    Elf64_Ehdr header;
    uint64_t fixed_end = 0, written = UINT64_MAX;
    if (!header_of(image->elf, &header))
        return refuse_image(error, "not a shared object");
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment = segment_at(image->elf, &header, i);
        if (segment.p_type != PT_LOAD || segment.p_memsz == 0)
            continue;
        if (!is_sound(image->elf, &segment))
            return refuse_image(error, "a segment is out of range of the file");
        uint64_t end = segment.p_vaddr + segment.p_memsz, start = segment.p_vaddr & ~(PAGE - 1);
        image->span = round_to_pages(end) > image->span ? round_to_pages(end) : image->span;
        if ((segment.p_flags & PF_W) != 0)
            written = start < written ? start : written;
        else
            fixed_end = round_to_pages(end) > fixed_end ? round_to_pages(end) : fixed_end;
    }
    if (fixed_end == 0 || fixed_end > written)
        return refuse_image(error, "writable segments do not lie behind executable ones");
    image->fixed = written < image->span ? written : image->span;
    return BASE_OK;
}

/* --- relocations --- */

static uint64_t dynamic_value(const uint8_t *bytes, const Elf64_Phdr *dynamic, int64_t tag)
{
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_memsz; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, bytes + dynamic->p_vaddr + at, sizeof entry);
        if (entry.d_tag == DT_NULL)
            break;
        if (entry.d_tag == tag)
            return entry.d_un.d_val;
    }
    return 0;
}

static int relocate_one(const struct loader_image *image, uint64_t base, uint8_t *bytes,
                        const Elf64_Rela *relocation, struct base_error *error)
{
    uint64_t value = base + (uint64_t)relocation->r_addend;
    unsigned type = (unsigned)ELF64_R_TYPE(relocation->r_info);
    if (type == R_X86_64_NONE)
        return BASE_OK;
    if (type != R_X86_64_RELATIVE)
        return refuse_image(error, "a relocation that is not RELATIVE");
    if (relocation->r_offset < image->fixed || relocation->r_offset > image->span - sizeof value)
        return refuse_image(error, "a relocation of read-only memory");
    memcpy(bytes + relocation->r_offset, &value, sizeof value);
    return BASE_OK;
}

static int relocate_all(const struct loader_image *image, const Elf64_Phdr *dynamic, uint64_t base,
                        uint8_t *bytes, struct base_error *error)
{
    if (dynamic->p_vaddr > image->span || dynamic->p_memsz > image->span - dynamic->p_vaddr)
        return refuse_image(error, "the dynamic section is out of range");
    uint64_t at = dynamic_value(bytes, dynamic, DT_RELA), size = dynamic_value(bytes, dynamic, DT_RELASZ);
    if (dynamic_value(bytes, dynamic, DT_RELR) || dynamic_value(bytes, dynamic, DT_JMPREL) ||
        dynamic_value(bytes, dynamic, DT_NEEDED))
        return refuse_image(error, "it needs other objects, or a loader");
    if (at > image->span || size > image->span - at)
        return refuse_image(error, "relocations are out of range");
    int result = BASE_OK;
    for (uint64_t i = 0; i + sizeof(Elf64_Rela) <= size && result == BASE_OK; i += sizeof(Elf64_Rela)) {
        Elf64_Rela relocation;
        memcpy(&relocation, bytes + at + i, sizeof relocation);
        result = relocate_one(image, base, bytes, &relocation, error);
    }
    return result;
}

int loader_image_make(const struct loader_image *image, uint64_t base, uint8_t *bytes,
                      struct base_error *error)
{
    Elf64_Ehdr header;
    Elf64_Phdr dynamic = {0};
    size_t size;
    const uint8_t *file = elf_image_bytes(image->elf, &size);
    memset(bytes, 0, image->span);
    header_of(image->elf, &header);
    for (unsigned i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment = segment_at(image->elf, &header, i);
        if (segment.p_type == PT_LOAD)
            memcpy(bytes + segment.p_vaddr, file + segment.p_offset, segment.p_filesz);
        else if (segment.p_type == PT_DYNAMIC)
            dynamic = segment;
    }
    return dynamic.p_memsz ? relocate_all(image, &dynamic, base, bytes, error) : BASE_OK;
}

/* --- open and close --- */

int loader_image_open(const void *bytes, size_t size, struct loader_image **image, struct base_error *error)
{
    struct loader_image *made = calloc(1, sizeof *made);
    uint8_t *trial = NULL;
    if (made == NULL)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = elf_image_open_memory(bytes, size, "the agent", &made->elf, error);
    if (result == BASE_OK && elf_image_machine(made->elf) != EM_X86_64)
        result = refuse_image(error, "made for another machine");
    if (result == BASE_OK)
        result = measure_image(made, error);
    if (result == BASE_OK && (trial = malloc(made->span)) == NULL)
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result == BASE_OK)
        result = loader_image_make(made, 0, trial, error);
    free(trial);
    if (result == BASE_OK)
        *image = made;
    else
        loader_image_close(made);
    return result;
}

void loader_image_close(struct loader_image *image)
{
    if (image == NULL)
        return;
    if (image->elf != NULL)
        elf_image_close(image->elf);
    free(image);
}

uint64_t loader_image_span(const struct loader_image *image)
{
    return image->span;
}

uint64_t loader_image_fixed(const struct loader_image *image)
{
    return image->fixed;
}

static bool find_symbol_in(const struct elf_section *symbols, const struct elf_section *strings,
                           const char *name, uint64_t *offset)
{
    size_t length = strlen(name) + 1;
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= symbols->size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, symbols->bytes + at, sizeof symbol);
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_name >= strings->size ||
            strings->size - symbol.st_name < length ||
            memcmp(strings->bytes + symbol.st_name, name, length) != 0)
            continue;
        *offset = symbol.st_value;
        return true;
    }
    return false;
}

bool loader_image_symbol(const struct loader_image *image, const char *name, uint64_t *offset)
{
    static const char *const tables[][2] = {{".symtab", ".strtab"}, {".dynsym", ".dynstr"}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        struct elf_section symbols, strings;
        if (elf_image_section(image->elf, tables[i][0], &symbols) && symbols.bytes != NULL &&
            elf_image_section(image->elf, tables[i][1], &strings) && strings.bytes != NULL &&
            find_symbol_in(&symbols, &strings, name, offset))
            return *offset < image->span;
    }
    return false;
}
