/* collect_calls_text.h - a living process's text beside the file that it came from.
 * Context: tool, one thread. */
#ifndef COLLECT_CALLS_TEXT_H
#define COLLECT_CALLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf_image.h"
#include "elf_maps.h"
#include "patch_helper.h"
#include "patch_memory.h"

#define COLLECT_CALLS_PAGE 4096u

/* Stand the change's bytes, as `bytes` has them (its before or after), where they belong? */
bool collect_calls_text_holds(pid_t pid, const struct patch_memory_change *change, const uint8_t *bytes);

/* What of a change that was made is ours to undo: patch_memory_spare. */
enum collect_calls_undo {
    COLLECT_CALLS_UNDO_ALL,
    COLLECT_CALLS_UNDO_PROBED, /* all but somebody else's breakpoint, or what one has left: the change says so now */
    COLLECT_CALLS_UNDO_GONE,  /* nothing is mapped there any more */
    COLLECT_CALLS_UNDO_OTHERS /* somebody else has changed it */
};
enum collect_calls_undo collect_calls_text_undo(pid_t pid, struct patch_memory_change *change);
/* Undoes what is ours of a change that somebody else's breakpoint came over. The process is held. UNDO_ALL: all of it is ours still, as it
 * was or because undoing failed. */
enum collect_calls_undo collect_calls_text_lift(struct patch_helper *helper, pid_t pid,
                                                struct patch_memory_change *change);

/* Does a jump stand there that leads into the agent's memory: its hook? `maps` are the process's. */
bool collect_calls_text_is_hooked(pid_t pid, const struct elf_maps *maps, uint64_t address);
/* Does such a jump cover any of these bytes? */
bool collect_calls_text_has_hook(pid_t pid, const struct elf_maps *maps, uint64_t address, size_t length);

/* start..end-1 is mapped from `image` at `bias`. *own: pages of its own that the process has there. False:
 * one of them differs from the file, or cannot be compared. */
bool collect_calls_text_is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t start,
                                   uint64_t end, size_t *own);

#endif
