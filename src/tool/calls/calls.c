#include "calls_inside.h"

#include <stdlib.h>

#include "base_clock.h"
#include "base_text.h"
#include "calls_uprobe.h"
#include "helper_trace.h"
#include "proc_commit.h"

#define SETTLE_NS 30000000 /* ends are published when other events of that time have been handled */

/* A report must know that calls of other functions were not all counted. */
static void publish_names(struct profile *profile, const struct space_request *request)
{
    struct base_text names = {0};
    for (size_t i = 0; i < request->name_count; i++)
        base_text_addf(&names, "%s%s", i ? "," : "", request->names[i]);
    if (names.length && !names.failed)
        profile_set_meta(profile, "calls_names", base_text_string(&names));
    base_text_free(&names);
}

int calls_new(const struct calls_options *options, struct sample_processes *processes, struct calls **made,
              struct base_error *error)
{
    struct calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    calls->options = *options;
    calls->processes = processes;
    calls->session.profile = processes->profile;
    calls->session.committed = proc_commit_is_strict();
    calls->session.helper.socket = -1;
    int result = helper_begin(&calls->session.helper, error);
    if (result == BASE_OK)
        result = helper_trace_report_endings(&calls->session.helper, error);
    if (result == BASE_OK)
        result = space_images_init(&calls->session.images, processes->images, &options->request, error);
    if (result == BASE_OK)
        result = loader_listen_new(processes->start_ns, &calls->listener, error);
    if (result == BASE_OK)
        loader_listen_helper(calls->listener, calls->session.helper.pid);
    if (result == BASE_OK && !profile_calls_counter(processes->profile))
        result = base_fail(error, BASE_ENOMEM, "out of memory");
    if (result < 0) {
        calls_free(calls);
        return result;
    }
    publish_names(processes->profile, &options->request);
    *made = calls;
    return BASE_OK;
}

void calls_free(struct calls *calls)
{
    if (!calls)
        return;
    helper_end(&calls->session.helper);
    for (size_t i = 0; i < calls->member_count; i++)
        if (calls->members[i].space && --calls->members[i].space->processes == 0)
            calls_members_free_space(calls, calls->members[i].space);
    for (size_t i = 0; i < calls->ended_count; i++)
        calls_members_free_space(calls, calls->ended[i].space);
    loader_listen_free(calls->listener);
    space_images_free(&calls->session.images);
    free(calls->members);
    free(calls->ended);
    remains_left_free(&calls->left);
    free(calls);
}

pid_t calls_helper(const struct calls *calls)
{
    return calls->session.helper.pid;
}

struct helper *calls_share(struct calls *calls)
{
    return &calls->session.helper;
}

void calls_register(struct calls *calls, const struct calls_client *client)
{
    calls->client = *client;
    calls->session.real = client->real;
    calls->session.real_context = client->context;
}

void calls_files(const struct calls *calls, int files[2])
{
    files[0] = calls->session.helper.socket;
    files[1] = loader_listen_file(calls->listener);
}

const char *calls_notice(const struct calls *calls)
{
    return calls->notice;
}

struct remains_left *calls_left(struct calls *calls)
{
    return &calls->left;
}

static void check_probes(struct calls *calls)
{
    for (size_t i = 0; i < calls->member_count; i++) {
        struct space *space = calls->members[i].space;
        if (space && space->pid == calls->members[i].pid)
            calls_uprobe_tend(space, &calls->session);
    }
}

int calls_step(struct calls *calls, struct base_error *error)
{
    struct trace_event event;
    int result;
    while ((result = helper_trace_next(&calls->session.helper, &event, error)) > 0) {
        calls_event(calls, &event);
        calls_objects_answer_all(calls);
    }
    calls_objects_answer_all(calls);
    check_probes(calls);
    calls_publish_guess(calls);
    calls_publish_ended(calls, base_clock_now() - SETTLE_NS);
    return result;
}
