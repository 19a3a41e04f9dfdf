#include "profile_own.h"

#include <stdlib.h>
#include <string.h>

#include "profile_model.h"
#include "wire_loss.h"

bool profile_own_image(const struct profile *profile, uint32_t image)
{
    const char *name = profile_text(profile, profile->images[image].name);
    return !strcmp(name, PROFILE_AGENT_IMAGE) || !strcmp(name, PROFILE_STUBS_IMAGE);
}

static uint32_t own_image_of(const struct profile *profile, uint32_t node)
{
    return profile->addresses[profile->nodes[node].address].image;
}

/* A frame that is there because the one outside it asked for it, or (folded), which is under its parent. */
static bool own_is_served(const struct profile *profile, uint32_t node)
{
    uint32_t kind = profile->images[own_image_of(profile, node)].kind;
    return profile->nodes[node].flags & PROFILE_NODE_KERNEL || kind == PROFILE_IMAGE_KERNEL ||
           kind == PROFILE_IMAGE_VDSO || profile->nodes[node].address == profile->folded_address;
}

/* The image of the innermost frame that nobody asked for; 0: there is none. */
static uint32_t own_innermost_image(const struct profile *profile, uint32_t node)
{
    while (node && own_is_served(profile, node))
        node = profile->nodes[node].parent;
    return node ? own_image_of(profile, node) : 0;
}

bool profile_own_node(const struct profile *profile, uint32_t node)
{
    return profile_own_image(profile, own_innermost_image(profile, node));
}

static bool has_own_image(const struct profile *profile)
{
    for (size_t i = 1; i < profile->image_count; i++)
        if (profile_own_image(profile, (uint32_t)i))
            return true;
    return false;
}

static bool is_stubs_image(const struct profile *profile, uint32_t image)
{
    return profile->images[image].kind == PROFILE_IMAGE_SPECIAL && profile_own_image(profile, image);
}

bool profile_own_has_stubs(const struct profile *profile)
{
    for (size_t i = 1; i < profile->image_count; i++)
        if (is_stubs_image(profile, (uint32_t)i))
            return true;
    return false;
}

/* Adds what is Tally's own; of sampled counters, since exact ones count nothing of Tally's. */
static bool own_add(const struct profile *profile, struct profile_own *sum, const struct profile_cell *cell)
{
    uint32_t image = own_innermost_image(profile, cell->node);
    if (profile->counters[cell->counter].exact || !profile_own_image(profile, image))
        return false;
    sum->samples += cell->samples;
    sum->stub_samples += is_stubs_image(profile, image) ? cell->samples : 0;
    return true;
}

/* --- stacks without Tally's frames --- */

struct own_stacks {
    struct profile *profile;
    uint32_t *program; /* by node of the file, the one without; OWN_UNKNOWN: not made yet */
};

#define OWN_UNKNOWN UINT32_MAX

/* What stands for `node` inside `outside`, which stands for its parent. For a frame of Tally's own that is the
 * frame outside it, with a signal that interrupted it; an end of the stack is passed on to the frame inside. */
static uint32_t own_make(struct profile *profile, const struct profile_node *node, uint32_t outside)
{
    uint32_t image = profile->addresses[node->address].image;
    bool cut = !outside && profile->nodes[node->parent].flags & PROFILE_NODE_CUT;
    if (!profile_own_image(profile, image))
        return profile_node(profile, outside, node->address, node->flags | (cut ? PROFILE_NODE_CUT : 0u));
    if (!outside || !(node->flags & PROFILE_NODE_SIGNAL))
        return outside;
    const struct profile_node interrupted = profile->nodes[outside];
    return profile_node(profile, interrupted.parent, interrupted.address,
                        interrupted.flags | PROFILE_NODE_SIGNAL);
}

/* Outermost frame first, on the way back from `node` to the first one that is known. */
static uint32_t own_program_of(struct own_stacks *stacks, uint32_t node)
{
    struct profile *profile = stacks->profile;
    while (stacks->program[node] == OWN_UNKNOWN) {
        uint32_t at = node;
        while (stacks->program[profile->nodes[at].parent] == OWN_UNKNOWN)
            at = profile->nodes[at].parent;
        const struct profile_node copy = profile->nodes[at];
        uint32_t outside = stacks->program[copy.parent];
        bool same = outside == copy.parent && !profile_own_image(profile, own_image_of(profile, at));
        stacks->program[at] = same ? at : own_make(profile, &copy, outside);
    }
    return stacks->program[node];
}

static bool own_stacks_begin(struct own_stacks *stacks, struct profile *profile)
{
    stacks->profile = profile;
    stacks->program = malloc(profile->node_count * sizeof *stacks->program);
    for (size_t i = 0; stacks->program && i < profile->node_count; i++)
        stacks->program[i] = i ? OWN_UNKNOWN : 0;
    profile->max_nodes = UINT32_MAX; /* nothing is folded: the indices of nodes stay */
    return stacks->program != NULL;
}

/* Cells of one key are added up again: stacks that differed in Tally's frames alone are one now. */
static void own_take_cell(struct own_stacks *stacks, const struct profile_cell *cell)
{
    const struct profile_key key = {own_program_of(stacks, cell->node), cell->thread, cell->cpu,
                                    cell->counter};
    profile_count(stacks->profile, key, cell->value, cell->samples);
}

static bool own_keep_program(struct profile *profile, struct own_stacks *stacks)
{
    struct profile_model *self = profile->self;
    size_t count = profile->cell_count;
    struct profile_cell *cells = malloc((count + 1) * sizeof *cells);
    if (!cells)
        return false;
    memcpy(cells, profile->cells, count * sizeof *cells);
    profile->cell_count = 0;
    self->dirty_count = 0;
    self->tables[PROFILE_TABLE_CELLS].stale = true;
    for (size_t i = 0; i < count; i++)
        if (!own_add(profile, &self->own_left_out[cells[i].counter], &cells[i]))
            own_take_cell(stacks, &cells[i]);
    free(cells);
    return true;
}

int profile_own_leave_out(struct profile *profile, struct base_error *error)
{
    struct profile_model *self = profile->self;
    struct own_stacks stacks = {0};
    uint64_t losses[PROFILE_LOSSES];
    if (self->own_left_out || !has_own_image(profile))
        return BASE_OK;
    memcpy(losses, profile->losses, sizeof losses);
    self->own_nodes = profile->node_count;
    self->own_left_out = calloc(profile->counter_count, sizeof *self->own_left_out);
    bool kept =
        self->own_left_out && own_stacks_begin(&stacks, profile) && own_keep_program(profile, &stacks);
    self->own_program = stacks.program;
    for (uint32_t i = 1; kept && i < self->own_nodes; i++)
        if (profile->nodes[i].address && !profile_own_node(profile, i))
            own_program_of(&stacks, i);
    kept = kept && profile->losses[WIRE_LOSS_OUT_OF_MEMORY] == losses[WIRE_LOSS_OUT_OF_MEMORY];
    memcpy(profile->losses, losses, sizeof losses); /* what was counted before is counted there already */
    return kept ? BASE_OK : base_fail(error, BASE_ENOMEM, "out of memory for the profile");
}

bool profile_own_program_node(const struct profile *profile, uint32_t *node, uint16_t counter)
{
    const struct profile_model *self = profile->self;
    if (!self->own_left_out)
        return true;
    if (*node >= self->own_nodes) /* the file has grown since it was loaded */
        return false;
    if (!profile->counters[counter].exact && profile_own_node(profile, *node))
        return false;
    if (self->own_program[*node] != OWN_UNKNOWN)
        *node = self->own_program[*node];
    return true;
}

struct profile_own profile_own_left_out(const struct profile *profile, uint32_t counter)
{
    return profile->self->own_left_out ? profile->self->own_left_out[counter] : (struct profile_own){0};
}

struct profile_own profile_own_sum(const struct profile *profile, uint32_t counter)
{
    struct profile_own sum = profile_own_left_out(profile, counter);
    bool some = has_own_image(profile);
    for (size_t i = 0; some && i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            own_add(profile, &sum, &profile->cells[i]);
    return sum;
}

uint64_t profile_own_all_samples(const struct profile *profile, uint32_t counter)
{
    uint64_t samples = profile_own_left_out(profile, counter).samples;
    for (size_t i = 0; i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter)
            samples += profile->cells[i].samples;
    return samples;
}
