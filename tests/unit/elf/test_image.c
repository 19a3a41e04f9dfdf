/* elf_image on programs built for it (argv[1] the fixture, argv[2] the same with compressed sections), on
 * images made by hand, and on every truncation of one. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_fault.h"
#include "elf_image.h"

static const char *fixture_path, *compressed_path;
static const uint8_t BUILD_ID[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

static struct elf_image *open_path(const char *path)
{
    struct elf_image *image = NULL;
    struct base_error error = {""};
    if (elf_image_open(path, &image, &error) != BASE_OK)
        fail_msg("%s", error.text);
    return image;
}

static struct elf_image *open_bytes(const void *bytes, size_t size)
{
    struct elf_image *image = NULL;
    struct base_error error = {""};
    if (elf_image_open_memory(bytes, size, "by hand", &image, &error) != BASE_OK)
        fail_msg("%s", error.text);
    return image;
}

static void assert_build_id(const struct elf_image *image)
{
    assert_int_equal(elf_image_build_id(image)->size, sizeof BUILD_ID);
    assert_memory_equal(elf_image_build_id(image)->bytes, BUILD_ID, sizeof BUILD_ID);
}

/* A copy of the fixture, to be damaged. */
static uint8_t *copy_of_fixture(size_t *size)
{
    struct elf_image *image = open_path(fixture_path);
    const uint8_t *bytes = elf_image_bytes(image, size);
    uint8_t *copy = malloc(*size);
    assert_non_null(copy);
    memcpy(copy, bytes, *size);
    elf_image_close(image);
    return copy;
}

/* --- build-ids --- */

static void build_id_comes_from_notes_or_sections(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = copy_of_fixture(&size);
    Elf64_Ehdr *header = (void *)bytes;
    struct elf_image *image = open_bytes(bytes, size);
    assert_build_id(image);
    elf_image_close(image);

    Elf64_Ehdr saved = *header; /* without section headers */
    header->e_shoff = header->e_shnum = header->e_shstrndx = 0;
    image = open_bytes(bytes, size);
    assert_build_id(image);
    assert_int_equal(elf_image_section_count(image), 0);
    elf_image_close(image);

    *header = saved; /* without PT_NOTE, and without any PT_LOAD */
    Elf64_Phdr *programs = (void *)(bytes + header->e_phoff);
    for (size_t i = 0; i < header->e_phnum; i++)
        programs[i].p_type = PT_NULL;
    image = open_bytes(bytes, size);
    assert_build_id(image);
    const struct elf_segment *segments;
    assert_int_equal(elf_image_segments(image, &segments), 0);
    elf_image_close(image);
    free(bytes);
}

static void build_ids_print_and_compare(void **state)
{
    (void)state;
    struct elf_build_id id = {.size = 3, .bytes = {0x00, 0xa0, 0x5f}}, other = id;
    char text[2 * ELF_BUILD_ID_MAX + 1];
    elf_build_id_format(&id, text);
    assert_string_equal(text, "00a05f");
    assert_true(elf_build_id_equal(&id, &other));
    other.bytes[2]++;
    assert_false(elf_build_id_equal(&id, &other));
    other = id;
    other.size = 2;
    assert_false(elf_build_id_equal(&id, &other));
}

/* A build-id longer than any is cut, and does not reach past its place. */
static void overlong_build_id_is_cut(void **state)
{
    (void)state;
    struct {
        Elf64_Ehdr header;
        Elf64_Phdr note;
        Elf64_Nhdr head;
        char owner[4];
        uint8_t id[64];
    } file = {.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                         .e_type = ET_DYN,
                         .e_machine = EM_X86_64,
                         .e_version = EV_CURRENT,
                         .e_phoff = sizeof(Elf64_Ehdr),
                         .e_ehsize = sizeof(Elf64_Ehdr),
                         .e_phentsize = sizeof(Elf64_Phdr),
                         .e_phnum = 1},
              .head = {.n_namesz = 4, .n_descsz = 64, .n_type = NT_GNU_BUILD_ID},
              .owner = "GNU"};
    file.note =
        (Elf64_Phdr){.p_type = PT_NOTE, .p_offset = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), .p_align = 4};
    file.note.p_filesz = sizeof file - file.note.p_offset;
    memset(file.id, 7, sizeof file.id);
    struct elf_image *image = open_bytes(&file, sizeof file);
    assert_int_equal(elf_image_build_id(image)->size, ELF_BUILD_ID_MAX);
    elf_image_close(image);
}

/* --- sections --- */

static void sections_are_found(void **state)
{
    (void)state;
    struct elf_image *image = open_path(fixture_path);
    struct elf_section text, bss, by_index, header;
    size_t size, available;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    assert_true(elf_image_section(image, ".text", &text));
    assert_true(text.bytes > bytes && text.bytes + text.size < bytes + size);
    assert_int_equal(text.flags, SHF_ALLOC | SHF_EXECINSTR);
    assert_ptr_equal(elf_image_at(image, text.address, &available), text.bytes);
    assert_true(available >= text.size);
    assert_true(elf_image_section_at(image, text.index, &by_index));
    assert_string_equal(by_index.name, ".text");
    assert_true(elf_image_section_header(image, text.index, &header));
    assert_null(header.bytes);
    assert_int_equal(header.memory_size, text.size);
    assert_false(elf_image_section(image, ".bss", &bss)); /* it has no bytes */
    assert_false(elf_image_section(image, ".nowhere", &bss));
    assert_false(elf_image_section_at(image, elf_image_section_count(image), &bss));
    elf_image_close(image);
}

static void symbols_know_their_strings(void **state)
{
    (void)state;
    struct elf_image *image = open_path(fixture_path);
    struct elf_section symbols, strings;
    assert_true(elf_image_section(image, ".symtab", &symbols));
    assert_true(elf_image_section_at(image, symbols.link, &strings));
    assert_string_equal(strings.name, ".strtab");
    elf_image_close(image);
}

static void compressed_sections_are_decompressed(void **state)
{
    (void)state;
    struct elf_image *plain = open_path(fixture_path), *packed = open_path(compressed_path);
    unsigned compressed = 0;
    for (size_t i = 1; i < elf_image_section_count(plain); i++) {
        struct elf_section expected, header, found;
        assert_true(elf_image_section_at(plain, i, &expected));
        if (strncmp(expected.name, ".debug_", 7) || !expected.size)
            continue;
        assert_true(elf_image_section(packed, expected.name, &found));
        assert_int_equal(found.size, expected.size);
        assert_memory_equal(found.bytes, expected.bytes, expected.size);
        struct elf_image *again = open_path(compressed_path); /* reading headers decompresses nothing */
        assert_true(elf_image_section_header(again, found.index, &header));
        compressed += !!(header.flags & SHF_COMPRESSED);
        elf_image_close(again);
    }
    assert_true(compressed > 2);
    elf_image_close(plain);
    elf_image_close(packed);
}

/* A stream that does not decompress, or says that it is bigger than memory, gives no bytes. */
static void damaged_compression_gives_no_bytes(void **state)
{
    (void)state;
    struct elf_image *image = open_path(compressed_path);
    size_t size;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    uint8_t *copy = malloc(size);
    struct elf_section header;
    size_t index = 0;
    assert_non_null(copy);
    memcpy(copy, bytes, size);
    for (size_t i = 1; i < elf_image_section_count(image); i++) {
        if (elf_image_section_header(image, i, &header) && header.flags & SHF_COMPRESSED)
            index = i;
    }
    assert_true(index);
    elf_image_close(image);
    const Elf64_Ehdr *file = (const void *)copy;
    const Elf64_Shdr *sections = (const void *)(copy + file->e_shoff);
    Elf64_Chdr *head = (void *)(copy + sections[index].sh_offset);
    for (int damage = 0; damage < 3; damage++) {
        Elf64_Chdr saved = *head;
        if (damage == 0)
            head->ch_size = UINT64_C(1) << 60;
        else if (damage == 1)
            head->ch_type = 77;
        else
            memset(head + 1, 0xff, 8);
        image = open_bytes(copy, size);
        struct elf_section section;
        assert_true(elf_image_section_at(image, index, &section));
        assert_null(section.bytes);
        assert_false(elf_image_section(image, section.name, &section));
        elf_image_close(image);
        *head = saved;
    }
    free(copy);
}

/* --- addresses --- */

enum { PROGRAMS = 3 };
struct by_hand {
    Elf64_Ehdr header;
    Elf64_Phdr programs[PROGRAMS];
    uint8_t rest[0x3000];
};

/* As lld lays files out: code follows data in the file without padding, so that a page belongs to both. */
static void make_by_hand(struct by_hand *file)
{
    *file =
        (struct by_hand){.header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                                    .e_type = ET_DYN,
                                    .e_machine = EM_AARCH64,
                                    .e_version = EV_CURRENT,
                                    .e_phoff = sizeof(Elf64_Ehdr),
                                    .e_ehsize = sizeof(Elf64_Ehdr),
                                    .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_phnum = PROGRAMS},
                         .programs = {{PT_LOAD, PF_R, 0, 0, 0, 0x1234, 0x1234, 0x1000},
                                      {PT_LOAD, PF_R | PF_X, 0x1240, 0x2240, 0x2240, 0x800, 0x800, 0x1000},
                                      {PT_LOAD, PF_R | PF_W, 0x1a40, 0x3a40, 0x3a40, 0x100, 0x900, 0x1000}}};
    for (size_t i = 0; i < sizeof file->rest; i++)
        file->rest[i] = (uint8_t)(i * 7);
}

static void offsets_become_addresses(void **state)
{
    (void)state;
    struct by_hand file;
    make_by_hand(&file);
    struct elf_image *image = open_bytes(&file, sizeof file);
    const struct {
        uint64_t offset, address;
    } cases[] = {{0, 0},           {0xfff, 0xfff},   {0x1000, 0x2000},
                 {0x1240, 0x2240}, {0x1a3f, 0x2a3f}, {0x1b3f, 0x3b3f}};
    uint64_t address;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(elf_image_address_of_offset(image, cases[i].offset, &address));
        assert_int_equal(address, cases[i].address);
    }
    assert_false(elf_image_address_of_offset(image, 0x1b40, &address));
    assert_false(elf_image_address_of_offset(image, UINT64_MAX, &address));
    elf_image_close(image);
}

/* A mapping begins at its kernel's page: with pages of 64 KB far before the segment. */
static void large_pages_begin_early(void **state)
{
    (void)state;
    struct by_hand file;
    make_by_hand(&file);
    file.programs[0] = (Elf64_Phdr){.p_type = PT_NULL};
    file.programs[1].p_offset = 0x2040;
    struct elf_image *image = open_bytes(&file, sizeof file);
    uint64_t address;
    assert_true(elf_image_address_of_offset(image, 0x0040, &address));
    assert_int_equal(address, 0x240);
    elf_image_close(image);
}

static void addresses_become_bytes(void **state)
{
    (void)state;
    struct by_hand file;
    make_by_hand(&file);
    struct elf_image *image = open_bytes(&file, sizeof file);
    size_t available, size;
    const uint8_t *bytes = elf_image_bytes(image, &size);
    assert_ptr_equal(elf_image_at(image, 0x2241, &available), bytes + 0x1241);
    assert_int_equal(available, 0x7ff);
    assert_ptr_equal(elf_image_at(image, 0x3a40, &available), bytes + 0x1a40);
    assert_int_equal(available, 0x100);
    assert_null(elf_image_at(image, 0x3b40, &available)); /* zeros that are not in the file */
    assert_null(elf_image_at(image, 0x1fff, &available));
    elf_image_close(image);
    image = open_bytes(&file, 0x1a80); /* cut inside the last segment */
    assert_non_null(elf_image_at(image, 0x3a40, &available));
    assert_int_equal(available, 0x40);
    assert_null(elf_image_at(image, 0x3a80, &available));
    elf_image_close(image);
}

static void text_check_sees_text(void **state)
{
    (void)state;
    struct by_hand file;
    uint64_t size, hash, other_size, other_hash;
    make_by_hand(&file);
    struct elf_image *image = open_bytes(&file, sizeof file);
    elf_image_text_check(image, &size, &hash);
    elf_image_close(image);
    assert_int_equal(size, 0x800);
    ((uint8_t *)&file)[0x1300] ^= 1; /* in the text */
    image = open_bytes(&file, sizeof file);
    elf_image_text_check(image, &other_size, &other_hash);
    elf_image_close(image);
    assert_int_equal(other_size, size);
    assert_int_not_equal(other_hash, hash);
    ((uint8_t *)&file)[0x1300] ^= 1;
    ((uint8_t *)&file)[0x1a60] ^= 1; /* in the data */
    image = open_bytes(&file, sizeof file);
    elf_image_text_check(image, &other_size, &other_hash);
    elf_image_close(image);
    assert_int_equal(other_hash, hash);
}

/* --- refusals --- */

static void assert_refused(const void *bytes, size_t size, int code, const char *said)
{
    struct elf_image *image = NULL;
    struct base_error error = {""};
    assert_int_equal(elf_image_open_memory(bytes, size, "the name", &image, &error), code);
    assert_null(image);
    assert_string_equal(error.text, said);
}

static void others_are_refused(void **state)
{
    (void)state;
    struct by_hand file;
    struct base_error error = {""};
    struct elf_image *image = NULL;
    assert_refused("#!/bin/sh\n", 10, BASE_EFORMAT, "the name is not an ELF file");
    assert_refused("", 0, BASE_EFORMAT, "the name is not an ELF file");
    make_by_hand(&file);
    file.header.e_ident[EI_DATA] = ELFDATA2MSB;
    assert_int_equal(elf_image_open_memory(&file, sizeof file, "x", &image, NULL), BASE_EUNSUPPORTED);
    Elf32_Ehdr small = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT},
                        .e_type = ET_EXEC,
                        .e_machine = EM_386,
                        .e_version = EV_CURRENT,
                        .e_ehsize = sizeof small};
    assert_refused(&small, sizeof small, BASE_EUNSUPPORTED, "the name is a 32-bit program");
    assert_int_equal(elf_image_open("/nonexistent/file", &image, &error), BASE_ENOTFOUND);
    assert_string_equal(error.text, "/nonexistent/file: No such file or directory");
    assert_int_equal(elf_image_open("/dev/null", &image, NULL), BASE_EFORMAT);
    assert_int_equal(elf_image_open("/", &image, NULL), BASE_EFORMAT);
}

static void descriptors_are_taken_over(void **state)
{
    (void)state;
    struct elf_image *image;
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_int_equal(elf_image_open_fd(fd, "null", &image, NULL), BASE_EFORMAT);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_int_equal(errno, EBADF);
    fd = open(fixture_path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(elf_image_open_fd(fd, "fixture", &image, NULL), BASE_OK);
    assert_int_equal(elf_image_fd(image), fd);
    assert_string_equal(elf_image_name(image), "fixture");
    elf_image_close(image);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* Everything that can be asked of an image. */
static void ask_everything(const struct elf_image *image)
{
    const struct elf_segment *segments;
    struct elf_section section;
    uint64_t number, hash;
    size_t available, sum = 0;
    size_t count = elf_image_segments(image, &segments);
    for (size_t i = 0; i < count; i++) {
        const uint8_t *bytes = elf_image_at(image, segments[i].address, &available);
        sum += bytes ? bytes[0] + bytes[available - 1] : 0u;
        elf_image_address_of_offset(image, segments[i].offset, &number);
    }
    for (size_t i = 0; i < elf_image_section_count(image) && i < 200; i++) {
        if (elf_image_section_at(image, i, &section) && section.size)
            sum += section.bytes[0] + section.bytes[section.size - 1] + strlen(section.name);
    }
    elf_image_section(image, ".symtab", &section);
    elf_image_text_check(image, &number, &hash);
    assert_true(sum + 1 > 0);
}

static void truncated_files_are_survived(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = copy_of_fixture(&size);
    for (size_t length = 0; length < size; length += length < 1200 ? 1 : 61) {
        struct elf_image *image;
        uint8_t *exact = malloc(length + 1); /* so that a sanitizer sees the end */
        memcpy(exact, bytes, length);
        if (elf_image_open_memory(exact, length, "cut", &image, NULL) == BASE_OK) {
            ask_everything(image);
            elf_image_close(image);
        }
        free(exact);
    }
    free(bytes);
}

/* Through a file, as it is mapped then: no page behind its end may be touched. */
static void truncated_mapped_files_are_survived(void **state)
{
    (void)state;
    size_t size;
    uint8_t *bytes = copy_of_fixture(&size);
    char path[] = "/tmp/tally-elf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), (ssize_t)size);
    for (size_t length = size; length > 64; length -= length > 700 ? 509 : 7) {
        struct elf_image *image;
        assert_int_equal(ftruncate(fd, (off_t)length), 0);
        if (elf_image_open(path, &image, NULL) == BASE_OK) {
            ask_everything(image);
            elf_image_close(image);
        }
    }
    close(fd);
    unlink(path);
    free(bytes);
}

/* Whoever owns the file shortens it while it is open. */
static void a_file_may_be_cut_while_open(void **state)
{
    char path[] = "/tmp/tally-cut-XXXXXX";
    size_t size, available;
    uint8_t *copy = copy_of_fixture(&size);
    struct elf_section section;
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, copy, size), size);
    base_fault_survive();
    struct elf_image *image = open_path(path);
    assert_false(elf_image_is_cut(image));
    assert_int_equal(ftruncate(file, 4096), 0);
    assert_true(elf_image_is_cut(image));
    const uint8_t *bytes = elf_image_bytes(image, &available);
    assert_int_equal(available, size);
    assert_memory_equal(bytes, copy, 4096);
    for (size_t i = 4096; i < size; i++)
        assert_int_equal(bytes[i], 0);
    for (size_t i = 1; i < elf_image_section_count(image); i++)
        elf_image_section_at(image, i, &section);
    assert_false(elf_image_section(image, ".text", &section)); /* names and headers are gone */
    elf_image_close(image);
    close(file);
    unlink(path);
    free(copy);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_may_be_cut_while_open),
        cmocka_unit_test(build_id_comes_from_notes_or_sections),
        cmocka_unit_test(build_ids_print_and_compare),
        cmocka_unit_test(overlong_build_id_is_cut),
        cmocka_unit_test(sections_are_found),
        cmocka_unit_test(symbols_know_their_strings),
        cmocka_unit_test(compressed_sections_are_decompressed),
        cmocka_unit_test(damaged_compression_gives_no_bytes),
        cmocka_unit_test(offsets_become_addresses),
        cmocka_unit_test(large_pages_begin_early),
        cmocka_unit_test(addresses_become_bytes),
        cmocka_unit_test(text_check_sees_text),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(descriptors_are_taken_over),
        cmocka_unit_test(truncated_files_are_survived),
        cmocka_unit_test(truncated_mapped_files_are_survived),
    };
    if (argc < 3)
        return 2;
    fixture_path = argv[1];
    compressed_path = argv[2];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
