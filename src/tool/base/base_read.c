#include "base_read.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int base_read(int descriptor, size_t most, struct base_text *out)
{
    char bytes[16384];
    while (most && !out->failed) {
        ssize_t got = read(descriptor, bytes, most < sizeof bytes ? most : sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? -errno : 0;
        base_text_add_bytes(out, bytes, (size_t)got);
        most -= (size_t)got;
    }
    return out->failed ? -ENOMEM : 0;
}

int base_read_file(const char *path, size_t most, struct base_text *out)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0)
        return -errno;
    int result = base_read(descriptor, most, out);
    close(descriptor);
    return result;
}
