/* cli_record_recorder.h - one recording of tally record, as its files share it. Context: tool, one thread. */
#ifndef CLI_RECORD_RECORDER_H
#define CLI_RECORD_RECORDER_H

#include <sys/types.h>

#include "request.h"

/* Between two steps of a recording, and two drawings of the status line. */
enum { CLI_RECORD_STEP_MS = 250 };

struct cli_record_recorder {
    const struct request *request;
    struct record_session *session;
    int signals; /* signalfd; -1: refused */
    pid_t child;
    int child_status; /* as from waitpid */
    bool child_ended, stop, drawn;
    uint64_t drawn_ns; /* when the status line was, since the start */
    /* Of a Ctrl-C that the command was sent, too: when it came, while it is not answered, and when it was
     * (base_clock.h); 0: never */
    uint64_t interrupted_ns, answered_ns;
    int terminal; /* an open file of our own of standard error, where that can redraw; -1: no status line */
};

#endif
