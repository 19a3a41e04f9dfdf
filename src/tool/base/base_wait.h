/* base_wait.h - waitpid(2), by waitid(2) where a filter refuses wait4. Context: tool. Source: wait(2),
 * kernel/exit.c. */
#ifndef BASE_WAIT_H
#define BASE_WAIT_H

#include <sys/types.h>

/* The same but for what it may be asked: a process or thread by its number, or -1; WNOHANG, WUNTRACED,
 * __WALL. `status` may be NULL. */
pid_t base_wait(pid_t pid, int *status, int options);

#endif
