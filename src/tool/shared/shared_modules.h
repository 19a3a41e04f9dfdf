/* shared_modules.h - where code lies in a process, for the agent's walks and for naming what they met.
 *
 * A cookie names a mapping of one file at one distance, for the whole recording: it is given once and never
 * to another one, so that a stack of an object that was unloaded long ago is still named rightly. Rows go
 * into the shared file once for each image. Context: tool, one thread. */
#ifndef SHARED_MODULES_H
#define SHARED_MODULES_H

#include <sys/types.h>

#include "base_error.h"
#include "base_map.h"
#include "sample_image.h"
#include "shared_file.h"
#include "shared_heap.h"

struct shared_cookies {
    struct shared_cookie *items; /* cookie - 1 is the index */
    size_t count, capacity;
    struct base_map known; /* (image, bias) -> index */
};
void shared_cookies_free(struct shared_cookies *cookies);

/* What matters where functions are timed. */
struct shared_stacks {
    unsigned unwinders; /* plan_image_unwinds of all images */
    char unwinder[256]; /* the name of the last image that has one; or "" */
};

/* What is known of images. */
struct shared_known {
    struct sample_images *images;
    struct shared_cookies *cookies;
    struct base_map *rows; /* image -> where its rows are in this file; zeroed first, freed with the file */
    struct shared_stacks *stacks; /* NULL where it does not matter */
};

/* Reads what `pid` has mapped and publishes it to region `region`. Images whose rows find no space have none:
 * their frames end stacks, as a counted loss of the agent's. BASE_ENOTFOUND: the process is gone. */
int shared_modules(struct shared_file *file, uint32_t region, pid_t pid, const struct shared_known *known,
                   struct base_error *error);

/* Samples of time may meet the agent's own code, which lies at `base`: its frames have rows and names like
 * any others. */
void shared_modules_know(struct sample_images *images, pid_t pid, uint64_t base);

#endif
