/* code_by_hand.h - a small x86-64 ELF image around given bytes of code, for the tests of this directory.
 *
 * One executable segment at BY_HAND_TEXT holds the code; there are no sections, so that nothing but what is
 * handed in and the code itself speaks. */
#ifndef CODE_BY_HAND_H
#define CODE_BY_HAND_H

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"

#define BY_HAND_TEXT UINT64_C(0x401000)

static inline struct elf_image *code_by_hand(uint16_t type, const void *code, size_t code_size)
{
    enum { HEADERS = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr) };
    struct elf_image *image = NULL;
    struct base_error error = {""};
    size_t size = HEADERS + code_size;
    uint8_t *bytes = calloc(1, size);
    Elf64_Ehdr header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = type,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_phoff = sizeof header,
                         .e_ehsize = sizeof header,
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1};
    Elf64_Phdr program = {.p_type = PT_LOAD,
                          .p_flags = PF_R | PF_X,
                          .p_offset = HEADERS,
                          .p_vaddr = BY_HAND_TEXT,
                          .p_filesz = code_size,
                          .p_memsz = code_size,
                          .p_align = 1};
    if (bytes == NULL)
        return NULL;
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &program, sizeof program);
    memcpy(bytes + HEADERS, code, code_size);
    elf_image_open_memory(bytes, size, "by hand", &image, &error);
    free(bytes);
    return image;
}

#endif
