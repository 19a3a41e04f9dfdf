/* Readable names, by libiberty. Names come out of files that anyone may have made, and the grammars can say
 * much in few bytes: a C++ name of 150 bytes may stand for a text of gigabytes. So the mangled name is
 * bounded, which bounds libiberty's stack (measured: under 2 MB at this length), and so is the text: when it
 * grows past its limit libiberty is left by longjmp, since its callback has no other way to stop it. Nothing
 * it allocated is lost by that: for C++ its memory is on the stack, and for Rust it holds some only while it
 * prints a Punycode identifier. */
#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "symbol.h"

enum { MANGLED_LIMIT = 8192, TEXT_LIMIT = 65536 };

struct printer {
    struct base_text text;
    jmp_buf full;
};

static void print_part(const char *part, size_t length, void *opaque)
{
    struct printer *printer = opaque;
    if (printer->text.length + length > TEXT_LIMIT || printer->text.failed)
        longjmp(printer->full, 1);
    base_text_add_bytes(&printer->text, part, length);
}

/* Where a clone suffix begins: behind the hash of Rust's old scheme, which has dots of its own; at the first
 * dot of the new one. libiberty leaves it out. */
static const char *rust_suffix(const char *name)
{
    enum { HASH = 3 + 16 }; /* 17h and 16 digits, then E */
    if (name[1] == 'R' || name[1] == '_')
        return strchr(name, '.');
    const char *found = NULL;
    for (const char *hash = name; (hash = strstr(hash, "17h")); hash++) {
        if (strlen(hash) > HASH && hash[HASH] == 'E')
            found = hash + HASH + 1;
    }
    return found && *found == '.' ? found : NULL;
}

/* As libiberty writes it for C++: ".constprop.0.isra.0" is " [clone .constprop.0] [clone .isra.0]". */
static void add_suffix(struct base_text *text, const char *suffix)
{
    while (suffix && *suffix == '.') {
        size_t length = 1;
        while (suffix[length] && !(suffix[length] == '.' && !isdigit((unsigned char)suffix[length + 1])))
            length++;
        base_text_addf(text, " [clone %.*s]", (int)length, suffix);
        suffix += length;
    }
}

static bool demangle(const char *name, struct printer *printer)
{
    if (setjmp(printer->full))
        return false;
    if (rust_demangle_callback(name, DMGL_PARAMS | DMGL_ANSI, print_part, printer)) {
        add_suffix(&printer->text, rust_suffix(name));
        return true;
    }
    base_text_clear(&printer->text);
    return name[1] == 'Z' && cplus_demangle_v3_callback(name, DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT,
                                                        print_part, printer);
}

char *symbol_demangle(const char *name)
{
    static const char plt[] = "@plt";
    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
        return NULL;
    size_t length = strcspn(name, "@");
    if (length > MANGLED_LIMIT || (name[length] && strcmp(name + length, plt)))
        return NULL;
    char *mangled = strndup(name, length);
    struct printer *printer = mangled ? calloc(1, sizeof *printer) : NULL; /* not in a register: longjmp */
    if (!printer) {
        free(mangled);
        return NULL;
    }
    bool done = demangle(mangled, printer);
    base_text_add(&printer->text, name + length);
    done = done && !printer->text.failed;
    char *text = done ? base_text_detach(&printer->text) : NULL;
    base_text_free(&printer->text);
    free(printer);
    free(mangled);
    return text;
}
