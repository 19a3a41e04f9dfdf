/* helper_wire.h - the messages between tally and its helper. Both are the same binary: plain structures.
 *
 * A request is this header and `size` bytes; so is its answer, which comes before the next request. A
 * descriptor may be sent with either's header. Events may come at any time between two messages. Private to
 * helper*.c. */
#ifndef HELPER_WIRE_H
#define HELPER_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

enum helper_command {
    HELPER_STOP, /* pid */
    HELPER_RESUME,
    HELPER_STAGE, /* bytes: changes; or their number, and a file (trace_stage.h) */
    HELPER_APPLY,
    HELPER_UNDO,
    HELPER_THREADS,
    HELPER_READ_REGISTERS,  /* tid */
    HELPER_WRITE_REGISTERS, /* tid; bytes: registers */
    HELPER_READ,            /* address, size */
    HELPER_WRITE,           /* address; bytes */
    HELPER_MAP,             /* low, high, size, protection */
    HELPER_SHARE,           /* low, high, size, protection, data, data_first; bytes: a name, or none */
    HELPER_SHARE_PIECES,    /* address, size of the file; bytes: HELPER_NAME of a name, pieces */
    HELPER_UNMAP,           /* address, size */
    /* helper_trace.h; all of them, and those above that need a stopped process, are for message.pid */
    HELPER_FOLLOW,
    HELPER_LEAVE,
    HELPER_GIVE,   /* bytes: gs bases */
    HELPER_SET_GS, /* tid, gs */
    HELPER_HOLD,
    HELPER_RELEASE,
    HELPER_REMAP,         /* address, 0, size, protection; struct trace_inject_word[] */
    HELPER_STEP_OUT,      /* tid; bytes: ranges */
    HELPER_WRITE_AT_EXIT, /* address, value */
    HELPER_COST,
    HELPER_GIVE_BACK, /* address, size */
    HELPER_WIPE,      /* address, size */
    HELPER_DETACH,    /* bytes: ranges */
    HELPER_REATTACH,
    HELPER_CLEAR, /* bytes: ranges */
    HELPER_REPORT_ENDINGS,
    HELPER_LET_END,
    HELPER_CALL, /* process; bytes: calls, and so is the answer */
    HELPER_DETACH_CHILDREN,
    HELPER_CLEAR_GS, /* offset; bytes: ranges */
    HELPER_SUSPEND,
    HELPER_COMMANDS
};

#define HELPER_EVENTS 1 /* the code of a message that is no answer; bytes: struct trace_event */

#define HELPER_VALUES 6
#define HELPER_NAME   64           /* bytes of a name, with its zeros */
#define HELPER_MOST   (1ull << 30) /* bytes in one message */

struct helper_message {
    int32_t code; /* a command, or BASE_OK or an error, and then the bytes are its text, or HELPER_EVENTS */
    int32_t pid;  /* the process that a command is for; 0: the one of HELPER_STOP */
    uint64_t values[HELPER_VALUES];
    uint64_t size;
};

/* Sends header and bytes, and `file` unless -1. 0 or -1: the other end is gone. */
int helper_wire_send(int socket, const struct helper_message *message, const void *bytes, int file);

/* Receives a header, and in *bytes its bytes (malloc, one 0 behind them; NULL if there are none), and in
 * *file a descriptor or -1. `file` may be NULL. 0; -1: the other end is gone; 1: there was no memory for the
 * bytes, which are skipped: the next message can be received. */
int helper_wire_receive(int socket, struct helper_message *message, void **bytes, int *file);

/* send(2) and recv(2), without a signal if the other end is gone. */
ssize_t helper_wire_put(int socket, const void *bytes, size_t size, int flags);
ssize_t helper_wire_get(int socket, void *bytes, size_t size, int flags);

/* The helper, from its fork to _exit. */
_Noreturn void helper_serve(int socket);

#endif
