/* calls_probe.h - can calls be counted here? Context: tool, one thread. */
#ifndef CALLS_PROBE_H
#define CALLS_PROBE_H

#include "base_error.h"

/* Tries it: a child of ours is followed, held, given memory for code, and left. BASE_OK, or why not. */
int calls_probe(struct base_error *error);

#endif
