/* sample_image.h - the images of a session: each file once, opened when the first frame lands in it.
 *
 * An image is known by its build-id where the kernel or the file gives one, else by device, inode and path.
 * Its file is opened while the process that maps it runs (proc_maps_open: other mount namespaces, deleted
 * and replaced files), its unwind rows come from the cache of cfi, and it stays open until the session ends,
 * for its symbols. Context: tool, one thread. */
#ifndef SAMPLE_IMAGE_H
#define SAMPLE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_map.h"
#include "base_text.h"
#include "cfi.h"
#include "elf_image.h"
#include "profile.h"

struct sample_image_key {
    const char *path; /* as mapped; "[vdso]" is Tally's own: the kernel gives every process the same */
    struct elf_build_id build_id; /* size 0: unknown */
    uint32_t major, minor;
    uint64_t inode;
    bool deleted;
};

enum sample_image_state { SAMPLE_IMAGE_UNOPENED, SAMPLE_IMAGE_OPEN, SAMPLE_IMAGE_UNREADABLE };

struct sample_image {
    char *path;
    struct sample_image_key key; /* key.path == path */
    uint64_t key_hash;
    uint32_t next_same_hash; /* index + 1, 0: none */
    enum sample_image_state state;
    struct elf_image *elf;
    struct cfi_table table; /* sample_images_rows */
    bool has_rows, looked_for_rows;
    bool looked_at_stacks;  /* the next two are known (shared_modules.c) */
    bool owns_stacks;       /* plan_image_owns_stacks */
    unsigned unwinders;     /* plan_image_unwinds */
    uint32_t profile_image; /* 0 until a frame lands in it */
    /* of memory that was laid out by hand: its address is offset minus lead. 0: as the file says */
    uint64_t lead;
    /* the root directory of the process it was opened through, if that is not Tally's own; else -1 */
    int root;
};

struct sample_images {
    struct sample_image *items;
    size_t count, capacity;
    struct base_map by_hash;
    struct cfi_cache *cache;
    struct profile *profile;
    /* What was mapped is of another time: files are opened by path, or else by build-id in the directory
     * `store` ("" none), where perf keeps those of its recordings. */
    bool replayed;
    char store[256];
};

int sample_images_init(struct sample_images *images, struct profile *profile, struct base_error *error);
void sample_images_free(struct sample_images *images);

/* The index of the image with this key; made, but not opened, when new. UINT32_MAX: out of memory. */
uint32_t sample_images_find(struct sample_images *images, const struct sample_image_key *key);

/* Opens the image if it is not open yet, through the mapping [start, end) of process `pid`, and gives it a
 * number in the profile. Unreadable ones are a loss, counted once; they still have a number. Never NULL. */
struct sample_image *sample_images_open(struct sample_images *images, uint32_t index, pid_t pid,
                                        uint64_t start, uint64_t end);

/* Calls visit(context, elf) with the image's file, which is opened for that if it is not open and is still
 * where it was; else not at all. */
void sample_image_visit(const struct sample_image *image,
                        void (*visit)(void *context, const struct elf_image *elf), void *context);

/* An ELF file in memory, which stays where it is. What is mapped of it holds the file as it lies in memory,
 * `lead` bytes behind offset 0. The profile calls it `name`. */
struct sample_image_bytes {
    const char *name;
    const void *bytes;
    size_t size;
    uint64_t lead;
};
/* Makes it the image with this key, before any mapping with it is met. BASE_ENOMEM, BASE_EFORMAT. */
int sample_images_know(struct sample_images *images, const struct sample_image_key *key,
                       const struct sample_image_bytes *known, struct base_error *error);
/* Is it known? */
bool sample_images_knows(const struct sample_images *images, const struct sample_image_key *key);

/* The unwind rows of an image that is open, read or compiled when they are asked for first: many images hold
 * no frame of any sample. NULL: it has none. */
const struct unwind_rows *sample_images_rows(struct sample_images *images, uint32_t index);

#endif
