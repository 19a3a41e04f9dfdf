/* stub_doorbell.h - how a process tells tally that something is about to happen in it, and waits until tally has
 * seen to it: its set of loaded objects changes, or, while nobody traces it, a thread, a process or an image
 * is to be born.
 *
 * ld.so calls an empty function, _dl_debug_state, before and after it changes the list of loaded objects
 * (r_debug.r_brk names it, debuggers stop there). Its first bytes become a jump to the *bell*
 * (stub_x86_64_doorbell.h), which rings and waits for the answer: a new object's calls are counted from its
 * first constructor on, without a tracer.
 *
 * Births have a bell with a door of its own, `creations`. The first instructions of the functions that lead to
 * one (plan_creation.h) are moved behind a call of it. It is open only while the process is loose
 * (helper_trace_detach): tally takes the process again, closes the door, and answers; the birth happens under
 * its eyes.
 *
 * Protocol. The words lie in memory that tally and the process share. Tally sets `active` and watches `notified`
 * (FUTEX_WAIT without PRIVATE, on its own mapping). It reads `notified`, looks at the list of objects, plans and
 * patches, stores the value it read into `answered`, and wakes all who wait there. When it leaves, it stores
 * 0 into `active` and wakes them as well. While a ring has no answer and tally works, it adds one to `beats`
 * every STUB_DOORBELL_BEAT milliseconds, for STUB_DOORBELL_LONGEST at most. A thread that rings waits timeout *
 * rounds milliseconds from the last beat it has seen; then tally is taken for dead, stopped, frozen or
 * starved, and the thread itself stores 0 into `active` (or `creations`), so that the next one does not wait.
 * All counts wrap around. Context: any; the words are read and written atomically by both sides. */
#ifndef STUB_DOORBELL_H
#define STUB_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_image.h"

struct stub_doorbell {
    uint32_t active; /* 0: nobody listens; the bell costs a load */
    uint32_t
        creations;     /* the same of the other door; beside it, so that eight bytes of farewell close both */
    uint32_t notified; /* how often; futex of the listener */
    uint32_t answered; /* the last value of `notified` that was seen to; futex of those who rang */
    uint32_t waiting;  /* threads that wait now (too many when a process was killed in the bell) */
    uint32_t beats;    /* tally works on an answer */
};
_Static_assert(sizeof(struct stub_doorbell) == 24, "shared layout");

#define STUB_DOORBELL_TIMEOUT 50 /* milliseconds of one round */
#define STUB_DOORBELL_ROUNDS  5
#define STUB_DOORBELL_BEAT    50    /* milliseconds */
#define STUB_DOORBELL_LONGEST 10000 /* milliseconds of beats for one answer */

/* The image address of the function that ld.so calls, by its name in .dynsym or .symtab: glibc's and musl's,
 * known before ld.so has run. False: it is no ld.so, or a stripped one (then r_debug.r_brk tells, once ld.so
 * has filled it). */
bool stub_doorbell_find(const struct elf_image *ld_so, uint64_t *address);

/* The image address of its struct r_debug (link.h), whose r_state says whether the list is about to change or
 * has changed. False: musl's ld.so does not name it, and rings only when it has. */
bool stub_doorbell_list(const struct elf_image *ld_so, uint64_t *address);

#endif
