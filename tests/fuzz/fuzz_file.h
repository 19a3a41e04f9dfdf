/* fuzz_file.h - what the fuzzers share: repeatable random numbers, files in memory, damaged copies of ELF
 * images. */
#ifndef FUZZ_FILE_H
#define FUZZ_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_file {
    uint8_t *data; /* malloc'd; NULL: could not be read, or empty */
    size_t size;
};

/* The next number of a linear congruential generator (Knuth's MMIX), without its weak lowest bits: 40 bits.
 * `random` is the seed. */
uint64_t fuzz_random(uint64_t *random);

/* A whole file; the caller frees `data`. */
struct fuzz_file fuzz_file_read(const char *path);

/* Is the program fine with these bytes? `random` is for what it chooses on its own. */
typedef bool fuzz_try_image(const uint8_t *bytes, size_t size, uint64_t random);

/* Tries an ELF file as it is, then damaged copies, seeds 1 to `seeds`: values that overflow, in its headers,
 * in its sections, or anywhere, and ends cut off. What failed is said on standard error with the seed and
 * `program`. False: something failed, or the file is no image. */
bool fuzz_file_try_image(const char *program, const char *path, uint64_t seeds, fuzz_try_image *try_image);

#endif
