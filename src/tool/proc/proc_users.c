#include "proc_users.h"

#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "base_array.h"
#include "proc_target.h"

bool proc_users_is(pid_t pid, proc_users_wanted *wanted, const void *context)
{
    struct proc_maps maps = {0};
    bool found = false;
    if (proc_maps_read(pid, &maps, NULL) < 0)
        return false;
    for (size_t i = 0; i < maps.count && !found; i++)
        found = wanted(context, &maps.items[i]);
    proc_maps_free(&maps);
    return found;
}

/* Clock ticks since boot; 0: it is gone. */
static uint64_t start_time_of(pid_t pid)
{
    struct proc_target_facts facts;
    return proc_target_facts(pid, pid, &facts) == BASE_OK ? facts.started : 0;
}

size_t proc_users_list(proc_users_wanted *wanted, const void *context, bool created, pid_t **pids)
{
    uint64_t since = created ? start_time_of(getpid()) : 0;
    size_t count = 0, capacity = 0;
    DIR *all = opendir("/proc");
    const struct dirent *entry;
    *pids = NULL;
    while (all && (entry = readdir(all))) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0 && pid != getpid() && (!created || start_time_of(pid) >= since) &&
            proc_users_is(pid, wanted, context) && base_array_room(*pids, count, capacity))
            (*pids)[count++] = pid;
    }
    if (all)
        closedir(all);
    return count;
}
