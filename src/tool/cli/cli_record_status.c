#include "cli_record_status.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base_terminal.h"
#include "cli.h"
#include "wire_loss.h"

/* A terminal that is stopped (Ctrl-S), or whose other end does not read, would stop us, and processes wait
 * for our answers. What cannot be polled is written to. */
bool cli_record_may_say(void)
{
    struct pollfd file = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&file, 1, 0);
    return ready < 0 || (ready > 0 && (file.revents & POLLOUT) != 0);
}

/* Not into the screen of an editor: the line waits until the program gives it back. */
void cli_record_clear_line(struct cli_record_recorder *recorder)
{
    if (!recorder->drawn || !base_terminal_line_mode(recorder->terminal))
        return;
    dprintf(recorder->terminal, "\r\033[K");
    recorder->drawn = false;
}

/* The last column stays free: past it, some terminals go to the next line. */
static void draw_line(struct cli_record_recorder *recorder, const char *text)
{
    if (recorder->terminal < 0 || !base_terminal_foreground(STDERR_FILENO) ||
        !base_terminal_line_mode(recorder->terminal))
        return;
    int columns = (int)base_terminal_width(STDERR_FILENO) - 1;
    recorder->drawn = true;
    dprintf(recorder->terminal, "\r%.*s\033[K", columns > 0 ? columns : 1, text);
}

uint64_t cli_record_lost(const struct profile *profile, unsigned first, unsigned last)
{
    uint64_t lost = 0;
    for (unsigned reason = first; reason <= last; reason++)
        if (reason != WIRE_LOSS_FRAME_POINTER && reason != WIRE_LOSS_AGENT_FRAME_POINTER)
            lost += profile->losses[reason];
    return lost;
}

uint64_t cli_record_lost_stacks(const struct profile *profile)
{
    return cli_record_lost(profile, WIRE_LOSS_STACK_CUT, WIRE_LOSS_TOO_DEEP);
}

static double own_percent(const struct record_status *status)
{
    return status->elapsed_ns ? 100.0 * (double)status->tool_cpu_ns / (double)status->elapsed_ns : 0;
}

void cli_record_draw_status(struct cli_record_recorder *recorder)
{
    const struct record_status *status = record_session_status(recorder->session);
    char text[256];
    if (recorder->drawn && status->elapsed_ns - recorder->drawn_ns < CLI_RECORD_STEP_MS * 1000000ull)
        return;
    recorder->drawn_ns = status->elapsed_ns;
    snprintf(text, sizeof text, "tally: %.0f s, %llu samples, %llu lost, %llu incomplete, own CPU %.1f %%",
             (double)status->elapsed_ns / 1e9, (unsigned long long)status->samples,
             (unsigned long long)status->lost,
             (unsigned long long)cli_record_lost_stacks(record_session_profile(recorder->session)),
             own_percent(status));
    draw_line(recorder, text);
}

void cli_record_say_notice(struct cli_record_recorder *recorder)
{
    if (base_terminal_line_mode(STDERR_FILENO))
        cli_record_say_last_notice(recorder);
}

void cli_record_say_last_notice(struct cli_record_recorder *recorder)
{
    const struct record_status *status = record_session_status(recorder->session);
    if (!status->notice[0])
        return;
    cli_record_clear_line(recorder);
    cli_say("%s", status->notice);
    record_session_clear_notice(recorder->session);
}

void cli_record_draw_names(void *context, size_t done, size_t total)
{
    static const char bar[] = "##############################";
    struct cli_record_recorder *recorder = context;
    const struct record_status *status = record_session_status(recorder->session);
    char text[256];
    if (status->naming_ns < 500000000u)
        return;
    int width = total ? (int)(done * 30 / total) : 0;
    snprintf(text, sizeof text, "tally: looking up names [%-30.*s] %zu of %zu", width > 30 ? 30 : width, bar,
             done, total);
    draw_line(recorder, text);
}
