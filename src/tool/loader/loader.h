/* loader.h - loads the agent into a process, sets its hooks, also in new objects, and takes it out again.
 *
 * This is mapped in the process, by calls that it makes for us (trace_inject.h); no descriptor and no
 * tracer stays:
 *
 *   home     a page that says what else is mapped, and behind it the read-only part of the agent's image
 *            r-x, shared
 *   data     the rest of the image; the *alive page*, which is zeros in a child of fork
 *            rw-, private
 *   tables   pieces (wire_agent_layout.h) of a file that tally has open too, far apart: the agent grows them.
 *            The process's own memory, which fork copies, is a piece too (private)
 *            rw-, shared
 *   slabs    near the hooked objects: the hooks' code, which says how they are undone (loader_x86_64_wrap.h)
 *            r-x, shared
 *
 * The shared mappings show as /memfd:tally-agent. Tally may be killed at any moment: the hooks then go on
 * to write to tables that no tally reads, and loader_leave of a later tally finds in the process all it
 * must know.
 *
 * A process is changed while it is *held*: by its follower (helper_trace.h; after an exec, or because its
 * calls are counted), or here for a moment. Children of fork have all of it; loader_adopt
 * makes tally's record of one.
 *
 * Two collectors on one function. A function that is hooked may have a second hook over the first
 * (`over`): its calls come to that one, which goes on into the other, which goes on into the function.
 * With exact calls an agent's hook must be there before exact calls are set up in the object: those then
 * leave the entry alone, as a place that is not as in the file, and count at the sites. A hook of exact
 * calls that is there already is moved like an instruction: it then sees the agent as the caller.
 *
 * Context: tool, the thread that began the helper. */
#ifndef LOADER_H
#define LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "helper.h"
#include "helper_trace.h"
#include "loader_image.h"
#include "plan_function.h"
#include "trace_inject.h"

/* Of memory files, and how they show among a process's mappings. */
#define LOADER_NAME "tally-agent"
#define LOADER_PATH "/memfd:" LOADER_NAME

/* --- what is to be hooked, in every process of a recording --- */

struct loader_function {
    struct plan_function_request request;
    uint64_t handler; /* offset in the agent's image */
    uint64_t cookie;  /* wire_hook.cookie */
    bool only_found;  /* it is not hooked: its address is reported (LOADER_FOUND) */
    bool whole;       /* wire_hook.h */
    bool alone;       /* no second hook goes over this one (plan_function_request.over) */
    bool stays;       /* its hook is never lifted (loader_lift): others rely on it */
    /* One more than the index of a function that must be in the image at another address, or this one is
     * refused; 0: none. */
    uint32_t distinct_from;
};

/* The functions, and where they are in each file that was read. */
struct loader_plans;
/* `functions` with its strings must outlive the result. NULL: out of memory. */
struct loader_plans *loader_plans_new(const struct loader_function *functions, size_t count);
/* Hooks nothing in images whose names are left out (plan_select_leaves_out): their functions are refused,
 * with STUB_REASON_LEFT_OUT. To be called before the first file is read; the globs outlive the plans. */
void loader_plans_leave_out(struct loader_plans *plans, const char *const *globs, size_t glob_count);
void loader_plans_free(struct loader_plans *plans);

/* --- loading --- */

struct loader_agent; /* tally's record of the agent in one process */

struct loader_options {
    const struct loader_image *image;        /* outlives the agent */
    struct loader_plans *plans;              /* outlives the agent */
    uint64_t file_size;                      /* bytes of the tables' file */
    uint64_t span;                           /* bytes of addresses that the tables may come to need */
    const struct trace_inject_piece *pieces; /* what is mapped at first */
    size_t piece_count;                      /* 0: no tables */
    /* Called when all is mapped and nothing is hooked yet: the region is to be filled, parameters are to be
     * written. The process is held: this should take less than a second. An error undoes the load. NULL:
     * nothing to do. */
    int (*prepare)(void *context, struct loader_agent *agent, struct base_error *error);
    void *context;
};

/* `held`: the process is held by helper_trace_hold or an event, and stays so. What a killed tally left
 * there is removed first. On failure the process is as it was. BASE_EBUSY: a tracer, or a moment in which
 * it cannot be changed; BASE_EPERMISSION, BASE_EUNSUPPORTED: with the remedy; BASE_ENOTFOUND: it ended.
 * That a function cannot be hooked is no error (loader_hooks). */
int loader_load(struct helper *helper, pid_t pid, bool held, const struct loader_options *options,
                struct loader_agent **agent, struct base_error *error);
/* Of process `pid`, forked from `parent`'s. */
int loader_adopt(const struct loader_agent *parent, pid_t pid, struct loader_agent **agent,
                 struct base_error *error);
/* The process is not changed. NULL is allowed. */
void loader_free(struct loader_agent *agent);

pid_t loader_pid(const struct loader_agent *agent);
/* Run-time addresses: the image's base; the tables, 0: none; the alive page, whose first word is 1 in this
 * process. */
uint64_t loader_base(const struct loader_agent *agent);
uint64_t loader_region(const struct loader_agent *agent);
uint64_t loader_alive(const struct loader_agent *agent);
/* The tables' file; the agent's (of all adopted ones together). -1: none. */
int loader_region_file(const struct loader_agent *agent);
/* Into the part of the image that is written, at an offset from its base; in `prepare`, or later. */
int loader_write(struct loader_agent *agent, uint64_t offset, const void *bytes, size_t size,
                 struct base_error *error);

/* Stops the process unless it is held, and calls `visit`, which does what needs that: loader_write,
 * loader_call. Its result is the result. */
int loader_visit(struct loader_agent *agent, struct helper *helper, bool held,
                 int (*visit)(void *context, struct loader_agent *agent, struct base_error *error),
                 void *context, struct base_error *error);
/* System calls made by the process for us (helper_trace_call), in `visit` or `prepare`. */
int loader_call(struct loader_agent *agent, struct helper_trace_call *calls, size_t count,
                struct base_error *error);

/* --- hooks --- */

/* Hooks the process's new objects, and marks hooks of unmapped ones. `quiet`: the new objects' code is not
 * run yet, because the thread that maps them waits for this: then nothing is stopped if there is room for
 * code within reach. Returns how many hooks were set. */
int loader_update(struct loader_agent *agent, struct helper *helper, bool held, bool quiet,
                  struct base_error *error);

enum loader_state {
    LOADER_HOOKED,
    LOADER_FOUND,
    LOADER_REFUSED, /* reason */
    LOADER_GONE,    /* its object was unmapped */
    LOADER_LIFTED   /* removed for a breakpoint that another tool has set */
};

struct loader_hook {
    uint64_t address;      /* run-time, of the function */
    uint64_t slot;         /* run-time, of its struct wire_hook; 0: refused */
    uint32_t function;     /* index in the plans' functions */
    uint8_t state, reason; /* enum loader_state, stub_reason */
    uint16_t zero;
    const char *name, *path; /* the symbol; the object's path */
};
size_t loader_hooks(const struct loader_agent *agent, const struct loader_hook **hooks);

/* A uprobe's breakpoint over the first byte of a hook makes the kernel execute the file's first
 * instruction, and then the bytes behind it; when it is removed, the kernel writes the file's byte. Both
 * are right only where the bytes behind it are the file's again: such hooks are removed. Must one be?
 * Nothing is stopped to find that out. */
bool loader_is_probed(const struct loader_agent *agent);
/* Returns how many functions' hooks were removed; they are LOADER_LIFTED. What it cannot do now is left
 * for the next time. */
int loader_lift(struct loader_agent *agent, struct helper *helper, bool held, struct base_error *error);

/* --- leaving --- */

struct loader_left {
    uint64_t places; /* functions that were put back */
    /* Of these, where another tool's breakpoint was set over the hook, or removed again: our bytes go, its
     * byte stays. */
    uint64_t probed;
    /* Functions that others have changed otherwise: left as they are, and all of ours stays mapped. */
    uint64_t skipped;
    uint64_t mappings; /* of ours that were found */
    uint64_t
        bytes_left; /* of ours that stay mapped, because a thread is there, or may return or jump there */
};

/* Puts functions back, notifies the agent (WIRE_AGENT_LEFT), drops copied pages of text; then, as soon as
 * no thread is inside or may return, unmaps everything; else it stays, inert. The region counts the
 * threads inside (wire_agent_control.h). For any process with an agent, whichever tally loaded it; without
 * one, this does nothing. BASE_EBUSY: another tally that runs has loaded it, and records the process. */
int loader_leave(struct helper *helper, pid_t pid, bool held, struct loader_left *left,
                 struct base_error *error);

/* --- exec: a thread has notified tally before its execve, and waits --- */

/* From now on execs of the process of thread `tid` are events. It goes on as it was; the thread that waits
 * may be answered when this has returned. Also for a command that is about to be launched. */
int loader_expect_exec(struct helper *helper, pid_t tid, struct base_error *error);
/* Handles one event of the helper (helper_trace_next). True: process event->pid is held in a new image:
 * load with `held`, then loader_unfollow. All other events are answered here. */
bool loader_take_event(struct helper *helper, const struct trace_event *event);
/* Stops tracing the process of thread `tid`. Also when its exec failed, or is not awaited any longer. */
void loader_unfollow(struct helper *helper, pid_t tid);

#endif
