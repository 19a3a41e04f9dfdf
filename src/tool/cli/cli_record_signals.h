/* cli_record_signals.h - the signals that tally record takes, and what becomes of the command it launched.
 *
 * Signals are blocked and read from a signalfd, so that nothing of how they are handled changes for a
 * launched program. Where signalfd is refused they are asked for at every step.
 *
 *   signal            a program was launched                            processes were attached to
 *   SIGINT, SIGQUIT   from the terminal the target has it already, as   stop recording
 *                     the shell would have it; sent to Tally alone it
 *                     is passed on. A command that goes on after Ctrl-C
 *                     goes on without tally after a second one
 *   SIGTERM, SIGHUP   passed on; the target's end ends the recording    stop recording
 *   SIGTSTP           when the terminal has stopped the target, Tally   Tally stops itself
 *                     stops too; a SIGCONT (fg) wakes both
 *   SIGCHLD           the target stopped or ended                       -
 */
#ifndef CLI_RECORD_SIGNALS_H
#define CLI_RECORD_SIGNALS_H

#include <signal.h>

#include "cli_record_recorder.h"

/* Blocks them; *before is what was blocked, *file a signalfd, or -1 where that is refused. */
int cli_record_take_signals(sigset_t *before, int *file, struct base_error *error);

/* Does what the signals ask that have come. */
void cli_record_read_signals(struct cli_record_recorder *recorder);
/* Has the command stopped or ended? */
void cli_record_look_at_child(struct cli_record_recorder *recorder);
/* Both. */
void cli_record_look_at_signals(struct cli_record_recorder *recorder);
/* Says, a moment after a Ctrl-C that the command has not ended by, what a second one does. */
void cli_record_answer_interrupt(struct cli_record_recorder *recorder);

#endif
