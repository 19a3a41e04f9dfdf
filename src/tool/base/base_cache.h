/* base_cache.h - a directory of files that are made once, kept, and mapped the next time.
 *
 * Nothing in a cache is worth failing for: what cannot be read is made anew, what cannot be written is not
 * kept. Several kinds of files share one directory, each with its suffix and its limit. Readers must prove
 * what they map: whoever made the file may have been another version, or the disk full. Context: tool, one
 * thread a cache; several processes at once. */
#ifndef BASE_CACHE_H
#define BASE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"

struct base_cache_kind {
    const char *suffix; /* ".rows"; must outlive the cache */
    const char *what;   /* for messages: "unwind rows" */
    uint64_t limit;     /* bytes; the files used longest ago go first */
};

struct base_cache;

/* `directory` NULL: a cache that keeps nothing. The directory is made (0700) when missing; one that
 * belongs to another user, or that others may write, is not used: then *cache keeps nothing and `error`
 * (if given) holds the reason while the result is still BASE_OK. */
int base_cache_open(const char *directory, const struct base_cache_kind *kind, struct base_cache **cache,
                    struct base_error *error);
void base_cache_close(struct base_cache *cache);
bool base_cache_usable(const struct base_cache *cache); /* has a directory; NULL has none */

/* The file's bytes, mapped read-only (munmap them), or NULL. `name` has no slash and no suffix. */
void *base_cache_map(const struct base_cache *cache, const char *name, size_t *size);
/* Writes the file whole, in place of an older one, or not at all. */
void base_cache_write(struct base_cache *cache, const char *name, const void *bytes, size_t size);

/* $XDG_CACHE_HOME/tally, else $HOME/.cache/tally, else the passwd home; NULL when there is none. malloc'd.
 * Root under sudo (HOME of another user) uses root's own home, never the other user's. */
char *base_cache_default_directory(void);

#endif
