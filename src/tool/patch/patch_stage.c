#include "patch_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SMALL 65536u /* bytes that are copied sooner than mapped */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int map_file(struct patch_stage *stage, size_t size, struct base_error *error)
{
    stage->file = memfd_create("tally-changes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (stage->file < 0)
        return base_fail_errno(error, errno, "memory for changes");
    void *bytes = ftruncate(stage->file, (off_t)size)
                      ? MAP_FAILED
                      : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, stage->file, 0);
    if (bytes == MAP_FAILED) {
        close(stage->file);
        stage->file = -1;
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    madvise(bytes, size, MADV_HUGEPAGE); /* where the kernel does so at all, a hundred times fewer faults */
    stage->changes = bytes;
    return BASE_OK;
}

int patch_stage_new(struct patch_stage *stage, size_t room, struct base_error *error)
{
    size_t size = room * sizeof *stage->changes;
    *stage = (struct patch_stage){.room = room, .file = -1};
    if (size > SMALL)
        return map_file(stage, size, error);
    stage->changes = malloc(size ? size : 1);
    return stage->changes ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory");
}

int patch_stage_seal(struct patch_stage *stage, struct base_error *error)
{
    if (stage->file < 0)
        return BASE_OK;
    if (stage->changes)
        munmap(stage->changes, stage->room * sizeof *stage->changes);
    stage->changes = NULL;
    return fcntl(stage->file, F_ADD_SEALS, SEALS) ? base_fail_errno(error, errno, "a list of changes")
                                                  : BASE_OK;
}

void patch_stage_free(struct patch_stage *stage)
{
    if (stage->file < 0) {
        free(stage->changes);
    } else {
        if (stage->changes)
            munmap(stage->changes, stage->room * sizeof *stage->changes);
        close(stage->file);
    }
    *stage = (struct patch_stage){.file = -1};
}

/* --- the other side --- */

int patch_staged_map(struct patch_staged *staged, int file, size_t count, struct base_error *error)
{
    struct stat status;
    size_t size = count * sizeof *staged->changes;
    int seals = fcntl(file, F_GET_SEALS);
    if (count == 0 || count > SIZE_MAX / sizeof *staged->changes || seals < 0 || (seals & SEALS) != SEALS ||
        fstat(file, &status) || (size_t)status.st_size < size)
        return base_fail(error, BASE_EUSAGE, "this is no list of changes");
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    *staged = (struct patch_staged){bytes, count, true};
    return BASE_OK;
}

void patch_staged_free(struct patch_staged *staged)
{
    if (staged->mapped)
        munmap(staged->changes, staged->count * sizeof *staged->changes);
    else
        free(staged->changes);
    *staged = (struct patch_staged){0};
}
