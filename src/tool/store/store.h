/* store.h - the profile file: the only module that knows SQLite. Format: doc/format.md.
 * Context: tool, one thread. */
#ifndef STORE_H
#define STORE_H

#include <stdio.h>

#include "base_error.h"
#include "base_text.h"
#include "profile.h"

/* PRAGMA user_version; 5 had no descriptors, 4 no latencies, 3 no peaks, 2 no coverage, 1 no edges: all are
 * read. */
#define STORE_VERSION 6

/* The ending of the name that a profile gets to make room for a new one. */
#define STORE_OLD ".old"

struct store;

/* Makes the file, mode 0600. An existing profile (or any existing file that is a Tally profile) becomes
 * PATH.old; a file that is not a Tally profile is refused, so that `-o` never destroys something else. One
 * that is being recorded is refused with BASE_EBUSY and the pid in the message. What would have to make room
 * at PATH.old is held to the same, and waits as PATH.old.XXXXXX until the new profile is closed. Nothing is
 * touched on failure. */
int store_create(const char *path, struct store **store, struct base_error *error);

/* Writes what changed since the last flush, in one transaction (journal_mode=TRUNCATE, synchronous=OFF). On
 * failure (disk full) the file holds the state of the last good flush. */
int store_flush(struct store *store, struct profile *profile, struct base_error *error);

/* Last flush, marks the recording complete, unlocks, closes. With `discard` the file is removed instead (the
 * old one comes back, and the one that was PATH.old before). */
int store_close(struct store *store, struct profile *profile, bool discard, struct base_error *error);

uint64_t store_size(const struct store *store); /* bytes on disk */

/* Reads a whole profile. Foreign, truncated, corrupt and newer files are refused with a clear line
 * that names the file; trusted_schema off, opened read-only; every index is checked. */
int store_load(const char *path, struct profile **profile, struct base_error *error);

/* The same; `watch` (may be NULL) is called now and then with the number of rows read; `total` is
 * approximate. */
typedef void store_watch(void *context, size_t done, size_t total);
int store_load_watched(const char *path, store_watch *watch, void *context, struct profile **profile,
                       struct base_error *error);

/* Runs one read-only SQL statement and appends the rows to `out`. */
enum store_query_format { STORE_QUERY_COLUMNS, STORE_QUERY_CSV, STORE_QUERY_JSON };
int store_query(const char *path, const char *sql, enum store_query_format format, FILE *out,
                struct base_error *error);

#endif
