/* space_survey.h - the first step of a space (space.h): what is mapped, and what of it is to be counted.
 * Context: tool, one thread. */
#ifndef SPACE_SURVEY_H
#define SPACE_SURVEY_H

#include "space.h"

/* How many live objects have no patch; or an error. */
int space_survey(struct space *space, struct space_session *session, struct base_error *error);

#endif
