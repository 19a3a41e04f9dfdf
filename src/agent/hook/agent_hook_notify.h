/* agent_hook_notify.h - requests to tally. */
#ifndef AGENT_HOOK_NOTIFY_H
#define AGENT_HOOK_NOTIFY_H

#include <stdbool.h>

#include "wire_agent_request.h"

/* Waits for the answer, if `wait`: control.patience_ms after the last sign of life of tally's,
 * WIRE_AGENT_PATIENCE_MOST times that in all. False: there was none, or nobody was asked. */
bool agent_hook_notify(enum wire_agent_request request, bool wait);

#endif
