#include "proc_maps.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base_array.h"
#include "base_read.h"
#include "base_text.h"

void proc_maps_free(struct proc_maps *maps)
{
    for (size_t i = 0; i < maps->count; i++)
        free(maps->items[i].path);
    free(maps->items);
    *maps = (struct proc_maps){0};
}

/* --- parsing --- */

/* The kernel writes a newline in a path as \012. */
static void unescape_path(char *path)
{
    char *to = path;
    for (const char *from = path; *from;) {
        if (!strncmp(from, "\\012", 4)) {
            *to++ = '\n';
            from += 4;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
}

static bool cut_deleted(char *path)
{
    static const char mark[] = " (deleted)";
    size_t length = strlen(path), tail = sizeof mark - 1;
    if (path[0] != '/' || length <= tail || strcmp(path + length - tail, mark))
        return false;
    path[length - tail] = '\0';
    return true;
}

/* "START-END rwxp OFFSET MAJOR:MINOR INODE    PATH" */
static int parse_line(const char *line, size_t length, struct proc_maps *maps, struct base_error *error)
{
    char flags[5];
    int path_at = 0;
    struct proc_mapping mapping = {0};
    char *text = strndup(line, length);
    if (!text)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    int fields =
        sscanf(text, "%lx-%lx %4s %lx %x:%x %lu %n", &mapping.start, &mapping.end, flags, &mapping.offset,
               &mapping.device_major, &mapping.device_minor, &mapping.inode, &path_at);
    if (fields != 7 || strlen(flags) != 4 || mapping.end < mapping.start) {
        free(text);
        return base_fail(error, BASE_EFORMAT, "malformed line in /proc/PID/maps");
    }
    mapping.readable = flags[0] == 'r';
    mapping.writable = flags[1] == 'w';
    mapping.executable = flags[2] == 'x';
    mapping.shared = flags[3] == 's';
    mapping.path = strdup(path_at ? text + path_at : "");
    free(text);
    if (!mapping.path || !base_array_room(maps->items, maps->count, maps->capacity)) {
        free(mapping.path);
        return base_fail(error, BASE_ENOMEM, "out of memory");
    }
    unescape_path(mapping.path);
    mapping.deleted = cut_deleted(mapping.path);
    maps->items[maps->count++] = mapping;
    return BASE_OK;
}

int proc_maps_parse(const char *text, struct proc_maps *maps, struct base_error *error)
{
    *maps = (struct proc_maps){0};
    while (*text) {
        size_t length = strcspn(text, "\n");
        int result = length ? parse_line(text, length, maps, error) : BASE_OK;
        if (result < 0) {
            proc_maps_free(maps);
            return result;
        }
        text += length + (text[length] == '\n');
    }
    return BASE_OK;
}

static int read_text(const char *path, pid_t pid, struct base_text *text, struct base_error *error)
{
    int result = base_read_file(path, SIZE_MAX, text);
    if (result == -ENOMEM)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    return result < 0 ? base_fail_errno(error, -result, "mappings of process %d", (int)pid) : BASE_OK;
}

/* As any live thread has them. One that ends meanwhile is skipped. */
static void read_others(pid_t pid, struct base_text *text)
{
    char path[320];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && !text->length && (entry = readdir(directory));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/maps", (int)pid, entry->d_name);
        read_text(path, pid, text, NULL);
    }
    if (directory)
        closedir(directory);
}

int proc_maps_read(pid_t pid, struct proc_maps *maps, struct base_error *error)
{
    char path[64];
    struct base_text text = {0};
    *maps = (struct proc_maps){0};
    snprintf(path, sizeof path, "/proc/%d/maps", (int)pid);
    int result = read_text(path, pid, &text, error);
    if (result == BASE_OK && !text.length)
        read_others(pid, &text);
    if (result == BASE_OK)
        result = proc_maps_parse(base_text_string(&text), maps, error);
    base_text_free(&text);
    return result;
}

/* --- opening what is mapped --- */

/* File systems whose stat() reports another device than /proc/PID/maps does: overlay reports its own where
 * the mapping has the layer's, btrfs and bcachefs report one for each subvolume. */
static bool hides_device(int fd)
{
    enum { OVERLAY = 0x794c7630, BTRFS = 0x9123683e, BCACHEFS = 0xca451a4e };
    struct statfs system;
    if (fstatfs(fd, &system))
        return false;
    unsigned type = (unsigned)system.f_type;
    return type == OVERLAY || type == BTRFS || type == BCACHEFS;
}

/* While a file is mapped its inode number cannot go to another file of its device: equal numbers on an equal
 * device are proof. Where the device is unknown the number alone is trusted; a wrong file would need the
 * right number under the right path. Without a number (the kernel gave a build-id in its place) any file will
 * do, since the caller compares build-ids. */
static bool is_mapped_file(int fd, const struct proc_mapping *mapping)
{
    struct stat status;
    if (!mapping->inode)
        return true;
    if (fstat(fd, &status) || status.st_ino != mapping->inode)
        return false;
    return status.st_dev == makedev(mapping->device_major, mapping->device_minor) || hides_device(fd);
}

static int open_regular(const char *path)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || (!fstat(fd, &status) && S_ISREG(status.st_mode)))
        return fd;
    close(fd);
    return -1;
}

/* Does the link in map_files lead to the mapping's path? */
static bool is_link_to_mapping(const char *link, const struct proc_mapping *mapping)
{
    char target[PATH_MAX];
    ssize_t length = readlink(link, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    cut_deleted(target);
    return !strcmp(target, mapping->path);
}

/* The range may hold another file by now (dlclose, dlopen): the inode number shows that, or the path where
 * the kernel gave no number. Overlay may number its files in its own way; there the range is trusted. */
static int open_range(pid_t pid, const struct proc_mapping *mapping)
{
    char path[96];
    snprintf(path, sizeof path, "/proc/%d/map_files/%lx-%lx", (int)pid, mapping->start, mapping->end);
    if (!mapping->inode && !is_link_to_mapping(path, mapping))
        return -1;
    int fd = open_regular(path);
    if (fd < 0 || is_mapped_file(fd, mapping) || hides_device(fd))
        return fd;
    close(fd);
    return -1;
}

static int open_path(const char *root, const char *name, const char *suffix,
                     const struct proc_mapping *mapping)
{
    char path[PATH_MAX + 64];
    int length = snprintf(path, sizeof path, "%s%s%s", root, name, suffix);
    int fd = length > 0 && (size_t)length < sizeof path ? open_regular(path) : -1;
    if (fd < 0 || is_mapped_file(fd, mapping))
        return fd;
    close(fd);
    return -1;
}

int proc_maps_open(pid_t pid, const struct proc_mapping *mapping, struct base_error *error)
{
    char root[64];
    snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
    int fd = open_range(pid, mapping);
    if (fd < 0 && mapping->path[0] == '/') {
        const char *suffix =
            mapping->deleted ? " (deleted)" : ""; /* the file's name may really end in that */
        fd = open_path(root, mapping->path, "", mapping);
        if (fd < 0)
            fd = open_path("", mapping->path, "", mapping);
        if (fd < 0 && mapping->inode)
            fd = open_path(root, mapping->path, suffix, mapping);
    }
    if (fd >= 0)
        return fd;
    return base_fail(error, BASE_ENOTFOUND, "cannot open %s as process %d has it mapped", mapping->path,
                     (int)pid);
}
