/* loader_listen.h - a thread that hears the bells of targets.
 *
 * A bell is a word in memory that is shared with a target: it rings by adding one to the word and waking who
 * waits for it. poll knows nothing of that: this thread waits for all bells with one futex call, and makes a
 * descriptor readable. Kernels before 5.16 cannot wait for several words, and none for more than 128; a filter
 * may refuse that, or to wake: then it looks every millisecond. It can also write the time next to a bell, every 10 ms, for those who have no
 * clock, and advance a bell's beats (stub_doorbell.h) while the bell has no answer and tally works on it: while
 * tally's other threads or its helper use a processor. Context: tool; every function from one thread. Source: futex(2),
 * Documentation/userspace-api/futex2.rst. */
#ifndef LOADER_LISTEN_H
#define LOADER_LISTEN_H

#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "stub_doorbell.h"

struct loader_listen;

/* `start_ns`: CLOCK_MONOTONIC where the time that is told begins. */
int loader_listen_new(uint64_t start_ns, struct loader_listen **made, struct base_error *error);
/* What this process does is tally's work, too. */
void loader_listen_helper(struct loader_listen *listen, pid_t helper);
/* It begins later than was thought. */
void loader_listen_restart(struct loader_listen *listen, uint64_t start_ns);
/* NULL is allowed. */
void loader_listen_free(struct loader_listen *listen);
/* Readable (8 bytes) when some bell has rung. Read it before looking at the bells. */
int loader_listen_file(const struct loader_listen *listen);

/* From now on; a bell that is not 0 rings at once. Until ..._forget its page must stay mapped. `clock`: gets
 * the time, ns; NULL: none. */
int loader_listen_add(struct loader_listen *listen, const uint32_t *doorbell, uint64_t *clock,
                      struct base_error *error);
/* The same for a bell whose ringers wait for an answer: its beats are advanced. */
int loader_listen_add_doorbell(struct loader_listen *listen, struct stub_doorbell *doorbell,
                               struct base_error *error);
/* After this neither is looked at any more. One that was never added is no error. */
void loader_listen_forget(struct loader_listen *listen, const uint32_t *doorbell);

/* Wakes all who wait for a word, in any process. */
void loader_listen_wake(uint32_t *word);

#endif
