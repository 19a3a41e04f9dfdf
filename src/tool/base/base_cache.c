/* Files made once and mapped ever after.
 *
 * What makes mapping them safe:
 *   1. the directory is ours and nobody else may write to it, or it is not used at all; the same goes for a
 * file;
 *   2. a file appears by rename, complete, and is never changed afterwards, so a mapping cannot shrink under
 *      a reader;
 *   3. whoever maps a file proves its contents before believing them, and writes a better one if they do not
 *      hold.
 * The limit is kept by removing the files used longest ago; a use touches its file. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base_array.h"
#include "base_cache.h"
#include "base_text.h"

#define NAME_SIZE   128
#define STALE_AFTER 3600 /* seconds: an unfinished file of that age was left by a tally that died */

struct base_cache {
    int directory; /* -1: none */
    uint64_t limit, total;
    unsigned written;   /* names temporary files apart */
    const char *suffix; /* ".rows" */
};

/* 1. Ours alone to write. */
static bool is_private(const struct stat *status)
{
    return status->st_uid == geteuid() && (status->st_mode & 022) == 0;
}

struct file {
    char name[NAME_SIZE];
    uint64_t size;
    struct timespec used;
};

struct file_list {
    struct file *items;
    size_t count, capacity;
};

static bool ends_in(const char *name, const char *suffix)
{
    size_t length = strlen(name), suffix_length = strlen(suffix);
    return length > suffix_length && strcmp(name + length - suffix_length, suffix) == 0;
}

static bool is_unfinished(const struct base_cache *cache, const char *name)
{
    const char *found = strstr(name, cache->suffix);
    return found != NULL && strncmp(found + strlen(cache->suffix), ".new-", 5) == 0;
}

/* The cache's files; unfinished ones left behind are removed on the way. */
static void list_files(const struct base_cache *cache, struct file_list *list)
{
    int copy = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *listing = copy >= 0 ? fdopendir(copy) : NULL;
    if (listing == NULL && copy >= 0)
        close(copy);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (struct dirent *entry; listing != NULL && (entry = readdir(listing)) != NULL;) {
        struct stat status;
        bool unfinished = is_unfinished(cache, entry->d_name);
        if ((!unfinished && !ends_in(entry->d_name, cache->suffix)) || strlen(entry->d_name) >= NAME_SIZE ||
            fstatat(cache->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (unfinished && now.tv_sec - status.st_mtim.tv_sec > STALE_AFTER)
            unlinkat(cache->directory, entry->d_name, 0);
        if (unfinished || !base_array_room(list->items, list->count, list->capacity))
            continue;
        struct file *file = &list->items[list->count++];
        memcpy(file->name, entry->d_name, strlen(entry->d_name) + 1);
        file->size = (uint64_t)status.st_size;
        file->used = status.st_mtim;
    }
    if (listing != NULL)
        closedir(listing);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *left = &((const struct file *)a)->used, *right = &((const struct file *)b)->used;
    if (left->tv_sec != right->tv_sec)
        return left->tv_sec < right->tv_sec ? -1 : 1;
    return (left->tv_nsec > right->tv_nsec) - (left->tv_nsec < right->tv_nsec);
}

/* Counts what is there and brings it under the limit, the oldest first. */
static void trim_cache(struct base_cache *cache)
{
    struct file_list list = {0};
    list_files(cache, &list);
    cache->total = 0;
    for (size_t i = 0; i < list.count; i++)
        cache->total += list.items[i].size;
    if (cache->total > cache->limit)
        qsort(list.items, list.count, sizeof *list.items, by_use);
    for (size_t i = 0; i < list.count && cache->total > cache->limit; i++)
        if (unlinkat(cache->directory, list.items[i].name, 0) == 0)
            cache->total -= list.items[i].size;
    free(list.items);
}

/* mkdir -p, private. */
static void make_directories(const char *directory)
{
    char *path = strdup(directory);
    if (path == NULL)
        return;
    for (char *at = path + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    mkdir(path, 0700);
    free(path);
}

/* The directory's descriptor, or -1 and the reason. */
static int open_directory(const char *directory, const char *what, struct base_error *error)
{
    make_directories(directory);
    int opened = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (opened < 0 || fstat(opened, &status) != 0) {
        base_fail_errno(error, errno, "%s: no cache of %s", directory, what);
    } else if (!is_private(&status)) {
        base_fail(error, BASE_EPERMISSION,
                  "%s: no cache of %s: the directory belongs to another user or others may write to it",
                  directory, what);
        close(opened);
        opened = -1;
    }
    return opened;
}

int base_cache_open(const char *directory, const struct base_cache_kind *kind, struct base_cache **cache,
                    struct base_error *error)
{
    *cache = malloc(sizeof **cache);
    if (*cache == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory for the cache of %s", kind->what);
    **cache = (struct base_cache){.directory = -1, .limit = kind->limit, .suffix = kind->suffix};
    if (directory != NULL)
        (*cache)->directory = open_directory(directory, kind->what, error);
    if ((*cache)->directory >= 0)
        trim_cache(*cache);
    return BASE_OK;
}

void base_cache_close(struct base_cache *cache)
{
    if (cache == NULL)
        return;
    if (cache->directory >= 0)
        close(cache->directory);
    free(cache);
}

/* An absolute path whose directory, where it is there at all, is the user's own. */
static bool is_own_directory(const char *path)
{
    struct stat status;
    return path != NULL && path[0] == '/' && (stat(path, &status) != 0 || status.st_uid == geteuid());
}

char *base_cache_default_directory(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct base_text text = {0};
    if (is_own_directory(cache)) {
        base_text_addf(&text, "%s/tally", cache);
        return base_text_detach(&text);
    }
    const struct passwd *entry = is_own_directory(home) ? NULL : getpwuid(geteuid());
    if (!is_own_directory(home))
        home = entry != NULL && is_own_directory(entry->pw_dir) ? entry->pw_dir : NULL;
    if (home == NULL)
        return NULL;
    base_text_addf(&text, "%s/.cache/tally", strcmp(home, "/") == 0 ? "" : home);
    return base_text_detach(&text);
}

bool base_cache_usable(const struct base_cache *cache)
{
    return cache != NULL && cache->directory >= 0;
}

static bool full_name(const struct base_cache *cache, const char *name, char full[NAME_SIZE])
{
    return strchr(name, '/') == NULL && snprintf(full, NAME_SIZE, "%s%s", name, cache->suffix) < NAME_SIZE;
}

static void *map_file(int file, size_t *size)
{
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !is_private(&status) ||
        status.st_size <= 0 || status.st_size > UINT32_MAX)
        return NULL;
    *size = (size_t)status.st_size;
    void *bytes = mmap(NULL, *size, PROT_READ, MAP_PRIVATE, file, 0);
    return bytes == MAP_FAILED ? NULL : bytes;
}

void *base_cache_map(const struct base_cache *cache, const char *name, size_t *size)
{
    char full[NAME_SIZE];
    if (!base_cache_usable(cache) || !full_name(cache, name, full))
        return NULL;
    int file = openat(cache->directory, full, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return NULL;
    void *bytes = map_file(file, size);
    if (bytes != NULL)
        futimens(file, NULL); /* used now */
    close(file);
    return bytes;
}

static bool write_whole(int file, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        ssize_t count = write(file, bytes, size);
        if (count < 0 && errno == EINTR)
            continue;
        if (count <= 0)
            return false;
        bytes += count;
        size -= (size_t)count;
    }
    return true;
}

/* 2. */
void base_cache_write(struct base_cache *cache, const char *name, const void *bytes, size_t size)
{
    char full[NAME_SIZE], fresh[NAME_SIZE + 32];
    if (!base_cache_usable(cache) || size > cache->limit || !full_name(cache, name, full))
        return;
    snprintf(fresh, sizeof fresh, "%s.new-%ld-%u", full, (long)getpid(), cache->written++);
    int file = openat(cache->directory, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    bool fine = write_whole(file, bytes, size);
    fine = close(file) == 0 && fine;
    if (!fine || renameat(cache->directory, fresh, cache->directory, full) != 0) {
        unlinkat(cache->directory, fresh, 0);
        return;
    }
    cache->total += size;
    if (cache->total > cache->limit)
        trim_cache(cache);
}
