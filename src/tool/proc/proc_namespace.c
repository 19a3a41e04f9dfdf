#include "proc_namespace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proc_status.h"

/* The number of /proc/self, and that of each namespace from /proc's down to the process's own. Without
 * CONFIG_PID_NS there is one namespace, and no such line. */
bool proc_namespace_is_own(const char *text, pid_t pid)
{
    long innermost;
    unsigned namespaces = proc_status_numbers(text, "NSpid", &innermost);
    return proc_status_number(text, "Pid", 0) == pid &&
           (namespaces == 0 || (namespaces == 1 && innermost == pid));
}

/* Children are created in the PID namespace of this process, unless the link leads to another one, or nowhere
 * while there is no child. */
static bool has_own_children(void)
{
    struct stat own, children, link;
    if (lstat("/proc/self/ns/pid_for_children", &link) || stat("/proc/self/ns/pid", &own))
        return true; /* before Linux 4.12 there is no such link */
    return !stat("/proc/self/ns/pid_for_children", &children) && children.st_ino == own.st_ino;
}

enum proc_namespace proc_namespace_look(void)
{
    char self[32];
    struct proc_status status;
    ssize_t length = readlink("/proc/self", self, sizeof self - 1);
    if (length < 0 && access("/proc/1", F_OK))
        return PROC_NAMESPACE_NO_PROC;
    self[length < 0 ? 0 : length] = '\0';
    pid_t seen = (pid_t)strtol(self, NULL, 10);
    bool own = length >= 0 && proc_status_read(seen, 0, &status) == BASE_OK &&
               proc_namespace_is_own(status.text, getpid());
    if (!own)
        return PROC_NAMESPACE_STRANGE_PROC;
    return has_own_children() ? PROC_NAMESPACE_OWN : PROC_NAMESPACE_STRANGE_CHILDREN;
}

/* A call that a seccomp filter refuses would look like another namespace. */
static int check_refused(struct base_error *error)
{
    char self[32];
    if (getpid() < 0)
        return base_fail(error, BASE_EPERMISSION, "getpid: Operation not permitted");
    if (readlink("/proc/self", self, sizeof self) < 0 && base_error_is_refusal(errno))
        return base_fail_errno(error, errno, "readlink of /proc/self");
    return BASE_OK;
}

int proc_namespace_check(struct base_error *error)
{
    static const char *const faults[] = {
        [PROC_NAMESPACE_NO_PROC] = "there is no /proc: mount it (mount -t proc proc /proc)",
        [PROC_NAMESPACE_STRANGE_PROC] =
            "/proc belongs to another PID namespace, where a number is another process: mount that "
            "of this one (mount -t proc proc /proc; unshare --mount-proc)",
        [PROC_NAMESPACE_STRANGE_CHILDREN] =
            "what is started here is created in another PID namespace: start tally there (unshare "
            "--pid --fork)"};
    int result = check_refused(error);
    enum proc_namespace found = result < 0 ? PROC_NAMESPACE_OWN : proc_namespace_look();
    return found == PROC_NAMESPACE_OWN ? result : base_fail(error, BASE_EUNSUPPORTED, "%s", faults[found]);
}
