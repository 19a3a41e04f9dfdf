/* sample_stack.h - from one perf sample to a node of the calling-context tree.
 *
 * The stack is unwound from the sample's registers and the kernel's copy of the stack, by the rows of the
 * images mapped at that moment; each frame becomes an address (image, address in it), and the chain is
 * interned. Every way a walk can end but the outermost frame is a counted loss, and the stack is kept,
 * marked as cut. What lies above the largest copy of a very deep stack, and the interrupted stack below a
 * handler on an alternate one, is not in the sample: those words are read from the living process, which is
 * right as long as those frames are still there, and counted (READ_LATE). A thread that is met in a stub
 * that counts calls is where the program would be without it, at the callee's entry, and the stack ends in
 * one frame more, of PROFILE_STUBS_IMAGE: the time is Tally's (profile_own.h). Context: tool, one thread. */
#ifndef SAMPLE_STACK_H
#define SAMPLE_STACK_H

#include "sample_process.h"
#include "unwind.h"

#define SAMPLE_FRAMES_MAX   1024
#define SAMPLE_COPY_LARGEST 65528u /* bytes of a stack: a record's size field has 16 bits */

/* Reads a word of a stack; false: it cannot be read. */
typedef bool sample_word(void *context, uint64_t address, uint64_t *value);

/* How a stack is read of a process whose code or return addresses other collectors have changed: what it
 * would be without them. A function that is NULL: nothing of that kind is changed. */
struct sample_changed {
    void *calls;
    /* Where `pc` lies in a stub that counts calls: pc and sp become what they would be without it. True: the
     * instruction at `pc` is one that counting added, and none of the program's. */
    bool (*leave_stub)(void *calls, pid_t pid, uint64_t *pc, uint64_t *sp, sample_word *word, void *context);
    void *probe;
    /* The return address that `pc`, a word on a stack or where a thread is, stands for; or `pc`. */
    uint64_t (*original)(void *probe, pid_t pid, uint64_t pc);
};

struct sample_stacks {
    struct sample_processes *processes;
    struct profile *profile;
    struct unwind_cache *cache;
    struct sample_changed changed; /* set by the session */
    struct unwind_frame frames[SAMPLE_FRAMES_MAX];
    uint32_t addresses[SAMPLE_FRAMES_MAX + 64], flags[SAMPLE_FRAMES_MAX + 64];
    uint32_t special_unknown, special_kernel, special_no_stack; /* addresses that are no code */
    uint32_t special_stub; /* PROFILE_STUBS_IMAGE; 0 until a thread is met in one */
    uint32_t kernel_image;
};

int sample_stacks_init(struct sample_stacks *sampler, struct sample_processes *processes,
                       struct base_error *error);
void sample_stacks_free(struct sample_stacks *sampler);

/* The node a sample belongs to; 0 when memory ran out (counted). *copy_short: the stack goes on above its
 * copy. */
uint32_t sample_stacks_node(struct sample_stacks *sampler, struct sample_process *process,
                            const struct perf_sample *sample, bool *copy_short);

#endif
