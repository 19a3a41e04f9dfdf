#include "trace_stage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Changes: 64 KiB, which are copied faster than they are mapped, and stay in the processor's cache. */
#define BUFFERED 1024
#define SEALS    (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)

static int flush_stage(struct trace_stage *stage, struct base_error *error)
{
    const char *bytes = (const char *)stage->buffer;
    size_t size = stage->buffered * sizeof *stage->buffer, done = 0;
    off_t from = (off_t)((stage->count - stage->buffered) * sizeof *stage->buffer);
    if (stage->file < 0)
        stage->file = memfd_create("tally-changes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (stage->file < 0)
        return base_fail_errno(error, errno, "memory for changes");
    while (done < size) {
        ssize_t put = pwrite(stage->file, bytes + done, size - done, from + (off_t)done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return base_fail(error, BASE_ENOMEM, "out of memory");
        done += (size_t)put;
    }
    stage->buffered = 0;
    return BASE_OK;
}

int trace_stage_add(struct trace_stage *stage, const struct trace_memory_change *change,
                    struct base_error *error)
{
    if (!stage->buffer)
        stage->buffer = malloc(BUFFERED * sizeof *stage->buffer);
    if (!stage->buffer)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int result = stage->buffered == BUFFERED ? flush_stage(stage, error) : BASE_OK;
    if (result < 0)
        return result;
    stage->buffer[stage->buffered++] = *change;
    stage->count++;
    return BASE_OK;
}

int trace_stage_seal(struct trace_stage *stage, struct base_error *error)
{
    if (stage->file < 0)
        return BASE_OK;
    int result = flush_stage(stage, error);
    if (result == BASE_OK && fcntl(stage->file, F_ADD_SEALS, SEALS))
        result = base_fail_errno(error, errno, "a list of changes");
    return result;
}

void trace_stage_free(struct trace_stage *stage)
{
    free(stage->buffer);
    if (stage->file >= 0)
        close(stage->file);
    *stage = TRACE_STAGE_EMPTY;
}

/* --- the helper's side --- */

int trace_staged_map(struct trace_staged *staged, int file, size_t count, struct base_error *error)
{
    struct stat status;
    size_t size = count * sizeof *staged->changes;
    int seals = fcntl(file, F_GET_SEALS);
    if (count == 0 || count > SIZE_MAX / sizeof *staged->changes || seals < 0 || (seals & SEALS) != SEALS ||
        fstat(file, &status) || (size_t)status.st_size < size)
        return base_fail(error, BASE_EUSAGE, "invalid list of changes");
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    *staged = (struct trace_staged){bytes, count, true};
    return BASE_OK;
}

void trace_staged_free(struct trace_staged *staged)
{
    if (staged->mapped)
        munmap(staged->changes, staged->count * sizeof *staged->changes);
    else
        free(staged->changes);
    *staged = (struct trace_staged){0};
}
