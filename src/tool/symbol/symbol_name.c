/* The forms of a name: what people leave out is cut from what libiberty makes of it, so that a name of a
 * profile, which has no other, is understood in the same way. */
#include "symbol_name.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "symbol.h"

enum { PATTERN_MOST = 4096, DEPTH_MOST = 64 };

static bool is_word(char byte)
{
    return isalnum((unsigned char)byte) || byte == '_' || byte == '$';
}

static bool begins_with(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* --- one spelling for all --- */

/* How many bytes from here on nobody writes. */
static size_t unwritten_length(const char *at, const char *begin)
{
    static const char *const namespaces[] = {"(anonymous namespace)::", "{anonymous}::", "_GLOBAL__N_1::"};
    for (size_t i = 0; i < sizeof namespaces / sizeof *namespaces; i++)
        if (begins_with(at, namespaces[i]) && (at == begin || !is_word(at[-1])))
            return strlen(namespaces[i]);
    if (begins_with(at, "[abi:") && strchr(at, ']'))
        return (size_t)(strchr(at, ']') - at) + 1;
    return *at == ' ' && !(at > begin && is_word(at[-1]) && is_word(at[1]));
}

/* In place or not: the text never grows. False: it does not fit. */
static bool respell_text(const char *text, char *into, size_t size)
{
    size_t used = 0;
    for (const char *at = text; *at; at++) {
        size_t skipped = unwritten_length(at, text);
        if (skipped) {
            at += skipped - 1;
            continue;
        }
        if (used + 1 >= size)
            return false;
        into[used++] = *at;
    }
    into[used] = '\0';
    return true;
}

static char *respelled_copy(const char *text)
{
    char *into = text ? malloc(strlen(text) + 1) : NULL;
    if (into)
        respell_text(text, into, strlen(text) + 1);
    return into;
}

/* --- what is left out --- */

/* "operator" and its signs, which are no brackets; 0: none begins here. */
static size_t operator_length(const char *at, const char *begin)
{
    static const char *const signs[] = {"->*", "->", "<=>", "<<=", "<<", "<=", "<",
                                        ">>=", ">>", ">=",  ">",   "()", "[]", ","};
    const size_t length = strlen("operator");
    if (!begins_with(at, "operator") || is_word(at[length]) || (at > begin && is_word(at[-1])))
        return 0;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (begins_with(at + length, signs[i]))
            return length + strlen(signs[i]);
    return length + strspn(at + length, "+-*/%^&|~!=");
}

static char closing_bracket(char bracket)
{
    return bracket == '(' ? ')' : bracket == '<' ? '>' : bracket == '[' ? ']' : bracket == '{' ? '}' : 0;
}

/* Behind the bracket that closes the one here; NULL: none does, or too many are in it. A > in round brackets
 * compares. */
static const char *behind_bracket(const char *at)
{
    char wanted[DEPTH_MOST];
    size_t depth = 0;
    for (const char *begin = at; *at; at++) {
        size_t sign = operator_length(at, begin);
        if (sign) {
            at += sign - 1;
        } else if (closing_bracket(*at)) {
            if (depth == DEPTH_MOST)
                return NULL;
            wanted[depth++] = closing_bracket(*at);
        } else if (strchr(")]}", *at) || (*at == '>' && at[-1] != '-' && wanted[depth - 1] == '>')) {
            while (depth && wanted[--depth] != *at)
                ;
            if (!depth)
                return at + 1;
        }
    }
    return NULL;
}

static const char *behind_qualifiers(const char *at)
{
    static const char *const qualifiers[] = {" const", " volatile", " &&", " &"};
    for (size_t i = 0; i < sizeof qualifiers / sizeof *qualifiers; i++)
        if (begins_with(at, qualifiers[i]))
            at += strlen(qualifiers[i]);
    return at;
}

/* What has another function's name in its own: "virtual thunk to f()" is not f. (Nor is "f()@plt": make.) */
static bool is_of_another(const char *shown)
{
    return strstr(shown, "thunk to ") || strstr(shown, "clone for ") || strstr(shown, "function for ");
}

/* Where in a name as shown it begins, and its parameters begin and end (both at the name's end: it has none).
 * Brackets behind a name are parameters, unless more of the name follows: f(int)::{lambda()#1}::operator()()
 * is operator() of what is in f(int). */
struct parts {
    const char *name, *parameters, *end;
};

static bool part_of_name(const char *shown, struct parts *parts)
{
    bool whole = is_of_another(shown);
    const char *at = shown;
    parts->name = shown;
    while (*at && !begins_with(at, " [clone ")) {
        size_t sign = operator_length(at, shown);
        const char *end = closing_bracket(*at) && !sign ? behind_bracket(at) : at + 1;
        if (!end)
            return false;
        if (*at == '(' && at > shown && (is_word(at[-1]) || strchr(">]})=<+-*/%^&|~!,", at[-1]))) {
            if (!begins_with(behind_qualifiers(end), "::")) {
                parts->parameters = at;
                parts->end = end;
                return true;
            }
            end = behind_qualifiers(end);
        }
        whole |= sign != 0;
        if (*at == ' ' && !whole)
            parts->name = at + 1;
        at = sign ? at + sign : end;
    }
    parts->parameters = parts->end = at;
    return at > parts->name;
}

/* Template arguments stand behind a word, in Rust behind its ::, or a blank behind an operator. */
static char *without_arguments(const char *text)
{
    struct base_text out = {0};
    for (const char *at = text; *at;) {
        bool follows = at > text && (is_word(at[-1]) || at[-1] == ' ' || at[-1] == ']' || at[-1] == ')');
        size_t length = operator_length(at, text);
        const char *end = NULL;
        if (*at == '<' && follows)
            end = behind_bracket(at);
        else if (begins_with(at, "::<") && at > text)
            end = behind_bracket(at + 2);
        if (!end)
            base_text_add_bytes(&out, at, length ? length : 1);
        at = end ? end : at + (length ? length : 1);
    }
    char *bare = out.failed ? NULL : base_text_detach(&out);
    base_text_free(&out);
    return bare;
}

static char *join_parameters(const char *name, const char *parameters)
{
    struct base_text text = {0};
    base_text_add(&text, name);
    base_text_add(&text, parameters);
    char *whole = text.failed ? NULL : base_text_detach(&text);
    base_text_free(&text);
    return whole;
}

/* A clone of a function of C. Not any dot ends a name: Go's have some of their own. */
static char *without_clone(const char *raw)
{
    static const char *const suffixes[] = {".constprop.", ".isra.",      ".part.",
                                           ".lto_priv.",  ".localalias", ".llvm."};
    const char *end = NULL;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const char *found = strstr(raw, suffixes[i]);
        if (found && found > raw && (!end || found < end))
            end = found;
    }
    return end ? strndup(raw, (size_t)(end - raw)) : NULL;
}

static void make_short(char **forms, const struct parts *parts)
{
    char *name = strndup(parts->name, (size_t)(parts->parameters - parts->name));
    char *parameters = strndup(parts->parameters, (size_t)(parts->end - parts->parameters));
    char *bare = name ? without_arguments(name) : NULL;
    forms[SYMBOL_NAME_UNSIGNED] = respelled_copy(name);
    forms[SYMBOL_NAME_BARE] = respelled_copy(bare);
    if (parameters && *parameters && forms[SYMBOL_NAME_UNSIGNED] && forms[SYMBOL_NAME_BARE]) {
        respell_text(parameters, parameters, strlen(parameters) + 1);
        forms[SYMBOL_NAME_SIGNED] = join_parameters(forms[SYMBOL_NAME_UNSIGNED], parameters);
        forms[SYMBOL_NAME_PLAIN] = join_parameters(forms[SYMBOL_NAME_BARE], parameters);
    }
    free(bare);
    free(parameters);
    free(name);
}

static void make_name(struct symbol_name *name)
{
    struct parts parts;
    char *demangled = name->shown ? NULL : symbol_demangle(name->text);
    const char *shown = name->shown ? name->text : demangled;
    name->made = true;
    if (shown && strpbrk(shown, "(<:")) {
        name->forms[SYMBOL_NAME_SHOWN] = respelled_copy(shown);
        if (!strchr(shown, '@') && part_of_name(shown, &parts))
            make_short(name->forms, &parts);
    } else {
        name->forms[SYMBOL_NAME_BARE] = without_clone(name->text);
    }
    free(demangled);
}

/* --- comparing --- */

/* A name of words alone stands in its symbol, the last word as it is. Some of std have abbreviations. */
static bool may_mean(const char *raw, const char *pattern)
{
    const char *word = pattern;
    if (begins_with(pattern, "std::"))
        return true;
    for (const char *at = pattern; *at; at++) {
        if (*at == ':')
            word = at + 1;
        else if (!is_word(*at) || *at == '$')
            return true;
    }
    return strstr(raw, word);
}

/* What was given as the symbol is known where only what became of it is. */
static bool means_symbol(const struct symbol_name *name, const char *pattern)
{
    char *demangled = name->shown ? symbol_demangle(pattern) : NULL;
    bool means = demangled && !strcmp(demangled, name->text);
    free(demangled);
    return means;
}

void symbol_name_begin(struct symbol_name *name, const char *text, bool shown)
{
    *name = (struct symbol_name){.text = text, .shown = shown};
}

void symbol_name_end(struct symbol_name *name)
{
    for (size_t i = 0; i < SYMBOL_NAME_FORM_COUNT; i++)
        free(name->forms[i]);
    *name = (struct symbol_name){0};
}

bool symbol_name_means(struct symbol_name *name, const char *pattern)
{
    char spelled[PATTERN_MOST];
    if (!strcmp(pattern, name->text) || !fnmatch(pattern, name->text, 0) || means_symbol(name, pattern))
        return true;
    if (!may_mean(name->text, pattern) || !respell_text(pattern, spelled, sizeof spelled))
        return false;
    if (!name->made)
        make_name(name);
    for (size_t i = 0; i < SYMBOL_NAME_FORM_COUNT; i++)
        if (name->forms[i] && (!strcmp(spelled, name->forms[i]) || !fnmatch(spelled, name->forms[i], 0)))
            return true;
    return false;
}

const char *symbol_name_bare(struct symbol_name *name)
{
    if (!name->made)
        make_name(name);
    return name->forms[SYMBOL_NAME_BARE] ? name->forms[SYMBOL_NAME_BARE] : name->text;
}

/* A bracket that nothing closes is of a glob, and encloses nothing. */
char *symbol_name_cut(char *list)
{
    char *at = list;
    while (*at && *at != ',') {
        size_t sign = operator_length(at, list);
        const char *end = closing_bracket(*at) ? behind_bracket(at) : NULL;
        at += sign ? sign : end ? (size_t)(end - at) : 1;
    }
    if (!*at)
        return NULL;
    *at = '\0';
    return at + 1;
}
