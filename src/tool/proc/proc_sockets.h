/* proc_sockets.h - what sockets are, by the numbers that /proc/PID/fd gives them: their protocol,
 * addresses and state.
 *
 * From the tables in /proc/PID/net (proc(5)), which are those of the process's network namespace. Nothing is
 * done to the sockets. Context: tool. */
#ifndef PROC_SOCKETS_H
#define PROC_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc_socket {
    uint64_t inode;
    const char *kind; /* "tcp", "udp", "unix" ...: a constant */
    char name[160];   /* "127.0.0.1:80 listening", "127.0.0.1:80 <-> 10.0.0.7:4711", a path; "" */
};

struct proc_sockets { /* by inode */
    struct proc_socket *items;
    size_t count, capacity;
};

/* Tables that cannot be read are skipped. */
void proc_sockets_read(struct proc_sockets *sockets, pid_t pid);
const struct proc_socket *proc_sockets_find(const struct proc_sockets *sockets, uint64_t inode);
void proc_sockets_free(struct proc_sockets *sockets);

/* One line of a table; false: it describes no socket. `six`: its addresses have sixteen bytes. */
bool proc_sockets_line(const char *line, const char *kind, bool six, struct proc_socket *found);
bool proc_sockets_line_unix(const char *line, struct proc_socket *found);

#endif
