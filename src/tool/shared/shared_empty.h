/* shared_empty.h - empty.bytes: pages of blocks that were never used (--empty).
 *
 * What was released the agent has looked at (wire_agent_node.h: cell.empty). Blocks that are live at the end
 * are looked at here, from outside: while the process waits in its own _exit or execve, or when the agent is
 * taken out of it. Only whole pages within what was asked for count.
 *
 * The target may have written anything into the table of blocks. No more bytes are looked at than the
 * process has addresses, and what cannot be read is not counted; a block of a process that has ended is a
 * loss. Context: tool, one thread. */
#ifndef SHARED_EMPTY_H
#define SHARED_EMPTY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base_error.h"
#include "profile_heap.h"
#include "shared_nodes.h"

struct shared_empty {
    struct profile *profile;
    uint16_t counter; /* 0: not asked for */
    uint32_t flags;   /* what the agent is to do: of enum wire_agent_control_flag */
};

/* Of a process. Zero it first. */
struct shared_empty_published {
    int64_t *published; /* by the number of the agent's cell: what was added of it */
    uint64_t *live;     /* bytes in live blocks, when they were looked at last */
    size_t count, live_count;
    uint64_t lost; /* blocks that could not be looked at then */
    bool looked;
};

int shared_empty_init(struct shared_empty *empty, struct profile *profile, enum profile_heap_empty which,
                      struct base_error *error);

/* Looks at the live blocks of region `region`, of process `pid`; what was seen before is forgotten. pid 0: it
 * has ended. */
void shared_empty_look(const struct shared_empty *empty, const struct shared_file *file, uint32_t region,
                       pid_t pid, struct shared_empty_published *published);

/* Adds what the nodes' tree has more than was published, and when it is `final` what live blocks had. */
int shared_empty_publish(const struct shared_empty *empty, struct shared_nodes *nodes,
                         struct shared_empty_published *published, uint32_t thread, bool final,
                         struct base_error *error);
void shared_empty_published_free(struct shared_empty_published *published);

#endif
