/* collect_sockets.h - what sockets are, by the numbers that /proc/PID/fd gives them: their protocol,
 * addresses and state.
 *
 * From the tables in /proc/PID/net (proc(5)), which are those of the process's network namespace. Nothing is
 * done to the sockets. Context: tool. */
#ifndef COLLECT_SOCKETS_H
#define COLLECT_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct collect_socket {
    uint64_t inode;
    const char *kind; /* "tcp", "udp", "unix" ...: a constant */
    char name[160];   /* "127.0.0.1:80 listening", "127.0.0.1:80 <-> 10.0.0.7:4711", a path; "" */
};

struct collect_sockets { /* by inode */
    struct collect_socket *items;
    size_t count, capacity;
};

/* What cannot be read is not there. */
void collect_sockets_read(struct collect_sockets *sockets, pid_t pid);
const struct collect_socket *collect_sockets_find(const struct collect_sockets *sockets, uint64_t inode);
void collect_sockets_free(struct collect_sockets *sockets);

/* One line of a table; false: it is none of a socket. `six`: its addresses have sixteen bytes. */
bool collect_sockets_line(const char *line, const char *kind, bool six, struct collect_socket *found);
bool collect_sockets_line_unix(const char *line, struct collect_socket *found);

#endif
