/* patch_helper_ask.h - one question to the helper, and its answer. Private to patch_helper*.c and
 * patch_trace.c. Context: tool. */
#ifndef PATCH_HELPER_ASK_H
#define PATCH_HELPER_ASK_H

#include <stddef.h>

#include "base_error.h"
#include "patch_helper.h"
#include "patch_helper_wire.h"

struct patch_helper_reply {
    struct patch_helper_message message;
    void *bytes; /* owned; NULL: none */
    int file;    /* owned; -1: none */
};

/* Asks and waits; `file` unless -1 goes along. Events that come before the answer are queued. BASE_OK, what
 * the helper reported, or BASE_EIO when it has ended. On BASE_OK the reply is to be freed. */
int patch_helper_ask(struct patch_helper *helper, const struct patch_helper_message *request,
                     const void *bytes, int file, struct patch_helper_reply *reply, struct base_error *error);
void patch_helper_ask_free(struct patch_helper_reply *reply);

/* The same, for answers that are only values: they replace those of the request. */
int patch_helper_ask_values(struct patch_helper *helper, struct patch_helper_message *request,
                            const void *bytes, struct base_error *error);
/* And for answers that are `size` bytes. */
int patch_helper_ask_bytes(struct patch_helper *helper, const struct patch_helper_message *request,
                           void *bytes, size_t size, struct base_error *error);

/* The next message, whatever it is; events are queued. 1: it was events, 0: an answer. */
int patch_helper_ask_receive(struct patch_helper *helper, struct patch_helper_reply *reply,
                             struct base_error *error);

/* An answer's values as patch_helper.h shows them; `result` may be NULL. */
void patch_helper_ask_stopped(const struct patch_helper_message *message,
                              struct patch_helper_stopped *result);

#endif
