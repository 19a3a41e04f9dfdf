/* wire_agent_layer.h - the allocators of a process.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_LAYER_H
#define WIRE_AGENT_LAYER_H

#include <stdint.h>

#define WIRE_AGENT_LAYERS 32 /* allocators in a process, ever */

/* An allocator: the module and family that it is in, and what of it the agent needs beside the hooked
 * functions. Filled in this order, and never used for another one; when its module is gone, start becomes
 * end. */
struct wire_agent_layer {
    uint64_t start, end;  /* hooked functions of its family in here belong to it */
    uint64_t usable_size; /* run-time address of its malloc_usable_size, 0: none, or not wanted */
    /* run-time address of a body that allocates like operator new but returns NULL, 0: none */
    uint64_t plain_new;
    uint16_t header_bytes; /* a block's own administration beside the usable size */
    /* as much more where bit 1 of the word before a block is set (glibc: it was mapped alone) */
    uint16_t mapped_bytes;
    uint16_t family; /* enum wire_agent_family */
    uint16_t alone;  /* no other object has a realloc: blocks that its reallocarray gives are its own */
};

/* Functions that are of one allocator are of one family: a module may have several, by prefixes of their
 * names. */
enum wire_agent_family {
    WIRE_AGENT_PLAIN = 0, /* malloc, operator new */
    WIRE_AGENT_JE,        /* je_malloc */
    WIRE_AGENT_MI,        /* mi_malloc */
    WIRE_AGENT_TC,        /* tc_malloc, tc_new */
    WIRE_AGENT_ARRAYS,    /* operator new[] of an allocator that is WIRE_AGENT_PLAIN else */
    WIRE_AGENT_TC_ARRAYS, /* tc_newarray */
    WIRE_AGENT_NAMED,     /* of --alloc-functions: it is no layer */
    WIRE_AGENT_FAMILIES
};

#endif
