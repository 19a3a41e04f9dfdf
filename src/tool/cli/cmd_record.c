/* tally record: run or attach, sample, leave one profile file. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_terminal.h"
#include "cli.h"
#include "cli_record_result.h"
#include "cli_record_signals.h"
#include "cli_record_status.h"

enum { NOT_STARTED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128 };

/* --- the recording --- */

static bool is_over(const struct cli_record_recorder *recorder)
{
    const struct record_status *status = record_session_status(recorder->session);
    if (recorder->stop || (recorder->child > 0 ? recorder->child_ended : status->target_gone))
        return true;
    return recorder->request->duration_ns && status->elapsed_ns >= recorder->request->duration_ns;
}

static int step_length(const struct cli_record_recorder *recorder)
{
    if (!recorder->request->duration_ns)
        return CLI_RECORD_STEP_MS;
    uint64_t elapsed = record_session_status(recorder->session)->elapsed_ns;
    uint64_t left_ms = elapsed < recorder->request->duration_ns
                           ? (recorder->request->duration_ns - elapsed) / 1000000 + 1
                           : 0;
    return left_ms < CLI_RECORD_STEP_MS ? (int)left_ms : CLI_RECORD_STEP_MS;
}

static int record_until_over(struct cli_record_recorder *recorder, struct base_error *error)
{
    int result = BASE_OK;
    cli_record_look_at_signals(recorder);
    while (!is_over(recorder)) {
        result = record_session_step(recorder->session, step_length(recorder), error);
        cli_record_look_at_signals(recorder);
        if (result < 0)
            return result;
        if (cli_record_may_say()) {
            cli_record_say_notice(recorder);
            cli_record_answer_interrupt(recorder);
        }
        if (!is_over(recorder))
            cli_record_draw_status(recorder);
    }
    return result;
}

/* A launched program goes on, with nobody watching, when the profile cannot be written any more. */
static void wait_for_child(struct cli_record_recorder *recorder)
{
    while (recorder->child > 0 && !recorder->child_ended) {
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        struct timespec tenth = {.tv_nsec = 100000000};
        sigtimedwait(&child, NULL, &tenth);
        cli_record_read_signals(recorder);
        cli_record_look_at_child(recorder);
    }
}

static const char *describe_status(int status, char *text, size_t size)
{
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return "success";
    if (WIFEXITED(status))
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
    else
        snprintf(text, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return text;
}

static int exit_status(const struct cli_record_recorder *recorder, int otherwise)
{
    if (!recorder->child_ended)
        return otherwise;
    int status = recorder->child_status;
    return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Nothing of ours should be in a process when tally has ended. */
static int say_what_stays(const struct cli_record_recorder *recorder, struct base_error *error)
{
    const struct record_status *status = record_session_status(recorder->session);
    int pid = (int)status->stays;
    if (!pid)
        return CLI_OK;
    if (status->stays_for_good)
        base_fail(
            error, BASE_EBUSY,
            "tally could not remove everything from process %d: something else has changed code that tally "
            "had changed, and may lead into memory of tally's, which stays",
            pid);
    else
        base_fail(
            error, BASE_EBUSY,
            "tally could not remove everything from process %d (a debugger holds it, a thread stays in code "
            "of "
            "tally's, the program moved its text, or a filter lets it unmap no memory): tally detach -p %d "
            "tries again",
            pid, pid);
    cli_fail(error);
    return CLI_FAILED;
}

/* The profile cannot be written any more: what runs goes on as if nothing had been. */
static int abandon_recording(struct cli_record_recorder *recorder, struct base_error *error)
{
    cli_record_clear_line(recorder);
    cli_fail(error);
    record_session_leave(recorder->session);
    say_what_stays(recorder, error);
    wait_for_child(recorder);
    return exit_status(recorder, CLI_FAILED);
}

static int record_profile(struct cli_record_recorder *recorder, struct base_error *error)
{
    char text[128];
    int result = record_until_over(recorder, error);
    if (result < 0)
        return abandon_recording(recorder, error);
    const char *became =
        recorder->child_ended ? describe_status(recorder->child_status, text, sizeof text) : NULL;
    result = record_session_finish(recorder->session, became, cli_record_draw_names, recorder, error);
    if (result < 0)
        return abandon_recording(recorder, error);
    cli_record_clear_line(recorder);
    cli_record_say_result(recorder);
    return exit_status(recorder, say_what_stays(recorder, error));
}

static int start_failure(bool launch, bool command_failed, int code)
{
    if (!launch)
        return CLI_FAILED;
    return !command_failed ? NOT_STARTED : code == BASE_ENOTFOUND ? NOT_FOUND : NOT_EXECUTABLE;
}

static int record_session(struct cli_record_recorder *recorder, const struct record_options *wanted)
{
    struct base_error error = {0};
    bool command_failed = false;
    int result = record_session_new(wanted, &recorder->session, &error);
    if (result >= 0)
        result = record_session_start(recorder->session, &command_failed, &error);
    int status;
    if (result < 0) {
        cli_fail(&error);
        if (recorder->session)
            say_what_stays(recorder, &error);
        status = start_failure(wanted->mode == RECORD_LAUNCH, command_failed, result);
    } else {
        recorder->child = record_session_status(recorder->session)->child;
        cli_record_say_notice(recorder);
        if (recorder->request->verbose && !recorder->request->no_time)
            cli_say("%s; sampling: %s", profile_meta(record_session_profile(recorder->session), "engine"),
                    profile_meta(record_session_profile(recorder->session), "sampling"));
        status = record_profile(recorder, &error);
    }
    record_session_free(recorder->session);
    return status;
}

int cmd_record(int argc, char **argv)
{
    struct request request = {.output = "tally.out", .follow = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    int status;
    if (!cli_parse(&request_command, argc, argv, &request, &rest, &status))
        return status;
    if (request_check(&request, rest.count, &error) < 0) {
        probe_named_free(&request.named);
        return cli_fail_command(request_command.name, &error);
    }
    struct base_text line = {0};
    request_describe(&request, &rest, &line);
    struct record_options wanted = request_session_options(&request, &rest, base_text_string(&line));
    struct cli_record_recorder recorder = {.request = &request,
                                           .terminal = !request.quiet && base_terminal_redraws(STDERR_FILENO)
                                                           ? base_terminal_open(STDERR_FILENO)
                                                           : -1};
    if (cli_record_take_signals(&wanted.target_signals, &recorder.signals, &error) == BASE_OK) {
        wanted.wake_fd = recorder.signals;
        status = record_session(&recorder, &wanted);
    } else {
        cli_fail(&error);
        status = wanted.mode == RECORD_LAUNCH ? NOT_STARTED : CLI_FAILED;
    }
    if (recorder.terminal >= 0)
        close(recorder.terminal);
    probe_named_free(&request.named);
    base_text_free(&line);
    return status;
}
