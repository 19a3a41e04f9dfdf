#include "calls_undiscovered.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base_array.h"
#include "loader_leads.h"
#include "proc_target.h"
#include "proc_users.h"
#include "remains.h"
#include "wire_loss.h"

/* A child may fork while it is being left. */
enum { ROUNDS = 4 };

/* What tally shares with targets. */
struct file {
    uint64_t inode;
    uint32_t device_major, device_minor;
};

struct files {
    struct file *items;
    size_t count, capacity;
};

/* The agent has its own (shared_file.h). */
static bool is_shared(const struct proc_mapping *mapping)
{
    return mapping->shared && loader_leads_is_of_calls(mapping);
}

static bool is_known_file(const void *context, const struct proc_mapping *mapping)
{
    const struct files *files = context;
    bool found = false;
    for (size_t i = 0; i < files->count && !found && is_shared(mapping); i++)
        found = files->items[i].inode == mapping->inode &&
                files->items[i].device_major == mapping->device_major &&
                files->items[i].device_minor == mapping->device_minor;
    return found;
}

static void note_own_files(struct files *files)
{
    struct proc_maps maps = {0};
    proc_maps_read(getpid(), &maps, NULL);
    for (size_t i = 0; i < maps.count; i++) {
        const struct proc_mapping *mapping = &maps.items[i];
        if (is_shared(mapping) && !is_known_file(files, mapping) &&
            base_array_room(files->items, files->count, files->capacity))
            files->items[files->count++] =
                (struct file){mapping->inode, mapping->device_major, mapping->device_minor};
    }
    proc_maps_free(&maps);
}

static void leave_process(pid_t pid, struct remains_left *left, uint64_t *began)
{
    struct remains_cleaned cleaned;
    int result;
    do {
        result = remains_remove(pid, &cleaned, NULL);
    } while (result < 0 && remains_again(result, began));
    if ((result < 0 && result != BASE_ENOTFOUND) || cleaned.bytes_left != 0)
        remains_left_add(left, pid, cleaned.bytes_left,
                         result < 0 || cleaned.bytes_left > cleaned.bytes_kept);
}

/* True too where it is unknown (0): a loss is rather counted than not. */
static bool began_before(pid_t pid, uint64_t ended)
{
    return proc_target_stat(pid, PROC_TARGET_STARTED) < ended;
}

/* How many there were; adds to `missed` those that began before the recording ended. */
static size_t leave_once(const struct files *files, struct remains_left *left, uint64_t ended, size_t *missed,
                         uint64_t *began)
{
    pid_t *pids;
    size_t found = 0, count = proc_users_list(is_known_file, files, true, &pids);
    for (size_t i = 0; i < count; i++) {
        if (remains_left_knows(left, pids[i]) || proc_target_vfork_parent(pids[i]))
            continue;
        *missed += began_before(pids[i], ended);
        leave_process(pids[i], left, began);
        found++;
    }
    free(pids);
    return found;
}

void calls_undiscovered_leave(struct remains_left *left, uint64_t ended, struct profile *profile)
{
    struct files files = {0};
    note_own_files(&files);
    size_t found = files.count, missed = 0;
    uint64_t began = 0;
    for (unsigned i = 0; i < ROUNDS && found != 0; i++)
        found = leave_once(&files, left, ended, &missed, &began);
    if (missed)
        profile_lose(profile, WIRE_LOSS_CALLS_UNSEEN, missed);
    free(files.items);
}
