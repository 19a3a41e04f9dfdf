#include "symbol.h"

#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 16384 }; /* of a mangled name worth the time; libiberty limits its own recursion */

/* libiberty prints a clone suffix as " [clone .cold]"; a suffix on a plain C name stays as it is, being part of the name. */
char *symbol_demangle(const char *name)
{
    if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R' && strncmp(name, "__Z", 3)) ||
        strlen(name) > LONGEST)
        return NULL;
    return cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
}
