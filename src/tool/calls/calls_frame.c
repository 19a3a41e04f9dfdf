/* Stubs in sampled stacks. */
#include "calls_inside.h"

#include "slab_frame.h"
#include "space_memory.h"

static const struct slab *slab_around(const struct space_patch *patch, uint64_t pc)
{
    for (size_t i = 0; patch && i < patch->slab.region_count; i++)
        if (pc - patch->slab.regions[i].address < patch->slab.regions[i].size)
            return &patch->slab;
    return NULL;
}

static const struct slab *find_slab(const struct space *space, uint64_t pc)
{
    bool ours = space_memory_is_code(space, pc);
    for (size_t i = 0; ours && i < space->object_count; i++) {
        const struct space_object *object = &space->objects[i];
        const struct slab *slab = slab_around(object->patch, pc);
        for (size_t j = 0; !slab && j < object->older_count; j++)
            slab = slab_around(object->older[j], pc);
        if (slab)
            return slab;
    }
    return NULL;
}

/* A few rounds: the recorder's caller is a hook, a stub may lead to another slab. */
bool calls_frame(struct calls *calls, pid_t pid, uint64_t *pc, uint64_t *sp, sample_word *word, void *context)
{
    const struct space *space = calls_members_space(calls, pid);
    bool own = false;
    for (int i = 0; space && i < 4; i++) {
        struct slab_frame frame;
        const struct slab *slab = find_slab(space, *pc);
        if (!slab || !slab_frame(slab, *pc, &frame))
            break;
        own |= frame.own;
        *sp += 8ull * frame.pushed;
        *pc = frame.pc;
        if (frame.kind == SLAB_FRAME_CALL || frame.kind == SLAB_FRAME_RECORDER) {
            if (!word(context, *sp, pc))
                break;
            *sp += 8;
        }
    }
    calls->stub_samples += own;
    return own;
}
