/* agent_view.h - the live stack as a walk sees it: what is known to be readable, from sp up. */
#ifndef AGENT_VIEW_H
#define AGENT_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "agent.h"
#include "agent_thread.h"
#include "unwind.h"

struct agent_view {
    struct unwind_memory memory;
    uint64_t *readable_end; /* the record's; NULL: a walk that may use none */
};

/* `thread` NULL: a walk that may use no record. True: the view has only grown since the thread's last one. */
bool agent_view_open(struct agent_view *view, uint64_t sp, struct agent_thread *thread);
/* The registers of the frame's caller, at its return address. */
void agent_view_registers(const struct agent_frame *frame, struct arch_registers *registers);

/* Is sp on the stack that was surveyed (agent_thread_survey)? */
static inline bool agent_view_is_surveyed(const struct agent_thread *thread, uint64_t sp)
{
    return sp - thread->known_start < thread->known_end - thread->known_start;
}
/* Can be said how far the stack goes on which `sp` is? */
bool agent_view_is_known(const struct agent_thread *thread, uint64_t sp);

/* --- walks that need no record of the thread --- */

/* What called the present entry, an older one being inside. */
enum agent_beneath {
    AGENT_BENEATH_NOTHING, /* of ours, on the whole stack: the older one was left by a jump */
    AGENT_BENEATH_HANDLER, /* a signal's handler, which interrupted it */
    AGENT_BENEATH_HOOK,    /* a function that it called; or the stack's end is not seen */
};
enum agent_beneath agent_view_beneath(const struct agent_frame *frame);

struct agent_extent { /* the part of the live stack that can be read: from sp up */
    uint64_t low, high;
};
/* From the caller's sp outwards, as far as a walk gets. True: it got to the end. Of the record only the
 * cache is used; `thread` NULL: no record was entered, and no cache is used. */
bool agent_view_extent(struct agent_thread *thread, const struct agent_frame *frame,
                       struct agent_extent *extent);

#endif
