/* proc_privileges.h - what a program runs without because it was traced at its exec.
 *
 * The kernel gives a set-uid, a set-gid or a file-capability program its privileges only when whoever traces
 * it could have them too. Then the program runs as the user who started it, which it may notice and which
 * nothing else shows.
 *
 * Context: tool and helper. Source: execve(2), capabilities(7), security/commoncap.c of Linux. */
#ifndef PROC_PRIVILEGES_H
#define PROC_PRIVILEGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The capabilities that a file gives, of its attribute security.capability; 0 when it is none that is
 * known. */
uint64_t proc_privileges_of_file(const void *attribute, size_t size);

enum proc_privileges {
    PROC_PRIVILEGES_KEPT,   /* also where the file system gives none (nosuid), and after no_new_privs */
    PROC_PRIVILEGES_LOST,   /* an effective user or group, or a permitted capability */
    PROC_PRIVILEGES_UNKNOWN /* no right to read the program's file, nor then to look at its process */
};
/* Has the process what the program's file gives? `pid` has just executed it and has run no instruction of
 * it. */
enum proc_privileges proc_privileges_of(pid_t pid);

#endif
