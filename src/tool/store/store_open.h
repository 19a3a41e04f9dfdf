/* store_open.h - opening a profile file for reading. Private to this module. */
#ifndef STORE_OPEN_H
#define STORE_OPEN_H

#include <sqlite3.h>

#include "base_error.h"

/* Checks what the file is and opens it so that nothing in it can do harm; sqlite3_close gives it back. */
int store_open_read(const char *path, sqlite3 **db, struct base_error *error);

/* The first number of a query; negative when there is none, with the reason in *code. */
int store_open_number(sqlite3 *db, const char *sql, int *code);

/* Of the format of the file (STORE_VERSION). */
int store_open_version(sqlite3 *db, int *code);

#endif
