/* wire_agent_parameters.h - what the loader writes at the symbol agent_parameters of the image, before the
 * first hook.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_PARAMETERS_H
#define WIRE_AGENT_PARAMETERS_H

#include <stdint.h>

#include "wire_agent_layout.h"

#define WIRE_AGENT_MAKERS 32

struct wire_agent_parameters {
    uint64_t control; /* run-time address of the file's first page */
    uint64_t process; /* run-time address of the process's region */
    uint64_t alive;   /* run-time address of a private page with MADV_WIPEONFORK; its first word is 1 */
    uint32_t flags;   /* enum wire_agent_parameter_flag */
    /* the agent's: threads inside fork now; a child has the count of the moment it was forked */
    uint32_t forking;
    uint64_t own;            /* run-time address of struct wire_agent_own; 0: no return address is replaced */
    uint64_t code, code_end; /* run-time, of the agent's own code */
    uint32_t forbidden;      /* bits of enum wire_agent_call; the agent sets more */
    uint32_t region;         /* its number; the agent's: a child takes another one */
    uint64_t threads;        /* run-time address of the process's records */
    uint64_t mapped[WIRE_AGENT_PARTS]; /* bytes that are mapped of each part; the agent's, as it grows them */
    uint32_t looked;                   /* the agent's: records that were looked at (agent_record.c) */
    /* the agent's: 0, or 1 + events until a refused part is tried again */
    uint32_t refusals[WIRE_AGENT_PARTS];
    uint64_t known_key, known_start, known_end; /* the agent's: a fork child's stack (agent_thread.c) */
    /* the agent's: thread pointers of those that make their record; 0: free */
    uint64_t making[WIRE_AGENT_MAKERS];
    uint32_t zero;
    uint32_t unclaimed; /* the agent's: events until a record is looked for again, where none was free */
};
enum wire_agent_parameter_flag {
    WIRE_AGENT_FSGSBASE = 1, /* AT_HWCAP2 bit 1: rdfsbase may be used */
    WIRE_AGENT_FS_SELF = 2,  /* the agent's: fs:0 holds the thread pointer in this process */
};

#endif
