/* loader.h - the agent in a process: loaded, its hooks set, given new objects, and taken out again.
 *
 * What comes to lie in the process, all of it mapped in its name (trace_inject.h), no descriptor and no
 * tracer stays:
 *
 *   home     a page that tells what else is here, and behind it the agent's image as far as nobody writes it
 *            r-x, shared
 *   data     the rest of the image; the *alive page*, which is zeros in a child of fork
 *            rw-, private
 *   tables   pieces (wire_agent_layout.h) of a file that tally has open too, far apart: the agent grows them. Memory of
 *            rw-, shared the process's own, which is copied with it, is a piece too (private)
 *   slabs    near the hooked objects: the hooks' code, which tells how they are undone (loader_x86_64_wrap.h)
 *            r-x, shared
 *
 * The shared ones show as /memfd:tally-agent. Tally may die at any moment: the hooks go on into tables that
 * nobody reads, and loader_leave of a later tally finds in the process all it must know.
 *
 * A process is touched while it stands: *held* by its follower (helper_trace.h; after an exec, or because its
 * calls are counted), or stopped here for a moment. Children of fork have everything; loader_adopt makes
 * tally's side of one.
 *
 * Two collectors on one function. A function that is hooked may have a second hook over the first (`over`):
 * its calls come to that one, which goes on into the other, which goes on into the function. With exact calls
 * an agent's hook must be there before exact calls are set up in the object: those then leave the entry
 * alone, as a place that is not as in the file, and count at the sites. A hook of exact calls that is there
 * already is taken along like an instruction: it then sees the agent as the caller.
 *
 * Source: techniques.md B.1, C.3. Context: tool, the thread that began the helper. */
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
    bool only_found;  /* it is not hooked: where it is, is told (LOADER_FOUND) */
    bool whole;       /* wire_hook.h */
    bool alone;       /* none that goes over others goes over this one (plan_function_request.over) */
    bool stays;       /* its hook makes way for nobody (loader_lift): others rely on it */
    uint32_t
        twin; /* one more than the index of a function without which, at another address of the image, this one is refused; 0: none */
};

/* The functions and, of each file that was looked at, where they are. */
struct loader_plans;
/* `functions` with its strings must outlive the result. NULL: out of memory. */
struct loader_plans *loader_plans_new(const struct loader_function *functions, size_t count);
/* Hooks nothing in images whose names are left out (plan_select_leaves_out): their functions are refused, with
 * STUB_REASON_LEFT_OUT. Before the first file is looked at; the globs outlive the plans. */
void loader_plans_leave_out(struct loader_plans *plans, const char *const *globs, size_t glob_count);
void loader_plans_free(struct loader_plans *plans);
/* Looks at a file before a process needs it: a large program takes a second, and nothing should stand that
 * long. */
int loader_plans_prepare(struct loader_plans *plans, const char *path, struct base_error *error);

/* --- loading --- */

struct loader_agent; /* tally's side of the agent in one process */

struct loader_options {
    const struct loader_image *image;        /* outlives the agent */
    struct loader_plans *plans;              /* outlives the agent */
    uint64_t file_size;                      /* bytes of the tables' file */
    uint64_t span;                           /* bytes of addresses that the tables may come to need */
    const struct trace_inject_piece *pieces; /* what is mapped at first */
    size_t piece_count;                      /* 0: no tables */
    /* Called when all is mapped and nothing is hooked yet: the region is to be filled, parameters are to be
     * written. The process stands: it should take less than a second. An error undoes the load. NULL: nothing
     * to do. */
    int (*prepare)(void *context, struct loader_agent *agent, struct base_error *error);
    void *context;
};

/* `held`: the process is held by helper_trace_hold or an event, and stays so. What a killed tally left there
 * is removed first. On failure the process is as it was. BASE_EBUSY: a tracer, or a moment in which nothing
 * can be done; BASE_EPERMISSION, BASE_EUNSUPPORTED: with the remedy; BASE_ENOTFOUND: it ended. That a
 * function cannot be hooked is no error (loader_hooks). */
int loader_load(struct helper *helper, pid_t pid, bool held, const struct loader_options *options,
                struct loader_agent **agent, struct base_error *error);
/* Of process `pid`, forked from `parent`'s. */
int loader_adopt(const struct loader_agent *parent, pid_t pid, struct loader_agent **agent,
                 struct base_error *error);
/* The process is not touched. NULL is allowed. */
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

/* Stops the process unless it is held, and lets `visit` do what needs that: loader_write,
 * loader_call. Its result is the result. */
int loader_visit(struct loader_agent *agent, struct helper *helper, bool held,
                 int (*visit)(void *context, struct loader_agent *agent, struct base_error *error),
                 void *context, struct base_error *error);
/* System calls in the process's name (helper_trace_call), in `visit` or `prepare`. */
int loader_call(struct loader_agent *agent, struct helper_trace_call *calls, size_t count,
                struct base_error *error);

/* --- hooks --- */

/* Hooks what is new among the objects of the process, and forgets what is gone. `quiet`: the new objects'
 * code is not run yet, because who maps them waits for this: then nothing is stopped if there is room for
 * code within reach. Returns how many hooks were set. */
int loader_update(struct loader_agent *agent, struct helper *helper, bool held, bool quiet,
                  struct base_error *error);

enum loader_state {
    LOADER_HOOKED,
    LOADER_FOUND,
    LOADER_REFUSED, /* reason */
    LOADER_GONE,    /* its object was unmapped */
    LOADER_LIFTED   /* it made way for a breakpoint of somebody else's */
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

/* A uprobe's breakpoint that comes over the first byte of a hook has the file's first instruction executed, and then what lies behind it;
 * when it goes, the kernel writes the file's byte. Both are right only where the bytes behind it are the file's again: such hooks make way.
 * Does one have to? Nothing is stopped for the question. */
bool loader_is_probed(const struct loader_agent *agent);
/* Returns how many functions have made way; their hooks are LOADER_LIFTED. What it cannot do now is left for the next time. */
int loader_lift(struct loader_agent *agent, struct helper *helper, bool held, struct base_error *error);

/* --- leaving --- */

struct loader_left {
    uint64_t places; /* functions that were put back */
    uint64_t
        probed; /* of them where a breakpoint of somebody else's came over the hook, or one that was there has gone: ours go, it stays */
    uint64_t
        skipped; /* functions that somebody else has changed otherwise: left as they are, and all of ours stays mapped */
    uint64_t mappings;   /* of ours that were found */
    uint64_t bytes_left; /* of ours that stay mapped, because a thread is, may come back or be led there */
};

/* Puts functions back, tells the agent (WIRE_AGENT_LEFT), gives copied pages of text back; then, as soon as
 * no thread is inside or may come back, unmaps everything; else it stays, inert. Who is inside the region
 * tells (wire_agent_control.h). For any process with an agent, whoever put it
 * there; without one, nothing is left and nothing done. BASE_EBUSY: another tally that runs did, and records
 * it. */
int loader_leave(struct helper *helper, pid_t pid, bool held, struct loader_left *left,
                 struct base_error *error);

/* --- exec: a thread rang before its execve, and waits --- */

/* From now on execs of the process of thread `tid` are events. It goes on as it was; who rang may be answered
 * when this has returned. Serves a command that is about to be launched, too. */
int loader_expect_exec(struct helper *helper, pid_t tid, struct base_error *error);
/* Takes one event of the helper (helper_trace_next). True: process event->pid stands in a new image: load with
 * `held`, then loader_let_go. All else is answered here. */
bool loader_take_event(struct helper *helper, const struct trace_event *event);
/* The process of thread `tid` is traced no more. Also when its exec failed, or is not awaited any longer. */
void loader_let_go(struct helper *helper, pid_t tid);

#endif
