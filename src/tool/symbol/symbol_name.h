/* symbol_name.h - does what somebody wrote mean this function?
 *
 * A function may be named as its symbol is, or as it is written in C++ and Rust: ns::C::method, with or
 * without its parameters, with or without template arguments, its return type, and what the compiler added: a
 * clone's suffix (.constprop.0), Rust's hash, ABI tags, the name of an anonymous namespace. What is written
 * may be a glob of fnmatch(3). Blanks that part no words do not count: f(int,char) is f(int, char).
 *
 * Forms are cut out of the demangled name when the symbol's own text has not decided, once for all patterns
 * it is compared with, and not at all where a plain pattern's last word is not in the symbol. Where a name is
 * too strange to be cut (a template that returns pointers to functions), only all of it means it. Context:
 * tool. */
#ifndef SYMBOL_NAME_H
#define SYMBOL_NAME_H

#include <stdbool.h>

enum symbol_name_form {
    SYMBOL_NAME_SHOWN,    /* T ns::max<int>(int, int) */
    SYMBOL_NAME_SIGNED,   /* ns::max<int>(int, int) */
    SYMBOL_NAME_PLAIN,    /* ns::max(int, int) */
    SYMBOL_NAME_UNSIGNED, /* ns::max<int> */
    SYMBOL_NAME_BARE,     /* ns::max; of a C function NAME of NAME.constprop.0 */
    SYMBOL_NAME_FORM_COUNT
};

struct symbol_name {
    const char *text; /* borrowed */
    bool shown, made;
    char *forms[SYMBOL_NAME_FORM_COUNT]; /* NULL: there is none, or no memory for it */
};

/* A name as it is in the file, or (shown) as symbol_demangle has made it. */
void symbol_name_begin(struct symbol_name *name, const char *text, bool shown);
void symbol_name_end(struct symbol_name *name);

bool symbol_name_means(struct symbol_name *name, const char *pattern);

/* The name alone (SYMBOL_NAME_BARE), or all of the text where none was cut; borrowed. */
const char *symbol_name_bare(struct symbol_name *name);

/* Ends the first of a list of patterns at its comma; returns what follows, or NULL. A comma between brackets
 * ends none. */
char *symbol_name_cut(char *list);

#endif
