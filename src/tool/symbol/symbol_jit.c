/* Names of generated code, as its generators leave them for profilers: a text map (perf-PID.map), which tells
 * what is where now, or a jitdump file, which tells since when. Both only grow, so each reading goes on where
 * the last one ended; a line or record that is not complete yet waits for the next. Every entry covers
 * [start, end) from its time on, until a later entry overlaps it. Source: Linux tools/perf/Documentation,
 * jit-interface.txt and jitdump-specification.txt. */
#include "symbol.h"

#include <byteswap.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "base_text.h"

struct entry {
    uint64_t start, end, time;
    uint64_t code_index; /* jitdump's number of the function, for moves */
    char *name;
    uint32_t order; /* of arrival: decides among equals */
};

struct symbol_jit {
    struct entry *entries; /* sorted by start, then time, then order, unless `unsorted` */
    size_t count, capacity;
    uint64_t longest; /* of all entries, bytes: how far before an address its entry may begin */
    bool unsorted;
    off_t map_read, dump_read; /* bytes worked on */
    ino_t map_inode;
    bool dump_swapped;
};

enum { NAME_LIMIT = 4096, DUMP_MAGIC = 0x4A695444, RECORD_LIMIT = 64 << 20 };
enum { JIT_CODE_LOAD = 0, JIT_CODE_MOVE = 1 };

struct symbol_jit *symbol_jit_new(void)
{
    return calloc(1, sizeof(struct symbol_jit));
}

void symbol_jit_free(struct symbol_jit *jit)
{
    if (!jit)
        return;
    for (size_t i = 0; i < jit->count; i++)
        free(jit->entries[i].name);
    free(jit->entries);
    free(jit);
}

/* --- entries --- */

static bool add(struct symbol_jit *jit, uint64_t start, uint64_t size, uint64_t time, uint64_t index,
                const char *name, size_t length)
{
    if (!size || start + size < start)
        return true; /* nonsense is skipped, it is no failure */
    char *copy = strndup(name, length < NAME_LIMIT ? length : NAME_LIMIT);
    if (!copy || !base_array_room(jit->entries, jit->count, jit->capacity)) {
        free(copy);
        return false;
    }
    jit->entries[jit->count] = (struct entry){start, start + size, time, index, copy, (uint32_t)jit->count};
    jit->count++;
    jit->longest = size > jit->longest ? size : jit->longest;
    jit->unsorted = true;
    return true;
}

static int by_start(const void *left, const void *right)
{
    const struct entry *a = left, *b = right;
    if (a->start != b->start)
        return a->start < b->start ? -1 : 1;
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static void sort(struct symbol_jit *jit)
{
    if (jit->unsorted)
        qsort(jit->entries, jit->count, sizeof *jit->entries, by_start);
    jit->unsorted = false;
}

static bool is_later(const struct entry *a, const struct entry *b)
{
    return a->time != b->time ? a->time > b->time : a->order > b->order;
}

bool symbol_jit_find(const struct symbol_jit *jit, uint64_t address, uint64_t time, const char **name,
                     uint64_t *start, uint64_t *end)
{
    const struct entry *best = NULL;
    size_t low = 0, high = jit->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (jit->entries[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    while (low-- > 0 && address - jit->entries[low].start < jit->longest) {
        const struct entry *entry = &jit->entries[low];
        if (address < entry->end && entry->time <= time && (!best || is_later(entry, best)))
            best = entry;
    }
    if (!best)
        return false;
    *name = best->name;
    *start = best->start;
    *end = best->end;
    return true;
}

/* --- the text map --- */

/* The pid as the target's own namespace has it: the name of its map file. */
static pid_t own_pid(pid_t pid)
{
    char path[64], line[256];
    pid_t own = pid;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "NSpid:", 6))
            continue;
        const char *innermost = strrchr(line, '\t');
        own = innermost ? (pid_t)strtol(innermost + 1, NULL, 10) : pid;
    }
    if (file)
        fclose(file);
    return own;
}

/* A file in /tmp that anyone may have put there: only a regular one of the target's user, or root's, is
 * believed. */
static int open_map(const char *path, pid_t pid)
{
    char process[64];
    struct stat file, owner;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    snprintf(process, sizeof process, "/proc/%d", (int)pid);
    uid_t user = stat(process, &owner) ? geteuid() : owner.st_uid;
    if (!fstat(fd, &file) && S_ISREG(file.st_mode) && (file.st_uid == user || file.st_uid == 0))
        return fd;
    close(fd);
    return -1;
}

/* "START SIZE NAME", both hexadecimal. */
static bool add_line(struct symbol_jit *jit, const char *line, size_t length)
{
    char *end;
    uint64_t start = strtoull(line, &end, 16);
    if (end == line || *end != ' ')
        return true;
    const char *at = end + 1;
    uint64_t size = strtoull(at, &end, 16);
    if (end == at || *end != ' ')
        return true;
    at = end + 1;
    return at >= line + length || add(jit, start, size, 0, 0, at, (size_t)(line + length - at));
}

static int add_lines(struct symbol_jit *jit, const struct base_text *text, struct base_error *error)
{
    const char *at = base_text_string(text), *end = at + text->length;
    for (const char *stop; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        if (!add_line(jit, at, (size_t)(stop - at)))
            return base_fail(error, BASE_ENOMEM, "out of memory");
        jit->map_read += stop + 1 - at;
    }
    sort(jit);
    return BASE_OK;
}

static void read_from(int fd, off_t from, struct base_text *text)
{
    char bytes[65536];
    ssize_t got;
    while ((got = pread(fd, bytes, sizeof bytes, from)) > 0) {
        base_text_add_bytes(text, bytes, (size_t)got);
        from += got;
    }
}

int symbol_jit_read_map(struct symbol_jit *jit, pid_t pid, struct base_error *error)
{
    char path[128];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/root/tmp/perf-%d.map", (int)pid, (int)own_pid(pid));
    int fd = open_map(path, pid);
    if (fd < 0) {
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
        fd = open_map(path, pid);
    }
    if (fd < 0)
        return base_fail(error, BASE_ENOTFOUND, "no perf map of process %d", (int)pid);
    if (!fstat(fd, &status) && (status.st_ino != jit->map_inode || status.st_size < jit->map_read)) {
        jit->map_inode = status.st_ino; /* another file: begin anew */
        jit->map_read = 0;
    }
    struct base_text text = {0};
    read_from(fd, jit->map_read, &text);
    close(fd);
    int result = text.failed ? base_fail(error, BASE_ENOMEM, "out of memory") : add_lines(jit, &text, error);
    base_text_free(&text);
    return result;
}

/* --- jitdump --- */

static uint32_t u32_at(const struct symbol_jit *jit, const char *bytes)
{
    uint32_t value;
    memcpy(&value, bytes, sizeof value);
    return jit->dump_swapped ? bswap_32(value) : value;
}

static uint64_t u64_at(const struct symbol_jit *jit, const char *bytes)
{
    uint64_t value;
    memcpy(&value, bytes, sizeof value);
    return jit->dump_swapped ? bswap_64(value) : value;
}

/* JIT_CODE_LOAD: prefix 16, pid, tid, vma, address, size, index, then the name and the code. */
static bool add_load(struct symbol_jit *jit, const char *record, size_t size)
{
    enum { ADDRESS = 32, SIZE = 40, INDEX = 48, NAME = 56 };
    if (size <= NAME)
        return true;
    size_t length = strnlen(record + NAME, size - NAME);
    return add(jit, u64_at(jit, record + ADDRESS), u64_at(jit, record + SIZE), u64_at(jit, record + 8),
               u64_at(jit, record + INDEX), record + NAME, length);
}

/* JIT_CODE_MOVE: prefix 16, pid, tid, vma, old address, new address, size, index. */
static bool add_move(struct symbol_jit *jit, const char *record, size_t size)
{
    enum { NEW_ADDRESS = 40, SIZE = 48, INDEX = 56, END = 64 };
    if (size < END)
        return true;
    uint64_t index = u64_at(jit, record + INDEX);
    const struct entry *moved = NULL;
    for (size_t i = 0; i < jit->count; i++) {
        if (jit->entries[i].code_index == index && jit->entries[i].time &&
            (!moved || is_later(&jit->entries[i], moved)))
            moved = &jit->entries[i];
    }
    if (!moved)
        return true;
    char name[NAME_LIMIT + 1];
    snprintf(name, sizeof name, "%s", moved->name); /* `moved` may move with the array */
    return add(jit, u64_at(jit, record + NEW_ADDRESS), u64_at(jit, record + SIZE), u64_at(jit, record + 8),
               index, name, strlen(name));
}

static int read_dump_header(struct symbol_jit *jit, const struct base_text *text, struct base_error *error)
{
    enum { HEADER_SIZE = 40 };
    if (text->length < HEADER_SIZE)
        return BASE_OK; /* not written yet */
    uint32_t magic;
    memcpy(&magic, text->data, sizeof magic);
    if (magic != DUMP_MAGIC && magic != bswap_32(DUMP_MAGIC))
        return base_fail(error, BASE_EFORMAT, "no jitdump file");
    jit->dump_swapped = magic != DUMP_MAGIC;
    uint32_t size = u32_at(jit, text->data + 8);
    if (size < HEADER_SIZE || size > 1 << 20)
        return base_fail(error, BASE_EFORMAT, "jitdump file with a header of %u bytes", size);
    jit->dump_read = size;
    return BASE_OK;
}

static int add_records(struct symbol_jit *jit, const struct base_text *text, size_t at,
                       struct base_error *error)
{
    enum { PREFIX = 16 };
    while (text->length - at >= PREFIX) {
        const char *record = text->data + at;
        uint32_t id = u32_at(jit, record), size = u32_at(jit, record + 4);
        if (size < PREFIX || size > RECORD_LIMIT)
            return base_fail(error, BASE_EFORMAT, "jitdump record of %u bytes", size);
        if (size > text->length - at)
            break;
        bool added = id == JIT_CODE_LOAD ? add_load(jit, record, size)
                                         : id != JIT_CODE_MOVE || add_move(jit, record, size);
        if (!added)
            return base_fail(error, BASE_ENOMEM, "out of memory");
        at += size;
        jit->dump_read += size;
    }
    sort(jit);
    return BASE_OK;
}

int symbol_jit_read_dump(struct symbol_jit *jit, int fd, struct base_error *error)
{
    struct base_text text = {0};
    off_t from = jit->dump_read;
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= from)
        return BASE_OK;
    read_from(fd, from, &text);
    int result = text.failed ? base_fail(error, BASE_ENOMEM, "out of memory") : BASE_OK;
    if (result == BASE_OK && !from)
        result = read_dump_header(jit, &text, error);
    if (result == BASE_OK && jit->dump_read)
        result = (size_t)(jit->dump_read - from) <= text.length
                     ? add_records(jit, &text, (size_t)(jit->dump_read - from), error)
                     : BASE_OK;
    base_text_free(&text);
    return result;
}
