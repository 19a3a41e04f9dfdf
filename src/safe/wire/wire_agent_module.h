/* wire_agent_module.h - the table of modules, by which the agent finds rows for an address.
 *
 * There are two tables in a region. Number (process.generation & 1) is valid; tally writes the other one and
 * then adds one to the generation. 0: there is none yet.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_MODULE_H
#define WIRE_AGENT_MODULE_H

#include <stdint.h>

#define WIRE_AGENT_MODULES 4096 /* in one table */

/* A module: executable addresses start..end (run-time) belong to rows at rows_offset from control.rows_offset
 * on. rows_size 0: none. */
struct wire_agent_module {
    uint64_t start, end, bias;
    uint64_t rows_offset, rows_size;
    uint32_t cookie; /* tally's name of the mapping; never used again for another one */
    uint32_t flags;  /* enum wire_agent_module_flag */
};
enum wire_agent_module_flag {
    WIRE_AGENT_MODULE_READS = 1, /* it reads its own return addresses: they are not replaced */
    /* it contains an unwinder without a name, known by the functions it calls */
    WIRE_AGENT_MODULE_UNWINDS = 2
};

#endif
