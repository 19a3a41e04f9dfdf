/* Tally's side. */
#include "patch_helper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "patch_helper_wire.h"

int patch_helper_begin(struct patch_helper *helper, struct base_error *error)
{
    int ends[2];
    *helper = (struct patch_helper){0, -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return base_fail_errno(error, errno, "socketpair");
    pid_t pid = fork();
    if (pid == 0)
        patch_helper_serve(ends[1]);
    int number = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return base_fail_errno(error, number, "fork");
    }
    *helper = (struct patch_helper){pid, ends[0]};
    return BASE_OK;
}

void patch_helper_end(struct patch_helper *helper)
{
    if (helper->socket >= 0)
        close(helper->socket);
    if (helper->pid > 0)
        while (waitpid(helper->pid, NULL, 0) < 0 && errno == EINTR)
            ;
    *helper = (struct patch_helper){0, -1};
}

/* --- one question and its answer --- */

struct answer {
    struct patch_helper_message message;
    void *bytes;
    int file;
};

static void free_answer(struct answer *answer)
{
    free(answer->bytes);
    if (answer->file >= 0)
        close(answer->file);
}

/* On BASE_OK the answer is to be freed. */
static int ask(struct patch_helper *helper, const struct patch_helper_message *request, const void *bytes,
               struct answer *answer, struct base_error *error)
{
    *answer = (struct answer){.file = -1};
    if (request->size > PATCH_HELPER_MOST)
        return base_fail(error, BASE_EUSAGE, "more than 1 GiB in one step");
    if (helper->socket < 0 || patch_helper_wire_send(helper->socket, request, bytes, -1) ||
        patch_helper_wire_receive(helper->socket, &answer->message, &answer->bytes, &answer->file))
        return base_fail(error, BASE_EIO, "the helper process of tally that traces the program has ended");
    int code = answer->message.code;
    if (code < 0) {
        base_fail(error, code, "%s", answer->bytes ? (const char *)answer->bytes : "no reason given");
        free_answer(answer);
    }
    return code;
}

/* The same, for answers that are only values. */
static int ask_values(struct patch_helper *helper, struct patch_helper_message *request, const void *bytes,
                      struct base_error *error)
{
    struct answer answer;
    int result = ask(helper, request, bytes, &answer, error);
    if (result < 0)
        return result;
    memcpy(request->values, answer.message.values, sizeof request->values);
    free_answer(&answer);
    return result;
}

/* And for answers that are a fixed number of bytes. */
static int ask_bytes(struct patch_helper *helper, const struct patch_helper_message *request, void *bytes,
                     size_t size, struct base_error *error)
{
    struct answer answer;
    int result = ask(helper, request, NULL, &answer, error);
    if (result < 0)
        return result;
    if (answer.message.size != size)
        result = base_fail(error, BASE_EIO, "the helper answered %llu bytes",
                           (unsigned long long)answer.message.size);
    else if (size)
        memcpy(bytes, answer.bytes, size);
    free_answer(&answer);
    return result;
}

/* --- stopping --- */

static void take_stopped(const struct patch_helper_message *message, struct patch_helper_stopped *result)
{
    if (result)
        *result = (struct patch_helper_stopped){message->values[0], message->values[1], message->values[2],
                                                message->values[3]};
}

int patch_helper_check(struct patch_helper *helper, pid_t pid, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_CHECK, .values = {(uint64_t)pid}};
    return ask_values(helper, &message, NULL, error);
}

int patch_helper_stop(struct patch_helper *helper, pid_t pid, struct patch_helper_stopped *result,
                      struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_STOP, .values = {(uint64_t)pid}};
    int code = ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        take_stopped(&message, result);
    return code;
}

int patch_helper_resume(struct patch_helper *helper, struct patch_helper_stopped *result,
                        struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_RESUME};
    int code = ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        take_stopped(&message, result);
    return code;
}

/* --- changes --- */

int patch_helper_stage(struct patch_helper *helper, const struct patch_memory_change *changes, size_t count,
                       struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_STAGE, .size = count * sizeof *changes};
    return ask_values(helper, &message, changes, error);
}

int patch_helper_apply(struct patch_helper *helper, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_APPLY};
    return ask_values(helper, &message, NULL, error);
}

int patch_helper_undo(struct patch_helper *helper, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_UNDO};
    return ask_values(helper, &message, NULL, error);
}

int patch_helper_switch(struct patch_helper *helper, pid_t pid, bool on, struct patch_helper_stopped *result,
                        struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_SWITCH, .values = {(uint64_t)pid, on}};
    int code = ask_values(helper, &message, NULL, error);
    if (code == BASE_OK)
        take_stopped(&message, result);
    return code;
}

/* --- threads and memory --- */

int patch_helper_threads(struct patch_helper *helper, struct patch_stop_thread **threads, size_t *count,
                         struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_THREADS};
    struct answer answer;
    int result = ask(helper, &message, NULL, &answer, error);
    if (result < 0)
        return result;
    *threads = answer.bytes;
    *count = (size_t)(answer.message.size / sizeof **threads);
    answer.bytes = NULL;
    free_answer(&answer);
    return BASE_OK;
}

int patch_helper_read_registers(struct patch_helper *helper, pid_t tid, struct user_regs_struct *registers,
                                struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_READ_REGISTERS, .values = {(uint64_t)tid}};
    return ask_bytes(helper, &message, registers, sizeof *registers, error);
}

int patch_helper_write_registers(struct patch_helper *helper, pid_t tid,
                                 const struct user_regs_struct *registers, struct base_error *error)
{
    struct patch_helper_message message = {
        .code = PATCH_HELPER_WRITE_REGISTERS, .values = {(uint64_t)tid}, .size = sizeof *registers};
    return ask_values(helper, &message, registers, error);
}

int patch_helper_read(struct patch_helper *helper, uint64_t address, void *bytes, size_t size,
                      struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_READ, .values = {address, size}};
    return ask_bytes(helper, &message, bytes, size, error);
}

int patch_helper_write(struct patch_helper *helper, uint64_t address, const void *bytes, size_t size,
                       struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_WRITE, .values = {address}, .size = size};
    return ask_values(helper, &message, bytes, error);
}

/* --- mappings --- */

static struct patch_helper_message of_room(enum patch_helper_command command,
                                           const struct patch_helper_room *room)
{
    return (struct patch_helper_message){
        .code = command, .values = {room->low, room->high, room->size, (uint64_t)room->protection}};
}

int patch_helper_map(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                     struct base_error *error)
{
    struct patch_helper_message message = of_room(PATCH_HELPER_MAP, room);
    int result = ask_values(helper, &message, NULL, error);
    if (result == BASE_OK)
        *address = message.values[0];
    return result;
}

int patch_helper_share(struct patch_helper *helper, const struct patch_helper_room *room, uint64_t *address,
                       int *file, struct base_error *error)
{
    struct patch_helper_message message = of_room(PATCH_HELPER_SHARE, room);
    struct answer answer;
    int result = ask(helper, &message, NULL, &answer, error);
    if (result < 0)
        return result;
    if (answer.file < 0) {
        /* Our table of descriptors is full: what was mapped for nobody goes again. */
        patch_helper_unmap(helper, answer.message.values[0], room->size, NULL);
        result = base_fail(error, BASE_EIO,
                           "no descriptor is free for shared memory; raise the limit (ulimit -n)");
    } else {
        *address = answer.message.values[0];
        *file = answer.file;
        answer.file = -1;
    }
    free_answer(&answer);
    return result;
}

int patch_helper_unmap(struct patch_helper *helper, uint64_t address, uint64_t size, struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_UNMAP, .values = {address, size}};
    return ask_values(helper, &message, NULL, error);
}

int patch_helper_protect(struct patch_helper *helper, uint64_t address, uint64_t size, int protection,
                         struct base_error *error)
{
    struct patch_helper_message message = {.code = PATCH_HELPER_PROTECT,
                                           .values = {address, size, (uint64_t)protection}};
    return ask_values(helper, &message, NULL, error);
}
