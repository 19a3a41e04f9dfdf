/* fuzz_import - damaged files of other profilers: errors, or models that hold together; never a crash, a hang
 * or an endless allocation.
 *
 *   fuzz_import FILE...                  imports each as it is
 *   fuzz_import --seeds N FILE...        imports N damaged copies of each: bytes changed, numbers made large,
 *                                        ends cut off, pieces left out or doubled
 *
 * Of a profile of Tally's, its exports are imported. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_map.h"
#include "base_text.h"
#include "export.h"
#include "fuzz_file.h"
#include "import.h"
#include "import_file.h"
#include "profile.h"
#include "store.h"

enum { ROOM = 1 << 16 }; /* by which a damaged copy may be longer */

/* --- one file --- */

static uint64_t walk(const struct profile *profile)
{
    uint64_t seen = 0;
    for (size_t i = 1; i < profile->node_count; i++) {
        const struct profile_address *address = &profile->addresses[profile->nodes[i].address];
        seen += strlen(profile_text(profile, profile->functions[address->function].name));
        for (uint32_t level = address->inlined; level; level = profile->inlined[level].outer)
            seen += strlen(profile_text(profile, profile->inlined[level].function_name));
    }
    for (size_t i = 0; i < profile->cell_count; i++)
        seen += profile->threads[profile->cells[i].thread].process < profile->process_count;
    return seen;
}

static bool try_bytes(const uint8_t *bytes, size_t size, enum import_format format)
{
    struct profile *profile = NULL;
    struct base_error error = {0};
    struct import_options options = {
        .file = "damaged", .format = format, .processes = size % 2, .rate_hz = size % 3 ? 100 : 0};
    int result = import_profile(bytes, size, &options, &profile, &error);
    if (result < 0)
        return error.text[0] && !profile;
    bool good = profile_check(profile, &error) == BASE_OK && walk(profile) != UINT64_MAX;
    profile_free(profile);
    return good;
}

/* --- damage --- */

static const uint64_t numbers[] = {0,      1,         0x7f,       0x80,      0xff,
                                   0xffff, INT32_MAX, UINT32_MAX, INT64_MAX, UINT64_MAX};

static size_t damage(uint8_t *bytes, size_t size, uint64_t *random)
{
    size_t at = fuzz_random(random) % size, length = fuzz_random(random) % 64 + 1;
    uint64_t number = numbers[fuzz_random(random) % (sizeof numbers / sizeof *numbers)];
    size_t width = (size_t)1 << fuzz_random(random) % 4, rest = size - at;
    length = length < rest ? length : rest;
    switch (fuzz_random(random) % 6) {
    case 0:
    case 1:
        bytes[at] = (uint8_t)fuzz_random(random);
        return size;
    case 2:
        memcpy(bytes + at, &number, width < rest ? width : rest);
        return size;
    case 3:
        memmove(bytes + at, bytes + at + length, rest - length);
        return size - length;
    case 4:
        memmove(bytes + at + length, bytes + at, rest);
        return size + length;
    default:
        return fuzz_random(random) % 8 ? size : at + 1;
    }
}

static bool try_seed(const uint8_t *bytes, size_t size, enum import_format format, uint64_t seed)
{
    uint64_t random = seed;
    uint8_t *copy = malloc(size + ROOM);
    memcpy(copy, bytes, size);
    size_t left = size;
    for (uint64_t i = fuzz_random(&random) % 24 + 1; i > 0 && left; i--)
        left = damage(copy, left, &random);
    /* exactly so many bytes: what is read behind them is found out */
    uint8_t *exact = malloc(left ? left : 1);
    memcpy(exact, copy, left);
    bool good = try_bytes(exact, left, seed % 4 ? format : IMPORT_UNKNOWN);
    free(copy);
    free(exact);
    return good;
}

/* --- what is damaged --- */

static bool keep(void *context, const void *bytes, size_t length)
{
    base_text_add_bytes(context, bytes, length);
    return true;
}

static bool try_all(const char *name, const uint8_t *bytes, size_t size, uint64_t seeds)
{
    enum import_format format = import_recognise(bytes, size);
    if (!format || !try_bytes(bytes, size, format)) {
        fprintf(stderr, "fuzz_import: %s cannot be imported as it is\n", name);
        return false;
    }
    for (uint64_t seed = 0; seed < seeds; seed++) {
        if (try_seed(bytes, size, format, seed))
            continue;
        fprintf(stderr, "fuzz_import: %s: seed %llu\n", name, (unsigned long long)seed);
        return false;
    }
    return true;
}

static bool try_export(const struct profile *profile, struct export_options options, uint64_t seeds)
{
    struct base_text text = {0};
    options.creator = "tally 0";
    options.file = "golden";
    bool good = export_profile(profile, &options, keep, &text, NULL) == BASE_OK;
    const uint8_t *bytes = (const uint8_t *)text.data;
    uint8_t *unpacked = NULL;
    size_t length = text.length;
    if (options.format == EXPORT_PPROF) {
        good = good && import_file_unpack(bytes, text.length, &unpacked, &length, NULL) == BASE_OK;
        bytes = unpacked;
    }
    good = good && try_all(options.format == EXPORT_PPROF ? "pprof" : "folded", bytes, length, seeds);
    free(unpacked);
    base_text_free(&text);
    return good;
}

static bool try_exports(const char *path, uint64_t seeds)
{
    struct profile *profile = NULL;
    if (store_load(path, &profile, NULL) < 0)
        return false;
    bool good =
        try_export(profile, (struct export_options){.format = EXPORT_PPROF}, seeds) &&
        try_export(profile, (struct export_options){.format = EXPORT_FOLDED, .counter = 1, .marks = true},
                   seeds);
    profile_free(profile);
    return good;
}

/* A CPU profile of gperftools: two stacks, and what was mapped. */
static bool try_gperftools(uint64_t seeds)
{
    static const uint64_t words[] = {0, 3, 0, 10000, 0, 7, 2, 0x401010, 0x402020, 9, 1, 0x403030, 0, 1, 0};
    static const char maps[] = "00400000-00500000 r-xp 00000000 08:01 5 /nowhere/program\n"
                               "7ff000000000-7ff000002000 r-xp 00000000 00:00 0 [vdso]\n";
    uint8_t bytes[sizeof words + sizeof maps];
    memcpy(bytes, words, sizeof words);
    memcpy(bytes + sizeof words, maps, sizeof maps);
    return try_all("gperftools", bytes, sizeof bytes - 1, seeds);
}

static bool try_file(const char *path, uint64_t seeds)
{
    struct import_file file;
    struct base_error error = {0};
    if (import_file_open(path, &file, &error) < 0) {
        fprintf(stderr, "fuzz_import: %s\n", error.text);
        return false;
    }
    bool profile = file.size > 16 && !memcmp(file.bytes, "SQLite format 3", 16);
    bool good = profile ? try_exports(path, seeds) && try_gperftools(seeds)
                        : try_all(path, file.bytes, file.size, seeds);
    import_file_close(&file);
    return good;
}

int main(int argc, char **argv)
{
    bool seeded = argc > 2 && !strcmp(argv[1], "--seeds"), good = argc > 1;
    uint64_t seeds = seeded ? strtoull(argv[2], NULL, 10) : 0;
    for (int i = seeded ? 3 : 1; i < argc && good; i++)
        good = try_file(argv[i], seeds);
    return good ? 0 : 1;
}
