/* base_write.h - bytes written whole. Context: tool. */
#ifndef BASE_WRITE_H
#define BASE_WRITE_H

#include <stdbool.h>
#include <stddef.h>

/* Writes everything; false with errno set when it could not be. */
bool base_write(int descriptor, const void *bytes, size_t length);

#endif
