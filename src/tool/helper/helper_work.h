/* helper_work.h - what the helper does for one request. Private to helper*.c. Context: helper. */
#ifndef HELPER_WORK_H
#define HELPER_WORK_H

#include "base_error.h"
#include "helper_wire.h"
#include "trace_follow.h"

struct helper_server {
    int socket;
    struct trace_follow follow;
    struct trace_follow_space once; /* of HELPER_STOP: it is not followed */
    bool suspended;                 /* tally is about to stop: nothing waits for it */
};

/* The answer. `bytes` is `owned`, which is freed, or points into the server. */
struct helper_answer {
    struct helper_message message;
    const void *bytes;
    void *owned;
    int file; /* -1: none; closed when it is sent */
};

/* BASE_OK, or an error for tally. `file`: what came with the request, or -1; it stays the caller's. */
int helper_work(struct helper_server *server, const struct helper_message *request, const void *bytes,
                int file, struct helper_answer *answer, struct base_error *error);

/* Resumes the process of HELPER_STOP. */
void helper_work_resume(struct helper_server *server);

#endif
