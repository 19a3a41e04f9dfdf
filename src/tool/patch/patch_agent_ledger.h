/* patch_agent_ledger.h - what lies in a process and tells what of the agent is there. Private to
 * patch_agent*.c.
 *
 * Read back from processes, it is taken for what it is: a stranger's memory. Every address is checked against
 * the mappings, and all that comes of a lie is that the stranger's own text is written. Context: any. */
#ifndef PATCH_AGENT_LEDGER_H
#define PATCH_AGENT_LEDGER_H

#include <stdint.h>

#include "patch_x86_64_wrap.h"

#define PATCH_AGENT_HOME    0x454d4f4859414c54u /* "TLAYHOME" */
#define PATCH_AGENT_SLAB    0x42414c5359414c54u /* "TLAYSLAB" */
#define PATCH_AGENT_VERSION 3
#define PATCH_AGENT_PAGE    4096u

struct patch_agent_range {
    uint64_t address, size;
    uint32_t code; /* a thread's pc may lie in it */
    uint32_t data; /* 0 in the target; patch_agent_leave.c: private memory, which does not bear our name */
};

enum { PATCH_AGENT_RANGES = 4 };

/* The first page of home. */
struct patch_agent_home {
    uint64_t magic;
    uint32_t version, count;
    struct patch_agent_range ranges[PATCH_AGENT_RANGES]; /* home, data; all that tables may become */
};

/* In place of a slab's first slot. */
struct patch_agent_slab_head {
    uint64_t magic;
    uint32_t version, used; /* used: slots from the start that were ever taken, this one too */
    uint64_t address, size;
    uint64_t zero[20];
};
_Static_assert(sizeof(struct patch_agent_slab_head) == sizeof(struct patch_x86_64_wrap), "one slot");

#endif
