/* helper_session.h - a tally for tests: it follows processes that check themselves.
 *
 * A target is a function that runs in a process forked from the test; it ends with the function's result.
 * What it finds wrong it reports in memory that all share. A thread's first act is to ask the kernel for its
 * gs base, which must be one that no other living thread has. */
#ifndef HELPER_SESSION_H
#define HELPER_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper_trace.h"

enum { HELPER_SESSION_PAGE = 4096, HELPER_SESSION_BASES = 60000, HELPER_SESSION_KINDS = TRACE_FOUND + 1 };

struct helper_session_truth {
    atomic_int owner[HELPER_SESSION_BASES]; /* the living thread that has the gs base */
    atomic_uint creations, wrong, forks, done, signals;
    atomic_bool go;
    atomic_ullong beats;
    atomic_int pids[8];
    atomic_ullong value;
};

extern struct helper_session_truth *helper_session_truth;

struct helper_session {
    struct helper helper;
    unsigned next; /* gs base */
    unsigned kinds[HELPER_SESSION_KINDS];
    unsigned batch; /* given to a thread in need */
    int status;     /* of the last END */
    pid_t ended;    /* and whose */
    uint64_t flags; /* of the last EXEC */
    bool keep_held; /* EXEC and FORK are not answered */
    bool starve;    /* NEED is not answered */
    struct trace_event last[HELPER_SESSION_KINDS];
};

/* First of main: plays the images that targets exec (which then does not return), and makes the shared
 * memory. False: it cannot. */
bool helper_session_main(int argc, char **argv);

/* --- in a target --- */

void helper_session_nap_us(long us);
uint64_t helper_session_own_gs(void);
void helper_session_wrong(const char *what, uint64_t value);
/* The number of a gs base that a session gave; 0: it is none. */
unsigned helper_session_number_of(uint64_t gs);
unsigned helper_session_take_own(void);
/* A thread: checks its gs base, and naps as many us as `argument` says. */
void *helper_session_live(void *argument);

int helper_session_churn(void);     /* 1000 threads, four at once; 17 */
int helper_session_deep_tree(void); /* 30 forks; 31 */
int helper_session_beat(void);      /* until `done`; 13 */
bool helper_session_beats(void);    /* in the test: does it go on? */

/* --- in the test --- */

void helper_session_must(int result, const struct base_error *error);
struct helper_session helper_session_begin(void);
void helper_session_finish(struct helper_session *tally);

uint64_t helper_session_new_gs(struct helper_session *tally);
void helper_session_give(struct helper_session *tally, pid_t pid, unsigned count);

/* Runs `function` in a new process as soon as truth->go is set. */
pid_t helper_session_fork(int (*function)(void));
/* Follows `function` in a new process, from before its first action. */
pid_t helper_session_start(struct helper_session *tally, int (*function)(void), unsigned pool);
int helper_session_wait_for(pid_t pid);

void helper_session_follow(struct helper_session *tally, pid_t pid);
/* A gs base for every thread, and `pool` to come. */
void helper_session_prepare(struct helper_session *tally, pid_t pid, unsigned pool);
void helper_session_hold(struct helper_session *tally, pid_t pid);
void helper_session_release(struct helper_session *tally, pid_t pid);

/* Answers events that come within `ms`; returns how many there were. */
unsigned helper_session_work(struct helper_session *tally, int ms);
void helper_session_work_until(struct helper_session *tally, enum trace_event_kind kind, unsigned count);
void helper_session_work_until_ended(struct helper_session *tally, pid_t pid);

#endif
