#include "cli_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_path.h"
#include "base_write.h"

static bool is_same_file(const struct stat *status, const char *path)
{
    struct stat other;
    return !stat(path, &other) && other.st_dev == status->st_dev && other.st_ino == status->st_ino;
}

/* The first bytes of SQLite, and the application's number in it (doc/format.md). */
static bool is_profile(const char *path)
{
    unsigned char header[72];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t got = descriptor < 0 ? -1 : pread(descriptor, header, sizeof header, 0);
    if (descriptor >= 0)
        close(descriptor);
    return got == (ssize_t)sizeof header && !memcmp(header, "SQLite format 3", 16) &&
           !memcmp(header + 68, "TALY", 4);
}

/* /dev/stdout behind `>> file`, or the file's own name there: replacing it would take away what others have
 * written, and what they write after us. */
static bool is_standard_output(const struct stat *status)
{
    struct stat output;
    return !fstat(STDOUT_FILENO, &output) && output.st_dev == status->st_dev &&
           output.st_ino == status->st_ino;
}

/* What is there already: may it go, must it be written to as it is? */
static int file_look(const char *path, const char *profile, bool *as_it_is, struct base_error *error)
{
    struct stat status;
    *as_it_is = false;
    if (stat(path, &status))
        return errno == ENOENT ? BASE_OK : base_fail_errno(error, errno, "%s", path);
    if (S_ISDIR(status.st_mode))
        return base_fail(error, BASE_EUSAGE, "%s is a directory", path);
    if (is_same_file(&status, profile))
        return base_fail(error, BASE_EUSAGE, "%s is the profile itself", path);
    if (S_ISREG(status.st_mode) && is_profile(path))
        return base_fail(error, BASE_EUSAGE, "%s is a Tally profile; it is left alone", path);
    *as_it_is = !S_ISREG(status.st_mode) || is_standard_output(&status);
    return BASE_OK;
}

static int open_temporary(struct cli_file *file, struct base_error *error)
{
    mode_t mask = umask(0);
    umask(mask);
    size_t size = strlen(file->path) + sizeof ".XXXXXX";
    file->temporary = malloc(size);
    if (!file->temporary)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    snprintf(file->temporary, size, "%s.XXXXXX", file->path);
    file->descriptor = mkostemp(file->temporary, O_CLOEXEC);
    if (file->descriptor < 0) {
        int number = errno;
        free(file->temporary);
        file->temporary = NULL;
        return base_fail_errno(error, number, "%s", file->path);
    }
    fchmod(file->descriptor, 0666 & ~mask); /* as any new file */
    return BASE_OK;
}

/* Standard output has a place in its file, which another descriptor would not have. */
static int open_as_it_is(const char *path)
{
    struct stat status;
    return !stat(path, &status) && is_standard_output(&status)
               ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1)
               : open(path, O_WRONLY | O_CLOEXEC);
}

int cli_file_begin(struct cli_file *file, const char *path, const char *profile, struct base_error *error)
{
    bool as_it_is;
    *file = (struct cli_file){.descriptor = -1};
    int result = file_look(path, profile, &as_it_is, error);
    if (result < 0)
        return result;
    if (!as_it_is) { /* a link stays, what it names is replaced */
        result = base_path_resolve(path, &file->path, error);
        result = result < 0 ? result : open_temporary(file, error);
    } else {
        file->path = strdup(path);
        file->descriptor = file->path ? open_as_it_is(path) : -1;
        if (file->descriptor < 0)
            result = base_fail_errno(error, errno, "%s", path);
    }
    if (result < 0)
        free(file->path);
    return result;
}

bool cli_file_write(void *context, const void *bytes, size_t length)
{
    struct cli_file *file = context;
    file->length += length;
    if (file->number || base_write(file->descriptor, bytes, length))
        return !file->number;
    file->number = errno;
    return false;
}

int cli_file_finish(struct cli_file *file, bool keep, struct base_error *error)
{
    int result = BASE_OK;
    if (close(file->descriptor) && !file->number)
        file->number = errno; /* NFS and quotas tell only now */
    if (keep && !file->number && file->temporary && rename(file->temporary, file->path))
        file->number = errno;
    if (file->number)
        result = base_fail_errno(error, file->number, "cannot write %s", file->path);
    if (file->temporary && (!keep || file->number))
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct cli_file){.descriptor = -1};
    return result;
}
