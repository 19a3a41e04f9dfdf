/* calls_inside.h - the collector of exact calls, for the files of its module.
 *
 * calls.c is the collector's life from calls_new to calls_free, and its step; calls_attach.c begins with a
 * process (launch, attach), calls_leave.c ends with all (leave, finish). What a step finds is handled by
 * calls_event.c (what happens in processes) and calls_objects.c (what their loaders notify of; suspend and
 * resume). Below these are calls_program.c (may this program be counted?), calls_form.c (which counters),
 * calls_publish.c (counters into the profile), calls_frame.c (stubs in sampled stacks) and calls_members.c
 * (which process runs in which space, and leaving one). Context: tool, one thread. */
#ifndef CALLS_INSIDE_H
#define CALLS_INSIDE_H

#include "calls.h"
#include "loader_listen.h"
#include "remains_left.h"
#include "space.h"
#include "trace_event.h"

struct calls_member {
    pid_t pid;
    struct space *space;
};

/* A space in which no process runs any more, and whose counters are still to be published. */
struct calls_ended {
    struct space *space;
    pid_t pid;
    uint64_t at_ns;
};

struct calls_remains;

struct calls {
    struct space_session session;
    struct calls_options options;
    struct sample_processes *processes;
    struct loader_listen *listener;
    struct calls_client client; /* all 0: there is none */
    struct calls_member *members;
    size_t member_count, member_capacity;
    struct calls_ended *ended;
    size_t ended_count, ended_capacity;
    uint64_t memory_most;     /* bytes of ours that were in use in one target */
    struct remains_left left; /* processes in which something of ours stayed */
    uint64_t leaving_ns;      /* since when processes that somebody else holds are waited for; 0: none was */
    uint64_t ended_ticks;     /* when leaving began, in the unit of PROC_TARGET_STARTED; 0: not yet */
    uint64_t places_left;     /* in their code that somebody else had changed: they stayed as they were */
    uint64_t stub_samples;
    uint64_t setup_ns;     /* of planning, placing and patching, all processes together */
    uint64_t attach_ns;    /* for which processes that ran were stopped by it */
    bool locked, threaded; /* forms that were used */
    char notice[256];
};

/* --- calls_members.c --- */

/* The first one is the notice of the recording. */
void calls_note(struct calls *calls, const char *what, const struct base_error *why);

/* NULL: the process is not counted. */
struct space *calls_members_space(struct calls *calls, pid_t pid);
/* False: no memory. */
bool calls_members_add(struct calls *calls, pid_t pid, struct space *space);
/* The process has ended, or is not counted any more. With the last one of its space, that ends. */
void calls_members_remove(struct calls *calls, pid_t pid);
void calls_members_free_space(struct calls *calls, struct space *space);
/* Takes everything out of a space's process. What stays is counted, and tried again at the end. `retry`:
 * nothing waits for tally meanwhile, so what is in the way (a debugger) may be waited for. */
void calls_members_leave(struct calls *calls, struct space *space, bool retry);
/* The process goes on, uncounted, as it was before tally. */
void calls_members_give_up(struct calls *calls, pid_t pid, const struct base_error *why);
void calls_members_publish_remains(struct calls *calls, pid_t pid, const struct calls_remains *remains);

/* --- calls_program.c --- */

/* Refuses what is run by a translator, and programs with a leak checker, which uses ptrace itself. */
int calls_program_refuse(struct calls *calls, const struct space *space, struct base_error *error);
/* May the program trace others? */
bool calls_program_traces(struct calls *calls, const struct space *space);
/* A program that traces others, or may, is counted itself; children of it are not, since each can have one
 * tracer. */
int calls_program_free_traced(struct calls *calls, const struct space *space, struct base_error *error);
void calls_program_publish_freed(struct calls *calls, pid_t parent);
/* Begins to plan the program itself, not its loader. False: it has no loader. */
bool calls_program_plan(const struct space *space, struct space_session *session);

/* --- calls_form.c; the space is held, unless it says otherwise --- */

/* Threads keep their gs: counters are locked. */
int calls_form_keep_gs(struct calls *calls, const struct space *space, struct base_error *error);
/* Code that is counted may not use gs, any other may not set it. Needs no hold. */
bool calls_form_code_uses_gs(struct calls *calls, const struct space *space);
/* Beside code that uses gs, a thread that has set it forbids counters by gs. */
bool calls_form_has_set_gs(struct calls *calls, const struct space *space);
/* To LOCK, if threads count by gs and an object that is mapped by now uses it. The space is not held. A
 * process that has ended is no failure: its event is in the queue. */
int calls_form_keep_off_gs(struct calls *calls, struct space *space, struct base_error *error);
/* From one thread to several, of which `created` (0: none) is only being created. `lock`: its code uses
 * gs. */
int calls_form_to_threads(struct calls *calls, struct space *space, bool lock, pid_t created,
                          struct base_error *error);
/* A block for each thread that is there. */
int calls_form_give_blocks(struct calls *calls, struct space *space, struct base_error *error);

/* --- calls_publish.c --- */

/* The first guesses, early: what is called much is so from the beginning. */
void calls_publish_guess(struct calls *calls);
/* What has ended by that time (CLOCK_MONOTONIC), spaces and threads. */
void calls_publish_ended(struct calls *calls, uint64_t until);

/* --- calls_attach.c --- */

/* A fork child that is held before its first instruction and has nothing of ours; it stays held. On failure
 * calls_members_give_up takes out what was put into it. */
int calls_attach_child(struct calls *calls, pid_t pid, struct base_error *error);

/* --- calls_event.c, calls_objects.c --- */

void calls_event(struct calls *calls, const struct trace_event *event);
/* Answers all doorbells that were notified. */
void calls_objects_answer_all(struct calls *calls);

#endif
