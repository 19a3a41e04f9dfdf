/* shared_pages.h - pages of a process's tables, made by tally so that the process need not.
 *
 * A process has its blocks all over a new table (wire_agent_block.h): each page would be a fault of its own, in
 * which the kernel finds and clears memory. When a process says that it has begun a large table, its pages are
 * made through tally's mapping, a piece at a time; the process then only maps them, several in each fault, since
 * it reads before it writes. Where it is faster, it makes them itself, as it does without tally's help.
 *
 * Such pages count as tally's memory (its control group, its node), and all of a table's are made, whether it is
 * filled or not: at most as much again as the tables before it have.
 *
 * Context: tool, one thread. Source: madvise(2), MADV_POPULATE_WRITE (Linux 5.14); do_fault_around in
 * mm/memory.c. */
#ifndef SHARED_PAGES_H
#define SHARED_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "shared_file.h"

/* Makes the next piece of the newest table of a region; *made: bytes of tables that need no more, 0 at first.
 * True: there is more to make. False too where the kernel cannot, and where all pages are made before they are
 * mapped (shared_file.committed). */
bool shared_pages_make(const struct shared_file *file, uint32_t region, uint64_t *made);

#endif
