/* profile_open.h - opening a profile file for reading. Private to this room. */
#ifndef PROFILE_OPEN_H
#define PROFILE_OPEN_H

#include <sqlite3.h>

#include "base_error.h"

/* Checks what the file is and opens it so that nothing in it can do harm; sqlite3_close gives it back. */
int profile_open_read(const char *path, sqlite3 **db, struct base_error *error);

/* The first number of a query; negative when there is none, with the reason in *code. */
int profile_open_number(sqlite3 *db, const char *sql, int *code);

/* Of the format of the file (PROFILE_STORE_VERSION). */
int profile_open_version(sqlite3 *db, int *code);

#endif
