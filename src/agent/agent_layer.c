/* The allocators of the process, by address. */
#include "agent_layer.h"

#include <stddef.h>

#include "agent_process.h"
#include "wire_agent_entry.h"

static const struct wire_agent_layer *next_layer(uint64_t address, uint32_t *at)
{
    const struct wire_agent_process *process = agent_process();
    uint32_t count = __atomic_load_n(&process->layer_count, __ATOMIC_ACQUIRE);
    while (*at < count && *at < WIRE_AGENT_LAYERS) {
        const struct wire_agent_layer *layer = &process->layers[(*at)++];
        uint64_t start = __atomic_load_n(&layer->start, __ATOMIC_RELAXED);
        if (address - start < layer->end - start)
            return layer;
    }
    return NULL;
}

const struct wire_agent_layer *agent_layer_of(const struct agent_frame *frame)
{
    const struct wire_agent_layer *layer;
    uint32_t at = 0;
    do
        layer = next_layer(frame->hook->function, &at);
    while (layer != NULL && layer->family != wire_agent_cookie_family(frame->hook->cookie));
    return layer;
}

bool agent_layer_is_inner(uint64_t address)
{
    const struct wire_agent_layer *layer;
    uint32_t at = 0;
    do
        layer = next_layer(address, &at);
    while (layer != NULL && layer->plain_new == 0); /* libc's other functions are not its allocator's */
    return layer != NULL;
}
