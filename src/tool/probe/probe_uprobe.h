/* probe_uprobe.h - breakpoints that another tool sets on an agent's hooks while we record: the hooks make
 * way (loader_lift), as those of exact calls do (calls_uprobe.h). What happens between two looks cannot be
 * helped; doc/losses.md, 68. Context: tool, one thread; the processes run. */
#ifndef PROBE_UPROBE_H
#define PROBE_UPROBE_H

#include "probe_inside.h"

/* When it is time. Stops a process for a moment if something is found there. */
void probe_uprobe_tend(struct probe *probe);

#endif
