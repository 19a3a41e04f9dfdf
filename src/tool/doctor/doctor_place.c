/* Checks of the limits and the files around this process. */
#include <dlfcn.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cfi.h"
#include "doctor.h"
#include "elf_image.h"
#include "proc_cgroup.h"
#include "proc_namespace.h"
#include "symbol.h"

/* The soft limit is raised to the hard one while recording; attaching takes an event a CPU and thread at
 * most. */
void doctor_check_descriptors(struct doctor *doctor)
{
    enum { GOOD = 4096, SMALLEST = 64 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    enum doctor_state state = limit.rlim_max < SMALLEST ? DOCTOR_MISSING
                              : limit.rlim_max < GOOD   ? DOCTOR_LIMITED
                                                        : DOCTOR_OK;
    struct doctor_line *line = doctor_add(doctor, "open files", state);
    if (limit.rlim_max == RLIM_INFINITY)
        doctor_explain(line, "unlimited");
    else
        doctor_explain(line, "at most %" PRIu64 ": %s", (uint64_t)limit.rlim_max,
                       state == DOCTOR_OK ? "enough to attach to many threads"
                                          : "too few to attach to many threads");
    if (state != DOCTOR_OK)
        doctor_advise(line, "sudo prlimit --pid $$ --nofile=1048576:1048576");
}

/* Said only where it is wrong. */
void doctor_check_processes(struct doctor *doctor)
{
    static const char *const remedies[] = {
        [PROC_NAMESPACE_NO_PROC] = "sudo mount -t proc proc /proc",
        [PROC_NAMESPACE_STRANGE_PROC] =
            "sudo unshare --mount-proc tally record ...", /* nobody else's /proc changes */
        [PROC_NAMESPACE_STRANGE_CHILDREN] = "sudo unshare --pid --fork --mount-proc tally record ..."};
    struct base_error why = {0};
    enum proc_namespace found = proc_namespace_look();
    if (doctor->root[0] || found == PROC_NAMESPACE_OWN || proc_namespace_check(&why) == BASE_OK)
        return;
    struct doctor_line *line = doctor_add(doctor, "processes", DOCTOR_MISSING);
    why.text[strcspn(why.text, ":")] = '\0';
    doctor_explain(line, "%s", why.text);
    doctor_advise(line, "%s", remedies[found]);
}

void doctor_check_memory(struct doctor *doctor)
{
    enum { GOOD_KB = 1024 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
        return;
    bool exempt = doctor_has(doctor, CAP_IPC_LOCK) || limit.rlim_cur == RLIM_INFINITY;
    bool ok = exempt || limit.rlim_cur / 1024 >= GOOD_KB;
    struct doctor_line *line = doctor_add(doctor, "locked memory", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    if (exempt)
        doctor_explain(line, "not limited");
    else
        doctor_explain(line, "%" PRIu64 " kB beside perf_event_mlock_kb: %s", (uint64_t)limit.rlim_cur / 1024,
                       ok ? "enough" : "rings may be small, samples be lost at high rates");
    if (!ok)
        doctor_advise(line, "sudo prlimit --pid $$ --memlock=67108864:67108864");
}

void doctor_check_cgroup(struct doctor *doctor)
{
    char path[512], place[256];
    bool there = proc_cgroup_mount(doctor->root, place, sizeof place);
    struct doctor_line *line = doctor_add(doctor, "cgroup v2", there ? DOCTOR_OK : DOCTOR_LIMITED);
    if (there)
        doctor_explain(line, "mounted at %s", place);
    else {
        doctor_explain(line, "not mounted: --cgroup PATH does not work");
        snprintf(path, sizeof path, "%s/sys/fs/cgroup/perf_event", doctor->root);
        if (access(path, F_OK) == 0) /* version 1 has that place */
            doctor_advise(line, "reboot with the kernel option systemd.unified_cgroup_hierarchy=1");
        else
            doctor_advise(line, "sudo mount -t cgroup2 none /sys/fs/cgroup");
    }
}

/* --- symbols --- */

/* Does a separate debug file, or the library itself, name static functions and lines? */
static bool has_lines(const char *path)
{
    struct elf_image *image = NULL;
    struct symbol_file *file = NULL;
    struct symbol_options options = {.root = ""};
    if (elf_image_open(path, &image, NULL) < 0)
        return false;
    bool found = symbol_file_open(image, &options, &file, NULL) == BASE_OK && symbol_file_has_lines(file);
    if (file)
        symbol_file_close(file);
    elf_image_close(image);
    return found;
}

void doctor_check_symbols(struct doctor *doctor)
{
    Dl_info information;
    if (!dladdr((const void *)(uintptr_t)getenv, &information) || !information.dli_fname)
        return;
    const char *slash = strrchr(information.dli_fname, '/');
    const char *name = slash ? slash + 1 : information.dli_fname;
    bool found = has_lines(information.dli_fname);
    struct doctor_line *line = doctor_add(doctor, "debug files", found ? DOCTOR_OK : DOCTOR_LIMITED);
    if (found) {
        doctor_explain(line, "%s has one: its inner functions and lines have names", name);
        return;
    }
    doctor_explain(line,
                   "%s has none: functions it does not export are called %s+0xOFFSET, without lines; as in "
                   "every stripped file",
                   name, name);
    if (access("/usr/bin/apt-get", X_OK) == 0)
        doctor_advise(line, "sudo apt-get install libc6-dbg");
    else
        doctor_advise(line, "tally report --debuginfod  (with DEBUGINFOD_URLS set)");
}

/* --- directories --- */

/* The nearest directory above `path` that exists, in place. */
static void find_existing(char *path)
{
    struct stat status;
    while (stat(path, &status) < 0) {
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) {
            path[path[0] == '/'] = '\0';
            return;
        }
        *slash = '\0';
    }
}

/* NULL: it can be used. */
static const char *cache_fault(const char *directory)
{
    struct stat status;
    if (stat(directory, &status) == 0) {
        if (!S_ISDIR(status.st_mode))
            return "is not a directory";
        if (status.st_uid != geteuid())
            return "belongs to another user";
        if (status.st_mode & (S_IWGRP | S_IWOTH))
            return "can be written by others";
        return access(directory, W_OK | X_OK) == 0 ? NULL : "cannot be written";
    }
    char *existing = strdup(directory);
    if (!existing)
        return "cannot be looked at";
    find_existing(existing);
    bool possible =
        stat(existing, &status) == 0 && S_ISDIR(status.st_mode) && access(existing, W_OK | X_OK) == 0;
    free(existing);
    return possible ? NULL : "cannot be made";
}

void doctor_check_cache(struct doctor *doctor)
{
    char *directory = cfi_cache_default_directory();
    const char *fault = directory ? cache_fault(directory) : NULL;
    bool ok = directory && !fault;
    struct doctor_line *line = doctor_add(doctor, "cache", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    if (ok)
        doctor_explain(line, "%s", directory);
    else if (directory)
        doctor_explain(line, "%s %s: unwind tables are compiled anew each time", directory, fault);
    else
        doctor_explain(line, "neither XDG_CACHE_HOME nor HOME: unwind tables are compiled anew each time");
    if (!ok)
        doctor_advise(line, "export XDG_CACHE_HOME=$(mktemp -d)");
    free(directory);
}

void doctor_check_space(struct doctor *doctor)
{
    enum { GOOD_MB = 100, SMALLEST_MB = 1 };
    struct statvfs place;
    if (statvfs(".", &place) < 0)
        return;
    uint64_t free_mb = (uint64_t)place.f_bavail * place.f_frsize >> 20;
    bool writable = access(".", W_OK) == 0;
    bool ok = writable && free_mb >= GOOD_MB;
    struct doctor_line *line = doctor_add(doctor, "working directory", ok ? DOCTOR_OK : DOCTOR_LIMITED);
    if (!writable)
        doctor_explain(line, "cannot be written: the profile has to go elsewhere");
    else if (ok)
        doctor_explain(line, "%" PRIu64 " MB free", free_mb);
    else
        doctor_explain(line, "%" PRIu64 " MB free: a large profile may not fit", free_mb);
    if (!ok)
        doctor_advise(line, "tally record -o /tmp/tally.out ...");
}
