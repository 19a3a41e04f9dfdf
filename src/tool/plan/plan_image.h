/* plan_image.h - what an image is, as far as that decides how it may be changed: by its symbols and sections
 * alone. Pure. Context: tool, any thread on its own data. */
#ifndef PLAN_IMAGE_H
#define PLAN_IMAGE_H

#include <stdbool.h>

#include "elf_image.h"

/* Does a table of symbols define a name that one of the globs (fnmatch) means? NULL ends them. */
bool plan_image_defines(const struct elf_image *image, const char *const *globs);

bool plan_image_is_static(const struct elf_image *image); /* linked so */
bool plan_image_is_libc(const struct elf_image *image);

/* Does the image's code run on stacks that its runtime walks in its own way? Their return addresses are not
 * to be replaced. */
bool plan_image_owns_stacks(const struct elf_image *image);
/* Does a runtime decode the image's calls to find out what they lead to? Mono does so in code that was
 * compiled ahead of time. */
bool plan_image_has_calls_read(const struct elf_image *image);
/* How an unwinder without names finds call-frame information (it was linked into the image, and stripped);
 * bits. Code that reads the program headers for other things is not one. Each looks up at least its own frame
 * before it reads a word of the stack. */
enum plan_image_unwinder {
    PLAN_IMAGE_BY_HEADERS = 1, /* dl_iterate_phdr */
    PLAN_IMAGE_BY_OBJECT = 2,  /* _dl_find_object */
    PLAN_IMAGE_REMEMBERS = 4   /* and caches what it found */
};
unsigned plan_image_unwinds(const struct elf_image *image); /* 0: it has none */

#endif
