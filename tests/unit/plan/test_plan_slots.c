/* test_plan_slots.c - names of slots, in made-up images, damaged ones too, and in a real library, whose slots
 * ld.so has filled in this process: the name must be that of the function found there.
 *
 *     test_plan plan_slots LIBRARY... */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan_slots.h"

static char **libraries;

enum { NONE, SYMBOLS, STRINGS, PLT, DYN, NAMES, VERSIONS, NEEDED, SECTIONS };

struct file {
    Elf64_Ehdr header;
    Elf64_Sym symbols[3];
    Elf64_Rela plt[2], dyn[4];
    struct {
        Elf64_Verneed first;
        Elf64_Vernaux first_versions[2];
        Elf64_Verneed second;
        Elf64_Vernaux second_version;
    } needed;
    uint16_t versions[4];
    char strings[32], names[8];
    Elf64_Shdr sections[SECTIONS];
};

static Elf64_Shdr section(uint32_t type, size_t offset, size_t size, uint32_t link)
{
    return (Elf64_Shdr){.sh_type = type,
                        .sh_flags = SHF_ALLOC,
                        .sh_addr = offset,
                        .sh_offset = offset,
                        .sh_size = size,
                        .sh_link = link,
                        .sh_addralign = 1,
                        .sh_entsize = type == SHT_RELA ? sizeof(Elf64_Rela) : 0};
}

static struct file made(void)
{
    struct file file = {.strings = "\0open\0close\0libc.so\0libz.so", .names = ""};
    memcpy(file.header.e_ident, ELFMAG "\2\1\1", 7);
    file.header.e_type = ET_DYN;
    file.header.e_machine = EM_X86_64;
    file.header.e_version = 1;
    file.header.e_shoff = offsetof(struct file, sections);
    file.header.e_ehsize = sizeof file.header;
    file.header.e_shentsize = sizeof(Elf64_Shdr);
    file.header.e_shnum = SECTIONS;
    file.header.e_shstrndx = NAMES;
    file.symbols[1].st_name = 1;
    file.symbols[2].st_name = 6;
    file.plt[0] = (Elf64_Rela){0x4018, ELF64_R_INFO(2, R_X86_64_JUMP_SLOT), 0};
    file.plt[1] = (Elf64_Rela){0x4010, ELF64_R_INFO(1, R_X86_64_JUMP_SLOT), 0};
    file.dyn[0] = (Elf64_Rela){0x3ff0, ELF64_R_INFO(2, R_X86_64_GLOB_DAT), 0};
    file.dyn[1] = (Elf64_Rela){0x4100, ELF64_R_INFO(1, R_X86_64_64), 0};
    file.dyn[2] = (Elf64_Rela){0x4108, ELF64_R_INFO(0, R_X86_64_RELATIVE), 0x1000};
    file.dyn[3] = (Elf64_Rela){0x4020, ELF64_R_INFO(0, R_X86_64_IRELATIVE), 0x1000};
    file.sections[SYMBOLS] =
        section(SHT_DYNSYM, offsetof(struct file, symbols), sizeof file.symbols, STRINGS);
    file.sections[SYMBOLS].sh_entsize = sizeof(Elf64_Sym);
    file.sections[STRINGS] = section(SHT_STRTAB, offsetof(struct file, strings), sizeof file.strings, 0);
    file.sections[PLT] = section(SHT_RELA, offsetof(struct file, plt), sizeof file.plt, SYMBOLS);
    file.sections[DYN] = section(SHT_RELA, offsetof(struct file, dyn), sizeof file.dyn, SYMBOLS);
    file.sections[NAMES] = section(SHT_STRTAB, offsetof(struct file, names), sizeof file.names, 0);
    file.needed.first = (Elf64_Verneed){1, 2, 12, sizeof(Elf64_Verneed),
                                        offsetof(struct file, needed.second) - offsetof(struct file, needed)};
    file.needed.first_versions[0] = (Elf64_Vernaux){.vna_other = 2, .vna_next = sizeof(Elf64_Vernaux)};
    file.needed.first_versions[1] = (Elf64_Vernaux){.vna_other = 4};
    file.needed.second = (Elf64_Verneed){1, 1, 20, sizeof(Elf64_Verneed), 0};
    file.needed.second_version = (Elf64_Vernaux){.vna_other = 3};
    file.versions[1] = 0x8004; /* hidden */
    file.versions[2] = 3;
    file.sections[VERSIONS] =
        section(SHT_GNU_versym, offsetof(struct file, versions), sizeof file.versions, SYMBOLS);
    file.sections[NEEDED] =
        section(SHT_GNU_verneed, offsetof(struct file, needed), sizeof file.needed, STRINGS);
    return file;
}

/* "open" for the slot of open, "-" for no slot. */
static void name_is(const struct file *file, uint64_t slot, const char *expected)
{
    struct elf_image *image = NULL;
    struct plan_slots slots;
    assert_int_equal(elf_image_open_memory(file, sizeof *file, "made", &image, NULL), BASE_OK);
    assert_int_equal(plan_slots_make(image, &slots, NULL), BASE_OK);
    const char *name = plan_slots_name(&slots, slot);
    assert_string_equal(name != NULL ? name : "-", expected);
    plan_slots_free(&slots);
    elf_image_close(image);
}

static void slots_have_their_symbols_names(void **state)
{
    (void)state;
    struct file file = made();
    name_is(&file, 0x4010, "open");
    name_is(&file, 0x4018, "close");
    name_is(&file, 0x3ff0, "close");
    name_is(&file, 0x4020, "");  /* a resolver's */
    name_is(&file, 0x4100, "-"); /* the program's own pointer */
    name_is(&file, 0x4108, "-");
    name_is(&file, 0, "-");
    name_is(&file, 0x4011, "-");
    name_is(&file, UINT64_MAX, "-");
    file.sections[PLT].sh_flags = 0; /* relocations that ld.so does not see */
    name_is(&file, 0x4010, "-");
    name_is(&file, 0x3ff0, "close");
    file.header.e_machine = EM_AARCH64;
    name_is(&file, 0x3ff0, "-");
}

static void damage_gives_no_names(void **state)
{
    (void)state;
    struct file file = made();
    file.plt[1].r_info = ELF64_R_INFO(3, R_X86_64_JUMP_SLOT); /* one past the last symbol */
    name_is(&file, 0x4010, "");
    file.plt[1].r_info = ELF64_R_INFO(UINT32_MAX, R_X86_64_JUMP_SLOT);
    name_is(&file, 0x4010, "");
    file = made();
    file.symbols[1].st_name = sizeof file.strings;
    name_is(&file, 0x4010, "");
    file.symbols[1].st_name = UINT32_MAX;
    name_is(&file, 0x4010, "");
    file = made();
    memset(file.strings + 6, 'x', sizeof file.strings - 6); /* its end is missing */
    name_is(&file, 0x4018, "");
    name_is(&file, 0x4010, "open");
    file = made();
    file.sections[PLT].sh_link = 77;
    name_is(&file, 0x4010, "");
    file.sections[PLT].sh_link = NAMES;
    name_is(&file, 0x4010, "");
    file = made();
    file.sections[SYMBOLS].sh_link = PLT; /* strings that are none: still only bytes of the file */
    name_is(&file, 0x4020, "");
}

static void library_is(const struct file *file, uint64_t slot, const char *expected)
{
    struct elf_image *image = NULL;
    struct plan_slots slots;
    assert_int_equal(elf_image_open_memory(file, sizeof *file, "made", &image, NULL), BASE_OK);
    assert_int_equal(plan_slots_make(image, &slots, NULL), BASE_OK);
    assert_non_null(plan_slots_at(&slots, slot));
    assert_string_equal(plan_slots_at(&slots, slot)->library, expected);
    plan_slots_free(&slots);
    elf_image_close(image);
}

static void versions_name_files(void **state)
{
    (void)state;
    struct file file = made();
    library_is(&file, 0x4010, "libc.so"); /* the second version of the first file */
    library_is(&file, 0x4018, "libz.so");
    library_is(&file, 0x4020, ""); /* a resolver's */
    file.versions[1] = 1;          /* global: of whoever has it */
    library_is(&file, 0x4010, "");
    file.versions[1] = 77;
    library_is(&file, 0x4010, "");
    file.sections[VERSIONS].sh_link = NAMES;
    library_is(&file, 0x4018, "");
}

static void damaged_versions_name_none(void **state)
{
    (void)state;
    struct file file = made();
    file.needed.first.vn_next = UINT32_MAX;
    library_is(&file, 0x4018, "");
    library_is(&file, 0x4010, "libc.so");
    file.needed.first.vn_aux = UINT32_MAX;
    library_is(&file, 0x4010, "");
    file = made();
    file.needed.first.vn_cnt = UINT16_MAX; /* more than there are: they end where none is next */
    library_is(&file, 0x4018, "libz.so");
    file.needed.first.vn_file = sizeof file.strings;
    library_is(&file, 0x4010, "");
    file = made();
    memset(file.strings + 20, 'x', sizeof file.strings - 20); /* its end is missing */
    library_is(&file, 0x4018, "");
    file = made();
    file.sections[VERSIONS].sh_size = 3; /* ends within the second symbol's */
    library_is(&file, 0x4010, "");
    file.sections[NEEDED].sh_size = 5;
    library_is(&file, 0x4010, "");
}

/* The file that a version is demanded of has such a function (though another one may have been bound, a
 * sanitizer's). */
static void assert_library_has(const char *library, const char *name)
{
    if (library[0] == '\0')
        return;
    void *handle = dlopen(library, RTLD_NOW | RTLD_NOLOAD);
    assert_non_null(handle);
    assert_non_null(dlsym(handle, name));
    dlclose(handle);
}

static void names_are_what_the_loader_bound(void **state)
{
    (void)state;
    unsigned compared = 0;
    for (char **library = libraries; *library != NULL; library++) {
        struct elf_image *image = NULL;
        struct plan_slots slots;
        struct link_map *map;
        void *handle = dlopen(*library, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(handle);
        assert_int_equal(dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
        assert_int_equal(elf_image_open(*library, &image, NULL), BASE_OK);
        assert_int_equal(plan_slots_make(image, &slots, NULL), BASE_OK);
        for (size_t i = 0; i < slots.count; i++) {
            void *bound = *(void **)(uintptr_t)(map->l_addr + slots.items[i].address);
            void *named = slots.items[i].name[0] != '\0' ? dlsym(handle, slots.items[i].name) : NULL;
            if (named == NULL)
                continue;
            assert_ptr_equal(bound, named);
            assert_library_has(slots.items[i].library, slots.items[i].name);
            compared++;
        }
        plan_slots_free(&slots);
        elf_image_close(image);
        dlclose(handle);
    }
    assert_true(compared >= 4);
}

int main(int argument_count, char **arguments)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_have_their_symbols_names),
        cmocka_unit_test(damage_gives_no_names),
        cmocka_unit_test(versions_name_files),
        cmocka_unit_test(damaged_versions_name_none),
        cmocka_unit_test(names_are_what_the_loader_bound),
    };
    if (argument_count < 2)
        return 2;
    libraries = arguments + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
