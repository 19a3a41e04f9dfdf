/* wire_loss.h - the one table of what Tally could not see.
 *
 * Every loss has a number that is never reused, a short name, and a sentence. doc/losses.md explains each at
 * length, and a test compares the two. A profile stores the numbers; a reader that meets a number it does
 * not know shows it as such. Whoever loses something counts it here, in units that the sentence names.
 * Context: anywhere. */
#ifndef WIRE_LOSS_H
#define WIRE_LOSS_H

#define WIRE_LOSSES(X)                                                                                       \
    X(1, RING_FULL, "samples or events dropped by the kernel because a ring was full")                       \
    X(2, THROTTLED, "times the kernel throttled an event because it fired too often")                        \
    X(3, STACK_CUT, "stacks cut: the kernel's copy of the stack ended before the outermost frame")           \
    X(4, NO_ROWS, "stacks ended early: no call-frame information for the code of a frame")                   \
    X(5, ODD_RULE, "stacks ended early: call-frame information of a kind that is not supported")             \
    X(6, BAD_READ, "stacks ended early: a frame's memory was outside the stack")                             \
    X(7, NO_MAPPING, "stacks ended early: a frame's address is in no known mapping")                         \
    X(8, FRAME_POINTER, "frames found by frame pointer, for want of call-frame information")                 \
    X(9, NO_PROGRESS, "stacks ended early: the next frame was not above the last one")                       \
    X(10, TOO_DEEP, "stacks ended early: more frames than Tally keeps")                                      \
    X(11, FOLDED, "samples whose stack was folded because the tree had reached --max-nodes")                 \
    X(12, NO_USER_REGISTERS, "samples without user registers (kernel threads, 32-bit code)")                 \
    X(13, IMAGE_UNREADABLE, "images that could not be opened or read")                                       \
    X(14, IMAGE_CHANGED, "images whose file is no longer what was running")                                  \
    X(15, NO_SYMBOL, "addresses without a function name")                                                    \
    X(16, NOT_YET_RESOLVED, "addresses left for the first report to resolve")                                \
    X(17, JIT_UNKNOWN, "frames in generated code that no perf map or jitdump names")                         \
    X(18, THREAD_UNSEEN, "threads that could not be opened (gone, or no descriptors left)")                  \
    X(19, PROCESS_GONE, "processes that ended before their mappings could be read")                          \
    X(20, RATE_LOWERED, "times the sampling rate was lowered to what the machine can bear")                  \
    X(21, OUT_OF_MEMORY, "samples dropped because Tally ran out of memory")                                  \
    X(22, OVER_LIMIT, "threads, processes or images past what one profile can hold")                         \
    X(23, CLOCK_DISORDER, "events that arrived after later ones had been worked on")                         \
    X(24, READ_LATE, "stacks of which a part was not in the sample and was read from the process after it")  \
    X(25, SHORT_LIVED,                                                                                       \
      "milliseconds of CPU time without samples: threads and processes shorter-lived than a sampling "       \
      "period")                                                                                              \
    X(26, NOT_PLANNED, "images whose calls are not counted: their code could not be planned or patched")     \
    X(27, CALLS_UNSEEN, "processes whose calls are not counted any more: they could not be followed")        \
    X(28, PRIVILEGES,                                                                                        \
      "set-uid, set-gid and capability programs that ran without their privileges: they were traced")        \
    X(29, CALLS_SHARED, "threads whose calls may have been counted short: they were created unseen")         \
    X(30, AGENT_INTERRUPTED,                                                                                 \
      "allocations and calls by signal handlers that interrupted the agent: not counted")                    \
    X(31, AGENT_THREADS,                                                                                     \
      "allocations and calls of threads that got no place in the agent's memory: not counted")               \
    X(32, AGENT_STACKS,                                                                                      \
      "allocations and calls counted at an outer part of their stack: the agent's memory was full")          \
    X(33, AGENT_FULL, "allocations and calls not counted: the agent's memory was full")                      \
    X(34, AGENT_RELEASES, "blocks whose release cannot be seen: the agent's memory was full")                \
    X(35, AGENT_UNANSWERED, "times a program went on unanswered: what it loaded then is not hooked")         \
    X(36, AGENT_INERT,                                                                                       \
      "processes not counted: forked when the agent's memory had no part left for one more")                 \
    X(37, AGENT_REFUSED, "functions that could not be hooked: what only they see is not counted")            \
    X(38, AGENT_ABSENT, "programs that ran without the agent: what they did is not counted")                 \
    X(39, AGENT_NO_ROWS,                                                                                     \
      "allocations and calls with stacks cut: no call-frame information for the code of a frame")            \
    X(40, AGENT_ODD_RULE,                                                                                    \
      "allocations and calls with stacks cut: call-frame information that is not supported")                 \
    X(41, AGENT_BAD_READ, "allocations and calls with stacks cut: a frame's memory was outside the stack")   \
    X(42, AGENT_NO_MAPPING,                                                                                  \
      "allocations and calls with stacks cut: a frame's address is in no known mapping")                     \
    X(43, AGENT_FRAME_POINTER,                                                                               \
      "frames of allocations and calls found by frame pointer, for want of call-frame information")          \
    X(44, AGENT_NO_PROGRESS,                                                                                 \
      "allocations and calls with stacks cut: the next frame was not above the last one")                    \
    X(45, AGENT_TOO_DEEP, "allocations and calls with stacks cut: more frames than the agent keeps")         \
    X(46, AGENT_MAPPINGS, "mappings that are not counted, or still count though they were unmapped")         \
    X(47, TIMELINE_FULL, "samples left out of the timeline, which had reached its size (--timeline=BYTES)")  \
    X(48, FUNCTION_UNTIMED, "calls of functions that were counted, not timed")                               \
    X(49, FUNCTION_PUT_BACK,                                                                                 \
      "calls followed only until an exception, a cancellation or a backtrace came by")                       \
    X(50, FUNCTION_FORGOTTEN, "returns of calls that were not timed, for their beginning was forgotten")     \
    X(51, FUNCTION_ABSENT, "names given to --function that no image of the program has")                     \
    X(52, AGENT_EMPTY_UNSEEN,                                                                                \
      "blocks that were not searched for empty pages: their process was gone before they could be")          \
    X(53, FUNCTION_NO_HISTOGRAM, "calls of functions that were timed, and are in no histogram")              \
    X(54, AGENT_NAME_ABSENT, "names in --alloc-functions that no image of the program has")                  \
    X(55, DESCRIPTOR_UNSEEN, "descriptors open at the end that nobody saw opened")                           \
    X(56, DESCRIPTOR_CLOSED, "descriptors that nobody saw closed, and that are not open any more")           \
    X(57, DESCRIPTOR_CALLS, "calls that may have opened descriptors, and whose outcome was not seen")        \
    X(58, AGENT_SAMPLED, "blocks past the agent's memory: for what is live of them, samples stand")          \
    X(59, AGENT_UNTIMED,                                                                                     \
      "milliseconds of CPU time without samples: threads that block SIGURG, or that no timer of the "        \
      "agent's could reach, and the agent's own time")                                                       \
    X(60, INSTRUMENTED_ABSENT, "recordings in which no function was built with -finstrument-functions")      \
    X(61, INSTRUMENTED_DEEP, "calls of instrumented functions counted at an outer part of their path")       \
    X(62, FUNCTION_INNER, "calls of functions by those that memory is counted by: not counted themselves")   \
    X(63, WAIT_UNSEEN,                                                                                       \
      "milliseconds in which threads may have waited, before the first look or after the last")              \
    X(64, WAIT_REFUSED, "milliseconds waited without a stack: the kernel does not let look where")           \
    X(65, AGENT_FORBIDDEN,                                                                                   \
      "system calls that the agent does without, because a seccomp filter forbids them")                     \
    X(66, FUNCTION_RESTED, "calls of functions in threads that signals kept from getting on: not counted")   \
    X(67, CALLS_FREED, "children of programs that may trace them: their calls are not counted")              \
    X(68, TEXT_ALTERED,                                                                                      \
      "places in code that somebody else had changed, or changed meanwhile: not all calls there are "        \
      "counted")                                                                                             \
    X(69, AGENT_NO_ROOM,                                                                                     \
      "times that the agent's memory could not grow in the program: a limit of addresses")                   \
    X(70, FUNCTION_REFUSED, "functions of --function that could not be hooked: their calls are not counted")

enum wire_loss {
#define X(number, name, text) WIRE_LOSS_##name = number,
    WIRE_LOSSES(X)
#undef X
        WIRE_LOSS_END /* one past the highest number */
};

#endif
