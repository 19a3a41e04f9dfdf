/* space.h - one address space whose calls are counted: what is mapped in it, patched in it, and ours in it.
 *
 * A space belongs to a process, and to those that run in its memory (vfork, CLONE_VM). It is prepared in four
 * steps, so that the target is held for two of them only, and a failure leaves it as it was:
 *
 *   step                     target    what it does
 *   survey (space_survey.h)  runs      reads the mappings; new objects are planned, gone ones closed
 *   place (space_place.h)    is held   maps memory of ours beside new objects
 *   make (space_make.h)      runs      the bytes of stubs and hooks; where linkage slots lead
 *   apply (space_apply.h)    is held   threads that stand among bytes that change are moved on; then all
 *                                      bytes change, or none
 *
 * Memory of ours. An *arena* lies within reach of some objects: code (stubs, hooks) and one block of counters
 * for the forms PLAIN and LOCK. In the form THREAD each thread has a block of its own, anywhere, and there is
 * a fallback block at a fixed low address for threads that have gs = 0 (stub_block.h). An object has the same
 * numbers of counters in every block. Stubs are never rewritten: another form is a new patch of the object in
 * the arena, to which its sites are led, or in spare code within reach of object and block when that is full.
 *
 * A fork child is a copy: it shares the code (which nothing changes) and gets counters of its own under the
 * same addresses. Context: tool, one thread. */
#ifndef SPACE_H
#define SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "base_map.h"
#include "helper.h"
#include "helper_trace.h"
#include "slab.h"
#include "slab_block.h"
#include "space_image.h"
#include "stub_doorbell.h"
#include "trace_step.h"

/* What of an edge's calls in the profile came from one space. */
struct space_published {
    uint32_t edge;
    uint64_t calls;
};

/* What all spaces of a session have in common. */
struct space_session {
    struct helper helper;
    struct space_images images;
    struct profile *profile;
    /* The real return address behind one that the agent has replaced (calls_client); NULL: it replaces
     * none. */
    uint64_t (*real)(void *context, pid_t pid, uint64_t address);
    void *real_context;
    bool committed;                  /* pages are made before they are touched (proc_commit.h) */
    uint64_t spaces;                 /* made so far */
    uint64_t stub_bytes, stub_sites; /* of all objects' first stubs, and how many there are */
};

/* Code of ours; the same in a process and its fork children. */
struct space_code {
    unsigned owners;
    int file;
    uint64_t offset; /* in the file */
    uint64_t address, size;
    uint64_t used, top; /* taken from the beginning, and from `top` on; free between */
    uint8_t *bytes;     /* our own mapping of it */
    bool spare;         /* mapped because an arena's was full */
};

/* Shared memory with counters. */
struct space_memory {
    int file;
    uint64_t offset; /* in the file; not 0: behind code, in the same file */
    uint64_t address, size;
};

/* Behind the block there is a page for the words of a doorbell. */
#define SPACE_ARENA_DATA (SLAB_BLOCK_SIZE + 4096)
struct space_arena {
    struct space_code *code;
    struct slab_block block;
};

/* One form of an object's stubs and hooks. Never changed once it is made; the same in fork children. */
struct space_patch {
    unsigned owners;
    struct slab slab;
    struct slab_region *regions;
    /* Of each site that goes through a slot: its stub goes to the function at once, past any hook. */
    uint8_t *past;
    struct slab_prepared_way *ways; /* what is to be prepared for the next time; NULL: nothing */
};

struct space_object {
    uint32_t image; /* in sample_images */
    const struct space_image *planned;
    uint64_t bias, low, high; /* run-time; of its executable mappings */
    bool live;                /* still mapped */
    bool placed;
    bool chosen;  /* which of its exports have hooks */
    bool stale;   /* its patch is to be made anew */
    bool refused; /* it cannot be counted here, which has been reported: not tried again */
    uint32_t arena;
    struct space_code *room; /* where room for the next patch is reserved; NULL: none is yet */
    uint64_t room_at;
    size_t first_window, window_count; /* in the space's windows */
    uint32_t base;                     /* number of its first counter */
    uint8_t *wanted;            /* as planned->wanted, less what cannot be done here; NULL: everything */
    struct space_patch *patch;  /* in force; NULL: none */
    struct space_patch *next;   /* built, not applied */
    struct space_patch **older; /* their code is still there */
    size_t older_count, older_capacity;
    uint64_t *slots;    /* values of planned->slots as last read; 0: unknown */
    uint64_t differing; /* places where the text was not as in the file */
    /* Run-time addresses of writes of `patch` that are not in force any more: others changed these places. */
    uint64_t *lifted;
    size_t lifted_count, lifted_capacity;
    struct slab_guess *guesses; /* room for SLAB_GUESSES; NULL: none: space_guess.h */
    size_t guess_count;
};

struct space_mapping {
    uint64_t start, end, bias;
    uint32_t image; /* in sample_images; opened */
};

enum space_thread_state {
    SPACE_FREE,   /* no thread's */
    SPACE_POOLED, /* with the helper, for a thread to come */
    SPACE_USED,   /* thread `tid` counts here */
    SPACE_ENDED,  /* it did; the counts are still to be read */
    SPACE_THREAD_STATES
};

/* A thread's counters. */
struct space_thread {
    struct slab_block block;
    enum space_thread_state state; /* set by space_threads_set */
    pid_t process, tid;
    bool published;    /* running totals were published, under its own number */
    uint64_t ended_ns; /* CLOCK_MONOTONIC */
};

enum { SPACE_DOORBELLS = 32 };

/* Detaching from the process while it creates no threads or processes: calls_detach.h. */
struct space_detached {
    uint64_t created_ns;    /* when a thread or process was last created; CLOCK_MONOTONIC */
    uint64_t failed_ns;     /* when detaching last failed; 0: it did not */
    unsigned failures;      /* in a row */
    unsigned notifications; /* at which it had to be reattached */
    /* The doorbell of creations is enabled, unless a thread that waited too long has disabled it; the process
     * may not be traced. */
    bool open;
    /* If is_owned: a lock on the process (proc_owner.h), since no tracer shows others that we are here. */
    int owner;
    bool is_owned;
    /* Run-time address of the doorbell of creations in doorbell_code; 0: there is none yet. */
    uint64_t doorbell;
    size_t count; /* functions that notify */
    struct trace_memory_change changes[SPACE_DOORBELLS];
    /* The functions that create; the last one: our code. */
    struct trace_step_range ranges[SPACE_DOORBELLS + 1];
};

struct space {
    pid_t pid;                  /* a process in it, by which the helper knows it */
    pid_t first_tid;            /* the thread that was alone at first */
    unsigned published_threads; /* ended threads whose counts are published */
    unsigned processes;
    uint64_t number;      /* in the session */
    uint64_t overwritten; /* places of ours that others have changed, and that are in no list any more */
    uint64_t created_ns;  /* CLOCK_MONOTONIC */
    bool copied;          /* the lists of the parent of a fork child, which may lack what they name */
    bool launched;        /* seen from its first instruction on */
    uint64_t probes_ns;   /* when hooks are looked at next, for breakpoints of others; CLOCK_MONOTONIC */
    unsigned rebinds;     /* how often stubs were made anew for what was bound since */
    bool guessed;         /* or guesses were considered and not worth that */
    enum stub_form form;
    struct space_mapping *mappings; /* executable ones of files, by address */
    size_t mapping_count, mapping_capacity;
    size_t chosen_mappings;       /* how many there were when hooks of exports were chosen */
    struct space_object *objects; /* closed ones too */
    size_t object_count, object_capacity;
    struct space_arena *arenas;
    size_t arena_count, arena_capacity;
    struct space_code **windows; /* space_window.h */
    size_t window_count, window_capacity;
    struct space_memory *memories; /* all that counters lie in */
    size_t memory_count, memory_capacity;
    uint32_t word_end;  /* numbers of counters given out so far */
    bool committed;     /* as in the session */
    uint64_t gs_offset; /* STUB_BLOCK's WORD; 0: there are no blocks of threads */
    struct slab_block fallback;
    struct space_thread *threads;
    size_t thread_count, thread_capacity;
    size_t thread_states[SPACE_THREAD_STATES]; /* how many are in each */
    size_t first_free;                         /* none before it is free */
    struct base_map thread_blocks;             /* address of a block -> index in threads */
    /* tid -> index: that it was given before its creation was reported, once. */
    struct base_map thread_assigned;
    struct base_map published_of; /* edge -> index in published */
    struct space_published *published;
    size_t published_count, published_capacity;
    struct space_code *doorbell_code;
    struct stub_doorbell *doorbell;             /* our mapping of its words; NULL: none */
    uint64_t doorbell_words;                    /* in the target */
    uint64_t object_list;                       /* its struct r_debug; 0: not known */
    struct trace_memory_change doorbell_change; /* length 0: none is planned */
    bool doorbell_set;                          /* it is made */
    struct space_detached detached;
};

/* A new space of process `pid`, empty. NULL: out of memory. */
struct space *space_new(struct space_session *session, pid_t pid);
/* Closes what is ours; the target is not touched. */
void space_free(struct space *space);

/* A return address in a closed object is kept in the blocks under another name, so that it is not mistaken
 * for one in an object that is mapped there later: the object's index + 1 in the bits above, and the image
 * address. */
#define SPACE_CLOSED_SHIFT 48
static inline uint64_t space_closed_name(size_t object, uint64_t image_address)
{
    return ((uint64_t)object + 1) << SPACE_CLOSED_SHIFT | image_address;
}
/* The object of such a name, whose run-time address replaces it; NULL: it is none. */
const struct space_object *space_closed(const struct space *space, uint64_t *return_address);

/* Reads what is mapped, and no more. */
int space_look(struct space *space, struct space_session *session, struct base_error *error);
/* How many pairs of caller and callee hooks may see, about: sites that may call anything. */
uint64_t space_pairs(const struct space *space);

/* The mapping of a run-time address; NULL: none that is known. */
const struct space_mapping *space_mapping(const struct space *space, uint64_t address);
/* The live object at a run-time address; NULL: none. */
const struct space_object *space_object(const struct space *space, uint64_t address);

/* For files of this module: give back an object's parts, and a patch when nobody owns it any more. */
void space_free_object(struct space_object *object);
void space_patch_release(struct space_patch *patch);

#endif
