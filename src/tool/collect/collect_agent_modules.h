/* collect_agent_modules.h - where code lies in a process, for the agent's walks and for naming what they met.
 *
 * A cookie names a mapping of one file at one distance, for the whole recording: it is given once and never
 * to another one, so that a stack of an object that was unloaded long ago is still named rightly. Rows go
 * into the shared file once for each image. Context: tool, one thread. */
#ifndef COLLECT_AGENT_MODULES_H
#define COLLECT_AGENT_MODULES_H

#include <sys/types.h>

#include "base_error.h"
#include "base_map.h"
#include "collect_agent_file.h"
#include "collect_heap.h"
#include "collect_image.h"

struct collect_agent_cookies {
    struct collect_agent_cookie *items; /* cookie - 1 is the index */
    size_t count, capacity;
    struct base_map known; /* (image, bias) -> index */
};
void collect_agent_cookies_free(struct collect_agent_cookies *cookies);

/* What matters where functions are timed. */
struct collect_agent_stacks {
    unsigned unwinders; /* patch_image_unwinds of all images */
    char unwinder[256]; /* the name of the last image that has one; or "" */
};

/* Reads what `pid` has mapped and publishes it to region `region`. `stacks`: NULL where it does not matter.
 * `rows` maps images to where their rows are in this file; zero it first, base_map_free it with the file.
 * Images whose rows find no room have none: their frames end stacks, as a counted loss of the agent's.
 * BASE_ENOTFOUND: the process is gone. */
int collect_agent_modules(struct collect_agent_file *file, uint32_t region, pid_t pid,
                          struct collect_images *images, struct collect_agent_cookies *cookies,
                          struct base_map *rows, struct collect_agent_stacks *stacks,
                          struct base_error *error);

/* Samples of time may meet the agent's own code, which lies at `base`: its frames have rows and names like
 * any others. */
void collect_agent_modules_know(struct collect_images *images, pid_t pid, uint64_t base);

#endif
