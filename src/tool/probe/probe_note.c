/* What tally says of a collector that did not do something. */
#include "probe_inside.h"

#include <stdio.h>

void probe_note(struct probe *probe, const char *what, const struct base_error *why)
{
    if (!probe->notice[0])
        snprintf(probe->notice, sizeof probe->notice, "%.60s: %.190s", what, why->text);
    profile_set_meta(probe->profile, "agent_notice", probe->notice);
}
