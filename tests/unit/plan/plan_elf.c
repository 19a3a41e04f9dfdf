/* Writing small ELF images. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "plan_elf.h"

enum { NONE, TEXT, FRAME, SYMBOLS, STRINGS, NAMES, SECTIONS };

uint64_t plan_elf_here(const struct plan_elf *elf)
{
    return PLAN_ELF_TEXT + elf->text.length;
}

uint64_t plan_elf_function(struct plan_elf *elf, const char *name, const void *bytes, size_t size,
                           int has_fde)
{
    uint64_t start = plan_elf_here(elf);
    elf->functions[elf->count].name = name;
    elf->functions[elf->count].start = start;
    elf->functions[elf->count].size = size;
    elf->functions[elf->count].has_fde = has_fde;
    elf->count++;
    base_text_add_bytes(&elf->text, bytes, size);
    return start;
}

void plan_elf_fill(struct plan_elf *elf, uint8_t byte, size_t count)
{
    while (count-- > 0)
        base_text_add_bytes(&elf->text, &byte, 1);
}

/* One CIE (zR, pcrel sdata4, CFA = rsp + 8) and an FDE a function. */
static void add_frame(const struct plan_elf *elf, struct base_text *out, uint64_t address)
{
    static const uint8_t cie[] = {20, 0,    0,  0, 0,    0,    0, 0, 1,    'z', 'R', 0,
                                  1,  0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1,   0,   0};
    base_text_add_bytes(out, cie, sizeof cie);
    for (unsigned i = 0; i < elf->count; i++) {
        uint32_t fde[5] = {16, 0, 0, (uint32_t)elf->functions[i].size, 0};
        uint64_t here = address + out->length;
        if (!elf->functions[i].has_fde)
            continue;
        fde[1] = (uint32_t)(out->length + 4);
        fde[2] = (uint32_t)(elf->functions[i].start - (here + 8));
        if (elf->functions[i].frame != 0)
            fde[4] = (uint32_t)(0x0e00 | elf->functions[i].frame << 16); /* def_cfa_offset */
        base_text_add_bytes(out, fde, sizeof fde);
    }
    base_text_add_bytes(out, "\0\0\0", 4);
}

static void add_symbols(const struct plan_elf *elf, struct base_text *symbols, struct base_text *strings)
{
    Elf64_Sym none = {0};
    base_text_add_bytes(symbols, &none, sizeof none);
    base_text_add_bytes(strings, "", 1);
    for (unsigned i = 0; i < elf->count; i++) {
        if (elf->functions[i].name == NULL)
            continue;
        Elf64_Sym symbol = {.st_name = (Elf64_Word)strings->length,
                            .st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
                            .st_shndx = TEXT,
                            .st_value = elf->functions[i].start,
                            .st_size = elf->functions[i].size};
        base_text_add_bytes(symbols, &symbol, sizeof symbol);
        base_text_add_bytes(strings, elf->functions[i].name, strlen(elf->functions[i].name) + 1);
    }
}

static const char names[] = "\0.text\0.eh_frame\0.symtab\0.strtab\0.shstrtab";

static uint64_t place(struct base_text *file, const struct base_text *part, uint64_t align)
{
    while (file->length % align != 0)
        base_text_add_bytes(file, "", 1);
    uint64_t at = file->length;
    base_text_add_bytes(file, part->data, part->length);
    return at;
}

struct elf_image *plan_elf_image(const struct plan_elf *elf)
{
    struct base_text file = {0}, frame = {0}, symbols = {0}, strings = {0};
    struct base_text name_part = {.data = (char *)(uintptr_t)names, .length = sizeof names};
    struct elf_image *image = NULL;
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr load[2];
    } front = {0};
    Elf64_Shdr sections[SECTIONS] = {0};
    base_text_add_bytes(&file, &front, sizeof front);
    while (file.length < PLAN_ELF_TEXT)
        base_text_add_bytes(&file, "", 1);
    place(&file, &elf->text, 1);
    while (file.length % 4096 != 0)
        base_text_add_bytes(&file, "", 1);
    uint64_t frame_at = file.length;
    add_frame(elf, &frame, frame_at);
    place(&file, &frame, 8);
    add_symbols(elf, &symbols, &strings);
    uint64_t symbols_at = place(&file, &symbols, 8), strings_at = place(&file, &strings, 1);
    uint64_t names_at = place(&file, &name_part, 1);
    sections[TEXT] = (Elf64_Shdr){
        1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, PLAN_ELF_TEXT, PLAN_ELF_TEXT, elf->text.length, 0, 0, 16,
        0};
    sections[FRAME] = (Elf64_Shdr){7, SHT_PROGBITS, SHF_ALLOC, frame_at, frame_at, frame.length, 0, 0, 8, 0};
    sections[SYMBOLS] =
        (Elf64_Shdr){17,         SHT_SYMTAB,       0,       0,
                     symbols_at, symbols.length,   STRINGS, (Elf64_Word)(symbols.length / sizeof(Elf64_Sym)),
                     8,          sizeof(Elf64_Sym)};
    sections[STRINGS] = (Elf64_Shdr){25, SHT_STRTAB, 0, 0, strings_at, strings.length, 0, 0, 1, 0};
    sections[NAMES] = (Elf64_Shdr){33, SHT_STRTAB, 0, 0, names_at, sizeof names, 0, 0, 1, 0};
    struct base_text table = {.data = (char *)sections, .length = sizeof sections};
    uint64_t table_at = place(&file, &table, 8);
    memcpy(front.header.e_ident, ELFMAG "\2\1\1", 7);
    front.header.e_type = ET_DYN;
    front.header.e_machine = EM_X86_64;
    front.header.e_version = 1;
    front.header.e_phoff = sizeof front.header;
    front.header.e_shoff = table_at;
    front.header.e_ehsize = sizeof front.header;
    front.header.e_phentsize = sizeof(Elf64_Phdr);
    front.header.e_phnum = 2;
    front.header.e_shentsize = sizeof(Elf64_Shdr);
    front.header.e_shnum = SECTIONS;
    front.header.e_shstrndx = NAMES;
    front.load[0] = (Elf64_Phdr){PT_LOAD,       PF_R | PF_X,      PLAN_ELF_TEXT,    PLAN_ELF_TEXT,
                                 PLAN_ELF_TEXT, elf->text.length, elf->text.length, 4096};
    front.load[1] =
        (Elf64_Phdr){PT_LOAD, PF_R, frame_at, frame_at, frame_at, frame.length, frame.length, 4096};
    memcpy(file.data, &front, sizeof front);
    if (elf_image_open_memory(file.data, file.length, "made", &image, NULL) != BASE_OK)
        image = NULL;
    base_text_free(&file);
    base_text_free(&frame);
    base_text_free(&symbols);
    base_text_free(&strings);
    return image;
}

void plan_elf_free(struct plan_elf *elf)
{
    base_text_free(&elf->text);
}
