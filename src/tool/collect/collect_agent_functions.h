/* collect_agent_functions.h - which functions the agent wraps, by their names.
 * Context: tool. */
#ifndef COLLECT_AGENT_FUNCTIONS_H
#define COLLECT_AGENT_FUNCTIONS_H

#include "base_error.h"
#include "patch_agent.h"

/* `hosted`: somebody else tells of objects that are loaded. malloc'ed; the names are constants. The first `*allocators` of them allocate or release. */
int collect_agent_functions(const struct patch_agent_image *image, bool hosted,
                            struct patch_agent_function **functions, size_t *count, size_t *allocators,
                            struct base_error *error);

#endif
