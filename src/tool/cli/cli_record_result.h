/* cli_record_result.h - what tally record says at the end: what was recorded, and what could not be.
 * Context: tool, one thread. */
#ifndef CLI_RECORD_RESULT_H
#define CLI_RECORD_RESULT_H

#include "cli_record_recorder.h"

void cli_record_say_result(struct cli_record_recorder *recorder);

#endif
