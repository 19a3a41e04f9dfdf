/* cfi.h - from an image's call-frame information to compiled rows, through a cache.
 * Context: tool. Source: DWARF 5 section 6.4; LSB 5 core, chapter 10.6 (.eh_frame); wire_rows.h. */
#ifndef CFI_H
#define CFI_H

#include "base_error.h"
#include "elf_image.h"
#include "unwind.h"

struct cfi_statistics {
    uint64_t fdes, rows, rules, odd_rules, broken_fdes; /* broken: ignored, their code has rule NONE */
};

/* Compiles .eh_frame, and .debug_frame for code it leaves uncovered (also from `debug`, a separate debug
 * file, if not NULL), plus the image's signal trampolines found by their bytes. *blob is malloc'd. An image
 * without any call-frame information gives a blob without rows, not an error. */
int cfi_compile(const struct elf_image *image, const struct elf_image *debug, void **blob, size_t *size,
                struct cfi_statistics *statistics, struct base_error *error);

/* Compiled rows, mapped from the cache or just made. */
struct cfi_table {
    struct unwind_rows rows;
    void *blob;
    size_t size;
    bool mapped; /* blob is a mapping of a cache file */
};

struct cfi_cache; /* a directory, or none */

/* `directory` NULL: no cache, everything is compiled each time. The directory is made (0700) when missing;
 * one that belongs to another user, or that others may write, is not used: then *cache works without a
 * directory and `error` (if given) holds the reason while the result is still BASE_OK. `limit` is in bytes
 * (the oldest go first). */
int cfi_cache_open(const char *directory, uint64_t limit, struct cfi_cache **cache, struct base_error *error);
void cfi_cache_close(struct cfi_cache *cache);

/* $XDG_CACHE_HOME/tally, else $HOME/.cache/tally, else the passwd home; NULL when there is none. malloc'd.
 * Root under sudo (HOME of another user) uses root's own home, never the other user's. */
char *cfi_cache_default_directory(void);

int cfi_table_open(struct cfi_cache *cache, const struct elf_image *image, struct cfi_table *table,
                   struct base_error *error);
void cfi_table_close(struct cfi_table *table);

/* Function bounds from the FDEs (for stripped files): sorted, not overlapping. malloc'd. */
struct cfi_range {
    uint64_t start, end;
};
int cfi_ranges(const struct elf_image *image, struct cfi_range **ranges, size_t *count,
               struct base_error *error);

/* Is the frame at each of `count` ascending addresses nothing but the return address, as at a function's
 * entry (x86-64: CFA = rsp + 8)? What no FDE describes is not. */
int cfi_bare_frames(const struct elf_image *image, const uint64_t *addresses, size_t count, bool *bare,
                    struct base_error *error);

#endif
