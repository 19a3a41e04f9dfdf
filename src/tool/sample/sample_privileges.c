#include "sample_privileges.h"

#include "proc_target.h"
#include "wire_loss.h"

void sample_privileges_lost(struct profile *profile, pid_t pid, bool known)
{
    char name[32] = "?";
    profile_lose(profile, WIRE_LOSS_PRIVILEGES, 1);
    if (profile_meta(profile, "privileges_notice"))
        return;
    proc_target_name(pid, pid, name, sizeof name);
    profile_set_metaf(
        profile, "privileges_notice",
        "%s (%d) %s without the privileges that its file gives, because it was traced%s; record "
        "it as root",
        name, (int)pid, known ? "ran" : "may have run", known ? "" : " (the file cannot be read)");
}
