/* agent_hook_filter.h - what the program forbids itself. */
#ifndef AGENT_HOOK_FILTER_H
#define AGENT_HOOK_FILTER_H

#include <stdint.h>

/* The program is about to make a system call by its number. */
void agent_hook_filter_call(uint64_t number, uint64_t first, uint64_t second, uint64_t third);

#endif
