/* profile_open.h - opening a profile file for reading. Private to this room. */
#ifndef PROFILE_OPEN_H
#define PROFILE_OPEN_H

#include <sqlite3.h>

#include "base_error.h"

/* Checks what the file is and opens it so that nothing in it can do harm; sqlite3_close gives it back. */
int profile_open_read(const char *path, sqlite3 **db, struct base_error *error);

#endif
