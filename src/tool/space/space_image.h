/* space_image.h - the images whose calls are counted: each planned once in a session, whichever process maps
 * it.
 *
 * What is wanted of an image (--calls-image, --calls=GLOB) is decided here, as are the facts about it that
 * all processes share: its plan, and the slots (words that ld.so fills) that its sites and linkage stubs call
 * through. Context: tool, one thread. */
#ifndef SPACE_IMAGE_H
#define SPACE_IMAGE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"
#include "plan_creation.h"
#include "plan_slots.h"
#include "sample_image.h"
#include "slab_cache.h"

struct space_request {
    const char *const *names;  /* globs of callers or callees; none: all */
    const char *const *images; /* globs of images, "all", or none: all but the runtimes */
    size_t name_count, image_count;
};

enum space_image_state {
    SPACE_UNKNOWN,
    SPACE_PLANNED,
    SPACE_UNWANTED, /* not selected, or no code of its own */
    SPACE_REFUSED   /* cannot be planned: counted as a loss */
};

/* space_imports.h */
struct space_imports {
    uint64_t *hashes;
    size_t count, capacity;
};
struct space_offer {
    uint64_t hash;
    uint32_t hook;
};
struct space_offers {
    struct space_offer *items;
    size_t count, capacity;
};

struct space_image {
    enum space_image_state state;
    bool fresh;                   /* its plan was made now, and is still to be kept */
    struct slab_cache *cache;     /* where it, and what is prepared for it, is kept */
    const struct elf_image *elf;  /* NULL: it cannot be read */
    bool checks_leaks;            /* offers a leak sanitizer's entry */
    struct space_imports imports; /* of every image that can be read, counted or not */
    struct space_offers offers;
    struct plan plan;
    bool gs_looked, sets_gs; /* of one without a plan: plan_gs.h */
    bool published_full;     /* no numbers of counters were left for it, which has been reported */
    size_t slab_size;        /* slab_size of it, which visits all sites */
    uint8_t *wanted;         /* of each site, then each hook; NULL: everything */
    uint8_t *named;          /* of each function: it matches the names that were requested; NULL: all do */
    struct plan_slots names; /* of slots */
    uint8_t *quiet;          /* of each site: slab.h */
    uint64_t *slots;         /* distinct image addresses that sites go through, ascending */
    size_t slot_count;
    uint64_t linkage_low, linkage_high; /* its linkage stubs lie there: where unbound slots point */
    bool creations_known;               /* calls_detach.c has looked for them */
    struct plan_creations creations;
};

/* A plan that a thread makes beside everything else, of an image that is certain to be needed. */
struct space_early {
    pthread_t thread;
    bool begun; /* and still to be joined */
    bool done;  /* atomic */
    uint32_t index;
    const struct slab_cache *cache;
    struct elf_image *elf; /* its own: libelf caches what it has read */
    struct plan plan;
    bool planned;
};

/* Slabs that are prepared for the next time, one after the other: space_prepared.c. */
struct space_preparations {
    pthread_mutex_t lock;          /* of what follows */
    struct space_preparing *first; /* still to be done */
    bool working;                  /* a thread will check `first` again */
    bool begun;                    /* it is still to be joined */
    pthread_t thread;
};

struct space_images {
    struct space_image **items; /* by index in sample_images; NULL: not requested yet */
    size_t capacity;
    struct sample_images *images;
    struct slab_cache *cache;
    struct space_request request;
    bool *found;        /* of each name of the request: some image has it */
    pthread_t inserter; /* writes plans to the cache while the target goes on already */
    bool insertion;     /* it was begun, and is still to be joined */
    struct space_early early;
    struct space_preparations preparations;
};

int space_images_init(struct space_images *set, struct sample_images *images,
                      const struct space_request *request, struct base_error *error);
void space_images_free(struct space_images *set);

/* The image at `index` of sample_images, which is open. Planned at the first call. NULL: out of memory. */
struct space_image *space_images_get(struct space_images *set, uint32_t index);

/* The same for several at once, on all processors; what fails is tried again when it is requested. */
void space_images_ahead(struct space_images *set, const uint32_t *indices, size_t count);

/* Begins to plan the image at `index`, which is open, while its process still prepares: a program's loader
 * loads its libraries. One at a time; where it cannot be done, nothing is. */
void space_images_early(struct space_images *set, uint32_t index);

/* Position of a slot in image->slots; SIZE_MAX: none. */
size_t space_image_slot(const struct space_image *image, uint64_t slot);

#endif
