#include "patch_helper_ask.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "patch_trace.h"

void patch_helper_ask_free(struct patch_helper_reply *reply)
{
    free(reply->bytes);
    if (reply->file >= 0)
        close(reply->file);
    *reply = (struct patch_helper_reply){.file = -1};
}

/* Who looks for events is told that there was no memory for some: the command whose answer they came before
 * is not to blame. */
static void queue(struct patch_helper *helper, const struct patch_helper_reply *reply)
{
    const char *bytes = reply->bytes;
    size_t count = bytes ? reply->message.size / sizeof *helper->events : 0;
    helper->events_lost |= reply->message.size && !bytes;
    if (helper->event_first == helper->event_count)
        helper->event_first = helper->event_count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!base_array_room(helper->events, helper->event_count, helper->event_capacity)) {
            helper->events_lost = true;
            return;
        }
        memcpy(&helper->events[helper->event_count++], bytes + i * sizeof *helper->events,
               sizeof *helper->events);
    }
}

static int fail_ended(struct base_error *error)
{
    return base_fail(error, BASE_EIO, "the helper process of tally that traces the program has ended");
}

int patch_helper_ask_receive(struct patch_helper *helper, struct patch_helper_reply *reply,
                             struct base_error *error)
{
    *reply = (struct patch_helper_reply){.file = -1};
    int received = patch_helper_wire_receive(helper->socket, &reply->message, &reply->bytes, &reply->file);
    if (received < 0)
        return fail_ended(error);
    if (reply->message.code != PATCH_HELPER_EVENTS)
        return received ? base_fail(error, BASE_ENOMEM, "out of memory") : 0;
    queue(helper, reply);
    patch_helper_ask_free(reply);
    return 1;
}

int patch_helper_ask(struct patch_helper *helper, const struct patch_helper_message *request,
                     const void *bytes, int file, struct patch_helper_reply *reply, struct base_error *error)
{
    *reply = (struct patch_helper_reply){.file = -1};
    if (request->size > PATCH_HELPER_MOST)
        return base_fail(error, BASE_EUSAGE, "more than 1 GiB in one step");
    if (helper->socket < 0 || patch_helper_wire_send(helper->socket, request, bytes, file))
        return fail_ended(error);
    int result = 1;
    while (result > 0)
        result = patch_helper_ask_receive(helper, reply, error);
    if (result < 0)
        return result;
    int code = reply->message.code;
    if (code < 0) {
        base_fail(error, code, "%s", reply->bytes ? (const char *)reply->bytes : "no reason given");
        patch_helper_ask_free(reply);
    }
    return code;
}

int patch_helper_ask_values(struct patch_helper *helper, struct patch_helper_message *request,
                            const void *bytes, struct base_error *error)
{
    struct patch_helper_reply reply;
    int result = patch_helper_ask(helper, request, bytes, -1, &reply, error);
    if (result < 0)
        return result;
    memcpy(request->values, reply.message.values, sizeof request->values);
    patch_helper_ask_free(&reply);
    return result;
}

int patch_helper_ask_bytes(struct patch_helper *helper, const struct patch_helper_message *request,
                           void *bytes, size_t size, struct base_error *error)
{
    struct patch_helper_reply reply;
    int result = patch_helper_ask(helper, request, NULL, -1, &reply, error);
    if (result < 0)
        return result;
    if (reply.message.size != size)
        result = base_fail(error, BASE_EIO, "the helper answered %llu bytes",
                           (unsigned long long)reply.message.size);
    else if (size)
        memcpy(bytes, reply.bytes, size);
    patch_helper_ask_free(&reply);
    return result;
}

void patch_helper_ask_stopped(const struct patch_helper_message *message, struct patch_helper_stopped *result)
{
    if (result)
        *result = (struct patch_helper_stopped){message->values[0], message->values[1], message->values[2],
                                                message->values[3]};
}
