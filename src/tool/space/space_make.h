/* space_make.h - the bytes of stubs and hooks of a space's objects. Context: tool, one thread. */
#ifndef SPACE_MAKE_H
#define SPACE_MAKE_H

#include "space.h"

/* object->next for every live object that has no patch or a stale one, or (`all`) for every one, in the
 * space's form. */
int space_make(struct space *space, bool all, struct base_error *error);

/* Forgets every object->next, which is not in force. */
void space_make_forget(struct space *space);

#endif
