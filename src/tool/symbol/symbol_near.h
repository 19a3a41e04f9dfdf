/* symbol_near.h - which function somebody may have meant by a name that none has.
 *
 * First come those whose last word is the same (total: Shop::total), then those with the fewest differences
 * (base_options_nearest). Context: tool. */
#ifndef SYMBOL_NEAR_H
#define SYMBOL_NEAR_H

#include <stddef.h>

enum { SYMBOL_NEAR_MOST = 50000 };

struct symbol_near { /* zero it first */
    char **names;    /* as SYMBOL_NAME_BARE; at most SYMBOL_NEAR_MOST, further ones are left out */
    size_t count, capacity;
};

/* A function's name, as in the file. */
void symbol_near_add(struct symbol_near *near, const char *raw);
/* The nearest of those, NULL when none is near, or when the pattern is a glob; borrowed. */
const char *symbol_near_find(const struct symbol_near *near, const char *pattern);
void symbol_near_free(struct symbol_near *near);

#endif
