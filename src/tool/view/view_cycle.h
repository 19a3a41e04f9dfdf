/* view_cycle.h - which functions call one another in a cycle: the strongly connected components of a
 * graph. Source: R. Tarjan, Depth-first search and linear graph algorithms, SIAM J. Comput. 1 (1972); with a
 * stack of its own. Context: tool. */
#ifndef VIEW_CYCLE_H
#define VIEW_CYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Vertices 0 .. count-1; the successors of v are targets[first[v]] .. targets[first[v + 1] - 1]. Writes into
 * component[v] the number, from 1, of the cycle of two or more that v lies in, else 0. False when memory ran
 * out. */
bool view_cycle_find(size_t count, const uint32_t *first, const uint32_t *targets, uint32_t *component);

#endif
