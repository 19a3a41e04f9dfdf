/* patch_helper_work.h - what the helper does for one request. Private to patch_helper*.c. Context: helper. */
#ifndef PATCH_HELPER_WORK_H
#define PATCH_HELPER_WORK_H

#include "base_error.h"
#include "patch_follow.h"
#include "patch_helper_wire.h"

struct patch_helper_server {
    int socket;
    struct patch_follow follow;
    struct patch_follow_space once; /* of PATCH_HELPER_STOP: nobody follows it */
    bool suspended;                 /* tally is about to stop: nothing waits for it */
};

/* What goes back. `bytes` is `owned`, which is freed, or points into the server. */
struct patch_helper_answer {
    struct patch_helper_message message;
    const void *bytes;
    void *owned;
    int file; /* -1: none; closed when it is sent */
};

/* BASE_OK, or an error for tally. `file`: what came with the request, or -1; it stays the caller's. */
int patch_helper_work(struct patch_helper_server *server, const struct patch_helper_message *request,
                      const void *bytes, int file, struct patch_helper_answer *answer,
                      struct base_error *error);

/* Lets the process of PATCH_HELPER_STOP go. */
void patch_helper_work_let_go(struct patch_helper_server *server);

#endif
