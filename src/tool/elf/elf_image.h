/* elf_image.h - one ELF file, opened through libelf: what the other modules need to know of it.
 *
 * An image is read only, and its memory (mapped file) lives until elf_image_close. Addresses are the image's
 * own virtual addresses. Truncated and hostile files give errors, never crashes; big-endian and 32-bit ones
 * are refused. The file is mapped: what its owner truncates in place (not: replaces) while it is open here
 * reads as zeros where the program has called base_fault_survive, and raises SIGBUS elsewhere
 * (elf_image_is_cut). Context: tool, one thread. */
#ifndef ELF_IMAGE_H
#define ELF_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

#define ELF_BUILD_ID_MAX 32

struct elf_build_id {
    uint8_t bytes[ELF_BUILD_ID_MAX];
    uint8_t size; /* 0: the image has none */
};

struct elf_segment {
    uint64_t address, offset, file_size, memory_size; /* of a PT_LOAD */
    bool executable;
};

struct elf_section {
    const char *name;
    uint64_t address;
    const uint8_t *bytes; /* NULL for NOBITS; decompressed (SHF_COMPRESSED) already */
    size_t size;          /* of `bytes` */
    uint32_t type, index;
    uint64_t flags, memory_size; /* SHF_*; sh_size, also of NOBITS */
    uint32_t link;               /* sh_link: a symbol section's string section */
};

struct elf_image; /* opaque; see the accessors */

/* Takes over `fd` (closes it, also on failure). `name` is for messages and is copied. */
int elf_image_open_fd(int fd, const char *name, struct elf_image **image, struct base_error *error);
int elf_image_open(const char *path, struct elf_image **image, struct base_error *error);
/* A copy of `bytes` is taken: the vDSO, a .gnu_debugdata member. */
int elf_image_open_memory(const void *bytes, size_t size, const char *name, struct elf_image **image,
                          struct base_error *error);
void elf_image_close(struct elf_image *image);

const char *elf_image_name(const struct elf_image *image);
uint16_t elf_image_machine(const struct elf_image *image);
uint16_t elf_image_type(const struct elf_image *image); /* ET_EXEC, ET_DYN ... */
const struct elf_build_id *elf_image_build_id(const struct elf_image *image);
size_t elf_image_segments(const struct elf_image *image, const struct elf_segment **segments);
void *elf_image_handle(const struct elf_image *image); /* the libelf Elf *, for the symbol module's libdw */
int elf_image_fd(const struct elf_image *image);       /* -1 for images from memory */
const uint8_t *elf_image_bytes(const struct elf_image *image, size_t *size); /* the raw file */
/* Has its file become shorter since it was opened? What lay behind its end reads as zeros then
 * (base_fault.h). */
bool elf_image_is_cut(const struct elf_image *image);

/* False when there is no such section (or it has no bytes where bytes are needed). */
bool elf_image_section(const struct elf_image *image, const char *name, struct elf_section *section);
size_t elf_image_section_count(const struct elf_image *image);
bool elf_image_section_at(const struct elf_image *image, size_t index, struct elf_section *section);
/* The same without reading or decompressing anything: `bytes` is NULL, `size` 0. */
bool elf_image_section_header(const struct elf_image *image, size_t index, struct elf_section *section);

/* From a file offset (as in /proc/PID/maps or an mmap event) to an address; false when no PT_LOAD holds
 * it. */
bool elf_image_address_of_offset(const struct elf_image *image, uint64_t offset, uint64_t *address);

/* Bytes of a PT_LOAD at an address, and how many follow; NULL when not in the file. */
const uint8_t *elf_image_at(const struct elf_image *image, uint64_t address, size_t *available);

/* Size and hash of the executable segments' bytes: the cache's check beside the build-id. The hash samples
 * at most 64 KiB spread over the text, so that it costs microseconds. */
void elf_image_text_check(const struct elf_image *image, uint64_t *size, uint64_t *hash);

/* "0123abcd..." into text[2 * ELF_BUILD_ID_MAX + 1]. */
void elf_build_id_format(const struct elf_build_id *id, char *text);
bool elf_build_id_equal(const struct elf_build_id *a, const struct elf_build_id *b);

#endif
