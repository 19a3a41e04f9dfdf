/* import_stack.h - a stack put together from names, outermost first, and what is the same in all formats.
 *
 * A name without an address gets one of its own, which is its hash: the same name has the same one in every
 * file, so that imports can be merged. Such names are in an image without a name (PROFILE_IMAGE_SPECIAL), or
 * in that of the kernel or of generated code where the file tells.
 *
 * `<signal>` and `[stack cut]` are what Tally's own exports call what is no function; they become what they
 * were. Context: tool; private to this module. */
#ifndef IMPORT_STACK_H
#define IMPORT_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile.h"

enum { IMPORT_STACK_DEEPEST = 1024 }; /* frames: the inner ones are kept, as when recording */

struct import_stack {
    struct profile *profile;
    uint32_t addresses[IMPORT_STACK_DEEPEST], flags[IMPORT_STACK_DEEPEST];
    size_t count, first; /* a ring: `first` is the outermost that is kept */
    bool cut, failed;    /* failed: memory ran out */
};

/* Begins another stack. */
void import_stack_begin(struct import_stack *stack);
/* True, and done, if `name` is that of a mark. */
bool import_stack_mark(struct import_stack *stack, const char *name);
void import_stack_add(struct import_stack *stack, uint32_t address, uint32_t flags);
/* The leaf's node; 0: the stack is empty, or memory ran out (failed). */
uint32_t import_stack_node(struct import_stack *stack);

/* One level of inlining, as of struct profile_inlined. */
struct import_stack_level {
    const char *name, *file;
    uint32_t line;
};

/* The address that stands for a function known by name alone, with what is inlined there, innermost first; 0
 * when memory ran out. */
uint32_t import_stack_named(struct profile *profile, uint32_t image,
                            const struct import_stack_level *function,
                            const struct import_stack_level *inlined, size_t levels);

/* The image of names that have none. */
uint32_t import_stack_nowhere(struct profile *profile);

/* What an address is called: its function and the line in it, and what is inlined there. */
struct import_stack_naming {
    const struct import_stack_level *function, *inlined;
    size_t levels;
    uint64_t start, end; /* of the function; both 0: unknown */
};

/* Names an address. Returns it, or, if it has another name already, one that stands for this; 0 when
 * memory ran out. */
uint32_t import_stack_name(struct profile *profile, uint32_t address,
                           const struct import_stack_naming *naming);

/* Puts a sentence behind those that meta import_notice has. */
void import_stack_notice(struct profile *profile, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The file does not have all that there was: sets meta import_partial to `why`, a sentence without its
 * end, and the profile will not be called complete. The first to say so is believed. */
void import_stack_partial(struct profile *profile, const char *why);

#endif
