/* stub_doorbell.h - how a process notifies tally of what is about to happen in it, and waits until tally has
 * handled it: its set of loaded objects changes, or, while it is not traced, it creates a thread or process
 * or executes a program.
 *
 * ld.so calls an empty function, _dl_debug_state, before and after it changes the list of loaded objects
 * (r_debug.r_brk names it, debuggers stop there). Its first bytes become a jump to the *doorbell*
 * (stub_x86_64_doorbell.h), which notifies tally and waits for the answer: a new object's calls are counted
 * from its first constructor on, without a tracer.
 *
 * Thread and process creation has a second doorbell, which is enabled by a word of its own, `creations`. The
 * first instructions of the functions that create (plan_creation.h) are moved behind a call of it. It is
 * enabled only while the process is detached (helper_trace_detach): tally reattaches, disables it, and
 * answers; the thread or process is created while the creator is traced.
 *
 * Protocol. The words lie in memory that tally and the process share. Tally sets `active` and watches
 * `notified` (FUTEX_WAIT without PRIVATE, on its own mapping). It reads `notified`, reads the list of
 * objects, plans and patches, stores the value it read into `answered`, and wakes all who wait there. When it
 * ends, it stores 0 into `active` and wakes them as well. While a notification has no answer and tally works
 * on it, it adds one to `beats` every STUB_DOORBELL_BEAT milliseconds, for STUB_DOORBELL_LONGEST at most. A
 * thread that notifies waits timeout * rounds milliseconds from the last beat it has seen; then it takes
 * tally for dead, stopped, frozen or starved, and itself stores 0 into `active` (or `creations`), so that the
 * next one does not wait. All counts wrap around. Context: any; the words are read and written atomically by
 * both sides. */
#ifndef STUB_DOORBELL_H
#define STUB_DOORBELL_H

#include <stdbool.h>
#include <stdint.h>

#include "elf_image.h"

struct stub_doorbell {
    uint32_t active; /* 0: nobody listens, and the doorbell costs a load */
    /* The same for creations; beside `active`, so that eight bytes written at exit disable both. */
    uint32_t creations;
    uint32_t notified; /* how often; futex of the listener */
    uint32_t answered; /* the last value of `notified` that was handled; futex of those who wait */
    uint32_t waiting;  /* threads that wait now (too many when a process was killed while it waited) */
    uint32_t beats;    /* tally works on an answer */
};
_Static_assert(sizeof(struct stub_doorbell) == 24, "shared layout");

#define STUB_DOORBELL_TIMEOUT 50 /* milliseconds of one round */
#define STUB_DOORBELL_ROUNDS  5
#define STUB_DOORBELL_BEAT    50    /* milliseconds */
#define STUB_DOORBELL_LONGEST 10000 /* milliseconds of beats for one answer */

/* The image address of the function that ld.so calls, by its name in .dynsym or .symtab: glibc's and musl's,
 * known before ld.so has run. False: it is no ld.so, or a stripped one (then r_debug.r_brk has the address,
 * once ld.so has filled it). */
bool stub_doorbell_find(const struct elf_image *ld_so, uint64_t *address);

/* The image address of its struct r_debug (link.h), whose r_state says whether the list is about to change or
 * has changed. False: musl's ld.so does not name it, and calls the function only after a change. */
bool stub_doorbell_list(const struct elf_image *ld_so, uint64_t *address);

#endif
