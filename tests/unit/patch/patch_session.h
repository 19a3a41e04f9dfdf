/* patch_session.h - a tally for tests: it follows processes that check themselves.
 *
 * A target is a function that runs in a process forked from the test; it ends with the function's result.
 * What it finds wrong it reports in memory that all share. A thread's first act is to ask the kernel for its
 * gs base, which must be one that no other living thread has. */
#ifndef PATCH_SESSION_H
#define PATCH_SESSION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "patch_trace.h"

enum {
    PATCH_SESSION_PAGE = 4096,
    PATCH_SESSION_BASES = 60000,
    PATCH_SESSION_KINDS = PATCH_TRACE_STRANGER + 1
};

struct patch_session_truth {
    atomic_int owner[PATCH_SESSION_BASES]; /* the living thread that has the gs base */
    atomic_uint births, wrong, forks, done, signals;
    atomic_bool go;
    atomic_ullong beats;
    atomic_int pids[8];
    atomic_ullong value;
};

extern struct patch_session_truth *patch_session_truth;

struct patch_session {
    struct patch_helper helper;
    unsigned next; /* gs base */
    unsigned kinds[PATCH_SESSION_KINDS];
    unsigned batch; /* given to who is in need */
    int status;     /* of the last END */
    pid_t ended;    /* and whose */
    uint64_t flags; /* of the last EXEC */
    bool keep_held; /* EXEC and FORK are not answered */
    bool starve;    /* NEED is not answered */
    struct patch_trace_event last[PATCH_SESSION_KINDS];
};

/* First of main: plays the images that targets exec (which then does not return), and makes the shared
 * memory. False: it cannot. */
bool patch_session_main(int argc, char **argv);

/* --- in a target --- */

void patch_session_nap_us(long us);
uint64_t patch_session_own_gs(void);
void patch_session_wrong(const char *what, uint64_t value);
/* The number of a gs base that a session gave; 0: it is none. */
unsigned patch_session_number_of(uint64_t gs);
unsigned patch_session_take_own(void);
/* A thread: checks its gs base, and naps as many us as `argument` says. */
void *patch_session_live(void *argument);

int patch_session_churn(void);     /* 1000 threads, four at once; 17 */
int patch_session_deep_tree(void); /* 30 forks; 31 */
int patch_session_beat(void);      /* until `done`; 13 */
bool patch_session_beats(void);    /* in the test: does it go on? */

/* --- in the test --- */

void patch_session_must(int result, const struct base_error *error);
struct patch_session patch_session_begin(void);
void patch_session_finish(struct patch_session *tally);

uint64_t patch_session_new_gs(struct patch_session *tally);
void patch_session_give(struct patch_session *tally, pid_t pid, unsigned count);

/* Runs `function` in a new process as soon as truth->go is set. */
pid_t patch_session_fork(int (*function)(void));
/* Follows `function` in a new process, from before its first action. */
pid_t patch_session_start(struct patch_session *tally, int (*function)(void), unsigned pool);
int patch_session_wait_for(pid_t pid);

void patch_session_follow(struct patch_session *tally, pid_t pid);
/* A gs base for every thread, and `pool` to come. */
void patch_session_prepare(struct patch_session *tally, pid_t pid, unsigned pool);
void patch_session_hold(struct patch_session *tally, pid_t pid);
void patch_session_release(struct patch_session *tally, pid_t pid);

/* Answers events that come within `ms`; returns how many there were. */
unsigned patch_session_work(struct patch_session *tally, int ms);
void patch_session_work_until(struct patch_session *tally, enum patch_trace_kind kind, unsigned count);
void patch_session_work_until_ended(struct patch_session *tally, pid_t pid);

#endif
