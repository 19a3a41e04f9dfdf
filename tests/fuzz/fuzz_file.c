#include "fuzz_file.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf_image.h"

struct range {
    size_t offset, size;
};

uint64_t fuzz_random(uint64_t *random)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return *random >> 24;
}

struct fuzz_file fuzz_file_read(const char *path)
{
    struct fuzz_file read = {NULL, 0};
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return read;
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    read.data = size > 0 ? malloc((size_t)size) : NULL;
    if (read.data != NULL)
        read.size = fread(read.data, 1, (size_t)size, file);
    fclose(file);
    return read;
}

/* A place worth damaging: a section, a header, the table of sections, or anywhere. */
static struct range choose_target(const struct fuzz_file *file, const struct elf_image *image,
                                  uint64_t *random)
{
    const struct range all = {0, file->size};
    Elf64_Ehdr header;
    struct elf_section section;
    size_t size, count = elf_image_section_count(image);
    const uint8_t *start = elf_image_bytes(image, &size);
    uint64_t choice = fuzz_random(random) % 8;
    memcpy(&header, file->data, sizeof header);
    if (choice == 0)
        return (struct range){0, sizeof header + header.e_phnum * sizeof(Elf64_Phdr)};
    if (choice <= 2 && header.e_shoff < file->size)
        return (struct range){header.e_shoff, file->size - header.e_shoff};
    if (choice == 3 || !count || !elf_image_section_at(image, fuzz_random(random) % count, &section) ||
        !section.bytes || section.bytes < start || section.bytes >= start + size || !section.size)
        return all;
    return (struct range){(size_t)(section.bytes - start), section.size};
}

static void damage(struct fuzz_file *file, struct range range, uint64_t *random)
{
    const uint64_t awkward[] = {0,         1,          UINT64_MAX,     UINT64_MAX - 7, INT64_MAX, UINT32_MAX,
                                INT32_MAX, 0xffffff00, file->size - 1, file->size,     1u << 31,  0xff1f};
    static const unsigned widths[] = {1, 2, 4, 8};
    for (uint64_t i = fuzz_random(random) % 16 + 1; i > 0; i--) {
        unsigned width = widths[fuzz_random(random) % 4];
        size_t at = range.offset + fuzz_random(random) % range.size;
        uint64_t value = fuzz_random(random) % 2 ? awkward[fuzz_random(random) % 12] : fuzz_random(random);
        if (fuzz_random(random) % 2)
            at -= at % width;
        if (at + width <= file->size)
            memcpy(file->data + at, &value, width);
    }
}

static bool try_seed(const struct fuzz_file *file, const struct elf_image *image, uint64_t seed,
                     fuzz_try_image *try_image)
{
    uint64_t random = seed;
    struct fuzz_file copy = {malloc(file->size), file->size};
    if (copy.data == NULL)
        return false;
    memcpy(copy.data, file->data, file->size);
    for (uint64_t i = fuzz_random(&random) % 3 + 1; i > 0; i--)
        damage(&copy, choose_target(file, image, &random), &random);
    size_t left = fuzz_random(&random) % 16 == 0 ? fuzz_random(&random) % file->size : file->size;
    bool fine = try_image(copy.data, left, random);
    free(copy.data);
    return fine;
}

bool fuzz_file_try_image(const char *program, const char *path, uint64_t seeds, fuzz_try_image *try_image)
{
    struct fuzz_file file = fuzz_file_read(path);
    struct elf_image *image;
    if (file.data == NULL || elf_image_open_memory(file.data, file.size, path, &image, NULL) != BASE_OK) {
        free(file.data);
        return false;
    }
    bool fine = try_image(file.data, file.size, 1);
    if (!fine)
        fprintf(stderr, "%s: %s as it is\n", program, path);
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        if (try_seed(&file, image, seed, try_image))
            continue;
        fprintf(stderr, "%s: %s, seed %lu\n", program, path, seed);
        fine = false;
    }
    elf_image_close(image);
    free(file.data);
    return fine;
}
