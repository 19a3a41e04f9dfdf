/* fuzz_elf.c - damaged programs, damaged lists of mappings and damaged mangled names: an ordinary program.
 *
 *     fuzz_elf [FILE...]           each file as an ELF image, once
 *     fuzz_elf --seeds N FILE...   N damaged copies of each FILE, and N texts of each kind, seeds 1 to N
 *
 * An image is asked everything the elf module can tell, then the symbol module is asked for functions and
 * lines all over it. What comes back must make sense: a function holds the address it was found by, a
 * section's name ends, a line belongs to a file. A crash, a sanitizer's report, a hang or an answer without
 * sense is a failure; an error is not. Half of the damage goes where it hurts: into headers and into the
 * sections that are read, with values that overflow. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"
#include "fuzz_file.h"
#include "proc_maps.h"
#include "symbol.h"

/* --- what an image answers --- */

static volatile uint64_t seen; /* so that every byte handed out is really read */

static void read_all(const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        seen += bytes[i];
}

static void ask_sections(const struct elf_image *image)
{
    struct elf_section section;
    for (size_t i = 0; i < elf_image_section_count(image) && i < 256; i++) {
        if (!elf_image_section_at(image, i, &section))
            continue;
        seen += strlen(section.name);
        if (section.bytes)
            read_all(section.bytes, section.size);
    }
}

static void ask_segments(const struct elf_image *image, uint64_t *random)
{
    const struct elf_segment *segments;
    uint64_t address, size, hash;
    size_t available, count = elf_image_segments(image, &segments);
    for (size_t i = 0; i < count; i++) {
        uint64_t inside = fuzz_random(random) % (segments[i].memory_size / 2 + 1) * 2;
        const uint8_t *at = elf_image_at(image, segments[i].address + inside, &available);
        if (at)
            read_all(at, available);
        if (elf_image_address_of_offset(image, segments[i].offset + inside, &address))
            seen += address;
    }
    elf_image_text_check(image, &size, &hash);
    seen += size + hash;
}

/* False: a function that does not hold the address, or has no name. */
static bool ask_function(struct symbol_file *file, uint64_t address)
{
    struct symbol_function function, again;
    if (!symbol_file_function(file, address, &function))
        return true;
    seen += strlen(function.name) + strlen(function.raw_name);
    return function.start <= address && address < function.end &&
           symbol_file_function(file, address, &again) && again.name == function.name &&
           again.start == function.start;
}

static bool ask_lines(struct symbol_file *file, uint64_t address)
{
    enum { LEVELS = 16 };
    struct symbol_line lines[LEVELS];
    size_t count = symbol_file_lines(file, address, lines, LEVELS);
    for (size_t i = 0; i < count; i++) {
        seen += lines[i].file ? strlen(lines[i].file) : 0;
        seen += lines[i].function ? strlen(lines[i].function) : 0;
    }
    return count <= LEVELS;
}

static bool ask_symbols(const struct elf_image *image, uint64_t *random)
{
    const struct symbol_options options = {.root = "", .debug_directory = "/nonexistent"};
    const struct elf_segment *segments;
    struct symbol_file *file;
    size_t count = elf_image_segments(image, &segments);
    bool fine = symbol_file_open(image, &options, &file, NULL) == BASE_OK;
    for (unsigned i = 0; fine && count && i < 256; i++) {
        const struct elf_segment *segment = &segments[fuzz_random(random) % count];
        uint64_t address = segment->address + fuzz_random(random) % (segment->memory_size + 16);
        fine = ask_function(file, address) && (i % 8 || ask_lines(file, address));
    }
    symbol_file_close(file);
    return fine;
}

/* False: a fault of ours. */
static bool try_image(const uint8_t *bytes, size_t size, uint64_t random)
{
    struct elf_image *image;
    if (elf_image_open_memory(bytes, size, "fuzz", &image, NULL) != BASE_OK)
        return true;
    ask_sections(image);
    ask_segments(image, &random);
    bool fine = ask_symbols(image, &random);
    elf_image_close(image);
    return fine;
}

/* --- texts --- */

enum { TEXT_MAX = 9000 };

/* Pieces of `text` cut out, doubled, swapped for others, and single characters changed. Returns a malloc'd
 * text. */
static char *damaged_text(const char *text, const char *letters, uint64_t *random)
{
    size_t length = strlen(text), count = strlen(letters);
    char *copy = malloc(TEXT_MAX + 1);
    memcpy(copy, text, length + 1);
    for (uint64_t i = fuzz_random(random) % 12; i > 0 && length > 1; i--) {
        size_t at = fuzz_random(random) % length, piece = fuzz_random(random) % (length - at) + 1;
        uint64_t kind = fuzz_random(random) % 8;
        size_t times = kind == 0 ? (TEXT_MAX - length) / piece : 1; /* as deep as it goes */
        if (kind == 1) {
            memmove(copy + at, copy + at + piece, length - at - piece + 1);
            length -= piece;
        } else if (kind <= 3) {
            for (; times > 0 && length + piece <= TEXT_MAX; times--, length += piece)
                memmove(copy + at + piece, copy + at, length - at + 1);
        } else {
            copy[at] = letters[fuzz_random(random) % count];
        }
    }
    return copy;
}

static bool try_name(uint64_t seed)
{
    static const char *const names[] = {
        "_ZNSt8_Rb_treeISsSt4pairIKSslESt10_Select1stIS2_ESt4lessISsESaIS2_EE24_M_get_insert_unique_posERS1_",
        "_ZZN7fixture12_GLOBAL__N_16sortedERSt6vectorISsSaISsEEENKUlRKSsS5_E_clES5_S5_.constprop.0.isra.0",
        "_ZN5boost6spirit2qi6detail13expect_functionIN9__gnu_cxx17__normal_iteratorIPKcSsEEDTcl3addfp_fp0_"
        "EEE",
        "_ZN1AIXadL_Z1fIJDpT_EEvDpOT0_EEE1gILi4ELb1EEEDaM1BFvizE",
        "_ZN4core3fmt9Formatter9write_str17h0123456789abcdefE.llvm.1234",
        "_RNvXs_NtCs1234_7mycrateINtB4_3FooNtB4_3BarENtNtCs5678_4core3fmt7Display3fmt",
        "_RINvNtC3std3mem8align_ofFKC5printIDNtB2_5Debugp6OutputRL0_eEL_Kh12_Rj5_EpE",
        "_RNvNtNtCs1234_7mycrateu8gdel_5qa4foo.llvm.9",
    };
    uint64_t random = seed ^ 0x6e616d65;
    char *name = damaged_text(names[fuzz_random(&random) % (sizeof names / sizeof *names)],
                              "_ZNRSIJKLEPODTXFMBCUdtlscpfvizhj0123456789.$@\xc3", &random);
    char *readable = symbol_demangle(name);
    bool fine = !readable || (*readable && strlen(readable) < 200000);
    if (!fine)
        fprintf(stderr, "fuzz_elf: name, seed %lu\n", seed);
    free(readable);
    free(name);
    return fine;
}

static bool try_maps(uint64_t seed)
{
    static const char text[] =
        "55d0c0a00000-55d0c0a21000 r-xp 00002000 fe:01 1048 /usr/bin/pro\\012gram (deleted)\n"
        "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 \n"
        "7ffc00000000-7ffc00021000 rw-s 00000000 00:00 0                          [stack]\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n";
    uint64_t random = seed ^ 0x6d617073;
    struct proc_maps maps;
    char *damaged = damaged_text(text, "0123456789abcdefrwxps-: \n/\\()[]\t\xff", &random);
    bool fine = true;
    if (proc_maps_parse(damaged, &maps, NULL) == BASE_OK) {
        for (size_t i = 0; i < maps.count; i++)
            fine = fine && maps.items[i].start <= maps.items[i].end && strlen(maps.items[i].path) < TEXT_MAX;
        proc_maps_free(&maps);
    }
    if (!fine)
        fprintf(stderr, "fuzz_elf: mappings, seed %lu\n", seed);
    free(damaged);
    return fine;
}

int main(int argc, char **argv)
{
    bool damaged = argc > 3 && strcmp(argv[1], "--seeds") == 0, fine = argc > 1;
    uint64_t seeds = damaged ? strtoull(argv[2], NULL, 10) : 0;
    for (int i = damaged ? 3 : 1; i < argc; i++)
        fine = fuzz_file_try_image("fuzz_elf", argv[i], seeds, try_image) && fine;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        fine = try_name(seed) && try_maps(seed) && fine;
    return fine ? 0 : 1;
}
