/* diff_match.h - what in one profile is what in another: images and functions that keep their meaning while
 * addresses, versions and file names change.
 *
 * Images are the same when they have the same name and kind; of those that only one side has, when they have
 * the same build-id, when their names differ in digits only (libsqlite3.so.0.8.6 and libsqlite3.so.0.9), and
 * last, when most of the functions of the smaller are functions of the other (a program that was renamed).
 *
 * Functions are the same when their names are, in the same image, without what compilers and linkers append:
 * parts and clones of a function (.cold, .part.0, .constprop.1, .isra.0, .lto_priv.2, .llvm.123) count as the
 * function, and symbol versions (@@GLIBC_2.34) are cut. Functions of one name (static ones) are one: a
 * profile holds only those that were met, and their addresses moved, so which is which is not known. A
 * function without a symbol is named by where it begins; that is the same function only in the same build of
 * its image. In another all such functions are one, and so are always single addresses outside any function.
 *
 * Context: tool. */
#ifndef DIFF_MATCH_H
#define DIFF_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "base_text.h"
#include "profile.h"
#include "view_entity.h"

/* An image of any number of profiles. */
struct diff_match_image {
    const char *name, *build_id; /* of the first met; of their profiles */
    uint32_t kind;
    unsigned sides; /* bit 0: the old side has it, bit 1: the new one */
    uint32_t same;  /* another image that this one is; else itself */
    bool rebuilt;   /* its members have different build-ids, or none */
};

/* Something that a row can be named after. */
struct diff_match_item {
    enum view_entity_kind kind;
    uint32_t image; /* 0: none */
    size_t name;    /* where in `text` its name begins */
};

struct diff_matcher {
    const struct profile *const *profiles;
    size_t profile_count, old_count; /* the first ones are the old side */
    struct diff_match_image *images; /* index 0 is none */
    size_t image_count, image_capacity;
    uint32_t **image_of;           /* by profile and image */
    struct diff_match_item *items; /* index 0 is none */
    size_t item_count, item_capacity;
    struct base_map map; /* private */
    struct base_text text;
};

/* Finds out which images are the same. False when memory ran out; diff_match_free is right in any case. The
 * profiles and the array of them must last as long. */
bool diff_match_init(struct diff_matcher *matcher, const struct profile *const *profiles, size_t count,
                     size_t old_count);
void diff_match_free(struct diff_matcher *matcher);

/* The item that an entity of profile number `at` is. 0 when memory ran out. */
uint32_t diff_match_item(struct diff_matcher *matcher, size_t at, const struct view_entities *entities,
                         uint32_t entity);

/* Of an item: the name of its function, and of its image ("" when there is none). Raw text from the target:
 * clean it. */
const char *diff_match_name(const struct diff_matcher *matcher, uint32_t item);
const char *diff_match_image_name(const struct diff_matcher *matcher, uint32_t item);

/* Appends a function's name without what compilers and linkers append. */
void diff_match_plain(const char *name, struct base_text *out);

#endif
