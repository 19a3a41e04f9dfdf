#include "import_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base_array.h"
#include "base_read.h"

enum { PIECE = 65536, WINDOW_GZIP = 15 + 16 };

/* Room for one more piece. */
static bool file_grow(uint8_t **bytes, size_t *capacity, size_t length)
{
    return *capacity - length >= PIECE || base_array_reserve((void **)bytes, capacity, length + PIECE, 1);
}

/* --- reading --- */

static int read_whole(int fd, const char *name, struct import_file *file, struct base_error *error)
{
    struct base_text text = {0};
    int result = base_read(fd, SIZE_MAX, &text);
    size_t length = text.length;
    if (result < 0 && result != -ENOMEM) {
        base_text_free(&text);
        return base_fail_errno(error, -result, "cannot read %s", name);
    }
    uint8_t *bytes = (uint8_t *)base_text_detach(&text);
    if (!bytes)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    file->bytes = file->memory = bytes;
    file->size = length;
    return BASE_OK;
}

/* Large files of perf are mapped rather than read: they are gone through once. */
static int file_take(int fd, const char *name, struct import_file *file, struct base_error *error)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return base_fail_errno(error, errno, "%s", name);
    if (S_ISDIR(status.st_mode))
        return base_fail(error, BASE_EFORMAT, "%s is a directory", name);
    if (!S_ISREG(status.st_mode) || status.st_size <= 0)
        return read_whole(fd, name, file, error);
    void *map = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return read_whole(fd, name, file, error);
    file->descriptor = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    file->bytes = file->map = map;
    file->size = file->mapped = (size_t)status.st_size;
    return BASE_OK;
}

/* --- gzip --- */

struct unpacking {
    z_stream stream;
    uint8_t *bytes;
    size_t capacity, length;
};

/* Z_OK: there is more; Z_STREAM_END: that was the last. A file may be several packed ones, one behind the
 * other. */
static int unpack_piece(struct unpacking *unpacking)
{
    z_stream *stream = &unpacking->stream;
    if (!file_grow(&unpacking->bytes, &unpacking->capacity, unpacking->length))
        return Z_MEM_ERROR;
    stream->next_out = unpacking->bytes + unpacking->length;
    stream->avail_out = PIECE;
    int state = inflate(stream, Z_NO_FLUSH);
    unpacking->length += PIECE - stream->avail_out;
    if (unpacking->length > IMPORT_FILE_UNPACKED_MOST)
        return Z_BUF_ERROR;
    if (state != Z_STREAM_END || !stream->avail_in)
        return state;
    return inflateReset(stream) == Z_OK ? Z_OK : Z_DATA_ERROR;
}

static int explain_failure(int state, size_t length, struct base_error *error)
{
    if (state == Z_MEM_ERROR)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (length > IMPORT_FILE_UNPACKED_MOST)
        return base_fail(error, BASE_EFORMAT, "it unpacks to more than %d MiB",
                         IMPORT_FILE_UNPACKED_MOST >> 20);
    return base_fail(error, BASE_EFORMAT, "it is packed by gzip, and corrupt or truncated");
}

int import_file_unpack(const uint8_t *bytes, size_t size, uint8_t **unpacked, size_t *length,
                       struct base_error *error)
{
    struct unpacking unpacking = {.stream.next_in = (uint8_t *)(uintptr_t)bytes};
    if (size > UINT_MAX)
        return base_fail(error, BASE_EFORMAT, "it is packed by gzip, and larger than 4 GiB");
    unpacking.stream.avail_in = (unsigned)size;
    int state = inflateInit2(&unpacking.stream, WINDOW_GZIP);
    if (state != Z_OK)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    while (state == Z_OK)
        state = unpack_piece(&unpacking);
    inflateEnd(&unpacking.stream);
    if (state != Z_STREAM_END) {
        free(unpacking.bytes);
        return explain_failure(state, unpacking.length, error);
    }
    *unpacked = unpacking.bytes;
    *length = unpacking.length;
    return BASE_OK;
}

/* --- both --- */

static int unpack_file(const char *name, struct import_file *file, struct base_error *error)
{
    uint8_t *unpacked;
    size_t length;
    int result = import_file_unpack(file->bytes, file->size, &unpacked, &length, error);
    import_file_close(file);
    if (result < 0)
        return base_fail_context(error, result, "%s", name);
    *file = (struct import_file){.bytes = unpacked, .memory = unpacked, .size = length, .descriptor = -1};
    return BASE_OK;
}

int import_file_open(const char *path, struct import_file *file, struct base_error *error)
{
    const char *name = path ? path : "standard input";
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    *file = (struct import_file){.descriptor = -1};
    if (fd < 0)
        return base_fail_errno(error, errno, "%s", name);
    int result = file_take(fd, name, file, error);
    if (path)
        close(fd);
    if (result == BASE_OK && file->size > 2 && file->bytes[0] == 0x1f && file->bytes[1] == 0x8b)
        result = unpack_file(name, file, error);
    return result;
}

int import_file_check(const struct import_file *file, struct base_error *error)
{
    struct stat status;
    if (file->descriptor < 0 || fstat(file->descriptor, &status) || (size_t)status.st_size >= file->mapped)
        return BASE_OK;
    return base_fail(error, BASE_EIO, "the file became shorter while it was read");
}

void import_file_close(struct import_file *file)
{
    if (file->map)
        munmap(file->map, file->mapped);
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->memory);
    *file = (struct import_file){.descriptor = -1};
}
