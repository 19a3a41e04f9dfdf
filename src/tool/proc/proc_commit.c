#include "proc_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define STRICT 2            /* OVERCOMMIT_NEVER */
#define PIECE  (1ull << 20) /* a signal undoes what one call has allocated so far */
#define TRIES  100

bool proc_commit_is_strict(void)
{
    int mode = 0;
    FILE *setting = fopen("/proc/sys/vm/overcommit_memory", "re");
    if (!setting)
        return false;
    bool strict = fscanf(setting, "%d", &mode) == 1 && mode == STRICT;
    fclose(setting);
    return strict;
}

static int commit_piece(int file, uint64_t offset, uint64_t size)
{
    int result = -1;
    errno = EINTR;
    for (int i = 0; i < TRIES && result && errno == EINTR; i++)
        result = fallocate(file, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)size);
    return result;
}

int proc_commit_pages(int file, uint64_t offset, uint64_t size, struct base_error *error)
{
    for (uint64_t done = 0; done < size; done += PIECE)
        if (commit_piece(file, offset + done, size - done < PIECE ? size - done : PIECE))
            return base_fail_errno(error, errno,
                                   "shared memory, of which the kernel commits no more than it has");
    return BASE_OK;
}
