/* unwind.h - walk a stack by compiled rows: no locks, no allocation, no loader, no libc state.
 *
 * The walk needs three things from its caller: registers, memory, and a way from a program counter to the
 * rows of the code there. It is the same for the collector (memory = the kernel's copy of a stack) and for
 * the agent (memory = the live stack between bounds). Contract of the fast path (unwind_walk): at most 5 ns a
 * frame warm (2.5 measured), by a direct-mapped cache keyed by program counter; a cached entry is good only
 * under the `generation` it was made in, so whoever changes what is mapped changes the generation (a reused
 * address never finds an old rule). Context: anywhere, signal handlers included; one struct unwind_cache per
 * thread. */
#ifndef UNWIND_H
#define UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch.h"
#include "wire_rows.h"

/* A validated view of a rows blob. The blob must outlive it. */
struct unwind_rows {
    const struct wire_rows_header *header;
    const struct wire_rule *rules;
    const uint32_t *pages;
    const struct wire_row *rows;
    const struct arch *arch;
};

/* Checks every index of the blob (it may come from a file) and fills `rows`. False: not a usable blob. */
bool unwind_rows_open(struct unwind_rows *rows, const void *blob, size_t size);

/* The rule at an image's own address; never NULL (rule 0, WIRE_CFA_NONE, where nothing is known). */
const struct wire_rule *unwind_rows_find(const struct unwind_rows *rows, uint64_t address);

/* Readable memory: [low, high) is at bytes[address - low]; anything else is asked of read_outside, if set. */
struct unwind_memory {
    uint64_t low, high;
    const uint8_t *bytes;
    bool (*read_outside)(void *context, uint64_t address, uint64_t *word);
    void *context;
};

/* Where a program counter belongs. */
struct unwind_place {
    const struct unwind_rows *rows; /* NULL: no call-frame information for this mapping */
    uint64_t bias;                  /* run-time address - image address */
    uint32_t cookie;                /* the caller's own name of the mapping, returned with the frame */
};

struct unwind_space {
    const struct arch *arch;
    /* False: pc is in no known executable mapping. */
    bool (*find)(void *context, uint64_t pc, struct unwind_place *place);
    void *context;
    uint32_t generation; /* changes whenever `find` may answer differently */
    /* Where rows are missing, try the frame pointer, and in frame 0 and interrupted frames the word at sp (a
     * call through a bad pointer, undescribed assembly); checked as well as can be, marked
     * UNWIND_BY_FRAME_POINTER. */
    bool frame_pointers;
};

enum unwind_frame_flag {
    UNWIND_BY_FRAME_POINTER = 1, /* this frame was reached by frame pointer */
    UNWIND_SIGNAL = 2,           /* this frame was interrupted by a signal: its pc is not a return address */
};

struct unwind_frame {
    uint64_t pc;     /* as on the stack: a return address, except in frame 0 and UNWIND_SIGNAL frames */
    uint32_t cookie; /* unwind_place.cookie; UNWIND_NO_COOKIE when in no mapping */
    uint32_t flags;  /* enum unwind_frame_flag */
};
#define UNWIND_NO_COOKIE UINT32_MAX

/* Why a walk ended; all but UNWIND_OUTERMOST are losses. */
enum unwind_end {
    UNWIND_OUTERMOST = 0,
    UNWIND_FULL, /* more frames than `max` */
    UNWIND_CUT,  /* the next word is at or past memory.high: the copy was too small. Not said behind a signal
                        frame, where the stack may be another one and a larger copy would not help */
    UNWIND_BAD_READ,    /* a word below memory.low or otherwise unreadable */
    UNWIND_NO_ROWS,     /* the code is mapped, but nobody describes it */
    UNWIND_ODD_RULE,    /* a rule that is not supported, or that needs a register which is not known here */
    UNWIND_NO_MAPPING,  /* the program counter is in no mapping: `find` said false */
    UNWIND_NO_PROGRESS, /* the caller's frame would not be above this one, or not be aligned */
};

struct unwind_cache; /* 128 KiB, allocated by the caller: unwind_cache_size bytes, zeroed */
size_t unwind_cache_size(void);

struct unwind_result {
    size_t count; /* frames written */
    enum unwind_end end;
    size_t frame_pointer_frames;
};

/* Writes at most `max` frames, innermost first, frame 0 being registers.pc itself. `cache` may be NULL. A
 * cache may serve many spaces of one machine as long as no generation stands for two of them. registers must
 * have pc and sp; without them there are no frames and the end is UNWIND_BAD_READ. */
struct unwind_result unwind_walk(const struct unwind_space *space, const struct unwind_memory *memory,
                                 const struct arch_registers *registers, struct unwind_cache *cache,
                                 struct unwind_frame *frames, size_t max);

#endif
