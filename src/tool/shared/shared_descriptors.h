/* shared_descriptors.h - what the agent knows of descriptors (agent_call_descriptor.c), beside what
 * /proc/PID/fd says.
 *
 *   fd.used   descriptors opened          fd.live   those open at the end
 *   and a row of the profile for each one that is open then: what it is, since when, by which stack
 *
 * What a descriptor is only /proc says, and only as long as its process runs. So names are looked up while
 * it runs, of what is open then, and once more before its end: where the program ends by itself it waits for
 * that (WIRE_AGENT_END), at an exec it is held, and when the recording ends it goes on. Of a process that is
 * killed, what came since the last look has no name. A name is believed when the table's word was the same
 * before and after it was read.
 *
 * The last look also compares. Open, and in no table: its opening was not seen, a loss. In the table, and
 * not open: its closing was not seen, a loss, and not live; after an exec it was closed by that. What
 * survives an exec keeps its stack, until the new program closes it.
 *
 * The target may have written anything into the table: figures that cannot be are cut. Context: tool, one
 * thread. */
#ifndef SHARED_DESCRIPTORS_H
#define SHARED_DESCRIPTORS_H

#include <sys/types.h>

#include "shared_file.h"
#include "shared_nodes.h"

struct shared_descriptors {
    struct profile *profile;
    uint16_t used, live; /* counters; 0: not counted */
    size_t others;       /* rows of descriptors that were opened elsewhere */
};

struct shared_descriptors_known;
struct shared_descriptors_row;

/* What is known of a process, and was published. Zero it first. */
struct shared_descriptors_published {
    struct shared_descriptors_known *known; /* by number */
    size_t known_count;
    int64_t *used, *live; /* by the number of the agent's cell */
    size_t cell_count;
    struct shared_descriptors_row *rows; /* of what was open at an exec, and is still, perhaps */
    size_t row_count, row_capacity;
    bool compared, by_exec;
};

/* Where a process's table is. */
struct shared_descriptors_place {
    const struct shared_file *file;
    uint32_t region;
    pid_t pid;
};

enum shared_descriptors_look {
    SHARED_DESCRIPTORS_NAMES,  /* of what has none yet */
    SHARED_DESCRIPTORS_ENDING, /* the last: it is compared */
    SHARED_DESCRIPTORS_EXECED, /* likewise, and the process is held in a new program */
};

int shared_descriptors_init(struct shared_descriptors *descriptors, struct profile *profile,
                            struct base_error *error);

/* The process is held, and nothing is hooked yet: what is open was open before. */
void shared_descriptors_begin(const struct shared_descriptors_place *place);

/* Does nothing when the process is gone. */
void shared_descriptors_look(const struct shared_descriptors *descriptors,
                             const struct shared_descriptors_place *place,
                             struct shared_descriptors_published *published,
                             enum shared_descriptors_look which);

struct shared_descriptors_whose {
    uint32_t process, thread; /* of the profile; the thread is that of all */
    uint64_t now_ns;          /* since the recording's start */
    bool final;
};
/* Adds what is more than was published; at last, the rows. BASE_ENOMEM. */
int shared_descriptors_publish(struct shared_descriptors *descriptors,
                               const struct shared_descriptors_place *place, struct shared_nodes *nodes,
                               struct shared_descriptors_published *published,
                               const struct shared_descriptors_whose *whose, struct base_error *error);
/* The process has a new program: what of the old one is still open goes on there. `from` is then to be freed,
 * nevertheless. */
void shared_descriptors_carry(struct shared_descriptors_published *to,
                              struct shared_descriptors_published *from);
void shared_descriptors_published_free(struct shared_descriptors_published *published);

/* What a link of /proc/PID/fd says: the kind, a constant or in `name`, and the name in it. Of a socket
 * *inode. Pure. */
const char *shared_descriptors_kind(const char *link, char *name, size_t size, uint64_t *inode);

#endif
