/* collect_calls_image.h - the images whose calls are counted: each planned once in a session, whoever maps
 * it.
 *
 * What is wanted of an image (--calls-image, --calls=GLOB) is decided here, as are the facts about it that
 * all processes share: its plan, and the slots (words that ld.so fills) that its sites and linkage stubs call
 * through. Context: tool, one thread. */
#ifndef COLLECT_CALLS_IMAGE_H
#define COLLECT_CALLS_IMAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect_image.h"
#include "patch_births.h"
#include "patch_cache.h"
#include "patch_plan.h"
#include "patch_slots.h"

struct collect_calls_wish {
    const char *const *names;  /* globs of callers or callees; none: all */
    const char *const *images; /* globs of images, "all", or none: all but the runtimes */
    size_t name_count, image_count;
};

enum collect_calls_image_state {
    COLLECT_CALLS_UNKNOWN,
    COLLECT_CALLS_PLANNED,
    COLLECT_CALLS_UNWANTED, /* not selected, or no code of its own */
    COLLECT_CALLS_REFUSED   /* cannot be planned: counted as a loss */
};

/* collect_calls_export.h */
struct collect_calls_imports {
    uint64_t *hashes;
    size_t count, capacity;
};
struct collect_calls_offer {
    uint64_t hash;
    uint32_t hook;
};
struct collect_calls_offers {
    struct collect_calls_offer *items;
    size_t count, capacity;
};

struct collect_calls_image {
    enum collect_calls_image_state state;
    bool fresh;                           /* its plan was made now, and is still to be kept */
    struct patch_cache *cache;            /* where it, and what is prepared for it, is kept */
    const struct elf_image *elf;          /* NULL: it cannot be read */
    bool checks_leaks;                    /* offers a leak sanitizer's entry */
    struct collect_calls_imports imports; /* of every image that can be read, counted or not */
    struct collect_calls_offers offers;
    struct patch_plan plan;
    bool gs_looked, sets_gs;  /* of one without a plan: patch_gs.h */
    bool told_full;           /* no numbers of counters were left for it, which has been told */
    size_t slab_size;         /* patch_slab_size of it, which is a walk through all sites */
    uint8_t *wanted;          /* of each site, then each hook; NULL: everything */
    uint8_t *named;           /* of each function: it matches the names that were asked for; NULL: all do */
    struct patch_slots names; /* of slots */
    uint8_t *quiet;           /* of each site: patch_slab.h */
    uint64_t *slots;          /* distinct image addresses that sites go through, ascending */
    size_t slot_count;
    uint64_t linkage_low, linkage_high; /* its linkage stubs lie there: where unbound slots point */
    bool births_known;                  /* collect_calls_loose.c has looked for them */
    struct patch_births births;
};

/* A plan that is made beside everything else, of an image that is certain to be asked for. */
struct collect_calls_early {
    pthread_t thread;
    bool begun; /* and still to be joined */
    bool done;  /* atomic */
    uint32_t index;
    const struct patch_cache *cache;
    struct elf_image *elf; /* its own: libelf keeps what it has looked at */
    struct patch_plan plan;
    bool planned;
};

/* Slabs that are prepared for the next time, one after the other: collect_calls_prepared.c. */
struct collect_calls_preparations {
    pthread_mutex_t lock;                  /* of what follows */
    struct collect_calls_preparing *first; /* still to be done */
    bool working;                          /* a thread will look at `first` again */
    bool begun;                            /* it is still to be joined */
    pthread_t thread;
};

struct collect_calls_images {
    struct collect_calls_image **items; /* by index in collect_images; NULL: not looked at */
    size_t capacity;
    struct collect_images *images;
    struct patch_cache *cache;
    struct collect_calls_wish wish;
    bool *found;      /* of each name of the wish: some image has it */
    pthread_t keeper; /* writes plans to the cache while the target goes on already */
    bool keeping;     /* it was begun, and is still to be joined */
    struct collect_calls_early early;
    struct collect_calls_preparations preparations;
};

int collect_calls_images_init(struct collect_calls_images *set, struct collect_images *images,
                              const struct collect_calls_wish *wish, struct base_error *error);
void collect_calls_images_free(struct collect_calls_images *set);

/* The image at `index` of collect_images, which is open. Planned at the first call. NULL: out of memory. */
struct collect_calls_image *collect_calls_images_get(struct collect_calls_images *set, uint32_t index);

/* The same for several at once, on all processors; what fails is tried again when it is asked for. */
void collect_calls_images_ahead(struct collect_calls_images *set, const uint32_t *indices, size_t count);

/* Begins to plan the image at `index`, which is open, while its process does what comes before: a program's
 * loader loads its libraries. One at a time; where it cannot be done, nothing is. */
void collect_calls_images_early(struct collect_calls_images *set, uint32_t index);

/* Position of a slot in image->slots; SIZE_MAX: none. */
size_t collect_calls_image_slot(const struct collect_calls_image *image, uint64_t slot);

#endif
