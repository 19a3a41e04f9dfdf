/* store_inside.h - a profile that is being written, as store.c and store_create.c
 * share it. Context: tool; private to this module. */
#ifndef STORE_INSIDE_H
#define STORE_INSIDE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "store.h"

enum store_statement {
    STORE_PUT_STRING,
    STORE_PUT_META,
    STORE_PUT_IMAGE,
    STORE_PUT_PROCESS,
    STORE_PUT_THREAD,
    STORE_PUT_FUNCTION,
    STORE_PUT_INLINED,
    STORE_PUT_ADDRESS,
    STORE_PUT_NODE,
    STORE_DROP_NODE,
    STORE_PUT_COUNTER,
    STORE_PUT_CELL,
    STORE_DROP_CELLS,
    STORE_PUT_LOSS,
    STORE_PUT_BLOCK,
    STORE_PUT_EDGE,
    STORE_PUT_COVERAGE,
    STORE_PUT_LEFT,
    STORE_PUT_UNCOVERED,
    STORE_PUT_PEAK,
    STORE_PUT_LATENCY,
    STORE_PUT_LATENCY_CALLS,
    STORE_PUT_DESCRIPTOR,
    STORE_STATEMENTS
};

struct store {
    char *path, *old_path, *journal;
    char *spare;          /* where what was at old_path waits */
    bool spared;          /* something does */
    int moved;            /* enum existing: what had to make room */
    struct stat old_file; /* of an older profile that was moved */
    int lock;             /* descriptor that holds the flock */
    sqlite3 *db;
    sqlite3_stmt *statements[STORE_STATEMENTS];
    size_t strings; /* written */
};

/* Why SQLite failed, as a sentence. */
int store_fail(struct store *store, const char *what, struct base_error *error);
void store_close_database(struct store *store);
void store_free(struct store *store);
/* The new file goes, what was there returns. */
void store_take_back(struct store *store);

#endif
