/* profile_store_inside.h - a profile that is being written, as profile_store.c and profile_store_create.c
 * share it. Context: tool; private to this room. */
#ifndef PROFILE_STORE_INSIDE_H
#define PROFILE_STORE_INSIDE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "profile_store.h"

enum profile_store_statement {
    PROFILE_STORE_PUT_STRING,
    PROFILE_STORE_PUT_META,
    PROFILE_STORE_PUT_IMAGE,
    PROFILE_STORE_PUT_PROCESS,
    PROFILE_STORE_PUT_THREAD,
    PROFILE_STORE_PUT_FUNCTION,
    PROFILE_STORE_PUT_INLINED,
    PROFILE_STORE_PUT_ADDRESS,
    PROFILE_STORE_PUT_NODE,
    PROFILE_STORE_DROP_NODE,
    PROFILE_STORE_PUT_COUNTER,
    PROFILE_STORE_PUT_CELL,
    PROFILE_STORE_DROP_CELLS,
    PROFILE_STORE_PUT_LOSS,
    PROFILE_STORE_PUT_BLOCK,
    PROFILE_STORE_PUT_EDGE,
    PROFILE_STORE_PUT_COVERAGE,
    PROFILE_STORE_PUT_LEFT,
    PROFILE_STORE_PUT_UNCOVERED,
    PROFILE_STORE_PUT_PEAK,
    PROFILE_STORE_PUT_LATENCY,
    PROFILE_STORE_PUT_LATENCY_CALLS,
    PROFILE_STORE_PUT_DESCRIPTOR,
    PROFILE_STORE_STATEMENTS
};

struct profile_store {
    char *path, *old_path, *journal;
    char *spare;          /* where what was at old_path waits */
    bool spared;          /* something does */
    int moved;            /* enum existing: what had to make room */
    struct stat old_file; /* of an older profile that was moved */
    int lock;             /* descriptor that holds the flock */
    sqlite3 *db;
    sqlite3_stmt *statements[PROFILE_STORE_STATEMENTS];
    size_t strings; /* written */
};

/* Why SQLite failed, as a sentence. */
int profile_store_fail(struct profile_store *store, const char *what, struct base_error *error);
void profile_store_close_database(struct profile_store *store);
void profile_store_free(struct profile_store *store);
/* The new file goes, what was there returns. */
void profile_store_take_back(struct profile_store *store);

#endif
