/* collect_agent_uprobe.h - breakpoints that somebody else sets on an agent's hooks while we record: the hooks make way
 * (patch_agent_lift), as those of exact calls do (collect_calls_uprobe.h). What happens between two looks cannot be helped;
 * doc/losses.md, 68. Context: tool, one thread; the processes run. */
#ifndef COLLECT_AGENT_UPROBE_H
#define COLLECT_AGENT_UPROBE_H

#include "collect_agent_inside.h"

/* When it is time. Stops a process for a moment if something is found there. */
void collect_agent_uprobe_tend(struct collect_agent *agent);

#endif
