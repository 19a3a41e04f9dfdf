/* wire_agent.h - all that the agent and tally share, for those that do not say yet what they need of it. */
#ifndef WIRE_AGENT_H
#define WIRE_AGENT_H

#include "wire_agent_block.h"
#include "wire_agent_call.h"
#include "wire_agent_control.h"
#include "wire_agent_descriptor.h"
#include "wire_agent_empty.h"
#include "wire_agent_entry.h"
#include "wire_agent_latency.h"
#include "wire_agent_layer.h"
#include "wire_agent_layout.h"
#include "wire_agent_loss.h"
#include "wire_agent_module.h"
#include "wire_agent_node.h"
#include "wire_agent_parameters.h"
#include "wire_agent_pending.h"
#include "wire_agent_process.h"
#include "wire_agent_range.h"
#include "wire_agent_request.h"
#include "wire_agent_return.h"
#include "wire_agent_thread.h"
#include "wire_agent_timer.h"

#endif
