/* plan_select.h - which images, and which calls in them, the user wants counted.
 *
 * Plans are always whole, so that they can be kept; what is wanted is decided afterwards, as one byte for
 * each site and hook (slab.h). Globs are those of fnmatch(3) without flags; those of functions as in
 * symbol_name.h. Context: tool. */
#ifndef PLAN_SELECT_H
#define PLAN_SELECT_H

#include "plan.h"

/* Is the image wanted? `name` is its soname, or the last part of its path when it has none. `globs` NULL or
 * empty: all but libc, ld.so, libm, libpthread, libstdc++, libgcc_s and the vDSO. "all" among them: every
 * image; else those whose name matches one. What a glob after '!' matches is left out in any case; with only
 * such ones the others are as if there were none. */
bool plan_select_image(const char *name, const char *const *globs, size_t glob_count);

/* Does a glob after '!' match the name? */
bool plan_select_leaves_out(const char *name, const char *const *globs, size_t glob_count);

/* By what name an image is selected: its soname, or the last part of `path` when it has none. Borrowed. */
const char *plan_select_image_name(const struct elf_image *image, const char *path);

/* The name that ld.so binds a slot to; NULL or "" when it is not known. */
typedef const char *plan_select_slot_name(void *context, uint64_t slot);

struct plan_select_names {
    const char *const *globs;
    size_t glob_count;
    bool *found; /* of each glob: set where it is a function's name; NULL: not needed */
    plan_select_slot_name *slot_name;
    void *context;
};

/* Is it the name of a function that is wanted? `raw` is as in the file. */
bool plan_select_name(const struct plan_select_names *names, const char *raw);

/* `named` has function_count bytes; each becomes 1 when the function's name matches a glob, else 0. */
void plan_select_functions(const struct plan *plan, const struct plan_select_names *names, uint8_t *named);

/* `wanted` has site_count + hook_count bytes; each becomes 0 or 1. A site is wanted when its caller or its
 * callee (`named`, as above, or the name of its slot) matches a glob. When any function of the image matches,
 * all its hooks are wanted, because a matching caller may call any of them. Calls by address of a matching
 * function from elsewhere are seen by its hook. */
void plan_select_names(const struct plan *plan, const struct plan_select_names *names, const uint8_t *named,
                       uint8_t *wanted);

#endif
