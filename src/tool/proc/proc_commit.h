/* proc_commit.h - pages of memory files, made before anybody touches them.
 *
 * The memory that we share with a target is in files that are mostly holes, and a page is made as it is first
 * touched. Where the kernel commits no more than it has (vm.overcommit_memory=2), that may be refused, and a
 * refused touch is a SIGBUS: in the target. There, every page that the target or Tally may touch is made
 * beforehand by a call, whose failure is an error like any other: less is counted, and that is a loss.
 * Elsewhere holes stay holes.
 *
 * Source: Documentation/mm/overcommit-accounting; mm/shmem.c (shmem_inode_acct_blocks); fallocate(2).
 * Context: tool, any thread. */
#ifndef PROC_COMMIT_H
#define PROC_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base_error.h"

/* Is a touch refused where a limit is reached? */
bool proc_commit_is_strict(void);

/* Makes the pages of [offset, offset + size) of a memory file. On failure some may have been made. */
int proc_commit_pages(int file, uint64_t offset, uint64_t size, struct base_error *error);

#endif
