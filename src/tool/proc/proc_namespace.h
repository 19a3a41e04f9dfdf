/* proc_namespace.h - does a number mean the same process everywhere?
 *
 * Process numbers are those of a PID namespace. A program gives its own to ptrace, perf_event_open and kill;
 * /proc takes those of the namespace that it was mounted in, which is another one in a container that sees
 * the host's: there the same number is another process, whose functions would be named and whose memory would
 * be written. Context: tool. Source: pid_namespaces(7), proc_pid_status(5) (NSpid). */
#ifndef PROC_NAMESPACE_H
#define PROC_NAMESPACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base_error.h"

enum proc_namespace {
    PROC_NAMESPACE_OWN,
    PROC_NAMESPACE_NO_PROC,
    PROC_NAMESPACE_STRANGE_PROC,    /* of another PID namespace than this process */
    PROC_NAMESPACE_STRANGE_CHILDREN /* its children are created in one: unshare(CLONE_NEWPID) with no fork */
};
enum proc_namespace proc_namespace_look(void);
/* BASE_EUNSUPPORTED, with the remedy after a colon: not PROC_NAMESPACE_OWN. */
int proc_namespace_check(struct base_error *error);

/* `text`: /proc/self/status as process `pid` reads it, that being its number in its own PID namespace. True:
 * /proc is of that namespace. */
bool proc_namespace_is_own(const char *text, pid_t pid);

#endif
