#include "proc_privileges.h"

#include <endian.h>
#include <errno.h>
#include <linux/capability.h>
#include <linux/xattr.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "proc_target.h"

/* One mask in the first version, two in the later ones; what follows them is whose they are. */
uint64_t proc_privileges_of_file(const void *attribute, size_t size)
{
    struct vfs_cap_data data = {0};
    if (size < XATTR_CAPS_SZ_1)
        return 0;
    memcpy(&data, attribute, size < sizeof data ? size : sizeof data);
    uint64_t given = le32toh(data.data[0].permitted);
    if ((le32toh(data.magic_etc) & VFS_CAP_REVISION_MASK) != VFS_CAP_REVISION_1)
        given |= (uint64_t)le32toh(data.data[1].permitted) << 32;
    return given;
}

static uint64_t capabilities_of(const char *path)
{
    struct vfs_ns_cap_data attribute;
    ssize_t size = getxattr(path, XATTR_NAME_CAPS, &attribute, sizeof attribute);
    return size > 0 ? proc_privileges_of_file(&attribute, (size_t)size) : 0;
}

/* A set-gid bit without the group's right to execute means mandatory locking. */
static bool gives_more(const char *path, const struct stat *file, const struct proc_target_credentials *has)
{
    const mode_t set_group = S_ISGID | S_IXGRP;
    return ((file->st_mode & S_ISUID) && file->st_uid != has->user) ||
           ((file->st_mode & set_group) == set_group && file->st_gid != has->group) ||
           (capabilities_of(path) & has->bounding & ~has->permitted) != 0;
}

enum proc_privileges proc_privileges_of(pid_t pid)
{
    char path[64];
    struct stat file;
    struct statvfs system;
    struct proc_target_credentials has;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    if (proc_target_credentials(pid, &has) < 0 || has.gives_up)
        return PROC_PRIVILEGES_KEPT;
    if (stat(path, &file) || statvfs(path, &system))
        return errno == EACCES || errno == EPERM ? PROC_PRIVILEGES_UNKNOWN : PROC_PRIVILEGES_KEPT;
    return !(system.f_flag & ST_NOSUID) && gives_more(path, &file, &has) ? PROC_PRIVILEGES_LOST
                                                                         : PROC_PRIVILEGES_KEPT;
}
