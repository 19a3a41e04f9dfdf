#include "sample_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch.h"
#include "proc_target.h"
#include "wire_loss.h"

int sample_stacks_init(struct sample_stacks *sampler, struct sample_processes *processes,
                       struct base_error *error)
{
    sampler->processes = processes;
    sampler->profile = processes->profile;
    sampler->cache = calloc(1, unwind_cache_size());
    uint32_t special = profile_image(sampler->profile, PROFILE_IMAGE_SPECIAL, "(unknown)", "", 0);
    uint32_t kernel = profile_image(sampler->profile, PROFILE_IMAGE_SPECIAL, "(kernel)", "", 0);
    uint32_t gone = profile_image(sampler->profile, PROFILE_IMAGE_SPECIAL, "(no stack)", "", 0);
    sampler->special_unknown = profile_address(sampler->profile, special, 0);
    sampler->special_kernel = profile_address(sampler->profile, kernel, 0);
    sampler->special_no_stack = profile_address(sampler->profile, gone, 0);
    if (!sampler->cache || !sampler->special_unknown || !sampler->special_kernel ||
        !sampler->special_no_stack)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    return BASE_OK;
}

void sample_stacks_free(struct sample_stacks *sampler)
{
    free(sampler->cache);
    sampler->cache = NULL;
}

/* --- what the walk asks for --- */

struct walk {
    struct sample_stacks *sampler;
    struct sample_process *process;
    uint64_t high;   /* the copy's end */
    bool copy_full;  /* the stack goes on above it */
    bool copy_short; /* and a word of that was asked for */
    bool read_late;
    bool in_stub; /* the thread is in an instruction that Tally added */
};

enum {
    SAME_STACK = 16 << 20, /* words this near above a full copy are of the same stack, not elsewhere */
};

/* What stands on a stack in the place of a return address is described as that is. */
static uint64_t real_pc(const struct sample_stacks *sampler, const struct sample_process *process,
                        uint64_t pc)
{
    const struct sample_changed *changed = &sampler->changed;
    return changed->original ? changed->original(changed->probe, process->pid, pc) : pc;
}

static bool find_place(void *context, uint64_t pc, struct unwind_place *place)
{
    struct walk *walk = context;
    uint64_t real = real_pc(walk->sampler, walk->process, pc + 1) - 1;
    struct sample_mapping *mapping = sample_processes_mapping(walk->sampler->processes, walk->process, real);
    if (!mapping)
        return false;
    *place = (struct unwind_place){.bias = mapping->bias + (pc - real),
                                   .cookie = (uint32_t)(mapping - walk->process->mappings)};
    if (mapping->image != SAMPLE_NO_IMAGE)
        place->rows = sample_images_rows(walk->sampler->processes->images, mapping->image);
    return true;
}

static bool read_late(void *context, uint64_t address, uint64_t *word)
{
    struct walk *walk = context;
    bool above = walk->copy_full && address >= walk->high && address - walk->high < SAME_STACK;
    walk->copy_short |= above;
    if (walk->sampler->processes->replayed)
        return false;
    if (proc_target_read(walk->process->pid, address, word, sizeof *word) != sizeof *word)
        return false;
    walk->read_late = true;
    return true;
}

/* --- frames to addresses --- */

static uint32_t new_jit_image(struct sample_stacks *sampler, struct sample_process *process)
{
    char path[64];
    unsigned copy = ++process->jit_images;
    snprintf(path, sizeof path, copy == 1 ? "[jit:%d]" : "[jit:%d.%u]", (int)process->pid, copy);
    process->jit_image =
        profile_image(sampler->profile, PROFILE_IMAGE_JIT, path, "", process->profile_process);
    return process->jit_image;
}

/* Code from a jitdump file is named at once: its address may be used again for something else. */
static uint32_t jit_address(struct sample_stacks *sampler, struct sample_process *process, uint64_t pc,
                            uint64_t time)
{
    if (!process->jit)
        process->jit = symbol_jit_new();
    if (!process->jit_image)
        new_jit_image(sampler, process);
    uint32_t address = profile_address(sampler->profile, process->jit_image, pc);
    const char *name;
    uint64_t start, end;
    if (process->jit_dump_fd < 0 || !process->jit || !address)
        return address;
    if (!symbol_jit_find(process->jit, pc, time, &name, &start, &end)) {
        symbol_jit_read_dump(process->jit, process->jit_dump_fd, NULL);
        if (!symbol_jit_find(process->jit, pc, time, &name, &start, &end))
            return address;
    }
    struct profile *profile = sampler->profile;
    uint32_t known = profile->addresses[address].function;
    uint32_t function = profile_function(profile, process->jit_image, name, start, end);
    if (known && known != function) {
        address = profile_address(profile, new_jit_image(sampler, process), pc);
        function = profile_function(profile, process->jit_image, name, start, end);
    }
    if (address && profile->addresses[address].function != function) {
        struct profile_address value = profile->addresses[address];
        value.function = function;
        value.resolution = PROFILE_RESOLVED;
        value.lines_known = true;
        profile_set_address(profile, address, &value);
    }
    return address;
}

static uint32_t frame_address(struct sample_stacks *sampler, struct sample_process *process,
                              const struct unwind_frame *frame, bool innermost, uint64_t time)
{
    if (frame->cookie == UNWIND_NO_COOKIE)
        return sampler->special_unknown;
    uint64_t stood = real_pc(sampler, process, frame->pc);
    uint64_t pc = innermost || frame->flags & UNWIND_SIGNAL ? stood : stood - 1;
    const struct sample_mapping *mapping = &process->mappings[frame->cookie];
    if (mapping->image == SAMPLE_NO_IMAGE)
        return jit_address(sampler, process, pc, time);
    const struct sample_image *image = &sampler->processes->images->items[mapping->image];
    return profile_address(sampler->profile, image->profile_image, pc - mapping->bias);
}

static uint32_t node_flags(const struct unwind_frame *frame)
{
    uint32_t flags = frame->flags & UNWIND_SIGNAL ? PROFILE_NODE_SIGNAL : 0u;
    return flags | (frame->flags & UNWIND_BY_FRAME_POINTER ? PROFILE_NODE_FRAME_POINTER : 0u);
}

/* Appends the kernel's frames, outermost first, after the user's. */
static size_t add_kernel_frames(struct sample_stacks *sampler, const struct perf_sample *sample, size_t count)
{
    if (sample->chain_count && !sampler->kernel_image)
        sampler->kernel_image = profile_image(sampler->profile, PROFILE_IMAGE_KERNEL, "[kernel]", "", 0);
    for (size_t i = sample->chain_count; i-- > 0 && count < SAMPLE_FRAMES_MAX + 64;) {
        if (sample->chain[i] >= (uint64_t)PERF_CONTEXT_MAX)
            continue; /* a marker, not an address */
        sampler->addresses[count] =
            profile_address(sampler->profile, sampler->kernel_image, sample->chain[i] - (i > 1));
        sampler->flags[count++] = PROFILE_NODE_KERNEL;
    }
    return count;
}

/* --- a walk and what was lost on it --- */

static unsigned loss_of(enum unwind_end end, bool copy_was_full)
{
    switch (end) {
    case UNWIND_OUTERMOST:
        return 0;
    case UNWIND_FULL:
        return WIRE_LOSS_TOO_DEEP;
    case UNWIND_CUT:
        return copy_was_full ? WIRE_LOSS_STACK_CUT : WIRE_LOSS_BAD_READ;
    case UNWIND_BAD_READ:
        return WIRE_LOSS_BAD_READ;
    case UNWIND_NO_ROWS:
        return WIRE_LOSS_NO_ROWS;
    case UNWIND_ODD_RULE:
        return WIRE_LOSS_ODD_RULE;
    case UNWIND_NO_MAPPING:
        return WIRE_LOSS_NO_MAPPING;
    case UNWIND_NO_PROGRESS:
        return WIRE_LOSS_NO_PROGRESS;
    }
    return WIRE_LOSS_BAD_READ;
}

struct copied_stack {
    const struct perf_sample *sample;
    uint64_t low; /* address of its first byte */
};

static bool copied_word(void *context, uint64_t address, uint64_t *value)
{
    const struct copied_stack *stack = context;
    uint64_t offset = address - stack->low;
    if (!stack->sample->stack || offset > stack->sample->stack_size ||
        stack->sample->stack_size - offset < sizeof *value)
        return false;
    memcpy(value, stack->sample->stack + offset, sizeof *value);
    return true;
}

/* As if stubs that count calls, and replaced return addresses, were not there. True: the thread is in an
 * instruction that they added. */
static bool leave_stub(struct sample_stacks *sampler, const struct sample_process *process,
                       const struct perf_sample *sample, uint64_t *pc, uint64_t *sp)
{
    struct copied_stack stack = {sample, *sp};
    const struct sample_changed *changed = &sampler->changed;
    bool own =
        changed->leave_stub && changed->leave_stub(changed->calls, process->pid, pc, sp, copied_word, &stack);
    uint64_t met = *pc;
    *pc = real_pc(sampler, process, met);
    return own || *pc != met;
}

/* The frame within the innermost one that says whose the time is. */
static size_t add_stub_frame(struct sample_stacks *sampler, size_t count)
{
    struct profile *profile = sampler->profile;
    if (!sampler->special_stub) {
        uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, PROFILE_STUBS_IMAGE, "", 0);
        sampler->special_stub = image ? profile_address(profile, image, 0) : 0;
    }
    if (!sampler->special_stub) /* memory ran out, which is counted */
        return count;
    sampler->addresses[count] = sampler->special_stub;
    sampler->flags[count] = 0;
    return count + 1;
}

static struct unwind_result walk_stack(struct sample_stacks *sampler, struct sample_process *process,
                                       const struct perf_sample *sample, struct walk *walk)
{
    const struct arch *arch = arch_host();
    struct arch_registers registers;
    arch_registers_of_perf(arch, sample->registers, &registers);
    registers.valid &= ~sample->unknown;
    uint64_t sp = registers.value[arch->sp];
    walk->high = sp + sample->stack_size;
    walk->copy_full = sample->stack_size == sample->stack_asked;
    walk->in_stub =
        leave_stub(sampler, process, sample, &registers.value[arch->pc], &registers.value[arch->sp]);
    struct unwind_memory memory = {
        .low = sp, .high = walk->high, .bytes = sample->stack, .read_outside = read_late, .context = walk};
    struct unwind_space space = {.arch = arch,
                                 .find = find_place,
                                 .context = walk,
                                 .generation = process->generation,
                                 .frame_pointers = true};
    return unwind_walk(&space, &memory, &registers, sampler->cache, sampler->frames, SAMPLE_FRAMES_MAX);
}

static size_t user_frames(struct sample_stacks *sampler, struct sample_process *process,
                          const struct perf_sample *sample, bool *copy_short)
{
    struct walk walk = {.sampler = sampler, .process = process};
    struct unwind_result result = walk_stack(sampler, process, sample, &walk);
    unsigned loss = loss_of(result.end, sample->stack_size == sample->stack_asked);
    *copy_short = walk.copy_short || loss == WIRE_LOSS_STACK_CUT;
    if (loss)
        profile_lose(sampler->profile, loss, 1);
    if (result.frame_pointer_frames)
        profile_lose(sampler->profile, WIRE_LOSS_FRAME_POINTER, result.frame_pointer_frames);
    if (walk.read_late)
        profile_lose(sampler->profile, WIRE_LOSS_READ_LATE, 1);
    for (size_t i = 0; i < result.count; i++) {
        const struct unwind_frame *frame = &sampler->frames[i];
        size_t at = result.count - 1 - i;
        sampler->addresses[at] = frame_address(sampler, process, frame, i == 0, sample->time);
        sampler->flags[at] = node_flags(frame);
    }
    if (loss && result.count)
        sampler->flags[0] |= PROFILE_NODE_CUT;
    return walk.in_stub ? add_stub_frame(sampler, result.count) : result.count;
}

/* A replayed stack that was walked when it was recorded, by the kernel. Only its innermost address is not a
 * return address. */
static size_t chained_frames(struct sample_stacks *sampler, struct sample_process *process,
                             const struct perf_sample *sample)
{
    struct walk walk = {.sampler = sampler, .process = process};
    size_t count = sample->user_count < SAMPLE_FRAMES_MAX ? sample->user_count : SAMPLE_FRAMES_MAX;
    bool cut = count < sample->user_count;
    for (size_t i = 0; i < count; i++) {
        struct unwind_place place;
        struct unwind_frame frame = {.pc = sample->user_chain[i], .cookie = UNWIND_NO_COOKIE};
        if (find_place(&walk, frame.pc - (i > 0), &place))
            frame.cookie = place.cookie;
        sampler->addresses[count - 1 - i] = frame_address(sampler, process, &frame, i == 0, sample->time);
        sampler->flags[count - 1 - i] = 0;
    }
    if (cut) {
        profile_lose(sampler->profile, WIRE_LOSS_TOO_DEEP, 1);
        sampler->flags[0] = PROFILE_NODE_CUT;
    }
    return count;
}

/* With --stacks=address there are no registers: the interrupted instruction alone. */
static size_t lone_address(struct sample_stacks *sampler, struct sample_process *process,
                           const struct perf_sample *sample)
{
    struct walk walk = {.sampler = sampler, .process = process};
    struct unwind_place place;
    uint64_t pc = sample->ip, sp = 0;
    bool in_stub = !sample->in_kernel && leave_stub(sampler, process, sample, &pc, &sp);
    struct unwind_frame frame = {.pc = pc, .cookie = UNWIND_NO_COOKIE};
    if (!sample->in_kernel && find_place(&walk, pc, &place))
        frame.cookie = place.cookie;
    sampler->addresses[0] = sample->in_kernel ? sampler->special_kernel
                                              : frame_address(sampler, process, &frame, true, sample->time);
    sampler->flags[0] = 0;
    return in_stub ? add_stub_frame(sampler, 1) : 1;
}

/* While a process calls exec or exits, its memory is gone before its registers are: what the kernel does
 * then has no stack any more, which is no loss. The function that called the kernel is kept where its
 * image is still known. */
static size_t sample_stackless(struct sample_stacks *sampler, struct sample_process *process,
                               const struct perf_sample *sample)
{
    struct walk walk = {.sampler = sampler, .process = process};
    struct arch_registers registers;
    struct unwind_place place;
    arch_registers_of_perf(arch_host(), sample->registers, &registers);
    struct unwind_frame frame = {.pc = registers.value[arch_host()->pc]};
    sampler->addresses[0] = sampler->special_no_stack;
    sampler->flags[0] = 0;
    if (!find_place(&walk, frame.pc, &place))
        return 1;
    frame.cookie = place.cookie;
    sampler->addresses[1] = frame_address(sampler, process, &frame, true, sample->time);
    sampler->flags[1] = 0;
    return 2;
}

static bool has_no_stack(struct sample_stacks *sampler, struct sample_process *process,
                         const struct perf_sample *sample)
{
    struct arch_registers registers;
    if (!sample->in_kernel)
        return false;
    arch_registers_of_perf(arch_host(), sample->registers, &registers);
    return !sample->stack_size ||
           !sample_processes_mapping(sampler->processes, process, registers.value[arch_host()->pc]);
}

uint32_t sample_stacks_node(struct sample_stacks *sampler, struct sample_process *process,
                            const struct perf_sample *sample, bool *copy_short)
{
    size_t count;
    *copy_short = false;
    if (sample->registers && sample->stack && has_no_stack(sampler, process, sample)) {
        count = sample_stackless(sampler, process, sample);
    } else if (sample->registers && sample->stack) {
        count = user_frames(sampler, process, sample, copy_short);
    } else if (sample->user_count) {
        count = chained_frames(sampler, process, sample);
    } else if (sampler->processes->replayed && sample->chain_count) {
        count = 0; /* the kernel's own */
    } else if (sample->stack_asked) {
        profile_lose(sampler->profile, WIRE_LOSS_NO_USER_REGISTERS, 1);
        sampler->addresses[0] = sampler->special_kernel;
        sampler->flags[0] = PROFILE_NODE_KERNEL;
        count = 1;
    } else {
        count = lone_address(sampler, process, sample);
    }
    count = add_kernel_frames(sampler, sample, count);
    return profile_stack(sampler->profile, sampler->addresses, sampler->flags, count);
}
