/* space_memory.h - memory of ours in a target: code, and counters. For the modules
 * space and calls.
 *
 * Each piece is a file that tally maps too, or reads and writes by its descriptor. The space is held where
 * memory is mapped. `room` is as of helper_trace_share. Context: tool, one thread. */
#ifndef SPACE_MEMORY_H
#define SPACE_MEMORY_H

#include "space.h"

/* Is code of ours at a run-time address, in an arena or a window? */
bool space_memory_is_code(const struct space *space, uint64_t address);

/* Maps code of ours. */
int space_memory_code(struct space_session *session, pid_t pid, struct helper_room room,
                      struct space_code **code, struct base_error *error);
/* Maps memory for counters. */
int space_memory_counters(struct space *space, struct space_session *session, struct helper_room room,
                          struct space_memory *memory, struct base_error *error);
/* Maps code with `room.data` bytes of memory for counters behind it, or before it (room.data_first). */
int space_memory_both(struct space *space, struct space_session *session, struct helper_room room,
                      struct space_code **code, struct space_memory *memory, struct base_error *error);

/* Makes two of one: the first `size` bytes, and the others, which stay *code. NULL: out of memory. */
struct space_code *space_memory_split(struct space_code *code, uint64_t size);
void space_memory_release(struct space_code *code);

/* Makes the pages of a part of it that is about to be written, where that is to be done. */
int space_memory_commit_code(const struct space *space, const struct space_code *code, uint64_t at,
                             uint64_t size, struct base_error *error);
/* The same of counters below `word_end` in all blocks that are in use. */
int space_memory_commit(struct space *space, uint32_t word_end, struct base_error *error);
/* Of how many counters the pages of a block that begins now are to be made. */
static inline uint32_t space_memory_made(const struct space *space)
{
    return space->committed ? space->word_end : 0;
}

/* The memory for counters at an address; NULL: none. */
const struct space_memory *space_memory_at(const struct space *space, uint64_t address);
/* Maps the words of its doorbell (space->doorbell_words) here; nothing without them. */
int space_memory_doorbell(struct space *space, struct base_error *error);

#endif
