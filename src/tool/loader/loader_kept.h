/* loader_kept.h - memory of ours that stays in a process for good, as the process itself tells.
 *
 * Who leaves a process and finds that somebody else has changed a place that led to us does not know whether he
 * has kept our bytes elsewhere: a hook of his may have moved our jump into memory of his own, and go through it at
 * any time. No later look at the process shows that. So what his bytes may lead to is written down in a page that
 * is mapped beside it (/memfd:tally-kept), and loader_unmap leaves it, whoever asks: `tally detach`, or a later
 * recording, which unmaps its own. Children of fork have the page and the memory, an exec takes both away.
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

/* `maps` are the process's. Pages that cannot be read tell nothing. BASE_ENOMEM. The caller frees it in any case. */
int loader_kept_read(pid_t pid, const struct proc_maps *maps, struct loader_kept *kept,
                     struct base_error *error);
bool loader_kept_has(const struct loader_kept *kept, const struct loader_range *range);
void loader_kept_free(struct loader_kept *kept);

/* Of memory that is still mapped; 0 also when nothing is known of the process. */
uint64_t loader_kept_bytes(pid_t pid);

/* The ranges stay from now on, but for those that do already. The process is held; `trace` as the helper_trace
 * functions take it. */
int loader_kept_note(struct helper *helper, pid_t trace, pid_t pid, const struct loader_range *ranges,
                     size_t count, struct base_error *error);

#endif
