/* The process: where its region is, and what a compiler may ask for by itself.
 *
 * agent_hook_fork.c says what becomes of it when it forks. */
#include "agent_process.h"

#include <stddef.h>

__attribute__((visibility("hidden"))) struct wire_agent_parameters agent_parameters = {.control = 0};

/* A process that counts nothing: state FREE. Only its first words are ever read, by
 * agent_hook_x86_64_entry.S. */
__attribute__((visibility("hidden"))) const uint64_t agent_process_inert[8] = {0};

/* What a compiler may ask for by itself in freestanding code. */
void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memset(void *to, int byte, size_t size);

void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = ((const uint8_t *)from)[i];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)to)[i] = (uint8_t)byte;
    return to;
}
