/* Symbol and debug information that is wrong on purpose, made by damaging a fixture in chosen places: sizes
 * that swallow all, names that do not end, links that lead elsewhere, entries of debug information that refer
 * to each other. argv[1]: the directory of fixtures. What no one chose is left to fuzz_elf. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "oracle.h"

struct copy {
    uint8_t *bytes;
    size_t size;
};

static struct copy copy_of(const char *name)
{
    struct elf_image *image;
    struct copy copy;
    assert_int_equal(elf_image_open(oracle_path(name), &image, NULL), BASE_OK);
    const uint8_t *bytes = elf_image_bytes(image, &copy.size);
    copy.bytes = malloc(copy.size);
    assert_non_null(copy.bytes);
    memcpy(copy.bytes, bytes, copy.size);
    elf_image_close(image);
    return copy;
}

static Elf64_Shdr *section_of(const struct copy *copy, const char *name)
{
    Elf64_Ehdr *header = (void *)copy->bytes;
    Elf64_Shdr *sections = (void *)(copy->bytes + header->e_shoff);
    const char *names = (const char *)copy->bytes + sections[header->e_shstrndx].sh_offset;
    for (size_t i = 0; i < header->e_shnum; i++) {
        if (!strcmp(names + sections[i].sh_name, name))
            return &sections[i];
    }
    fail_msg("no section %s", name);
    return NULL;
}

static Elf64_Sym *symbol_of(const struct copy *copy, const char *name)
{
    const Elf64_Shdr *symbols = section_of(copy, ".symtab"), *strings = section_of(copy, ".strtab");
    for (size_t at = 0; at < symbols->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym *symbol = (void *)(copy->bytes + symbols->sh_offset + at);
        if (!strcmp((const char *)copy->bytes + strings->sh_offset + symbol->st_name, name))
            return symbol;
    }
    fail_msg("no symbol %s", name);
    return NULL;
}

static struct opened open_copy(const struct copy *copy)
{
    struct opened opened;
    struct elf_section text;
    assert_int_equal(
        elf_image_open_memory(copy->bytes, copy->size, "/directory/damaged", &opened.image, NULL), BASE_OK);
    const struct symbol_options options = {.debug_directory = "/nonexistent"};
    assert_int_equal(symbol_file_open(opened.image, &options, &opened.file, NULL), BASE_OK);
    assert_true(elf_image_section(opened.image, ".text", &text));
    opened.start = text.address;
    opened.end = text.address + text.size;
    return opened;
}

static const char *name_at(struct opened *opened, uint64_t address)
{
    struct symbol_function function;
    return symbol_file_function(opened->file, address, &function) ? function.name : NULL;
}

static void ask_all(struct opened *opened)
{
    for (uint64_t address = opened->start; address < opened->end; address++) {
        struct symbol_line lines[8];
        const char *name = name_at(opened, address);
        assert_true(!name || strlen(name) < 100000);
        assert_true(symbol_file_lines(opened->file, address, lines, 8) <= 8);
    }
}

static void huge_sizes_are_cut(void **state)
{
    (void)state;
    struct copy copy = copy_of("no_id");
    Elf64_Sym *symbol = symbol_of(&copy, "fixture_loop"), *local = symbol_of(&copy, "local_function");
    uint64_t address = symbol->st_value, size = symbol->st_size;
    symbol->st_size = UINT64_MAX - 5;
    struct opened opened = open_copy(&copy);
    assert_string_equal(name_at(&opened, address), "fixture_loop");
    assert_string_equal(name_at(&opened, address + size - 1), "fixture_loop");
    assert_string_equal(name_at(&opened, local->st_value), "local_function"); /* the innermost answers */
    assert_true(!name_at(&opened, opened.end) || strcmp(name_at(&opened, opened.end), "fixture_loop"));
    oracle_close(&opened);
    free(copy.bytes);
}

static void names_without_end_are_left_out(void **state)
{
    (void)state;
    struct copy copy = copy_of("no_id");
    Elf64_Sym *symbol = symbol_of(&copy, "local_function");
    uint64_t address = symbol->st_value;
    Elf64_Shdr *strings = section_of(&copy, ".strtab");
    symbol->st_name = (uint32_t)strings->sh_size - 4;
    memset(copy.bytes + strings->sh_offset + strings->sh_size - 4, 'x', 4);
    struct opened opened = open_copy(&copy);
    assert_string_not_equal(name_at(&opened, address), "local_function");
    assert_non_null(strstr(name_at(&opened, address), "damaged+0x")); /* by its FDE */
    oracle_close(&opened);
    symbol->st_name = UINT32_MAX;
    opened = open_copy(&copy);
    assert_non_null(strstr(name_at(&opened, address), "damaged+0x"));
    oracle_close(&opened);
    free(copy.bytes);
}

static void symbols_outside_of_code_are_left_out(void **state)
{
    (void)state;
    struct copy copy = copy_of("no_id");
    Elf64_Sym *symbol = symbol_of(&copy, "local_function");
    uint64_t address = symbol->st_value;
    static const uint16_t sections[] = {SHN_UNDEF, SHN_ABS, SHN_COMMON, SHN_XINDEX, 0x7fff, 1};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        symbol->st_shndx = sections[i];
        struct opened opened = open_copy(&copy);
        assert_string_not_equal(name_at(&opened, address), "local_function");
        oracle_close(&opened);
    }
    free(copy.bytes);
}

static void wrong_links_are_survived(void **state)
{
    (void)state;
    struct copy copy = copy_of("no_id");
    Elf64_Shdr *symbols = section_of(&copy, ".symtab"), *dynamic = section_of(&copy, ".dynsym");
    for (uint32_t link = 0; link < 50; link++) {
        symbols->sh_link = dynamic->sh_link = link < 40 ? link : link * 0x01010101u;
        struct opened opened = open_copy(&copy);
        ask_all(&opened);
        oracle_close(&opened);
    }
    free(copy.bytes);
}

static void damaged_sections_are_survived(void **state)
{
    (void)state;
    static const char *const sections[] = {
        ".debug_info", ".debug_abbrev", ".debug_line",     ".debug_str", ".debug_rnglists", ".rela.plt",
        ".plt",        ".symtab",       ".debug_line_str", ".dynsym",    ".eh_frame",       ".debug_aranges"};
    uint64_t random = 11;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        for (int round = 0; round < 60; round++) {
            struct copy copy = copy_of("dwarf5");
            const Elf64_Shdr *section = section_of(&copy, sections[i]);
            for (int change = 0; change < 1 + round % 12; change++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                copy.bytes[section->sh_offset + (random >> 33) % section->sh_size] = (uint8_t)(random >> 25);
            }
            struct opened opened = open_copy(&copy);
            ask_all(&opened);
            oracle_close(&opened);
            free(copy.bytes);
        }
    }
}

static void damaged_mini_debug_information_is_survived(void **state)
{
    (void)state;
    uint64_t random = 12;
    for (int round = 0; round < 200; round++) {
        struct copy copy = copy_of("mini");
        const Elf64_Shdr *section = section_of(&copy, ".gnu_debugdata");
        random = random * 6364136223846793005u + 1442695040888963407u;
        copy.bytes[section->sh_offset + (random >> 33) % section->sh_size] ^=
            (uint8_t)(1 + (random >> 20) % 255);
        struct opened opened = open_copy(&copy);
        name_at(&opened, opened.start + 300);
        oracle_close(&opened);
        free(copy.bytes);
    }
}

/* A debuglink that is no name beside the file is not followed. */
static void strange_links_are_not_followed(void **state)
{
    (void)state;
    static const char *const names[] = {"/etc/passwd", "../program.debug", "", ".", "program.debug/"};
    struct copy copy = copy_of("beside/program");
    Elf64_Shdr *section = section_of(&copy, ".gnu_debuglink");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        memset(copy.bytes + section->sh_offset, 0, section->sh_size - 4);
        memcpy(copy.bytes + section->sh_offset, names[i], strlen(names[i]));
        struct opened opened = open_copy(&copy);
        ask_all(&opened);
        oracle_close(&opened);
    }
    memset(copy.bytes + section->sh_offset, 'x', section->sh_size); /* it does not end */
    struct opened opened = open_copy(&copy);
    ask_all(&opened);
    oracle_close(&opened);
    free(copy.bytes);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(huge_sizes_are_cut),
        cmocka_unit_test(names_without_end_are_left_out),
        cmocka_unit_test(symbols_outside_of_code_are_left_out),
        cmocka_unit_test(wrong_links_are_survived),
        cmocka_unit_test(damaged_sections_are_survived),
        cmocka_unit_test(damaged_mini_debug_information_is_survived),
        cmocka_unit_test(strange_links_are_not_followed),
    };
    if (argc < 2)
        return 2;
    oracle_use(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
