/* Compiled rows on disk.
 *
 * One file an image, BUILDID.rows, which is the flat form as it is in memory; used by mapping it. What makes
 * that safe:
 *   1. the folder is ours and nobody else may write to it, or it is not used at all; the same goes for a
 * file;
 *   2. a file appears by rename, complete, and is never changed afterwards, so a mapping cannot shrink under
 *      a reader;
 *   3. a file is believed only when its machine, size and hash of the text are the image's (build-ids are
 *      chosen by whoever built the image) and unwind_rows_open has proved its indices.
 * A file that fails 3 is replaced. Nothing here is worth failing for: when the cache cannot be read or
 * written the rows are compiled and used from memory. The limit is kept by removing the files used longest
 * ago; a use touches its file. */
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
#include "base_text.h"
#include "cfi.h"

#define SUFFIX      ".rows"
#define NAME_SIZE   (2 * ELF_BUILD_ID_MAX + sizeof SUFFIX + 16)
#define STALE_AFTER 3600 /* seconds: an unfinished file of that age was left by a tally that died */

struct cfi_cache {
    int folder; /* -1: none */
    uint64_t limit, total;
    unsigned written; /* names temporary files apart */
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

/* The cache's files; unfinished ones left behind are removed on the way. */
static void list_files(const struct cfi_cache *cache, struct file_list *list)
{
    int copy = openat(cache->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy >= 0 ? fdopendir(copy) : NULL;
    if (folder == NULL && copy >= 0)
        close(copy);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
        struct stat status;
        bool unfinished = strstr(entry->d_name, SUFFIX ".new-") != NULL;
        if ((!unfinished && !ends_in(entry->d_name, SUFFIX)) || strlen(entry->d_name) >= NAME_SIZE ||
            fstatat(cache->folder, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (unfinished && now.tv_sec - status.st_mtim.tv_sec > STALE_AFTER)
            unlinkat(cache->folder, entry->d_name, 0);
        if (unfinished || !base_array_room(list->items, list->count, list->capacity))
            continue;
        struct file *file = &list->items[list->count++];
        memcpy(file->name, entry->d_name, strlen(entry->d_name) + 1);
        file->size = (uint64_t)status.st_size;
        file->used = status.st_mtim;
    }
    if (folder != NULL)
        closedir(folder);
}

static int by_use(const void *a, const void *b)
{
    const struct timespec *left = &((const struct file *)a)->used, *right = &((const struct file *)b)->used;
    if (left->tv_sec != right->tv_sec)
        return left->tv_sec < right->tv_sec ? -1 : 1;
    return (left->tv_nsec > right->tv_nsec) - (left->tv_nsec < right->tv_nsec);
}

/* Counts what is there and brings it under the limit, the oldest first. */
static void trim(struct cfi_cache *cache)
{
    struct file_list list = {0};
    list_files(cache, &list);
    cache->total = 0;
    for (size_t i = 0; i < list.count; i++)
        cache->total += list.items[i].size;
    if (cache->total > cache->limit)
        qsort(list.items, list.count, sizeof *list.items, by_use);
    for (size_t i = 0; i < list.count && cache->total > cache->limit; i++)
        if (unlinkat(cache->folder, list.items[i].name, 0) == 0)
            cache->total -= list.items[i].size;
    free(list.items);
}

/* mkdir -p, private. */
static void make_folders(const char *directory)
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

/* The folder's descriptor, or -1 and the reason. */
static int open_folder(const char *directory, struct base_error *error)
{
    make_folders(directory);
    int folder = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat status;
    if (folder < 0 || fstat(folder, &status) != 0) {
        base_fail_errno(error, errno, "%s: no cache of unwind rows", directory);
    } else if (!is_private(&status)) {
        base_fail(error, BASE_EPERMISSION,
                  "%s: no cache of unwind rows: the folder belongs to another user or others may write to it",
                  directory);
        close(folder);
        folder = -1;
    }
    return folder;
}

int cfi_cache_open(const char *directory, uint64_t limit, struct cfi_cache **cache, struct base_error *error)
{
    *cache = malloc(sizeof **cache);
    if (*cache == NULL)
        return base_fail(error, BASE_ENOMEM, "no memory for the cache of unwind rows");
    **cache = (struct cfi_cache){.folder = -1, .limit = limit};
    if (directory != NULL)
        (*cache)->folder = open_folder(directory, error);
    if ((*cache)->folder >= 0)
        trim(*cache);
    return BASE_OK;
}

void cfi_cache_close(struct cfi_cache *cache)
{
    if (cache == NULL)
        return;
    if (cache->folder >= 0)
        close(cache->folder);
    free(cache);
}

/* An absolute path whose folder, where it is there at all, is the user's own. */
static bool is_own(const char *path)
{
    struct stat status;
    return path != NULL && path[0] == '/' && (stat(path, &status) != 0 || status.st_uid == geteuid());
}

char *cfi_cache_default_directory(void)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    struct base_text text = {0};
    if (is_own(cache)) {
        base_text_addf(&text, "%s/tally", cache);
        return base_text_detach(&text);
    }
    const struct passwd *entry = is_own(home) ? NULL : getpwuid(geteuid());
    if (!is_own(home))
        home = entry != NULL && is_own(entry->pw_dir) ? entry->pw_dir : NULL;
    if (home == NULL)
        return NULL;
    base_text_addf(&text, "%s/.cache/tally", strcmp(home, "/") == 0 ? "" : home);
    return base_text_detach(&text);
}

static bool file_name(const struct elf_image *image, char name[NAME_SIZE])
{
    const struct elf_build_id *id = elf_image_build_id(image);
    char text[2 * ELF_BUILD_ID_MAX + 1];
    if (id == NULL || id->size == 0)
        return false;
    elf_build_id_format(id, text);
    snprintf(name, NAME_SIZE, "%s" SUFFIX, text);
    return true;
}

/* 3. */
static bool is_of_image(const struct cfi_table *table, const struct elf_image *image)
{
    uint64_t size, hash;
    elf_image_text_check(image, &size, &hash);
    const struct wire_rows_header *header = table->rows.header;
    return header->machine == elf_image_machine(image) && header->text_size == size &&
           header->text_hash == hash;
}

static bool map_file(int file, const struct elf_image *image, struct cfi_table *table)
{
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !is_private(&status) ||
        status.st_size < (off_t)sizeof(struct wire_rows_header) || status.st_size > UINT32_MAX)
        return false;
    void *bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (bytes == MAP_FAILED)
        return false;
    *table = (struct cfi_table){.blob = bytes, .size = (size_t)status.st_size, .mapped = true};
    if (unwind_rows_open(&table->rows, table->blob, table->size) && is_of_image(table, image))
        return true;
    cfi_table_close(table);
    return false;
}

static bool read_cached(const struct cfi_cache *cache, const struct elf_image *image, const char *name,
                        struct cfi_table *table)
{
    int file = openat(cache->folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (file < 0)
        return false;
    bool found = map_file(file, image, table);
    if (found)
        futimens(file, NULL); /* used now */
    close(file);
    return found;
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
static void write_cached(struct cfi_cache *cache, const char *name, const struct cfi_table *table)
{
    char fresh[NAME_SIZE + 32];
    if (table->size > cache->limit)
        return;
    snprintf(fresh, sizeof fresh, "%s.new-%ld-%u", name, (long)getpid(), cache->written++);
    int file = openat(cache->folder, fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    bool fine = write_whole(file, table->blob, table->size);
    fine = close(file) == 0 && fine;
    if (!fine || renameat(cache->folder, fresh, cache->folder, name) != 0) {
        unlinkat(cache->folder, fresh, 0);
        return;
    }
    cache->total += table->size;
    if (cache->total > cache->limit)
        trim(cache);
}

int cfi_table_open(struct cfi_cache *cache, const struct elf_image *image, struct cfi_table *table,
                   struct base_error *error)
{
    char name[NAME_SIZE];
    bool cached = cache != NULL && cache->folder >= 0 && file_name(image, name);
    *table = (struct cfi_table){0};
    if (cached && read_cached(cache, image, name, table))
        return BASE_OK;
    int code = cfi_compile(image, NULL, &table->blob, &table->size, NULL, error);
    if (code != BASE_OK)
        return code;
    if (!unwind_rows_open(&table->rows, table->blob, table->size)) {
        cfi_table_close(table);
        return base_fail(error, BASE_EFORMAT, "%s: its unwind rows make no sense", elf_image_name(image));
    }
    if (cached)
        write_cached(cache, name, table);
    return BASE_OK;
}

void cfi_table_close(struct cfi_table *table)
{
    if (table->mapped)
        munmap(table->blob, table->size);
    else
        free(table->blob);
    *table = (struct cfi_table){0};
}
