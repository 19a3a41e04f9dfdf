/* calls_remove.h - leaving a process as it was found.
 *
 * Every changed byte is put back, pages of text that are as the file's then are the file's again, every gs
 * base of ours is 0 again, and our memory is unmapped when nothing can lead there any more: no thread's pc
 * lies in it, and no word on a stack (a signal frame holds a pc) points into it. Threads that stand in a stub
 * are stepped out of it; where that fails some times, the memory stays, inert, and its size is reported. What
 * others have changed since stays as it is, and so does all of our memory: they may lead there. Context:
 * tool, one thread. */
#ifndef CALLS_REMOVE_H
#define CALLS_REMOVE_H

#include "space.h"

struct calls_remains {
    /* Places that could not be put back: somebody else has changed them, and what they led to stays. */
    uint64_t changes;
    uint64_t published; /* so many of them were, as losses, when they were found */
    /* Put back but for a breakpoint of somebody else's that came there, or what one had left. */
    uint64_t probed;
    uint64_t text_pages;   /* of text that are the process's own still */
    uint64_t memory_bytes; /* of ours that stay mapped */
};

/* The space's process is followed; it is held here, unless it is `held`, and left running but for its own
 * stops. It is still followed afterwards. */
int calls_remove(struct space *space, struct space_session *session, bool held, struct calls_remains *remains,
                 struct base_error *error);

#endif
