#include "cli_record_signals.h"

#include <errno.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_clock.h"
#include "base_terminal.h"
#include "base_wait.h"
#include "cli.h"
#include "cli_record_status.h"

static const int TAKEN[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD};
static const int BLOCKED_ONLY[] = {SIGPIPE, SIGTTOU, SIGXFSZ}; /* writes then fail with an error instead */

static sigset_t taken_signals(void)
{
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        sigaddset(&taken, TAKEN[i]);
    return taken;
}

/* Who cannot block them would end at once by one of them, with the program half left. */
int cli_record_take_signals(sigset_t *before, int *file, struct base_error *error)
{
    sigset_t taken = taken_signals(), blocked = taken;
    for (size_t i = 0; i < sizeof BLOCKED_ONLY / sizeof *BLOCKED_ONLY; i++)
        sigaddset(&blocked, BLOCKED_ONLY[i]);
    if (sigprocmask(SIG_BLOCK, &blocked, before))
        return base_fail_errno(error, errno, "signals cannot be blocked: rt_sigprocmask");
    *file = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return BASE_OK;
}

/* Stops Tally itself as the default action would, until SIGCONT; nothing that is recorded waits for it
 * meanwhile. */
static void stop_self(struct cli_record_recorder *recorder)
{
    cli_record_clear_line(recorder);
    record_session_suspend(recorder->session);
    kill(getpid(), SIGSTOP);
    record_session_resume(recorder->session);
}

void cli_record_look_at_child(struct cli_record_recorder *recorder)
{
    int status;
    while (!recorder->child_ended &&
           base_wait(recorder->child, &status, WNOHANG | WUNTRACED) == recorder->child) {
        if (!WIFSTOPPED(status)) {
            recorder->child_ended = true;
            recorder->child_status = status;
        } else if (WSTOPSIG(status) == SIGTSTP || WSTOPSIG(status) == SIGTTIN ||
                   WSTOPSIG(status) == SIGTTOU) {
            stop_self(recorder);
        }
    }
}

enum { ANSWER_AFTER_MS = 500, SECOND_WITHIN_MS = 10000 };

static bool is_within(uint64_t then, uint64_t now, uint64_t milliseconds)
{
    return then && now - then < milliseconds * 1000000;
}

/* The terminal sends Ctrl-C to the command as well, which may end by it, or do something else, as an
 * interpreter at its prompt does. Only one that follows what tally said of it is for tally. */
static void on_interrupt(struct cli_record_recorder *recorder)
{
    uint64_t now = base_clock_now();
    if (is_within(recorder->answered_ns, now, SECOND_WITHIN_MS))
        recorder->stop = true;
    else if (!recorder->interrupted_ns)
        recorder->interrupted_ns = now;
}

void cli_record_answer_interrupt(struct cli_record_recorder *recorder)
{
    uint64_t now = base_clock_now();
    if (!recorder->interrupted_ns || is_within(recorder->interrupted_ns, now, ANSWER_AFTER_MS))
        return;
    recorder->interrupted_ns = 0;
    if (recorder->child_ended || !base_terminal_is(STDERR_FILENO) || !base_terminal_line_mode(STDERR_FILENO))
        return;
    cli_record_clear_line(recorder);
    cli_say("the command goes on; Ctrl-C again ends the recording, keeps the profile and leaves the command");
    recorder->answered_ns = now;
}

static void on_signal(struct cli_record_recorder *recorder, int number, int code)
{
    bool launched = recorder->child > 0;
    if (number == SIGCHLD)
        return; /* looked at after every step */
    if (number == SIGTSTP) {
        if (!launched)
            stop_self(recorder);
        return;
    }
    if (!launched) {
        recorder->stop = true;
        return;
    }
    bool from_terminal = (number == SIGINT || number == SIGQUIT) && code > 0;
    if (from_terminal && number == SIGINT)
        on_interrupt(recorder);
    if (!from_terminal && !recorder->child_ended)
        kill(recorder->child, number);
}

void cli_record_read_signals(struct cli_record_recorder *recorder)
{
    const sigset_t taken = taken_signals();
    struct signalfd_siginfo info;
    siginfo_t waits;
    while (read(recorder->signals, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(recorder, (int)info.ssi_signo, info.ssi_code);
    while (recorder->signals < 0 && sigtimedwait(&taken, &waits, &(struct timespec){0}) > 0)
        on_signal(recorder, waits.si_signo, waits.si_code);
}

void cli_record_look_at_signals(struct cli_record_recorder *recorder)
{
    cli_record_read_signals(recorder);
    if (recorder->child > 0)
        cli_record_look_at_child(recorder);
}
