#include "annotate_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "base_read.h"

enum { FILE_MOST = 64 << 20 }; /* bytes: nobody writes more by hand, and generators seldom do */

struct annotate_source_file {
    char *asked, *path; /* as in the debug information, and where it was looked for */
    char *bytes;
    size_t size;
    size_t *lines; /* where each begins; one more at the end */
    size_t count, capacity;
    int error;
    int64_t changed;
};

/* --- where --- */

/* FROM is a directory or a file: "/build" fits "/build/a.c", not "/builder/a.c". */
static const char *rest_of_path(const char *map, size_t length, const char *path)
{
    if (strncmp(map, path, length))
        return NULL;
    bool whole = !path[length] || path[length] == '/' || (length && map[length - 1] == '/');
    return whole ? path + length : NULL;
}

static char *map_path(const struct annotate_source *source, const char *path)
{
    for (size_t i = 0; i < source->map_count; i++) {
        const char *map = source->maps[i], *sign = strchr(map, '=');
        const char *rest = sign ? rest_of_path(map, (size_t)(sign - map), path) : NULL;
        if (!rest)
            continue;
        struct base_text text = {0};
        base_text_addf(&text, "%s%s", sign + 1, rest);
        return base_text_detach(&text);
    }
    return strdup(path);
}

/* --- reading --- */

/* Devices and pipes are no sources: opening one must not wait. */
static int open_plain(const char *path, struct stat *status)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return -1;
    if (fstat(descriptor, status) == 0 && S_ISREG(status->st_mode) && status->st_size <= FILE_MOST)
        return descriptor;
    close(descriptor);
    errno = S_ISREG(status->st_mode) ? EFBIG : EINVAL;
    return -1;
}

static int read_bytes(struct annotate_source_file *file)
{
    struct stat status = {0};
    int descriptor = open_plain(file->path, &status);
    if (descriptor < 0)
        return errno;
    struct base_text text = {0};
    file->changed = status.st_mtim.tv_sec;
    base_read(descriptor, (size_t)status.st_size, &text); /* what cannot be read is missing below */
    close(descriptor);
    file->size = text.length;
    file->bytes = base_text_detach(&text);
    return file->bytes ? 0 : ENOMEM;
}

static int source_split(struct annotate_source_file *file)
{
    for (size_t at = 0; at <= file->size; at++) {
        if (at > 0 && at < file->size && file->bytes[at - 1] != '\n')
            continue;
        if (!base_array_room(file->lines, file->count, file->capacity))
            return ENOMEM;
        file->lines[file->count++] = at;
    }
    return 0;
}

static struct annotate_source_file *file_of(struct annotate_source *source, const char *asked)
{
    for (size_t i = 0; i < source->count; i++)
        if (!strcmp(source->files[i].asked, asked))
            return &source->files[i];
    struct annotate_source_file fresh = {.asked = strdup(asked), .path = map_path(source, asked)};
    if (!fresh.asked || !fresh.path || !base_array_room(source->files, source->count, source->capacity)) {
        free(fresh.asked);
        free(fresh.path);
        source->failed = true;
        return NULL;
    }
    fresh.error = read_bytes(&fresh);
    if (!fresh.error)
        fresh.error = source_split(&fresh);
    source->failed |= fresh.error == ENOMEM;
    source->files[source->count] = fresh;
    return &source->files[source->count++];
}

/* --- asking --- */

const char *annotate_source_line(struct annotate_source *source, const char *path, uint32_t line,
                                 size_t *length)
{
    const struct annotate_source_file *file = file_of(source, path);
    if (!file || file->error || !line || line >= file->count)
        return NULL;
    size_t begin = file->lines[line - 1], end = file->lines[line];
    while (end > begin && (file->bytes[end - 1] == '\n' || file->bytes[end - 1] == '\r'))
        end--;
    *length = end - begin;
    return file->bytes + begin;
}

const char *annotate_source_path(struct annotate_source *source, const char *path)
{
    const struct annotate_source_file *file = file_of(source, path);
    return file ? file->path : NULL;
}

int annotate_source_error(struct annotate_source *source, const char *path)
{
    const struct annotate_source_file *file = file_of(source, path);
    return file ? file->error : ENOMEM;
}

uint32_t annotate_source_count(struct annotate_source *source, const char *path)
{
    const struct annotate_source_file *file = file_of(source, path);
    return file && file->count ? (uint32_t)file->count - 1 : 0;
}

int64_t annotate_source_changed(struct annotate_source *source, const char *path)
{
    const struct annotate_source_file *file = file_of(source, path);
    return file && !file->error ? file->changed : 0;
}

void annotate_source_free(struct annotate_source *source)
{
    for (size_t i = 0; i < source->count; i++) {
        free(source->files[i].asked);
        free(source->files[i].path);
        free(source->files[i].bytes);
        free(source->files[i].lines);
    }
    free(source->files);
    source->files = NULL;
    source->count = source->capacity = 0;
}
