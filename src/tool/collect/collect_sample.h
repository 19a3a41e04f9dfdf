/* collect_sample.h - from one perf sample to a node of the calling-context tree.
 *
 * The stack is unwound from the sample's registers and the kernel's copy of the stack, by the rows of the
 * images mapped at that moment; each frame becomes an address (image, address in it), and the chain is
 * interned. Every way a walk can end but the outermost frame is a counted loss, and the stack is kept, marked
 * as cut. What lies above the largest copy of a very deep stack, and the interrupted stack below a handler on
 * an alternate one, is not in the sample: those words are read from the living process, which is right as
 * long as those frames are still there, and counted (READ_LATE). Who is met in a stub that counts calls is
 * where the program would be without it: at the callee's entry. Context: tool, one thread. */
#ifndef COLLECT_SAMPLE_H
#define COLLECT_SAMPLE_H

#include "collect_agent.h"
#include "collect_calls.h"
#include "collect_process.h"
#include "unwind.h"

#define COLLECT_FRAMES_MAX   1024
#define COLLECT_COPY_LARGEST 65528u /* bytes of a stack: a record's size field has 16 bits */

struct collect_sampler {
    struct collect_processes *processes;
    struct profile *profile;
    struct unwind_cache *cache;
    struct collect_calls *calls; /* whose stubs may be met; NULL: none */
    struct collect_agent *agent; /* which may have replaced return addresses; NULL: none */
    struct unwind_frame frames[COLLECT_FRAMES_MAX];
    uint32_t addresses[COLLECT_FRAMES_MAX + 64], flags[COLLECT_FRAMES_MAX + 64];
    uint32_t special_unknown, special_kernel, special_no_stack; /* addresses that are no code */
    uint32_t kernel_image;
};

int collect_sampler_init(struct collect_sampler *sampler, struct collect_processes *processes,
                         struct base_error *error);
void collect_sampler_free(struct collect_sampler *sampler);

/* The node a sample belongs to; 0 when memory ran out (counted). *copy_short: the stack goes on above its
 * copy. */
uint32_t collect_sampler_node(struct collect_sampler *sampler, struct collect_process *process,
                              const struct collect_sample *sample, bool *copy_short);

#endif
