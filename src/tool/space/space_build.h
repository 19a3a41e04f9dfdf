/* space_build.h - from planned objects of a space to counted ones: place, make, apply (space.h). Context:
 * tool, one thread. */
#ifndef SPACE_BUILD_H
#define SPACE_BUILD_H

#include "space.h"

/* All three; holds the space unless it is `held` by an event. */
int space_build_all(struct space *space, struct space_session *session, bool held, struct base_error *error);

/* Leads all sites to stubs of another form. The space is held. On failure they stay as they are. */
int space_build_change_form(struct space *space, struct space_session *session, enum stub_form form,
                            struct base_error *error);

#endif
