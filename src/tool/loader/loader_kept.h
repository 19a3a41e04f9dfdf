/* loader_kept.h - memory of ours that stays in a process for good, listed in the process itself.
 *
 * Where another tool has changed a place that jumped to our code, a tally that leaves does not know
 * whether the tool has kept our bytes elsewhere: its hook may have moved our jump into memory of its own,
 * and use it at any time. No later look at the process shows that. So the ranges that such bytes may jump
 * to are written down in a page that is mapped beside them (/memfd:tally-kept), and loader_unmap leaves
 * them, for `tally detach` and for a later recording, which unmaps its own. Children of fork have the page
 * and the memory, an exec removes both.
 *
 * Context: tool, one thread. */
#ifndef LOADER_KEPT_H
#define LOADER_KEPT_H

#include "helper.h"
#include "loader_leads.h"
#include "proc_maps.h"

#define LOADER_KEPT_NAME "tally-kept"
#define LOADER_KEPT_MOST 255 /* ranges in one page */

struct loader_kept {
    struct loader_kept_range {
        uint64_t address, size;
    } * items;
    size_t count, capacity;
};

/* `maps` are the process's. Pages that cannot be read are skipped. BASE_ENOMEM. The caller frees `kept` in
 * any case. */
int loader_kept_read(pid_t pid, const struct proc_maps *maps, struct loader_kept *kept,
                     struct base_error *error);
bool loader_kept_has(const struct loader_kept *kept, const struct loader_range *range);
void loader_kept_free(struct loader_kept *kept);

/* Of memory that is still mapped; 0 also when the process cannot be read. */
uint64_t loader_kept_bytes(pid_t pid);

/* A process that is held. */
struct loader_target {
    struct helper *helper;
    pid_t trace; /* as the helper_trace functions take it */
    pid_t pid;   /* for /proc */
};

/* The ranges stay from now on; those that do already are not written again. */
int loader_kept_note(const struct loader_target *target, const struct loader_range *ranges, size_t count,
                     struct base_error *error);

#endif
