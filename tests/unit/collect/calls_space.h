/* calls_space.h - this process as one whose calls are counted, for tests: libraries that it has loaded are
 * surveyed, planned and built as in a real target, with blocks in memory files that the test fills. Nothing
 * is written into their text. */
#ifndef CALLS_SPACE_H
#define CALLS_SPACE_H

#include <stdint.h>

#include "collect_calls_space.h"

struct calls_space {
    struct profile *profile;
    struct collect_images images;
    struct collect_calls_rig rig;
    struct collect_calls_space *space;
    int file;         /* of the block */
    unsigned checked; /* edges that a test has asked for */
};

/* Around all tests of a program: plans are kept in a folder of its own meanwhile. */
int calls_space_begin_tests(void **state);
int calls_space_end_tests(void **state);

/* A new space of this process, not surveyed. `names`: globs of functions, ended by NULL; NULL: all. NULL: no
 * memory. */
struct calls_space *calls_space_new(const char *const *names);
void calls_space_free(struct calls_space *calls);

/* Surveys, gives all objects one arena, makes their patches and takes them as in force. BASE_OK, or what
 * failed. */
int calls_space_build(struct calls_space *calls, struct base_error *error);

/* In the object's plan. */
uint32_t calls_space_function(const struct collect_calls_object *object, const char *name);
uint64_t calls_space_entry(const struct collect_calls_object *object, const char *name);
/* The site in function `caller` that calls `callee`; NULL: the first one of no fixed callee; "*": through a
 * slot. */
uint32_t calls_space_site(const struct collect_calls_object *object, const char *caller, const char *callee);
/* Numbers in the block. */
uint32_t calls_space_site_word(const struct collect_calls_object *object, uint32_t site);
uint32_t calls_space_hook_word(const struct collect_calls_object *object, const char *name);
/* Run-time address behind the site. */
uint64_t calls_space_return(const struct collect_calls_object *object, uint32_t site);

#endif
