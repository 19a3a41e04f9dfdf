/* calls_truth.h - what the programs have in common that count their own calls.
 *
 * Each call whose number matters is written CALLS(caller, callee, kind, call): it adds one to a counter of
 * that very place and makes the call. A counter is added to by one atomic instruction, so that threads and
 * signal handlers count exactly, and no function is called for it. calls_print writes one line of JSON for
 * the process:
 *
 *   {"pid":1234,"edges":[["caller","callee","kind",calls],...]}
 *
 * A caller "*" is any that no other edge of this callee names (the C library, the loader). A kind "" is not
 * compared: what the compiler makes of the call is its affair. tests/system/calls.py compares these lines
 * with a profile. */
#ifndef CALLS_TRUTH_H
#define CALLS_TRUTH_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct calls_edge {
    const char *caller, *callee, *kind;
    unsigned long calls;
} __attribute__((aligned(32)));

/* The linker names the ends of a section whose name is a C identifier; each object has its own. */
extern struct calls_edge __start_calls_edges[] __attribute__((visibility("hidden")));
extern struct calls_edge __stop_calls_edges[] __attribute__((visibility("hidden")));

#define CALLS_COUNT_MANY(caller_name, callee_name, kind_name, number)                                        \
    __extension__({                                                                                          \
        static struct calls_edge edge_                                                                       \
            __attribute__((section("calls_edges"), used)) = {caller_name, callee_name, kind_name, 0};        \
        __atomic_fetch_add(&edge_.calls, (unsigned long)(number), __ATOMIC_RELAXED);                         \
    })
#define CALLS_COUNT(caller_name, callee_name, kind_name)                                                     \
    ((void)CALLS_COUNT_MANY(caller_name, callee_name, kind_name, 1))
#define CALLS(caller_name, callee_name, kind_name, call)                                                     \
    (CALLS_COUNT(caller_name, callee_name, kind_name), (call))

#define CALLS_DIRECT(caller, callee, ...) CALLS(#caller, #callee, "direct", callee(__VA_ARGS__))

/* The compiler may clone such a function for an argument and change who saves registers, but not inline
 * it. */
#define CALLS_FUNCTION __attribute__((noinline, used))

/* With CALLS_WAIT in the environment: says that it is ready and waits for a byte on stdin, so that somebody
 * may attach before the calls are made. */
static inline void calls_wait(void)
{
    char byte;

    if (getenv("CALLS_WAIT") != NULL && (write(1, "ready\n", 6) != 6 || read(0, &byte, 1) != 1))
        _exit(9);
}

/* In a child that begins with its parent's figures. */
static inline void calls_reset(void)
{
    for (struct calls_edge *edge = __start_calls_edges; edge < __stop_calls_edges; edge++)
        __atomic_store_n(&edge->calls, 0ul, __ATOMIC_RELAXED);
}

/* One write, so that lines of several processes do not mix (they are short enough for a pipe). */
static inline void calls_print(void)
{
    static char line[32768];
    int used = snprintf(line, sizeof line, "{\"pid\":%d,\"edges\":[", (int)getpid());

    for (struct calls_edge *edge = __start_calls_edges; edge < __stop_calls_edges; edge++)
        used += snprintf(line + used, sizeof line - (unsigned)used, "%s[\"%s\",\"%s\",\"%s\",%lu]",
                         edge == __start_calls_edges ? "" : ",", edge->caller, edge->callee, edge->kind,
                         edge->calls);
    used += snprintf(line + used, sizeof line - (unsigned)used, "]}\n");
    if (write(1, line, (unsigned)used) != used)
        _exit(9);
}

#endif
