/* wire_agent_loss.h - what the agent could not count, by number: process.losses.
 *
 * Context: anywhere. wire_loss.h has the losses of a profile, which these become. */
#ifndef WIRE_AGENT_LOSS_H
#define WIRE_AGENT_LOSS_H

enum wire_agent_loss {
    WIRE_AGENT_LOSS_INTERRUPTED = 0, /* events in signal handlers that interrupted a hook: not counted */
    WIRE_AGENT_LOSS_NO_RECORD,       /* events of threads that got no record */
    WIRE_AGENT_LOSS_NO_NODE,         /* events whose stack found no room: counted at the deepest known node */
    WIRE_AGENT_LOSS_NO_CELL,         /* events not counted: no cell was left */
    WIRE_AGENT_LOSS_NO_BLOCK,        /* blocks whose release cannot be seen: counted in total only */
    WIRE_AGENT_LOSS_TOO_DEEP,        /* stacks with more than WIRE_AGENT_FRAMES frames */
    WIRE_AGENT_LOSS_CUT,         /* stacks ended early, by enum unwind_end: memory that could not be read */
    WIRE_AGENT_LOSS_NO_ROWS,     /* ... no call-frame information */
    WIRE_AGENT_LOSS_ODD_RULE,    /* ... unsupported call-frame information */
    WIRE_AGENT_LOSS_NO_MAPPING,  /* ... an address in no module */
    WIRE_AGENT_LOSS_NO_PROGRESS, /* ... the next frame was not above the last */
    WIRE_AGENT_LOSS_NO_ANSWER,   /* requests that tally did not answer in time */
    WIRE_AGENT_LOSS_INERT,       /* processes forked without a region: nothing of them is counted */
    /* releases of blocks that were not seen when allocated (no loss by itself) */
    WIRE_AGENT_LOSS_UNKNOWN_FREE,
    WIRE_AGENT_LOSS_FRAME_POINTER, /* frames found by frame pointer */
    /* blocks that found no place, for which others stand: live figures are estimates */
    WIRE_AGENT_LOSS_SAMPLED,
    WIRE_AGENT_LOSS_NO_RANGE, /* mappings that are not counted, or as if they had been unmapped, or had not */
    WIRE_AGENT_LOSS_UNTIMED,  /* calls of functions counted, not timed: nowhere to keep the return address */
    WIRE_AGENT_LOSS_PUT_BACK, /* calls whose return will not be seen: an exception or a backtrace came by */
    WIRE_AGENT_LOSS_FORGOTTEN, /* returns of calls whose beginning was forgotten, or made by another thread */
    WIRE_AGENT_LOSS_NO_HISTOGRAM, /* calls that are timed and in no histogram */
    WIRE_AGENT_LOSS_NO_RESULT,    /* calls that may have opened descriptors, whose outcome is not seen */
    WIRE_AGENT_LOSS_INNER,        /* calls of functions from inside one that is hooked for something else */
    WIRE_AGENT_LOSS_FORBIDDEN, /* calls of the agent's that the program forbids itself: kinds, by process */
    /* calls of instrumented functions that are counted at an outer part of their path */
    WIRE_AGENT_LOSS_PATH_DEEP,
    WIRE_AGENT_LOSS_RESTED, /* calls of functions in threads that signals kept from getting on: not counted */
    /* parts of the memory that could not grow: what found no place is another loss */
    WIRE_AGENT_LOSS_NO_ROOM,
    WIRE_AGENT_LOSSES
};

#endif
