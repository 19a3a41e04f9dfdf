#include "oracle.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base_array.h"
#include "base_text.h"

char *oracle_output(const char *format, ...)
{
    char command[4096], bytes[65536];
    struct base_text text = {0};
    size_t got;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    FILE *pipe = popen(command, "re");
    assert_non_null(pipe);
    while ((got = fread(bytes, 1, sizeof bytes, pipe)) > 0)
        base_text_add_bytes(&text, bytes, got);
    if (pclose(pipe))
        fail_msg("%s failed", command);
    base_text_add(&text, "");
    return base_text_detach(&text);
}

char *oracle_line(char **text)
{
    char *line = *text;
    if (!*line)
        return NULL;
    size_t length = strcspn(line, "\n");
    *text = line + length + (line[length] == '\n');
    line[length] = '\0';
    return line;
}

/* --- symbols --- */

/* "START SIZE TYPE NAME" or "START TYPE NAME" */
static bool parse_symbol(char *line, struct oracle_symbol *symbol)
{
    int name = 0;
    symbol->size = 0;
    if (sscanf(line, "%lx %lx %c %n", &symbol->start, &symbol->size, &symbol->type, &name) < 3 || !name) {
        symbol->size = 0;
        if (sscanf(line, "%lx %c %n", &symbol->start, &symbol->type, &name) < 2 || !name)
            return false;
    }
    symbol->name = line + name;
    symbol->name[strcspn(symbol->name, "@")] = '\0';
    return strchr("tTwWi", symbol->type) && symbol->name[0] && symbol->name[0] != '$' && symbol->start;
}

void oracle_symbols_read(struct oracle_symbols *symbols, const char *flags, const char *path)
{
    struct oracle_symbol symbol;
    *symbols = (struct oracle_symbols){.text = oracle_output("nm -S --defined-only %s '%s'", flags, path)};
    char *at = symbols->text, *line;
    while ((line = oracle_line(&at))) {
        if (!parse_symbol(line, &symbol))
            continue;
        assert_true(base_array_room(symbols->items, symbols->count, symbols->capacity));
        symbols->items[symbols->count++] = symbol;
    }
    assert_true(symbols->count > 0);
}

void oracle_symbols_free(struct oracle_symbols *symbols)
{
    free(symbols->items);
    free(symbols->text);
}

static int worth(const struct oracle_symbol *symbol)
{
    return strchr("Ti", symbol->type) ? 0 : strchr("wW", symbol->type) ? 1 : 2;
}

/* Negative: `a` is the name to show of two for one address. */
static int compare_worth(const struct oracle_symbol *a, const struct oracle_symbol *b)
{
    int by_binding = worth(a) - worth(b);
    int by_underscores = (int)strspn(a->name, "_") - (int)strspn(b->name, "_");
    int by_length = (int)strlen(a->name) - (int)strlen(b->name);
    return by_binding       ? by_binding
           : by_underscores ? by_underscores
           : by_length      ? by_length
                            : strcmp(a->name, b->name);
}

/* Labels inside functions are not functions. */
static bool is_label(const struct oracle_symbols *symbols, const struct oracle_symbol *label)
{
    if (label->size)
        return false;
    for (size_t i = 0; i < symbols->count; i++) {
        if (label->start - symbols->items[i].start < symbols->items[i].size)
            return true;
    }
    return false;
}

/* The start of the innermost function with a size around the address, else of the last one without. */
static bool find_start(const struct oracle_symbols *symbols, uint64_t address, uint64_t section,
                       uint64_t *start)
{
    const struct oracle_symbol *sized = NULL, *last = NULL;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct oracle_symbol *symbol = &symbols->items[i];
        if (symbol->start > address || symbol->start < section || is_label(symbols, symbol))
            continue;
        if (address - symbol->start < symbol->size && (!sized || symbol->start > sized->start))
            sized = symbol;
        if (!last || symbol->start > last->start || (symbol->start == last->start && symbol->size))
            last = symbol;
    }
    if (!sized && (!last || last->size))
        return false;
    *start = sized ? sized->start : last->start;
    return true;
}

const struct oracle_symbol *oracle_symbol_at(const struct oracle_symbols *symbols, uint64_t address,
                                             uint64_t section)
{
    const struct oracle_symbol *best = NULL;
    uint64_t start;
    if (!find_start(symbols, address, section, &start))
        return NULL;
    for (size_t i = 0; i < symbols->count; i++) {
        const struct oracle_symbol *symbol = &symbols->items[i];
        if (symbol->start == start && (!best || compare_worth(symbol, best) < 0))
            best = symbol;
    }
    return best;
}

/* --- fixtures --- */

static const char *fixtures;

void oracle_use(const char *directory)
{
    fixtures = directory;
}

const char *oracle_path(const char *name)
{
    static char path[4096];
    snprintf(path, sizeof path, "%s/%s", fixtures, name);
    return path;
}

const char *oracle_fixture(const char *name)
{
    const char *path = oracle_path(name);
    return access(path, R_OK) ? NULL : path;
}

struct opened oracle_open(const char *path, const struct symbol_options *options)
{
    static const struct symbol_options nothing = {.root = "", .debug_directory = "/nonexistent"};
    struct opened opened;
    struct elf_section text;
    struct base_error error = {""};
    if (elf_image_open(path, &opened.image, &error) < 0)
        fail_msg("%s", error.text);
    assert_int_equal(symbol_file_open(opened.image, options ? options : &nothing, &opened.file, NULL),
                     BASE_OK);
    assert_true(elf_image_section(opened.image, ".text", &text));
    opened.start = text.address;
    opened.end = text.address + text.size;
    return opened;
}

void oracle_close(struct opened *opened)
{
    symbol_file_close(opened->file);
    elf_image_close(opened->image);
}
