/* agent_heap_sample.h - Poisson samples of bytes. */
#ifndef AGENT_HEAP_SAMPLE_H
#define AGENT_HEAP_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "agent_thread.h"

/* Is one of the next `size` bytes a sample? */
bool agent_heap_sample_hits(struct agent_thread *thread, uint64_t size, uint64_t mean);
/* What a sampled block of this size stands for. */
struct agent_amount agent_heap_sample_amount(struct agent_thread *thread, uint64_t size, uint64_t mean);
/* A sampled block was allocated (`lives`) or released: updates what quick entries look at
 * (agent_heap_x86_64_pass.S). */
void agent_heap_sample_mark(uint64_t address, bool lives);

#endif
