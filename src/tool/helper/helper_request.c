#include "helper_request.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "trace_event.h"

void helper_request_free(struct helper_reply *reply)
{
    free(reply->bytes);
    if (reply->file >= 0)
        close(reply->file);
    *reply = (struct helper_reply){.file = -1};
}

/* That there was no memory for some events is reported by helper_trace_next, not by the command whose answer
 * they came before. */
static void queue_events(struct helper *helper, const struct helper_reply *reply)
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

int helper_request_receive(struct helper *helper, struct helper_reply *reply, struct base_error *error)
{
    *reply = (struct helper_reply){.file = -1};
    int received = helper_wire_receive(helper->socket, &reply->message, &reply->bytes, &reply->file);
    if (received < 0)
        return fail_ended(error);
    if (reply->message.code != HELPER_EVENTS)
        return received ? base_fail(error, BASE_ENOMEM, "out of memory") : 0;
    queue_events(helper, reply);
    helper_request_free(reply);
    return 1;
}

int helper_request(struct helper *helper, const struct helper_message *request, const void *bytes, int file,
                   struct helper_reply *reply, struct base_error *error)
{
    *reply = (struct helper_reply){.file = -1};
    if (request->size > HELPER_MOST)
        return base_fail(error, BASE_EUSAGE, "more than 1 GiB in one step");
    if (helper->socket < 0 || helper_wire_send(helper->socket, request, bytes, file))
        return fail_ended(error);
    int result = 1;
    while (result > 0)
        result = helper_request_receive(helper, reply, error);
    if (result < 0)
        return result;
    int code = reply->message.code;
    if (code < 0) {
        base_fail(error, code, "%s", reply->bytes ? (const char *)reply->bytes : "no reason given");
        helper_request_free(reply);
    }
    return code;
}

int helper_request_values(struct helper *helper, struct helper_message *request, const void *bytes,
                          struct base_error *error)
{
    struct helper_reply reply;
    int result = helper_request(helper, request, bytes, -1, &reply, error);
    if (result < 0)
        return result;
    memcpy(request->values, reply.message.values, sizeof request->values);
    helper_request_free(&reply);
    return result;
}

int helper_request_bytes(struct helper *helper, const struct helper_message *request, void *bytes,
                         size_t size, struct base_error *error)
{
    struct helper_reply reply;
    int result = helper_request(helper, request, NULL, -1, &reply, error);
    if (result < 0)
        return result;
    if (reply.message.size != size)
        result = base_fail(error, BASE_EIO, "the helper answered %llu bytes",
                           (unsigned long long)reply.message.size);
    else if (size)
        memcpy(bytes, reply.bytes, size);
    helper_request_free(&reply);
    return result;
}

void helper_request_stopped(const struct helper_message *message, struct helper_stopped *result)
{
    if (result)
        *result = (struct helper_stopped){message->values[0], message->values[1], message->values[2],
                                          message->values[3]};
}
