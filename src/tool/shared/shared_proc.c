#include "shared_proc.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "proc_status.h"
#include "proc_target.h"

/* 0: it is gone. */
static pid_t process_of_thread(pid_t tid)
{
    struct proc_target_facts facts;
    return proc_target_facts(tid, tid, &facts) == BASE_OK ? facts.process : 0;
}

/* The numbers of a thread, from our namespace to its own: how many; *inside is the last. */
static unsigned read_numbers(pid_t pid, pid_t tid, pid_t *inside)
{
    struct proc_status status;
    long last;
    proc_status_read(pid, tid, &status);
    unsigned count = proc_status_numbers(status.text, "NSpid", &last);
    *inside = (pid_t)last;
    return count;
}

pid_t shared_proc_inside(pid_t pid, pid_t tid)
{
    pid_t inside;
    read_numbers(pid, tid, &inside);
    return inside;
}

bool shared_proc_is_nested(pid_t pid)
{
    pid_t inside;
    return read_numbers(pid, pid, &inside) > 1;
}

static bool has_thread(pid_t pid, pid_t inside)
{
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    for (const struct dirent *entry; directory && !found && (entry = readdir(directory));) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = tid > 0 && shared_proc_inside(pid, tid) == inside;
    }
    if (directory)
        closedir(directory);
    return found;
}

static pid_t find_process(const struct shared_file *file, pid_t first, pid_t inside)
{
    pid_t *pids, found = 0;
    if (first && has_thread(first, inside))
        return first;
    size_t count = shared_file_users(file, &pids);
    for (size_t i = 0; i < count && !found; i++)
        if (has_thread(pids[i], inside))
            found = pids[i];
    free(pids);
    return found;
}

/* The first in a namespace is 1 in it. */
pid_t shared_proc_outside(struct shared_file *file, pid_t first, uint32_t *number)
{
    pid_t inside = (pid_t)*number;
    file->nested |= inside == 1;
    if (!file->nested)
        return first ? process_of_thread(inside) : inside;
    pid_t found = find_process(file, first, inside);
    if (found && !first)
        *number = (uint32_t)found;
    return found;
}
