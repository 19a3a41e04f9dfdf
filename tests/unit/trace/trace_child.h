/* trace_child.h - processes that live tests stop, patch and inject into: forked from the test, they check
 * themselves.
 *
 * A child runs one function, which says trace_child_ready() when it may be stopped and changed and returns 0
 * if nothing was wrong. */
#ifndef TRACE_CHILD_H
#define TRACE_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
#ifdef __SANITIZE_ADDRESS__
    TRACE_CHILD_THREADS = 200, /* each has a stack of AddressSanitizer's beside its own */
#else
    TRACE_CHILD_THREADS = 1000,
#endif
    TRACE_CHILD_BUSY = 50 /* threads past these sleep most of the time */
};

/* Memory that test and child share. */
struct trace_child_shared {
    atomic_bool stop;      /* the child is to come to an end */
    atomic_uint ready;     /* the child said so */
    atomic_uint wrong;     /* checks that failed in it; 0 at the end */
    atomic_ullong signals; /* received as they should be */
    atomic_ullong rounds[TRACE_CHILD_THREADS];
    uint64_t address; /* of something in the child */
    int pipe[2];      /* from the test to the child */
    unsigned count;   /* of threads; set before the start */
};

struct trace_child {
    pid_t pid;
    struct trace_child_shared *shared;
};

typedef int trace_child_function(struct trace_child_shared *shared);

/* Starts and waits until the child is ready. `count` becomes shared->count. */
struct trace_child trace_child_start(trace_child_function *function, unsigned count);

/* Has it end, waits, and returns its exit status plus 1000 for each failed check; -1: killed by a
 * signal. */
int trace_child_finish(struct trace_child *child);

/* How often something is repeated: `most` times by make check-long (TALLY_LONG), else `few`, and a third of
 * that under AddressSanitizer: what is repeated to meet a race is to meet it where threads have their own pace,
 * and the sanitizer only has to see each line. */
unsigned trace_child_turns(unsigned few, unsigned most);

void trace_child_ready(struct trace_child_shared *shared);
void trace_child_wrong(struct trace_child_shared *shared, const char *what, long value);

/* "State", "TracerPid" of /proc/PID/status: the first character, or the number. */
char trace_child_state(pid_t pid);
/* The sum over all threads: 0 when none is traced. */
long trace_child_tracers(pid_t pid);
/* Waits up to 10 s until no thread is traced. */
bool trace_child_is_free(pid_t pid);
/* Within 2 GiB of the program's text: what else a process maps (arenas, a sanitizer's) is its own affair. */
unsigned trace_child_mappings(pid_t pid);
unsigned trace_child_descriptors(pid_t pid);

/* --- functions --- */

trace_child_function trace_child_busy; /* `count` threads compute with all registers and know the result */
trace_child_function trace_child_creates_threads; /* threads that start threads that end */
trace_child_function
    trace_child_signals; /* checks SIGRTMIN's siginfo: value counts up from 0; in its main loop it computes */
trace_child_function
    trace_child_blocked; /* a thread in each of several blocking calls; the pipe sets them free */

#endif
