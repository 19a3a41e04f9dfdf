/* proc_commit.h - pages of memory files, allocated before anybody touches them.
 *
 * The memory that we share with a target is in files that are mostly holes, and a page is allocated as it is
 * first touched. Where the kernel commits no more memory than it has (vm.overcommit_memory=2), that may be
 * refused, and a refused touch is a SIGBUS: in the target. There, every page that the target or Tally may
 * touch is allocated beforehand by a call, whose failure is an error like any other: less is counted, and
 * that is a loss. Elsewhere holes stay holes.
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

/* Allocates the pages of [offset, offset + size) of a memory file. On failure some may be allocated. */
int proc_commit_pages(int file, uint64_t offset, uint64_t size, struct base_error *error);

#endif
