/* cmd_record_status.h - what tally record says while it records: one line of status, where it can be redrawn, and
 * notices. Context: tool, one thread. */
#ifndef CMD_RECORD_STATUS_H
#define CMD_RECORD_STATUS_H

#include "cmd_record_recorder.h"

/* Would a message be taken at once? */
bool cmd_record_may_say(void);

void cmd_record_draw_status(struct cmd_record_recorder *recorder);
/* How far naming addresses is; `context` is the recorder. */
void cmd_record_draw_names(void *context, size_t done, size_t total);
/* Before anything else is written to the terminal. */
void cmd_record_clear_line(struct cmd_record_recorder *recorder);

/* What the session has to say, once. */
void cmd_record_say_notice(struct cmd_record_recorder *recorder);

/* By the losses from `first` to `last`; frames that were found by frame pointer are not lost. */
uint64_t cmd_record_lost(const struct profile *profile, unsigned first, unsigned last);
uint64_t cmd_record_lost_stacks(const struct profile *profile);

#endif
