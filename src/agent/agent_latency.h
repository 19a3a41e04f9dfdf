/* agent_latency.h - histograms of how long calls took. */
#ifndef AGENT_LATENCY_H
#define AGENT_LATENCY_H

#include <stdint.h>

#include "agent_thread.h"

/* A call of the cell's function took so long, with all that it called. */
void agent_latency_add(const struct agent_thread *thread, uint32_t cell, uint64_t ticks);

#endif
