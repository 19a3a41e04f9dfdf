/* space_fork.h - a space for a fork child. Context: tool, one thread. */
#ifndef SPACE_FORK_H
#define SPACE_FORK_H

#include "space.h"

/* A copy for process `pid`, which was forked from one of `parent` and is held: the same code and patches,
 * counters of its own. BASE_EUSAGE: it is no copy of what its parent has by now, since it was created before
 * that was mapped, or before code was changed. */
int space_fork(const struct space *parent, struct space_session *session, pid_t pid, struct space **made,
               struct base_error *error);

#endif
