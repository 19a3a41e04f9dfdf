/* patch_helper_wire.h - what tally and its helper say to each other. Both are the same binary: plain
 * structures.
 *
 * A request is this header and `size` bytes; so is its answer, which comes before the next request. A
 * descriptor may ride on either's header. Events may come at any time between two messages. Private to
 * patch_helper*.c. */
#ifndef PATCH_HELPER_WIRE_H
#define PATCH_HELPER_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

enum patch_helper_command {
    PATCH_HELPER_CHECK, /* pid */
    PATCH_HELPER_STOP,  /* pid */
    PATCH_HELPER_RESUME,
    PATCH_HELPER_STAGE, /* bytes: changes; or their number, and a file (patch_stage.h) */
    PATCH_HELPER_APPLY,
    PATCH_HELPER_UNDO,
    PATCH_HELPER_SWITCH, /* pid, on */
    PATCH_HELPER_THREADS,
    PATCH_HELPER_READ_REGISTERS,  /* tid */
    PATCH_HELPER_WRITE_REGISTERS, /* tid; bytes: registers */
    PATCH_HELPER_READ,            /* address, size */
    PATCH_HELPER_WRITE,           /* address; bytes */
    PATCH_HELPER_MAP,             /* low, high, size, protection */
    PATCH_HELPER_SHARE,           /* low, high, size, protection, data, data_first; bytes: a name, or none */
    PATCH_HELPER_SHARE_PIECES,    /* address, size of the file; bytes: PATCH_HELPER_NAME of a name, pieces */
    PATCH_HELPER_UNMAP,           /* address, size */
    PATCH_HELPER_PROTECT,         /* address, size, protection */
    /* patch_trace.h; all of them, and those above that need a stopped process, are for message.pid */
    PATCH_HELPER_FOLLOW,
    PATCH_HELPER_LEAVE,
    PATCH_HELPER_GIVE, /* bytes: gs bases */
    PATCH_HELPER_LEFT,
    PATCH_HELPER_SET_GS, /* tid, gs */
    PATCH_HELPER_HOLD,
    PATCH_HELPER_RELEASE,
    PATCH_HELPER_REMAP,    /* address, 0, size, protection; struct patch_inject_word[] */
    PATCH_HELPER_STEP_OUT, /* tid; bytes: ranges */
    PATCH_HELPER_FAREWELL, /* address, value */
    PATCH_HELPER_COST,
    PATCH_HELPER_GIVE_BACK, /* address, size */
    PATCH_HELPER_WIPE,      /* address, size */
    PATCH_HELPER_LOOSEN,    /* bytes: ranges */
    PATCH_HELPER_TIGHTEN,
    PATCH_HELPER_CLEAR, /* bytes: ranges */
    PATCH_HELPER_TELL_ENDINGS,
    PATCH_HELPER_LET_END,
    PATCH_HELPER_CALL, /* process; bytes: calls, and so is the answer */
    PATCH_HELPER_FREE_CHILDREN,
    PATCH_HELPER_CLEAR_GS, /* offset; bytes: ranges */
    PATCH_HELPER_SUSPEND,
    PATCH_HELPER_COMMANDS
};

#define PATCH_HELPER_EVENTS 1 /* the code of what is no answer; bytes: struct patch_trace_event */

#define PATCH_HELPER_VALUES 6
#define PATCH_HELPER_NAME   64           /* bytes of a name, with its zeros */
#define PATCH_HELPER_MOST   (1ull << 30) /* bytes in one message */

struct patch_helper_message {
    int32_t
        code; /* a command, or BASE_OK or an error, and then the bytes are its text, or PATCH_HELPER_EVENTS */
    int32_t pid; /* whom a command is for; 0: the one of PATCH_HELPER_STOP */
    uint64_t values[PATCH_HELPER_VALUES];
    uint64_t size;
};

/* Sends header and bytes, and `file` unless -1. 0 or -1: the other end is gone. */
int patch_helper_wire_send(int socket, const struct patch_helper_message *message, const void *bytes,
                           int file);

/* Receives a header, and in *bytes its bytes (malloc, one 0 behind them; NULL if there are none), and in
 * *file a descriptor or -1. `file` may be NULL. 0; -1: the other end is gone; 1: there was no memory for the
 * bytes, which are gone: the next message can be received. */
int patch_helper_wire_receive(int socket, struct patch_helper_message *message, void **bytes, int *file);

/* send(2) and recv(2), without a signal where the other end is gone. */
ssize_t patch_helper_wire_put(int socket, const void *bytes, size_t size, int flags);
ssize_t patch_helper_wire_get(int socket, void *bytes, size_t size, int flags);

/* The helper's life, from its birth to _exit. */
_Noreturn void patch_helper_serve(int socket);

#endif
