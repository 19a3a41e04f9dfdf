/* loader_listen.h - a thread that receives the notifications of targets.
 *
 * A doorbell is a word in memory that is shared with a target: the target notifies tally by adding one to
 * the word and waking its waiters. poll cannot wait for that: this thread waits for all doorbells with one
 * futex call, and makes a descriptor readable. Kernels before 5.16 cannot wait for several words, and none
 * for more than 128; a filter may refuse that, or to wake: then the thread looks every millisecond. It can
 * also write the time next to a doorbell, every 10 ms, for targets that have no clock, and advance a
 * doorbell's beats (stub_doorbell.h) while a notification has no answer and tally works on it: while
 * tally's other threads or its helper use a processor. Context: tool; every function from one thread.
 * Source: futex(2), Documentation/userspace-api/futex2.rst. */
#ifndef LOADER_LISTEN_H
#define LOADER_LISTEN_H

#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "stub_doorbell.h"

struct loader_listen;

/* `start_ns`: CLOCK_MONOTONIC where the time that targets read begins. */
int loader_listen_new(uint64_t start_ns, struct loader_listen **made, struct base_error *error);
/* The processor time of this process counts as tally's work, too. */
void loader_listen_helper(struct loader_listen *listen, pid_t helper);
/* The time that targets read begins later. */
void loader_listen_restart(struct loader_listen *listen, uint64_t start_ns);
/* NULL is allowed. */
void loader_listen_free(struct loader_listen *listen);
/* Readable (8 bytes) when there is a notification. To be read before the doorbells are looked at. */
int loader_listen_file(const struct loader_listen *listen);

/* Listens to it from now on; one that is not 0 notifies at once. Its page must stay mapped until
 * ..._forget. `clock`: where the time is written, ns; NULL: nowhere. */
int loader_listen_add(struct loader_listen *listen, const uint32_t *doorbell, uint64_t *clock,
                      struct base_error *error);
/* The same for a doorbell whose notifiers wait for an answer: its beats are advanced. */
int loader_listen_add_doorbell(struct loader_listen *listen, struct stub_doorbell *doorbell,
                               struct base_error *error);
/* After this neither doorbell nor clock is accessed any more. One that was never added is no error. */
void loader_listen_forget(struct loader_listen *listen, const uint32_t *doorbell);

/* Wakes all waiters of a word, in any process. */
void loader_listen_wake(uint32_t *word);

#endif
