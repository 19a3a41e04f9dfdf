/* The helper's side: a loop that reads a request, does it, and answers. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "patch_gap.h"
#include "patch_helper.h"
#include "patch_helper_wire.h"
#include "patch_inject.h"
#include "patch_target.h"

#define LINGER_MS 2 /* between two looks at threads that were not awake to be let go */
#define SOCKET    3 /* behind the three that every process has */
#define READ_MOST (64u << 20)

struct server {
    int socket;
    struct patch_stop stop;
    struct patch_memory memory; /* open while the target is stopped */
    struct patch_memory_change *staged;
    size_t staged_count;
    bool impatient; /* the target was let go because no step came */
};

/* What goes back. `bytes` is freed unless it points into the server. */
struct answer {
    struct patch_helper_message message;
    const void *bytes;
    void *owned;
    int file;
};

/* --- stop and go --- */

static int begin(struct server *server, pid_t pid, struct base_error *error)
{
    if (server->stop.holding)
        return base_fail(error, BASE_EUSAGE, "process %d is stopped already", server->stop.pid);
    if (server->stop.count && server->stop.pid != pid)
        return base_fail(error, BASE_EUSAGE, "this helper still waits for threads of process %d",
                         server->stop.pid);
    server->impatient = false;
    int result = patch_stop_begin(&server->stop, pid, error);
    if (result < 0)
        return result;
    pid_t tid = pid;
    for (size_t i = 0; i < server->stop.count; i++) /* the first thread may have ended */
        if (server->stop.threads[i].process == pid && server->stop.threads[i].state != PATCH_STOP_GONE) {
            tid = server->stop.threads[i].tid;
            break;
        }
    result = patch_memory_open(&server->memory, tid, error);
    if (result < 0)
        patch_stop_end(&server->stop);
    return result;
}

static void count(const struct server *server, struct answer *answer)
{
    answer->message.values[0] = server->stop.count;
    answer->message.values[1] = server->stop.attempts;
}

static void end(struct server *server, struct answer *answer)
{
    uint64_t began = server->stop.began;
    count(server, answer);
    patch_memory_close(&server->memory);
    answer->message.values[3] = patch_stop_end(&server->stop);
    answer->message.values[2] = patch_target_now() - began;
}

static int need_stop(const struct server *server, struct base_error *error)
{
    if (server->stop.holding)
        return BASE_OK;
    if (server->impatient)
        return base_fail(
            error, BASE_EBUSY,
            "process %d was let go because tally asked for nothing for %d ms (was tally stopped?)",
            server->stop.pid, PATCH_HELPER_PATIENCE_MS);
    return base_fail(error, BASE_EUSAGE, "no process is stopped");
}

static int do_stop(struct server *server, const struct patch_helper_message *request, const void *bytes,
                   struct answer *answer, struct base_error *error)
{
    (void)bytes;
    int result = begin(server, (pid_t)request->values[0], error);
    count(server, answer);
    return result;
}

static int do_resume(struct server *server, const struct patch_helper_message *request, const void *bytes,
                     struct answer *answer, struct base_error *error)
{
    (void)request;
    (void)bytes;
    int result = need_stop(server, error);
    if (result == BASE_OK)
        end(server, answer);
    return result;
}

static int do_check(struct server *server, const struct patch_helper_message *request, const void *bytes,
                    struct answer *answer, struct base_error *error)
{
    int result = do_stop(server, request, bytes, answer, error);
    if (result == BASE_OK)
        end(server, answer);
    return result;
}

/* --- changes --- */

static int do_stage(struct server *server, const struct patch_helper_message *request, const void *bytes,
                    struct answer *answer, struct base_error *error)
{
    (void)answer;
    if (request->size % sizeof *server->staged)
        return base_fail(error, BASE_EUSAGE, "a list of changes with half a change");
    void *copy = malloc(request->size ? request->size : 1);
    if (!copy)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (request->size)
        memcpy(copy, bytes, request->size);
    free(server->staged);
    server->staged = copy;
    server->staged_count = (size_t)(request->size / sizeof *server->staged);
    return BASE_OK;
}

static int change(struct server *server, bool on, struct base_error *error)
{
    if (on)
        return patch_memory_apply(&server->memory, server->staged, server->staged_count, NULL, error);
    return patch_memory_undo(&server->memory, server->staged, server->staged_count, NULL, error);
}

static int do_change(struct server *server, const struct patch_helper_message *request, const void *bytes,
                     struct answer *answer, struct base_error *error)
{
    (void)bytes;
    (void)answer;
    int result = need_stop(server, error);
    return result < 0 ? result : change(server, request->code == PATCH_HELPER_APPLY, error);
}

static int do_switch(struct server *server, const struct patch_helper_message *request, const void *bytes,
                     struct answer *answer, struct base_error *error)
{
    (void)bytes;
    int result = begin(server, (pid_t)request->values[0], error);
    if (result < 0)
        return result;
    result = change(server, request->values[1] != 0, error);
    end(server, answer);
    return result;
}

/* --- threads and memory --- */

static int do_threads(struct server *server, const struct patch_helper_message *request, const void *bytes,
                      struct answer *answer, struct base_error *error)
{
    (void)request;
    (void)bytes;
    int result = need_stop(server, error);
    if (result < 0)
        return result;
    answer->bytes = server->stop.threads;
    answer->message.size = server->stop.count * sizeof *server->stop.threads;
    return BASE_OK;
}

static int allocate(struct answer *answer, uint64_t size, struct base_error *error)
{
    answer->owned = size <= READ_MOST ? malloc(size ? size : 1) : NULL;
    if (!answer->owned)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    answer->bytes = answer->owned;
    answer->message.size = size;
    return BASE_OK;
}

static int do_read_registers(struct server *server, const struct patch_helper_message *request,
                             const void *bytes, struct answer *answer, struct base_error *error)
{
    (void)bytes;
    int result = need_stop(server, error);
    if (result == BASE_OK)
        result = allocate(answer, sizeof(struct user_regs_struct), error);
    return result < 0 ? result
                      : patch_stop_read(&server->stop, (pid_t)request->values[0], answer->owned, error);
}

static int do_write_registers(struct server *server, const struct patch_helper_message *request,
                              const void *bytes, struct answer *answer, struct base_error *error)
{
    (void)answer;
    int result = need_stop(server, error);
    if (result == BASE_OK && request->size != sizeof(struct user_regs_struct))
        result = base_fail(error, BASE_EUSAGE, "these are no registers");
    return result < 0 ? result : patch_stop_write(&server->stop, (pid_t)request->values[0], bytes, error);
}

static int do_read(struct server *server, const struct patch_helper_message *request, const void *bytes,
                   struct answer *answer, struct base_error *error)
{
    (void)bytes;
    int result = need_stop(server, error);
    if (result == BASE_OK)
        result = allocate(answer, request->values[1], error);
    if (result < 0)
        return result;
    return patch_memory_read(&server->memory, request->values[0], answer->owned, (size_t)request->values[1],
                             error);
}

static int do_write(struct server *server, const struct patch_helper_message *request, const void *bytes,
                    struct answer *answer, struct base_error *error)
{
    (void)answer;
    int result = need_stop(server, error);
    if (result < 0)
        return result;
    return patch_memory_write(&server->memory, request->values[0], bytes, (size_t)request->size, error);
}

/* --- mappings --- */

static int find_room(const struct patch_inject *inject, const struct patch_helper_message *request,
                     uint64_t *address, struct base_error *error)
{
    struct patch_gap_wish wish = {request->values[0], request->values[1], request->values[2]};
    *address = wish.low;
    if (wish.high == 0)
        return BASE_OK;
    struct elf_maps maps = {0};
    int result = patch_inject_maps(inject, &maps, error);
    if (result == BASE_OK)
        result = patch_gap_find(&maps, &wish, address, error);
    elf_maps_free(&maps);
    return result;
}

static int map(struct patch_inject *inject, const struct patch_helper_message *request, struct answer *answer,
               struct base_error *error)
{
    uint64_t address = 0, size = request->values[2];
    int protection = (int)request->values[3];
    int result = find_room(inject, request, &address, error);
    if (result < 0)
        return result;
    answer->message.values[0] = address;
    if (request->code == PATCH_HELPER_MAP)
        return patch_inject_map(inject, address, size, protection, -1, error);
    return patch_inject_share(inject, "tally", address, size, protection, &answer->file, error);
}

static int do_mapping(struct server *server, const struct patch_helper_message *request, const void *bytes,
                      struct answer *answer, struct base_error *error)
{
    (void)bytes;
    struct patch_inject inject;
    int result = need_stop(server, error);
    if (result == BASE_OK)
        result = patch_inject_open(&inject, &server->stop, &server->memory, error);
    if (result < 0)
        return result;
    if (request->code == PATCH_HELPER_UNMAP)
        result = patch_inject_unmap(&inject, request->values[0], request->values[1], error);
    else if (request->code == PATCH_HELPER_PROTECT)
        result = patch_inject_protect(&inject, request->values[0], request->values[1],
                                      (int)request->values[2], error);
    else
        result = map(&inject, request, answer, error);
    patch_inject_close(&inject);
    return result;
}

/* --- the loop --- */

typedef int work(struct server *server, const struct patch_helper_message *request, const void *bytes,
                 struct answer *answer, struct base_error *error);

static work *const works[PATCH_HELPER_COMMANDS] = {
    [PATCH_HELPER_CHECK] = do_check,
    [PATCH_HELPER_STOP] = do_stop,
    [PATCH_HELPER_RESUME] = do_resume,
    [PATCH_HELPER_STAGE] = do_stage,
    [PATCH_HELPER_APPLY] = do_change,
    [PATCH_HELPER_UNDO] = do_change,
    [PATCH_HELPER_SWITCH] = do_switch,
    [PATCH_HELPER_THREADS] = do_threads,
    [PATCH_HELPER_READ_REGISTERS] = do_read_registers,
    [PATCH_HELPER_WRITE_REGISTERS] = do_write_registers,
    [PATCH_HELPER_READ] = do_read,
    [PATCH_HELPER_WRITE] = do_write,
    [PATCH_HELPER_MAP] = do_mapping,
    [PATCH_HELPER_SHARE] = do_mapping,
    [PATCH_HELPER_UNMAP] = do_mapping,
    [PATCH_HELPER_PROTECT] = do_mapping,
};

/* 0: the answer is sent. */
static int serve_one(struct server *server, const struct patch_helper_message *request, const void *bytes)
{
    struct base_error error = {0};
    struct answer answer = {.file = -1};
    int code = BASE_EUSAGE;
    if (request->code >= 0 && request->code < PATCH_HELPER_COMMANDS)
        code = works[request->code](server, request, bytes, &answer, &error);
    answer.message.code = code;
    if (code < 0) {
        answer.bytes = error.text;
        answer.message.size = strlen(error.text);
    }
    int result = patch_helper_wire_send(server->socket, &answer.message, answer.bytes, answer.file);
    if (answer.file >= 0)
        close(answer.file);
    free(answer.owned);
    return result;
}

static void let_go(struct server *server)
{
    struct answer nobody = {.file = -1};
    end(server, &nobody);
    server->impatient = true;
}

/* Waits for a request, and meanwhile does what time brings. False: none will come. */
static bool wait_for_request(struct server *server)
{
    uint64_t since = patch_target_now();
    for (;;) {
        struct pollfd socket = {server->socket, POLLIN, 0};
        int limit = server->stop.holding ? PATCH_HELPER_PATIENCE_MS : server->stop.count ? LINGER_MS : -1;
        int ready = poll(&socket, 1, limit);
        if (ready > 0)
            return (socket.revents & POLLIN) != 0;
        if (ready < 0 && errno != EINTR)
            return false;
        if (!server->stop.holding)
            patch_stop_poll(&server->stop);
        else if (patch_target_now() - since >= PATCH_HELPER_PATIENCE_MS * 1000000ull)
            let_go(server);
    }
}

/* Beside a busy target on few processors, who stops it must not wait for its turn: while it waits, some threads stand. */
static void hurry(void)
{
    struct sched_param least = {.sched_priority = 1};
    if (sched_setscheduler(0, SCHED_FIFO, &least))
        setpriority(PRIO_PROCESS, 0, -20); /* without the privilege, none of it */
}

/* A terminal's signals, tally's descriptors, tally's folder: nothing of it is ours. */
static void leave_home(int *socket)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setsid();
    prctl(PR_SET_NAME, "tally-helper");
    prctl(PR_SET_TIMERSLACK, 1000);
    hurry();
    if (*socket != SOCKET && dup2(*socket, SOCKET) == SOCKET)
        *socket = SOCKET;
    int null = open("/dev/null", O_RDWR);
    for (int file = 0; file <= 2 && null >= 0; file++)
        dup2(null, file);
    if (*socket == SOCKET)
        close_range(SOCKET + 1, ~0u, 0);
    /* A message that stops half way (tally stopped in the middle of it) must not keep the target stopped. */
    struct timeval patience = {PATCH_HELPER_PATIENCE_MS / 1000, 0};
    setsockopt(*socket, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    setsockopt(*socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (chdir("/"))
        return; /* a folder kept busy is all that comes of it */
}

_Noreturn void patch_helper_serve(int socket)
{
    struct server server = {.memory = {.file = -1}};
    struct patch_helper_message request;
    void *bytes = NULL;
    leave_home(&socket);
    server.socket = socket;
    while (wait_for_request(&server) && !patch_helper_wire_receive(server.socket, &request, &bytes, NULL)) {
        int sent = serve_one(&server, &request, bytes);
        free(bytes);
        if (sent < 0)
            break;
    }
    if (server.stop.holding)
        let_go(&server);
    _exit(0); /* and with it the kernel detaches what lingers */
}
