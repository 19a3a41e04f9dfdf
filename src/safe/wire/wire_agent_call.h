/* wire_agent_call.h - the system calls of the agent's that a program may forbid.
 *
 * Context: anywhere. */
#ifndef WIRE_AGENT_CALL_H
#define WIRE_AGENT_CALL_H

/* What the agent does without when the program, or who began it, forbids it (agent_hook_filter.c): system
 * calls, and the processor's clock. */
#define WIRE_AGENT_CALLS(X)                                                                                  \
    X(GETTID, "gettid")                                                                                      \
    X(GETPID, "getpid")                                                                                      \
    X(FUTEX, "futex")                                                                                        \
    X(CLOCK, "clock_gettime")                                                                                \
    X(MASK, "rt_sigprocmask")                                                                                \
    X(ACTION, "rt_sigaction")                                                                                \
    X(ARCH_PRCTL, "arch_prctl")                                                                              \
    X(PRCTL, "prctl")                                                                                        \
    X(TIMERS, "the calls of timers")                                                                         \
    X(TICKS, "rdtsc") /* no system call */                                                                   \
    X(PENDING, "rt_sigpending")                                                                              \
    X(GROW, "mremap")                                                                                        \
    X(SHOW, "remap_file_pages")                                                                              \
    X(COMMIT, "madvise")

enum wire_agent_call_number {
#define X(name, text) WIRE_AGENT_CALL_NUMBER_##name,
    WIRE_AGENT_CALLS(X)
#undef X
        WIRE_AGENT_CALL_COUNT
};
enum wire_agent_call {
#define X(name, text) WIRE_AGENT_CALL_##name = 1 << WIRE_AGENT_CALL_NUMBER_##name,
    WIRE_AGENT_CALLS(X)
#undef X
        WIRE_AGENT_CALLS_ALL = (1 << WIRE_AGENT_CALL_COUNT) - 1
};

#endif
