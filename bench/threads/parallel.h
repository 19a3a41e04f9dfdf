/* parallel.h - what the four data-parallel programs share: a fixed amount of work, cut into equal slices.
 *
 *     PROGRAM THREADS [SCALE]
 *
 * Every program does the same work whatever the number of threads, prints a checksum that must not depend on
 * it, and has two or three calls between main and the leaf, so that stacks are worth walking. SCALE
 * multiplies the work. */
#ifndef PARALLEL_H
#define PARALLEL_H

#include <stddef.h>
#include <stdint.h>

/* Slice `part` of `parts`: worked on by one thread, from its index to its items. */
typedef void parallel_slice(void *work, unsigned part, unsigned parts);

struct parallel_request {
    unsigned threads, scale;
};

/* Reads the command line; ends the program with a message when it makes no sense. */
struct parallel_request parallel_read(int argc, char **argv);

/* Calls slice for every part, each in a thread of its own, and waits for all of them. */
void parallel_run(unsigned threads, parallel_slice *slice, void *work);

/* The items [*from, *to) of `count` that belong to a slice. */
void parallel_range(size_t count, unsigned part, unsigned parts, size_t *from, size_t *to);

/* A number for an index: the input of all programs is made of these (splitmix64's finaliser). */
uint64_t parallel_number(uint64_t index);

#endif
