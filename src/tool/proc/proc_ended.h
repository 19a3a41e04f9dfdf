/* proc_ended.h - has a process ended? By a pidfd, or, where that is refused (seccomp filters of containers,
 * an old kernel, no descriptor left), by its number and its start time: the number alone may be another
 * process's by now. Context: tool. Source: pidfd_open(2), proc(5). */
#ifndef PROC_ENDED_H
#define PROC_ENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_ended {
    pid_t pid;
    int file;         /* a pidfd, which can be polled; -1: there is none, only proc_ended_is knows */
    uint64_t started; /* clock ticks since boot; 0: it had ended already */
};

/* From now on. False: it has ended already; `ended` is valid nevertheless, and needs no closing. */
bool proc_ended_begin(struct proc_ended *ended, pid_t pid);
/* Also of one that had ended when it began. A zombie whose threads have all ended has. */
bool proc_ended_is(const struct proc_ended *ended);
void proc_ended_close(struct proc_ended *ended);

#endif
