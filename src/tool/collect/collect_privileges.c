#include "collect_privileges.h"

#include "patch_target.h"
#include "wire_loss.h"

void collect_privileges_tell(struct profile *profile, const struct patch_trace_event *event)
{
    const uint64_t told = PATCH_TRACE_FLAG_PRIVILEGES_LOST | PATCH_TRACE_FLAG_PRIVILEGES_UNKNOWN;
    bool known = event->flags & PATCH_TRACE_FLAG_PRIVILEGES_LOST;
    char name[32] = "?";
    if (event->kind != PATCH_TRACE_EXEC || !(event->flags & told))
        return;
    profile_lose(profile, WIRE_LOSS_PRIVILEGES, 1);
    if (profile_meta(profile, "privileges_notice"))
        return;
    patch_target_name(event->pid, event->pid, name, sizeof name);
    profile_set_metaf(
        profile, "privileges_notice",
        "%s (%d) %s without the privileges that its file gives, because it was traced%s; record "
        "it as root",
        name, (int)event->pid, known ? "ran" : "may have run", known ? "" : " (the file cannot be read)");
}
