/* loader_layout.h - the structures in a process that list what of the agent is mapped there. Private to
 * loader*.c.
 *
 * They are read back from memory that the process may have written, so they are not trusted: every address
 * is checked against the mappings, and the worst that wrong values can do is that the process's own text
 * is written. Context: any. */
#ifndef LOADER_LAYOUT_H
#define LOADER_LAYOUT_H

#include <stdint.h>

#include "loader_x86_64_wrap.h"

#define LOADER_HOME    0x454d4f4859414c54u /* "TLAYHOME" */
#define LOADER_SLAB    0x42414c5359414c54u /* "TLAYSLAB" */
#define LOADER_VERSION 3
#define LOADER_PAGE    4096u

struct loader_own_range {
    uint64_t address, size;
    uint32_t code; /* a thread's pc may lie in it */
    uint32_t data; /* 0 in the target; loader_find.c: private memory, which does not have our name */
};

enum { LOADER_RANGES = 4 };

/* The first page of home. */
struct loader_home {
    uint64_t magic;
    uint32_t version, count;
    struct loader_own_range ranges[LOADER_RANGES]; /* home, data; all addresses that tables may take */
};

/* In place of a slab's first slot. */
struct loader_slab_head {
    uint64_t magic;
    uint32_t version, used; /* used: slots from the start that were ever taken, this one too */
    uint64_t address, size;
    uint64_t zero[20];
};
_Static_assert(sizeof(struct loader_slab_head) == sizeof(struct loader_x86_64_wrap), "one slot");

#endif
