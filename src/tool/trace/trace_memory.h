/* trace_memory.h - another process's memory, and changes to it that are made completely or not at all.
 *
 * Memory is reached through /proc/PID/mem, which writes to read-only text too (the kernel gives the process a
 * page of its own). Kernels from 6.12 on may be configured to refuse that (proc_mem.force_override): then
 * process_vm_writev works where the program itself may write, and PTRACE_POKEDATA, eight bytes at a time,
 * where only a tracer may. The open file belongs to the memory, not to the process: after an exec it reaches
 * nothing, rather than the new program.
 *
 * Context: helper, while the target's threads are stopped (trace_stop.h); reading at any time. Source:
 * proc(5), ptrace(2). */
#ifndef TRACE_MEMORY_H
#define TRACE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

#define TRACE_MEMORY_BYTES 24 /* in one change */

/* Replace `length` bytes. Flat: lists are sent as they are. */
struct trace_memory_change {
    uint64_t address;
    uint64_t length; /* 1..TRACE_MEMORY_BYTES */
    uint8_t before[TRACE_MEMORY_BYTES], after[TRACE_MEMORY_BYTES];
};
_Static_assert(sizeof(struct trace_memory_change) == 64, "is sent as it is");

struct trace_memory {
    pid_t tid;    /* through which it is reached: any living thread */
    int file;     /* of /proc/TID/mem, or -1 */
    unsigned way; /* of writing, to be tried first: 0 file, 1 process_vm_writev, 2 PTRACE_POKEDATA */
};

int trace_memory_open(struct trace_memory *memory, pid_t tid, struct base_error *error);
void trace_memory_close(struct trace_memory *memory);

/* All `size` bytes, or an error. A failed write may have written a part. */
int trace_memory_read(const struct trace_memory *memory, uint64_t address, void *bytes, size_t size,
                      struct base_error *error);
int trace_memory_write(struct trace_memory *memory, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error);

/* Makes all `count` changes if every byte is as `before` says, else none: BASE_EBUSY then, with the first
 * address that differs in the message, and in *differs (may be NULL) the index in `changes`. Changes are
 * sorted in place by address; they must not overlap (BASE_EUSAGE). No page is written that no change begins
 * or ends in. When a write fails, what was written is undone, and the message says so if even that
 * fails. */
int trace_memory_apply(struct trace_memory *memory, struct trace_memory_change *changes, size_t count,
                       size_t *differs, struct base_error *error);

/* The other way round: every byte must be as `after` says, and becomes `before`. */
int trace_memory_undo(struct trace_memory *memory, struct trace_memory_change *changes, size_t count,
                      size_t *differs, struct base_error *error);

/* Others write into the same text: a uprobe's breakpoint is written over a changed place and removed again,
 * by single bytes. A place holds `live` and is to be changed from the bytes `from` to the bytes `to`,
 * `length` each. A byte that is a breakpoint, or is as in `to` already, stays as it is: `from` and `to` are
 * set to it. False: any other byte differs from `from`, and the place is not ours to change. */
bool trace_memory_spare(const uint8_t *live, uint8_t *from, uint8_t *to, size_t length);

#define TRACE_MEMORY_BREAKPOINT 0xcc /* int3 */

#endif
