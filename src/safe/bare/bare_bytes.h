/* bare_bytes.h - words out of bytes that need not be aligned.
 *
 * Both machines that Tally knows are little endian and run on themselves, so a load is a plain load; what
 * this file saves is the undefined behaviour of a cast. Nothing here calls into a C library: the copies have
 * a fixed size and the compiler makes one instruction of them.
 * Context: anywhere. */
#ifndef BARE_BYTES_H
#define BARE_BYTES_H

#include <stdint.h>

static inline uint32_t bare_load32(const void *bytes)
{
    uint32_t word;
    __builtin_memcpy(&word, bytes, sizeof word);
    return word;
}

static inline uint64_t bare_load64(const void *bytes)
{
    uint64_t word;
    __builtin_memcpy(&word, bytes, sizeof word);
    return word;
}

#endif
