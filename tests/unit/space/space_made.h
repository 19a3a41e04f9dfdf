/* space_made.h - this process as one whose calls are counted, for tests: libraries that it has loaded are
 * surveyed, planned and built as in a real target, with blocks in memory files that the test fills. Nothing
 * is written into their text. */
#ifndef SPACE_MADE_H
#define SPACE_MADE_H

#include <stdint.h>

#include "space.h"

struct space_made {
    struct profile *profile;
    struct sample_images images;
    struct space_session session;
    struct space *space;
    int file;         /* of the block */
    unsigned checked; /* edges that a test has checked */
};

/* Around all tests of a program: plans are kept in a directory of its own meanwhile. */
int space_made_begin_tests(void **state);
int space_made_end_tests(void **state);

/* A new space of this process, not surveyed. `names`: globs of functions, ended by NULL; NULL: all. NULL: no
 * memory. */
struct space_made *space_made_new(const char *const *names);
void space_made_free(struct space_made *calls);

/* Surveys, gives all objects one arena, makes their patches and takes them as in force. BASE_OK, or what
 * failed. */
int space_made_build(struct space_made *calls, struct base_error *error);

/* In the object's plan. */
uint32_t space_made_function(const struct space_object *object, const char *name);
uint64_t space_made_entry(const struct space_object *object, const char *name);
/* The site in function `caller` that calls `callee`; NULL: the first one of no fixed callee; "*": through a
 * slot. */
uint32_t space_made_site(const struct space_object *object, const char *caller, const char *callee);
/* Numbers in the block. */
uint32_t space_made_site_word(const struct space_object *object, uint32_t site);
uint32_t space_made_hook_word(const struct space_object *object, const char *name);
/* Run-time address behind the site. */
uint64_t space_made_return(const struct space_object *object, uint32_t site);

#endif
