/* space_text.h - a living process's text beside the file that it came from. Context: tool, one thread. */
#ifndef SPACE_TEXT_H
#define SPACE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf_image.h"
#include "helper.h"
#include "proc_maps.h"
#include "trace_memory.h"

#define SPACE_PAGE 4096u

/* Are the change's bytes, as `bytes` has them (its before or after), in memory where they belong? */
bool space_text_holds(pid_t pid, const struct trace_memory_change *change, const uint8_t *bytes);

/* What of a change that was made is ours to undo: trace_memory_spare. */
enum space_undo {
    SPACE_UNDO_ALL,
    SPACE_UNDO_PROBED, /* all but another's breakpoint, or what one has left: the change becomes that */
    SPACE_UNDO_GONE,   /* nothing is mapped there any more */
    SPACE_UNDO_OTHERS  /* somebody else has changed it */
};
enum space_undo space_text_undo(pid_t pid, struct trace_memory_change *change);
/* Undoes what is ours of a change that somebody else's breakpoint has altered. The process is held. UNDO_ALL:
 * all of it is ours still, as it was or because undoing failed. */
enum space_undo space_text_lift(struct helper *helper, pid_t pid, struct trace_memory_change *change);

/* Does a jump stand there that leads into the agent's memory: its hook? `maps` are the process's. */
bool space_text_is_hooked(pid_t pid, const struct proc_maps *maps, uint64_t address);
/* Does such a jump cover any of these bytes? */
bool space_text_has_hook(pid_t pid, const struct proc_maps *maps, uint64_t address, size_t length);

/* start..end-1 is mapped from `image` at `bias`. *own: pages of its own that the process has there. False:
 * one of them differs from the file, or cannot be compared. */
bool space_text_is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t start,
                           uint64_t end, size_t *own);

#endif
