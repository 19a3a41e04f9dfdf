#include "probe_named.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base_array.h"

enum { LINE_MOST = 4096, FUNCTIONS_MOST = 1000 };

static const struct {
    const char *name;
    enum wire_agent_entry entry;
} roles[] = {
    {"malloc", WIRE_AGENT_ENTRY_MALLOC},
    {"calloc", WIRE_AGENT_ENTRY_CALLOC},
    {"realloc", WIRE_AGENT_ENTRY_REALLOC},
    {"reallocarray", WIRE_AGENT_ENTRY_REALLOCARRAY},
    {"free", WIRE_AGENT_ENTRY_FREE},
    {"aligned_alloc", WIRE_AGENT_ENTRY_ALIGNED},
    {"memalign", WIRE_AGENT_ENTRY_ALIGNED},
    {"posix_memalign", WIRE_AGENT_ENTRY_POSIX_MEMALIGN},
    {"valloc", WIRE_AGENT_ENTRY_VALLOC},
    {"pool-malloc", WIRE_AGENT_ENTRY_ALIGNED},
    {"pool-calloc", WIRE_AGENT_ENTRY_POOL_CALLOC},
    {"pool-realloc", WIRE_AGENT_ENTRY_POOL_REALLOC},
    {"pool-free", WIRE_AGENT_ENTRY_POOL_FREE},
};

struct reading {
    struct probe_named *named;
    const char *path;
    unsigned line;
    struct base_error *error;
};

static int fail_line(const struct reading *reading, const char *what)
{
    return base_fail(reading->error, BASE_EUSAGE, "%s:%u: %s", reading->path, reading->line, what);
}

/* Without the blanks around it. */
static char *trim_text(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

static int find_role(const struct reading *reading, const char *name, enum wire_agent_entry *entry)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(name, roles[i].name) == 0) {
            *entry = roles[i].entry;
            return BASE_OK;
        }
    return base_fail(reading->error, BASE_EUSAGE,
                     "%s:%u: '%.40s' is no role: malloc, calloc, realloc, reallocarray, free, aligned_alloc, "
                     "memalign, posix_memalign, valloc, pool-malloc, pool-calloc, pool-realloc or pool-free",
                     reading->path, reading->line, name);
}

/* The strings of one line are one allocation, which begins with the name. */
static int add_name(struct reading *reading, const char *name, const char *image, enum wire_agent_entry entry)
{
    struct probe_named *named = reading->named;
    size_t length = strlen(name) + 1, more = image ? strlen(image) + 1 : 0;
    if (named->count == FUNCTIONS_MOST)
        return base_fail(reading->error, BASE_EUSAGE, "%s:%u: more than %d functions", reading->path,
                         reading->line, FUNCTIONS_MOST);
    char *copy = base_array_room(named->items, named->count, named->capacity) ? malloc(length + more) : NULL;
    if (!copy)
        return base_fail(reading->error, BASE_ENOMEM, "out of memory");
    memcpy(copy, name, length);
    if (image)
        memcpy(copy + length, image, more);
    named->items[named->count++] =
        (struct probe_named_function){{.name = copy, .image = image ? copy + length : NULL, .written = true},
                                      entry,
                                      reading->line,
                                      reading->path};
    return BASE_OK;
}

static int read_line(struct reading *reading, char *line)
{
    enum wire_agent_entry entry = WIRE_AGENT_ENTRY_MALLOC;
    char *name = trim_text(line), *role = strrchr(name, '=');
    if (!*name || *name == '#')
        return BASE_OK;
    if (!role)
        return fail_line(reading, "no '=': a line is NAME[@IMAGE] = ROLE");
    *role++ = '\0';
    char *image = strrchr(name, '@');
    if (image)
        *image++ = '\0';
    name = trim_text(name);
    image = image ? trim_text(image) : NULL;
    if (!*name)
        return fail_line(reading, "no name before the '='");
    if (image && !*image)
        return fail_line(reading, "no image after the '@'");
    int result = find_role(reading, trim_text(role), &entry);
    return result < 0 ? result : add_name(reading, name, image, entry);
}

static int read_all(struct reading *reading, FILE *file)
{
    char line[LINE_MOST];
    int result = BASE_OK;
    while (result == BASE_OK && fgets(line, sizeof line, file)) {
        reading->line++;
        size_t length = strlen(line);
        if (length == sizeof line - 1 && line[length - 1] != '\n')
            result = fail_line(reading, "a line of more than 4,000 characters");
        else
            result = read_line(reading, line);
    }
    if (result == BASE_OK && ferror(file))
        result = base_fail_errno(reading->error, errno, "%s", reading->path);
    return result;
}

static void forget_from(struct probe_named *named, size_t count)
{
    while (named->count > count)
        free((char *)(uintptr_t)named->items[--named->count].request.name);
}

int probe_named_read(struct probe_named *named, const char *path, struct base_error *error)
{
    struct reading reading = {named, path, 0, error};
    struct stat status;
    size_t before = named->count;
    FILE *file = fopen(path, "re");
    if (!file || fstat(fileno(file), &status)) {
        int number = errno;
        if (file)
            fclose(file);
        return base_fail_errno(error, number, "%s", path);
    }
    int result = S_ISDIR(status.st_mode) ? base_fail(error, BASE_EUSAGE, "%s is a directory", path)
                                         : read_all(&reading, file);
    fclose(file);
    if (result == BASE_OK && named->count == before)
        result = base_fail(error, BASE_EUSAGE, "%s names no function", path);
    if (result < 0)
        forget_from(named, before);
    return result;
}

void probe_named_free(struct probe_named *named)
{
    forget_from(named, 0);
    free(named->items);
    *named = (struct probe_named){0};
}
