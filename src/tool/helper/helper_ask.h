/* helper_ask.h - one question to the helper, and its answer. Private to helper*.c and
 * helper_trace.c. Context: tool. */
#ifndef HELPER_ASK_H
#define HELPER_ASK_H

#include <stddef.h>

#include "base_error.h"
#include "helper.h"
#include "helper_wire.h"

struct helper_reply {
    struct helper_message message;
    void *bytes; /* owned; NULL: none */
    int file;    /* owned; -1: none */
};

/* Asks and waits; `file` unless -1 goes along. Events that come before the answer are queued. BASE_OK, what
 * the helper reported, or BASE_EIO when it has ended. On BASE_OK the reply is to be freed. */
int helper_ask(struct helper *helper, const struct helper_message *request, const void *bytes, int file,
               struct helper_reply *reply, struct base_error *error);
void helper_ask_free(struct helper_reply *reply);

/* The same, for answers that are only values: they replace those of the request. */
int helper_ask_values(struct helper *helper, struct helper_message *request, const void *bytes,
                      struct base_error *error);
/* And for answers that are `size` bytes. */
int helper_ask_bytes(struct helper *helper, const struct helper_message *request, void *bytes, size_t size,
                     struct base_error *error);

/* The next message, whatever it is; events are queued. 1: it was events, 0: an answer. */
int helper_ask_receive(struct helper *helper, struct helper_reply *reply, struct base_error *error);

/* An answer's values as helper.h shows them; `result` may be NULL. */
void helper_ask_stopped(const struct helper_message *message, struct helper_stopped *result);

#endif
