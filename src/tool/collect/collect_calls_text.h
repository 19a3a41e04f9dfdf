/* collect_calls_text.h - a living process's text beside the file that it came from.
 * Context: tool, one thread. */
#ifndef COLLECT_CALLS_TEXT_H
#define COLLECT_CALLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf_image.h"
#include "patch_memory.h"

#define COLLECT_CALLS_PAGE 4096u

/* Stand the change's bytes, as `bytes` has them (its before or after), where they belong? */
bool collect_calls_text_holds(pid_t pid, const struct patch_memory_change *change, const uint8_t *bytes);

/* start..end-1 is mapped from `image` at `bias`. *own: pages of its own that the process has there. False:
 * one of them differs from the file, or cannot be compared. */
bool collect_calls_text_is_as_file(pid_t pid, const struct elf_image *image, uint64_t bias, uint64_t start,
                                   uint64_t end, size_t *own);

#endif
