/* Threads that signals keep from getting on.
 *
 * A program may have a timer at 10 kHz whose handler calls hundreds of functions. By itself that takes a few
 * microseconds; timed, each of the calls costs some hundred nanoseconds, and when the handler ends the next
 * signal is there: the kernel begins it before the thread has made one more instruction. The program stands
 * still, for ever, because it is looked at. So a thread to which that happens rests: its calls pass, not
 * counted and not timed (a loss), for long enough that it gets on between the signals; then they are timed
 * again.
 *
 * How it is known. One call in some hundred is looked at. It is a handler's when a signal's frame is on its
 * stack. If that frame interrupted the same instruction, with the same stack pointer, look after look, either
 * a handler takes long or many have run in between, and the thread has not moved. A signal that waits until
 * the handler ends, by then, makes the second of the first, or will. A coroutine's stack may have begun in a
 * handler (sigaltstack), and have that frame for ever: nothing waits there.
 *
 * Handlers that make so many calls that passing takes too long still keep their thread from getting on: a
 * call that passes costs a tenth of one that is timed. */
#include "agent_call_rest.h"

#include "agent_may.h"

#define LOOKS 32    /* so many, that is some 8,000 calls, before the kernel is asked */
#define CALLS 65536 /* of one rest */

/* The innermost frame of the last walk that a signal interrupted; NULL: there is none. */
static const struct unwind_trail_frame *interrupted_frame(const struct unwind_trail *trail)
{
    for (uint32_t i = trail->count; i-- > 0;)
        if (trail->last[i].flags & UNWIND_SIGNAL)
            return &trail->last[i];
    return NULL;
}

void agent_call_rest_look(struct agent_thread *thread)
{
    struct agent_rest *rest = &thread->rest;
    const struct unwind_trail_frame *frame = thread->is_known ? NULL : interrupted_frame(&thread->trail);
    bool same = frame != NULL && frame->pc == rest->pc && frame->sp == rest->sp;
    rest->calls = 0;
    rest->looks = same ? rest->looks + 1 : 0;
    rest->pc = frame != NULL ? frame->pc : 0;
    rest->sp = frame != NULL ? frame->sp : 0;
    if (rest->looks < LOOKS || !agent_may(WIRE_AGENT_CALL_PENDING) || agent_may_pending() == 0)
        return;
    rest->looks = 0;
    rest->left = CALLS;
}
