/* fuzz_cfi.c - damaged call-frame information and damaged rows: an ordinary program.
 *
 *     fuzz_cfi [FILE...]        each file as an ELF image, once
 *     fuzz_cfi --seeds N FILE   N damaged copies of FILE, seeds 1 to N (what the test suite runs)
 *
 * An image is compiled, its ranges are taken, and the blob must be one that unwind_rows_open accepts and in
 * which every range can be looked up; then the blob is damaged in turn and opened again. A crash, a
 * sanitizer's report or a blob that is refused is a failure; the error of an image that is no image is not.
 * Damage goes where it hurts: into .eh_frame and .debug_frame mostly, into the headers sometimes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cfi.h"
#include "fuzz_file.h"

/* Looks up a few addresses all over the blob's pages; the answers must be its own rules. */
static bool answers(const struct unwind_rows *rows, uint64_t *random)
{
    uint64_t reach = ((uint64_t)rows->header->page_count + 2) << 16;
    for (unsigned i = 0; i < 64; i++) {
        const struct wire_rule *rule =
            unwind_rows_find(rows, rows->header->base - 0x10000 + fuzz_random(random) % reach);
        if (rule < rows->rules || rule >= rows->rules + rows->header->rule_count)
            return false;
    }
    return true;
}

static bool try_damaged_blob(uint8_t *blob, size_t size, uint64_t *random)
{
    struct unwind_rows rows;
    for (unsigned i = 0; i < 8; i++) {
        uint8_t *at = &blob[fuzz_random(random) % size], before = *at;
        *at = (uint8_t)fuzz_random(random);
        if (unwind_rows_open(&rows, blob, size) && !answers(&rows, random))
            return false;
        *at = before;
    }
    return true;
}

/* False: a fault of ours. */
static bool try_image(const uint8_t *bytes, size_t size, uint64_t random)
{
    struct elf_image *image;
    struct cfi_range *ranges;
    struct unwind_rows rows;
    size_t count, blob_size;
    void *blob;
    bool fine = true;
    if (elf_image_open_memory(bytes, size, "fuzz", &image, NULL) != BASE_OK)
        return true;
    if (cfi_compile(image, NULL, &blob, &blob_size, NULL, NULL) == BASE_OK) {
        fine = unwind_rows_open(&rows, blob, blob_size) && answers(&rows, &random) &&
               try_damaged_blob(blob, blob_size, &random);
        free(blob);
    }
    if (cfi_ranges(image, &ranges, &count, NULL) == BASE_OK) {
        for (size_t i = 0; i < count; i++)
            fine =
                fine && ranges[i].start < ranges[i].end && (i == 0 || ranges[i].start >= ranges[i - 1].end);
        free(ranges);
    }
    elf_image_close(image);
    return fine;
}

/* Where the call-frame information is, or the whole file. */
static void find_target(const struct fuzz_file *bytes, size_t *offset, size_t *size)
{
    struct elf_image *image;
    struct elf_section section;
    size_t file_size;
    *offset = 0;
    *size = bytes->size;
    if (elf_image_open_memory(bytes->data, bytes->size, "fuzz", &image, NULL) != BASE_OK)
        return;
    const uint8_t *start = elf_image_bytes(image, &file_size);
    if (elf_image_section(image, ".eh_frame", &section) && section.bytes >= start &&
        section.bytes + section.size <= start + file_size) {
        *offset = (size_t)(section.bytes - start);
        *size = section.size;
    }
    elf_image_close(image);
}

static bool try_seed(const struct fuzz_file *bytes, size_t offset, size_t size, uint64_t seed)
{
    uint64_t random = seed;
    bool everywhere = fuzz_random(&random) % 8 == 0;
    uint8_t *copy = malloc(bytes->size);
    memcpy(copy, bytes->data, bytes->size);
    for (uint64_t i = fuzz_random(&random) % 64 + 1; i > 0; i--) {
        size_t at = everywhere ? fuzz_random(&random) % bytes->size : offset + fuzz_random(&random) % size;
        copy[at] = (uint8_t)(fuzz_random(&random) % 3 == 0 ? 0xff : fuzz_random(&random));
    }
    size_t left = fuzz_random(&random) % 16 == 0 ? fuzz_random(&random) % bytes->size : bytes->size;
    bool fine = try_image(copy, left, random);
    if (!fine)
        fprintf(stderr, "fuzz_cfi: seed %lu\n", seed);
    free(copy);
    return fine;
}

int main(int argc, char **argv)
{
    bool seeds = argc == 4 && strcmp(argv[1], "--seeds") == 0, fine = argc > 1;
    for (int i = seeds ? 3 : 1; i < argc; i++) {
        struct fuzz_file bytes = fuzz_file_read(argv[i]);
        if (bytes.data == NULL)
            return 1;
        fine = fine && try_image(bytes.data, bytes.size, 1);
        size_t offset, size;
        find_target(&bytes, &offset, &size);
        for (uint64_t seed = 1; seeds && seed <= strtoull(argv[2], NULL, 10); seed++)
            fine = try_seed(&bytes, offset, size, seed) && fine;
        free(bytes.data);
    }
    return fine ? 0 : 1;
}
