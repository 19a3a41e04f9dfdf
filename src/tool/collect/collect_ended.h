/* collect_ended.h - has a process ended? By a pidfd, or, where that is refused (seccomp filters of containers, an
 * old kernel, no descriptor left), by its number and the time at which it began: a number alone may be another's
 * by now. Context: tool. Source: pidfd_open(2), proc(5). */
#ifndef COLLECT_ENDED_H
#define COLLECT_ENDED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct collect_ended {
    pid_t pid;
    int file;         /* a pidfd, which can be polled; -1: there is none, it must be asked for */
    uint64_t started; /* clock ticks since boot; 0: it had ended already */
};

/* From now on. False: it has ended already; `ended` is valid nevertheless, and needs no closing. */
bool collect_ended_begin(struct collect_ended *ended, pid_t pid);
/* Also of one that had ended when it began. A zombie whose threads have all ended has. */
bool collect_ended_is(const struct collect_ended *ended);
void collect_ended_close(struct collect_ended *ended);

#endif
