/* fuzz_code.c - hostile code and hostile programs: an ordinary program.
 *
 *     fuzz_code [FILE...]           each file's code surveyed, once
 *     fuzz_code --seeds N FILE...   N damaged copies of each FILE, and N pieces of random code, seeds 1 to N
 *
 * What comes back must make sense: instructions follow one another without a gap, sites lie in order inside
 * functions that are fine, displacements lead where the target says, what is marked lies inside of the text.
 * A crash, a sanitizer's report, a hang or an answer without sense is a failure; an error is not. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfi.h"
#include "code_flags.h"
#include "code_survey.h"
#include "fuzz_file.h"

/* --- does it make sense? --- */

static bool check_instruction(const struct code_instruction *at, const uint8_t *bytes)
{
    if (at->length == 0 || at->length > 15 || at->opcode_at >= at->length || at->modrm_at >= at->length)
        return false;
    if (at->displacement_at + at->displacement_size > at->length ||
        at->immediate_at + at->immediate_size > at->length)
        return false;
    if (at->displacement_size == 0)
        return at->target == 0 && at->memory == 0;
    int64_t displacement = (int8_t)bytes[at->displacement_at];
    if (at->displacement_size == 4) {
        int32_t value;
        memcpy(&value, bytes + at->displacement_at, sizeof value);
        displacement = value;
    }
    uint64_t there = at->address + at->length + (uint64_t)displacement;
    if (at->rip_relative)
        return at->memory == there || at->memory == (uint32_t)there;
    return at->target == there;
}

static bool check_function(const struct code_survey *survey, uint32_t number)
{
    const struct code_function *function = &survey->functions->items[number];
    const struct code_survey_function *item = &survey->items[number];
    struct code_instructions all = {NULL, 0, 0};
    size_t available;
    uint64_t where, at = function->start;
    bool fine = function->end > function->start && item->verdict < CODE_VERDICT_END &&
                item->where >= function->start && item->where <= function->end;
    int verdict = code_instructions_decode(&survey->text, function->start, function->end, &all, &where);
    fine = fine && (verdict == item->verdict || (function->cut && item->verdict == CODE_VERDICT_CUT)) &&
           (item->verdict == CODE_VERDICT_FINE || item->site_count == 0);
    for (size_t i = 0; i < all.count && fine; i++) {
        const uint8_t *bytes = code_text_at(&survey->text, at, &available);
        fine = bytes && all.items[i].address == at && check_instruction(&all.items[i], bytes) &&
               (verdict != CODE_VERDICT_FINE || item->verdict == CODE_VERDICT_CUT ||
                (code_survey_marked(survey, CODE_MAP_START, at) &&
                 (i == 0 || code_survey_previous(survey, at) == all.items[i - 1].address)));
        at += all.items[i].length;
    }
    code_instructions_free(&all);
    return fine;
}

static bool check_sites(const struct code_survey *survey)
{
    for (size_t i = 0; i < survey->site_count; i++) {
        const struct code_site *site = &survey->sites[i];
        if (site->function >= survey->functions->count || (i > 0 && site->address <= site[-1].address))
            return false;
        const struct code_function *function = &survey->functions->items[site->function];
        const struct code_survey_function *item = &survey->items[site->function];
        if (site->address < function->start || site->address + site->length > function->end ||
            i < item->first_site || i >= item->first_site + item->site_count || (site->facts & 0x8000))
            return false;
        if (site->target_function != CODE_NONE &&
            code_functions_find(survey->functions, site->target) != site->target_function)
            return false;
    }
    return true;
}

static volatile uint64_t seen; /* so that every answer is really made */

static void ask(const struct code_survey *survey, uint64_t *random)
{
    uint64_t span = survey->map_end - survey->map_base + 32, slot = 0;
    for (unsigned i = 0; i < 64; i++) {
        uint64_t at = survey->map_base - 16 + fuzz_random(random) % span;
        seen += code_flags_dead(&survey->text, at, CODE_FLAGS_ADD);
        seen += code_survey_entered(survey, at, at + fuzz_random(random) % 64);
        seen += code_survey_previous(survey, at);
        if (code_survey_slot(survey, at, &slot) && code_survey_slot_name(survey, slot))
            seen += strlen(code_survey_slot_name(survey, slot));
    }
    for (size_t i = 0; i < survey->slot_count; i++)
        seen += strlen(survey->slots[i].name);
    for (size_t i = 0; i < survey->functions->entry_count; i++)
        seen += strlen(survey->functions->entries[i].name);
}

static bool check_survey(const struct code_survey *survey, uint64_t *random)
{
    uint64_t verdicts = 0, last = 0;
    bool fine = check_sites(survey);
    for (size_t i = 0; i < survey->functions->count && fine; i++) {
        fine = survey->functions->items[i].start >= last && check_function(survey, (uint32_t)i);
        last = survey->functions->items[i].end;
    }
    for (int i = 0; i < CODE_VERDICT_END; i++)
        verdicts += survey->verdicts[i];
    ask(survey, random);
    return fine && verdicts == survey->functions->count;
}

/* --- programs --- */

static void add_ranges(const struct elf_image *image, struct code_bounds *bounds)
{
    struct cfi_range *ranges = NULL;
    size_t count = 0;
    if (cfi_ranges(image, &ranges, &count, NULL) < 0)
        return;
    for (size_t i = 0; i < count; i++)
        code_bounds_add(
            bounds, &(struct code_bound){ranges[i].start, ranges[i].end, NULL, CODE_FROM_FDE, false}, NULL);
    free(ranges);
}

static bool survey_image(const struct elf_image *image, const struct code_bounds *bounds, uint64_t *random)
{
    struct code_functions functions;
    struct code_survey *survey;
    bool fine = true;
    if (code_functions_make(bounds, image, &functions, NULL) != BASE_OK)
        return true;
    if (code_survey_make(image, &functions, NULL, &survey, NULL) == BASE_OK) {
        fine = check_survey(survey, random);
        code_survey_free(survey);
    }
    code_functions_free(&functions);
    return fine;
}

/* False: a fault of ours. */
static bool try_image(const uint8_t *bytes, size_t size, uint64_t random)
{
    struct elf_image *image;
    struct code_bounds bounds = {NULL, 0, 0};
    if (elf_image_open_memory(bytes, size, "fuzz", &image, NULL) != BASE_OK)
        return true;
    code_bounds_add_symbols(&bounds, image, NULL);
    add_ranges(image, &bounds);
    bool fine = survey_image(image, &bounds, &random);
    code_bounds_free(&bounds);
    elf_image_close(image);
    return fine;
}

/* --- random code: a program of one segment --- */

enum { HEADERS = sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr), CODE = 2048 };

static void write_headers(uint8_t *bytes, uint64_t address, uint16_t type)
{
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
                          .p_vaddr = address,
                          .p_filesz = CODE,
                          .p_memsz = CODE,
                          .p_align = 1};
    memcpy(bytes, &header, sizeof header);
    memcpy(bytes + sizeof header, &program, sizeof program);
}

/* Mostly bytes with which something begins that the survey looks at. */
static void write_code(uint8_t *code, uint64_t *random)
{
    static const uint8_t likely[] = {0xe8, 0xe9, 0xeb, 0x74, 0x75, 0x0f, 0x84, 0xff, 0x15, 0x25,
                                     0xe0, 0xd0, 0x66, 0x67, 0xf2, 0xf3, 0x3e, 0x48, 0x8d, 0x05,
                                     0x63, 0x8b, 0xc3, 0x00, 0x00, 0x00, 0xff, 0x90, 0xcc, 0xf0,
                                     0x65, 0x1e, 0xfa, 0xe3, 0xb8, 0xc7, 0xc5, 0x62, 0x24};
    unsigned taste = (unsigned)(fuzz_random(random) % 4);
    for (size_t i = 0; i < CODE; i++) {
        uint64_t value = fuzz_random(random);
        code[i] = value % 4 <= taste ? likely[value / 4 % sizeof likely] : (uint8_t)(value / 4);
    }
}

static bool try_code(uint64_t seed)
{
    static const uint64_t places[] = {
        0, 0x1000, 0x401000, 0x7fffff00, UINT64_MAX - CODE - 64, UINT64_C(1) << 47};
    uint64_t random = seed ^ 0x636f6465, address = places[fuzz_random(&random) % 6];
    uint8_t bytes[HEADERS + CODE];
    struct elf_image *image;
    struct code_bounds bounds = {NULL, 0, 0};
    write_headers(bytes, address, fuzz_random(&random) % 2 ? ET_DYN : ET_EXEC);
    write_code(bytes + HEADERS, &random);
    if (elf_image_open_memory(bytes, sizeof bytes, "fuzz", &image, NULL) != BASE_OK)
        return true;
    for (uint64_t i = fuzz_random(&random) % 256; i > 0; i--) {
        uint64_t start = address - 8 + fuzz_random(&random) % (CODE + 16), size = fuzz_random(&random) % 48;
        bool symbol = fuzz_random(&random) % 2;
        code_bounds_add(&bounds,
                        &(struct code_bound){start, start + size, symbol ? "mcount@plt" : NULL,
                                             symbol ? CODE_FROM_SYMBOL : CODE_FROM_FDE, false},
                        NULL);
    }
    bool fine = survey_image(image, &bounds, &random);
    if (!fine)
        fprintf(stderr, "fuzz_code: code, seed %lu\n", seed);
    code_bounds_free(&bounds);
    elf_image_close(image);
    return fine;
}

int main(int argc, char **argv)
{
    bool damaged = argc > 3 && strcmp(argv[1], "--seeds") == 0, fine = argc > 1;
    uint64_t seeds = damaged ? strtoull(argv[2], NULL, 10) : 0;
    for (int i = damaged ? 3 : 1; i < argc; i++)
        fine = fuzz_file_try_image("fuzz_code", argv[i], seeds, try_image) && fine;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        fine = try_code(seed) && fine;
    return fine ? 0 : 1;
}
