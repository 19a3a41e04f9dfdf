/* cli_record_status.h - what tally record says while it records: one line of status, where it can be
 * redrawn, and notices. Context: tool, one thread. */
#ifndef CLI_RECORD_STATUS_H
#define CLI_RECORD_STATUS_H

#include "cli_record_recorder.h"

/* Would a message be taken at once? */
bool cli_record_may_say(void);

void cli_record_draw_status(struct cli_record_recorder *recorder);
/* How far naming addresses is; `context` is the recorder. */
void cli_record_draw_names(void *context, size_t done, size_t total);
/* Before anything else is written to the terminal. */
void cli_record_clear_line(struct cli_record_recorder *recorder);

/* What the session has to say, once; not into the screen of an editor. */
void cli_record_say_notice(struct cli_record_recorder *recorder);
/* The same at the end, wherever it goes. */
void cli_record_say_last_notice(struct cli_record_recorder *recorder);

/* By the losses from `first` to `last`; frames that were found by frame pointer are not lost. */
uint64_t cli_record_lost(const struct profile *profile, unsigned first, unsigned last);
uint64_t cli_record_lost_stacks(const struct profile *profile);

#endif
