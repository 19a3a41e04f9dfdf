/* trace_seccomp.h - would the target's own filters allow a system call?
 *
 * A filter may answer a call by killing the process, so an injected call must be checked before it is made.
 * Filters are classic BPF programs over struct seccomp_data; the kernel hands them to a tracer with
 * CAP_SYS_ADMIN that has no filter itself (PTRACE_SECCOMP_GET_FILTER), and they are run (filter.h) on the
 * very arguments of the call. In a container tally has filters itself. Filters are inherited and only ever
 * added: a target that descends from tally, or tally and target from the container's first process, with as
 * many filters each, have the same ones; then a child of ours makes the call first, and is killed in its
 * place. Where neither is possible, a filtered process is refused. Context: helper. Source: seccomp(2),
 * kernel/seccomp.c. */
#ifndef TRACE_SECCOMP_H
#define TRACE_SECCOMP_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"

struct trace_seccomp_filter {
    struct sock_filter *items;
    size_t count;
};

struct trace_seccomp {
    struct trace_seccomp_filter *filters;
    size_t count;
    bool same_as_ours; /* no filters were read: a child tries the call */
};

/* Reads the filters of stopped thread `tid` of `process`; `mode` is its enum proc_target_seccomp. *seccomp
 * is set in any case, and must be freed. */
int trace_seccomp_load(struct trace_seccomp *seccomp, pid_t process, pid_t tid, int mode,
                       struct base_error *error);
void trace_seccomp_free(struct trace_seccomp *seccomp);

/* BASE_OK: all filters allow the call, or log it. Else BASE_EPERMISSION, and the message names the call by
 * `name`. */
int trace_seccomp_check(const struct trace_seccomp *seccomp, const struct seccomp_data *data,
                        const char *name, struct base_error *error);

#endif
