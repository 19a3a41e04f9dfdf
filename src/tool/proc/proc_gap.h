/* proc_gap.h - free address space within reach of an image.
 * Pure. Context: tool, helper. */
#ifndef PROC_GAP_H
#define PROC_GAP_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "proc_maps.h"

/* What must reach and be reached: every byte of the new mapping is within a signed 32-bit displacement of
 * every byte of low..high. */
struct proc_gap_request {
    uint64_t low, high, size; /* bytes; size is rounded up to pages */
    uint64_t heap;            /* where brk begins, whether it has grown yet or not; 0: not known */
};

/* Finds the free page-aligned range that is nearest to the image, and in *address where it begins. Room for
 * the heap to grow (1 GiB) and for stacks (128 MiB) is left alone unless nothing else is free.
 * BASE_ENOTFOUND: there is none, and the message says what that means. `maps` as the kernel gives them, by
 * address. */
int proc_gap_find(const struct proc_maps *maps, const struct proc_gap_request *request, uint64_t *address,
                  struct base_error *error);

#endif
