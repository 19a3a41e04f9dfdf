/* What the program's unwinders find of the agent's own code.
 *
 * Inside of a hooked function the return address leads to the agent, which is no object that the loader
 * knows: who walks the stack by call-frame information (an allocator that profiles itself, a sanitizer, a
 * program's own malloc that calls backtrace) would end there. The image has such information, with each push
 * described, so the two functions that unwinders ask for it answer for the image too: _dl_find_object for an
 * address in it, and dl_iterate_phdr with one more object, for a thread that is inside of a hooked function.
 * Who lists the objects elsewhere finds none of ours.
 *
 * The callback gets a size without the loader's numbers of loads and unloads: who keeps what he has found
 * does so by those (libgcc's unwind-dw2-fde-dip.c), and is to keep nothing of what will be gone.
 *
 * Source: glibc, elf/dl-find_object.h and elf/dl-iteratephdr.c; dl_iterate_phdr(3). */
#include <elf.h>

#include "agent_thread.h"

/* glibc's struct dl_find_object, as far as it is filled there. */
struct found_object {
    uint64_t flags, start, end, link_map, frames;
};

/* struct dl_phdr_info */
struct object {
    uint64_t bias;
    const char *name;
    const Elf64_Phdr *headers;
    uint16_t header_count;
    uint64_t loads, unloads, storage_number, storage;
};
#define OBJECT_BYTES __builtin_offsetof(struct object, loads)

typedef uint32_t object_callback(const struct object *object, uint64_t size, uint64_t data);

extern const Elf64_Ehdr __ehdr_start __attribute__((visibility("hidden"))); /* the linker's */

static const Elf64_Phdr *own_headers(void)
{
    return (const Elf64_Phdr *)((uint64_t)&__ehdr_start + __ehdr_start.e_phoff);
}

/* Run-time address of .eh_frame_hdr; 0: the image has none. */
static uint64_t frame_table(void)
{
    for (unsigned i = 0; i < __ehdr_start.e_phnum; i++)
        if (own_headers()[i].p_type == PT_GNU_EH_FRAME)
            return (uint64_t)&__ehdr_start + own_headers()[i].p_vaddr;
    return 0;
}

struct agent_answer agent_wrap_object(const struct agent_frame *frame, uint64_t address,
                                      struct found_object *found);
struct agent_answer agent_wrap_headers(const struct agent_frame *frame, object_callback *callback,
                                       uint64_t data);

struct agent_answer agent_wrap_object(const struct agent_frame *frame, uint64_t address,
                                      struct found_object *found)
{
    (void)frame;
    uint64_t start = agent_parameters.code, end = agent_parameters.code_end, frames;
    if (__builtin_expect(address - start >= end - start, 1) || (frames = frame_table()) == 0)
        return (struct agent_answer){0, 0};
    *found = (struct found_object){.start = start, .end = end, .frames = frames};
    return (struct agent_answer){1, 0};
}

/* Does the agent stand on the stack above? */
static bool is_beneath_hook(const struct agent_frame *frame)
{
    const struct agent_thread *thread = agent_thread_quick(agent_thread_pointer());
    return thread != NULL && thread->shared.inside == WIRE_AGENT_INSIDE &&
           (uint64_t)&frame->return_address < thread->shared.entered_sp;
}

struct agent_answer agent_wrap_headers(const struct agent_frame *frame, object_callback *callback,
                                       uint64_t data)
{
    typedef uint32_t body(object_callback * callback, uint64_t data);
    if (__builtin_expect(!is_beneath_hook(frame), 1))
        return (struct agent_answer){0, 0};
    uint32_t result = ((body *)frame->hook->body)(callback, data);
    if (result == 0) {
        const struct object own = {.bias = (uint64_t)&__ehdr_start,
                                   .name = "/memfd:tally-agent",
                                   .headers = own_headers(),
                                   .header_count = __ehdr_start.e_phnum};
        result = callback(&own, OBJECT_BYTES, data);
    }
    return (struct agent_answer){1, result};
}
