/* cmd_record_result.h - what tally record says at the end: what was recorded, and what could not be.
 * Context: tool, one thread. */
#ifndef CMD_RECORD_RESULT_H
#define CMD_RECORD_RESULT_H

#include "cmd_record_recorder.h"

void cmd_record_say_result(struct cmd_record_recorder *recorder);

#endif
