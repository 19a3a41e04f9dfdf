/* import_file.h - the bytes of a file, or of a pipe, unpacked if they were packed by gzip.
 * Context: tool. */
#ifndef IMPORT_FILE_H
#define IMPORT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

struct import_file {
    const uint8_t *bytes;
    size_t size;
    size_t mapped;   /* private: bytes of the mapping; 0: they were read */
    uint8_t *memory; /* private: read or unpacked; else NULL */
    uint8_t *map;    /* private */
    int descriptor;  /* private: of a mapped file, else -1 */
};

enum { IMPORT_FILE_UNPACKED_MOST = 1 << 30 }; /* bytes that a packed file may come to: it may be a bomb */

/* `path` NULL: standard input. Nothing to close on failure. */
int import_file_open(const char *path, struct import_file *file, struct base_error *error);
/* BASE_EIO: it became shorter while it was read, and what lay behind its end was taken for zeros
 * (base_fault.h). */
int import_file_check(const struct import_file *file, struct base_error *error);
void import_file_close(struct import_file *file);

/* Unpacks gzip. The caller frees *unpacked; nothing to free on failure. BASE_EFORMAT: corrupt, truncated
 * or too large. */
int import_file_unpack(const uint8_t *bytes, size_t size, uint8_t **unpacked, size_t *length,
                       struct base_error *error);

#endif
