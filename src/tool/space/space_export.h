/* space_export.h - which exported functions need a hook in a process.
 *
 * Any export may be called by address, so a plan has a hook for each; but most calls of a library's exports
 * come from inside it or through linkage slots, and are counted where they are made. A hook is left out, and
 * its cost with it, for a function that is exported and nothing else (PLAN_FUNCTION_OFFERED), when
 *
 *   its image was loaded because others need it (DT_NEEDED), not by dlopen, where dlsym is to be expected;
 *   no image that uses dlsym has its name among its constants; and
 *   no image that is not counted names it, and no counted one does but in slots that its calls go through.
 *
 * What calls such a function all the same (dlsym by a name that the program puts together, on a library that
 * was there from the start) is counted at its site, with an unknown callee. Images that come later may need
 * hooks in those that are there: these are made anew then. Context: tool, one thread. */
#ifndef SPACE_EXPORT_H
#define SPACE_EXPORT_H

#include "space.h"

/* After a survey: decides for all live objects. Those whose stubs are in force and lack a hook become
 * stale. */
int space_export_choose(struct space *space, struct space_session *session, struct base_error *error);

#endif
