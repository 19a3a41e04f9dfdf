#include "base_write.h"

#include <errno.h>
#include <unistd.h>

bool base_write(int descriptor, const void *bytes, size_t length)
{
    const char *next = bytes;
    while (length) {
        ssize_t written = write(descriptor, next, length);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return false;
        next += written;
        length -= (size_t)written;
    }
    return true;
}
