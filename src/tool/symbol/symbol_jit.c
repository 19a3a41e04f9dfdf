/* Names of generated code, as its generators leave them for profilers: a text map (perf-PID.map), which says
 * what is where now, or a jitdump file, which says since when.
 *
 * Both only grow, so each reading goes on where the last one ended; a line or record that is not complete yet
 * waits for the next. Neither is read whole: a jitdump file holds all the code that was ever generated, of
 * which the names are a small part. Every entry covers [start, end) from its time on, until a later entry
 * overlaps it; a function that was moved away leaves an entry without a name behind.
 *
 * What holds where is symbol_spans.h's.
 *
 * The files come from foreign processes. A map is believed only when it is a regular file (not a link) of the
 * user that the target runs as, or root's; lengths, sizes and the number of entries are bounded. Source:
 * Linux, tools/perf/Documentation, jit-interface.txt and jitdump-specification.txt. */
#include "symbol.h"

#include <byteswap.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base_array.h"
#include "base_map.h"
#include "proc_status.h"
#include "symbol_spans.h"

enum {
    NAME_LIMIT = 4096,       /* of a name, bytes; what is longer is cut */
    SIZE_LIMIT = 1 << 30,    /* of a function */
    ENTRY_LIMIT = 1 << 22,   /* in one table */
    RECORD_LIMIT = 64 << 20, /* of a jitdump record: one function's code and name */
    WINDOW = 65536,          /* what is read at once */
};
#define NAMELESS UINT32_MAX

struct symbol_jit {
    struct symbol_spans spans; /* value: index of the name, or NAMELESS: what was here has moved away */
    char **names;
    size_t name_count, name_capacity;
    struct base_map moving;    /* jitdump's number of a function -> its name */
    off_t map_read, dump_read; /* bytes worked on */
    ino_t map_inode;
    uid_t owner; /* of the target */
    pid_t inner; /* the target's pid in its own namespace */
    bool owner_known, dump_swapped, dump_untimed, skips_line;
    char window[WINDOW];
};

struct symbol_jit *symbol_jit_new(void)
{
    return calloc(1, sizeof(struct symbol_jit));
}

void symbol_jit_free(struct symbol_jit *jit)
{
    if (!jit)
        return;
    for (size_t i = 0; i < jit->name_count; i++)
        free(jit->names[i]);
    free(jit->names);
    symbol_spans_free(&jit->spans);
    base_map_free(&jit->moving);
    free(jit);
}

/* --- entries --- */

static uint32_t add_name(struct symbol_jit *jit, const char *name, size_t length)
{
    char *copy = strndup(name, length < NAME_LIMIT ? length : NAME_LIMIT);
    if (!copy || !base_array_room(jit->names, jit->name_count, jit->name_capacity)) {
        free(copy);
        return NAMELESS;
    }
    jit->names[jit->name_count] = copy;
    return (uint32_t)jit->name_count++;
}

/* Nonsense is left out, it is no failure. */
static bool makes_sense(const struct symbol_jit *jit, uint64_t start, uint64_t size)
{
    return size && size <= SIZE_LIMIT && start + size > start && jit->spans.count < ENTRY_LIMIT;
}

static void add_span(struct symbol_jit *jit, uint64_t start, uint64_t size, uint64_t time, uint32_t name)
{
    if (makes_sense(jit, start, size))
        symbol_spans_add(&jit->spans, start, start + size, time, name);
}

bool symbol_jit_find(const struct symbol_jit *jit, uint64_t address, uint64_t time, const char **name,
                     uint64_t *start, uint64_t *end)
{
    const struct symbol_span *found = symbol_spans_find(&jit->spans, address, time, NULL);
    if (!found || found->value == NAMELESS)
        return false;
    *name = jit->names[found->value];
    *start = found->start;
    *end = found->end;
    return true;
}

/* --- the text map --- */

/* While it lives, a process shows its user, and its pid as its own namespace has it: the name of its map. */
static void read_status(struct symbol_jit *jit, pid_t pid)
{
    struct proc_status status;
    if (proc_status_read(pid, 0, &status) == BASE_OK) {
        long inner;
        jit->owner = (uid_t)proc_status_number(status.text, "Uid", 1);
        jit->owner_known = true;
        if (proc_status_numbers(status.text, "NSpid", &inner))
            jit->inner = (pid_t)inner;
    }
}

static int open_map(const struct symbol_jit *jit, const char *path)
{
    struct stat file;
    uid_t owner = jit->owner_known ? jit->owner : geteuid();
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return -1;
    if (!fstat(fd, &file) && S_ISREG(file.st_mode) && (file.st_uid == owner || file.st_uid == 0))
        return fd;
    close(fd);
    return -1;
}

static bool parse_hexadecimal(const char **at, uint64_t *value)
{
    char *end;
    if (!strchr("0123456789abcdefABCDEF", **at) || !**at)
        return false;
    *value = strtoull(*at, &end, 16);
    *at = end + 1;
    return *end == ' ';
}

/* "START SIZE NAME", both hexadecimal; terminated. */
static void add_line(struct symbol_jit *jit, const char *line)
{
    uint64_t start, size;
    if (!parse_hexadecimal(&line, &start) || !parse_hexadecimal(&line, &size) || !*line ||
        !makes_sense(jit, start, size))
        return;
    uint32_t name = add_name(jit, line, strlen(line));
    if (name != NAMELESS)
        add_span(jit, start, size, 0, name);
}

/* Works on the complete lines among the `length` bytes of the window; returns how many bytes those are. */
static size_t add_lines(struct symbol_jit *jit, size_t length)
{
    char *at = jit->window, *end = jit->window + length;
    for (char *stop; at < end && (stop = memchr(at, '\n', (size_t)(end - at))); at = stop + 1) {
        *stop = '\0';
        if (!jit->skips_line)
            add_line(jit, at);
        jit->skips_line = false;
    }
    return (size_t)(at - jit->window);
}

static void read_lines(struct symbol_jit *jit, int fd)
{
    ssize_t got;
    while ((got = pread(fd, jit->window, WINDOW, jit->map_read)) > 0) {
        size_t done = add_lines(jit, (size_t)got);
        if (!done && got < WINDOW)
            return; /* the rest of this line is still to come */
        if (!done) {
            jit->skips_line = true; /* longer than any line may be */
            done = (size_t)got;
        }
        jit->map_read += (off_t)done;
    }
}

int symbol_jit_read_map(struct symbol_jit *jit, pid_t pid, struct base_error *error)
{
    char path[128];
    struct stat status;
    jit->inner = jit->inner ? jit->inner : pid;
    read_status(jit, pid);
    snprintf(path, sizeof path, "/proc/%d/root/tmp/perf-%d.map", (int)pid, (int)jit->inner);
    int fd = open_map(jit, path);
    if (fd < 0) {
        snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)pid);
        fd = open_map(jit, path);
    }
    if (fd < 0)
        return base_fail(error, BASE_ENOTFOUND, "no perf map of process %d", (int)pid);
    if (!fstat(fd, &status) && (status.st_ino != jit->map_inode || status.st_size < jit->map_read)) {
        jit->map_inode = status.st_ino; /* another file: begin anew */
        jit->map_read = 0;
        jit->skips_line = false;
    }
    read_lines(jit, fd);
    close(fd);
    symbol_spans_settle(&jit->spans);
    return BASE_OK;
}

/* --- jitdump --- */

enum { DUMP_MAGIC = 0x4A695444, HEADER_SIZE = 40, HEADER_LIMIT = 1 << 20, ARCHITECTURE_TIME = 1 };
enum { JIT_CODE_LOAD = 0, JIT_CODE_MOVE = 1 }; /* debug information, unwind information, end: passed over */
/* Records: id, total size, time; then pid, tid, virtual address and what is distinguished here. */
enum { PREFIX = 16, LOAD_ADDRESS = 32, LOAD_SIZE = 40, LOAD_INDEX = 48, LOAD_NAME = 56 };
enum { MOVE_FROM = 32, MOVE_TO = 40, MOVE_SIZE = 48, MOVE_INDEX = 56, MOVE_END = 64 };

struct dump {
    struct symbol_jit *jit;
    int fd;
    off_t size;   /* of the file now */
    off_t at;     /* where the window's bytes are from */
    size_t count; /* of the window's bytes */
};

/* `length` bytes (fewer than the window holds) from `offset`, which are known to be in the file; NULL when it
 * became shorter meanwhile. */
static const char *look_at_record(struct dump *dump, off_t offset, size_t length)
{
    char *window = dump->jit->window;
    if (offset < dump->at || offset + (off_t)length > dump->at + (off_t)dump->count) {
        ssize_t got = pread(dump->fd, window, WINDOW, offset);
        dump->at = offset;
        dump->count = got > 0 ? (size_t)got : 0;
    }
    return dump->count >= length + (size_t)(offset - dump->at) ? window + (offset - dump->at) : NULL;
}

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

static uint64_t time_of(const struct symbol_jit *jit, const char *record)
{
    return jit->dump_untimed ? 0 : u64_at(jit, record + 8);
}

static void add_load(struct symbol_jit *jit, const char *record, size_t known)
{
    uint64_t start = u64_at(jit, record + LOAD_ADDRESS), size = u64_at(jit, record + LOAD_SIZE);
    if (!makes_sense(jit, start, size))
        return;
    uint32_t name = add_name(jit, record + LOAD_NAME, strnlen(record + LOAD_NAME, known - LOAD_NAME));
    if (name == NAMELESS)
        return;
    add_span(jit, start, size, time_of(jit, record), name);
    base_map_set(&jit->moving, u64_at(jit, record + LOAD_INDEX), name);
}

static void add_move(struct symbol_jit *jit, const char *record)
{
    uint32_t name = base_map_find(&jit->moving, u64_at(jit, record + MOVE_INDEX));
    uint64_t size = u64_at(jit, record + MOVE_SIZE), time = time_of(jit, record);
    if (name == BASE_MAP_NONE)
        return;
    add_span(jit, u64_at(jit, record + MOVE_FROM), size, time, NAMELESS);
    add_span(jit, u64_at(jit, record + MOVE_TO), size, time, name);
}

static int read_header(struct dump *dump, struct base_error *error)
{
    struct symbol_jit *jit = dump->jit;
    const char *header = dump->size >= HEADER_SIZE ? look_at_record(dump, 0, HEADER_SIZE) : NULL;
    uint32_t magic;
    if (!header)
        return BASE_OK; /* not written yet */
    memcpy(&magic, header, sizeof magic);
    if (magic != DUMP_MAGIC && magic != bswap_32(DUMP_MAGIC))
        return base_fail(error, BASE_EFORMAT, "not a jitdump file");
    jit->dump_swapped = magic != DUMP_MAGIC;
    uint32_t size = u32_at(jit, header + 8);
    if (size < HEADER_SIZE || size > HEADER_LIMIT)
        return base_fail(error, BASE_EFORMAT, "jitdump file with a header of %u bytes", size);
    jit->dump_untimed = u64_at(jit, header + 32) & ARCHITECTURE_TIME; /* another clock than ours */
    jit->dump_read = size;
    return BASE_OK;
}

/* The record at dump_read: its size, 0 when it is not complete yet, negative when it is none. */
static int read_record(struct dump *dump, struct base_error *error)
{
    struct symbol_jit *jit = dump->jit;
    off_t at = jit->dump_read;
    const char *record = dump->size - at >= PREFIX ? look_at_record(dump, at, PREFIX) : NULL;
    if (!record)
        return 0;
    uint32_t id = u32_at(jit, record), size = u32_at(jit, record + 4);
    if (size < PREFIX || size > RECORD_LIMIT)
        return base_fail(error, BASE_EFORMAT, "jitdump record of %u bytes", size);
    if (size > dump->size - at)
        return 0;
    size_t wanted = size < LOAD_NAME + NAME_LIMIT ? size : LOAD_NAME + NAME_LIMIT;
    if (id == JIT_CODE_LOAD && size > LOAD_NAME && (record = look_at_record(dump, at, wanted)))
        add_load(jit, record, wanted);
    else if (id == JIT_CODE_MOVE && size >= MOVE_END && (record = look_at_record(dump, at, MOVE_END)))
        add_move(jit, record);
    return (int)size;
}

int symbol_jit_read_dump(struct symbol_jit *jit, int fd, struct base_error *error)
{
    struct stat status;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= jit->dump_read)
        return BASE_OK;
    struct dump dump = {.jit = jit, .fd = fd, .size = status.st_size};
    int result = jit->dump_read ? BASE_OK : read_header(&dump, error);
    if (result < 0 || !jit->dump_read)
        return result;
    while ((result = read_record(&dump, error)) > 0)
        jit->dump_read += result;
    symbol_spans_settle(&jit->spans);
    return result;
}
