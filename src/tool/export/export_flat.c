#include "export_flat.h"

#include <math.h>
#include <stdlib.h>

#include "profile_statistics.h"

struct summing {
    const struct export_tree *tree;
    struct export_flat *flat;
    uint16_t counter;
    struct export_figure *self, *total; /* by branch */
    uint32_t *on_stack;                 /* by function: how often */
};

static uint32_t flat_function_at(const struct summing *summing, uint32_t branch)
{
    return summing->tree->frames->frames[summing->tree->branches[branch].frame].function;
}

static bool flat_enter(void *context, uint32_t branch)
{
    struct summing *summing = context;
    const struct profile *profile = summing->tree->frames->profile;
    uint32_t function = flat_function_at(summing, branch);
    export_tree_add(profile, summing->counter, &summing->flat->self[function], &summing->self[branch]);
    if (!summing->on_stack[function]++)
        export_tree_add(profile, summing->counter, &summing->flat->total[function], &summing->total[branch]);
    return true;
}

static void flat_leave(void *context, uint32_t branch)
{
    struct summing *summing = context;
    summing->on_stack[flat_function_at(summing, branch)]--;
}

/* (sum of w)^2 / sum of w^2, the samples of a cell weighing alike: Kish. */
static void find_evidence(const struct export_tree *tree, uint16_t counter, struct export_flat *flat)
{
    const struct profile *profile = tree->frames->profile;
    double weight = 0, squares = 0;
    for (size_t i = 0; i < profile->cell_count; i++) {
        const struct profile_cell *cell = &profile->cells[i];
        if (!tree->leaf[i] || cell->counter != counter)
            continue;
        weight += (double)cell->value;
        if (cell->samples)
            squares += (double)cell->value * (double)cell->value / (double)cell->samples;
    }
    double samples = (double)flat->all.samples;
    flat->effective = squares > 0 ? fmin(weight * weight / squares, samples) : samples;
}

bool export_flat_sum(const struct export_tree *tree, uint16_t counter, struct export_flat *flat)
{
    size_t functions = tree->frames->function_count;
    struct summing summing = {.tree = tree, .flat = flat, .counter = counter};
    struct export_visitor visitor = {.enter = flat_enter, .leave = flat_leave, .context = &summing};
    *flat = (struct export_flat){.count = functions};
    flat->self = calloc(functions, sizeof *flat->self);
    flat->total = calloc(functions, sizeof *flat->total);
    summing.self = calloc(tree->count, sizeof *summing.self);
    summing.total = calloc(tree->count, sizeof *summing.total);
    summing.on_stack = calloc(functions, sizeof *summing.on_stack);
    bool done = flat->self && flat->total && summing.self && summing.total && summing.on_stack;
    if (done) {
        export_tree_figures(tree, counter, summing.self, summing.total);
        flat->all = summing.total[0];
        find_evidence(tree, counter, flat);
        done = export_tree_walk(tree, &visitor);
    }
    free(summing.self);
    free(summing.total);
    free(summing.on_stack);
    return done;
}

void export_flat_free(struct export_flat *flat)
{
    free(flat->self);
    free(flat->total);
    *flat = (struct export_flat){0};
}

struct export_share export_flat_share(const struct export_flat *flat, const struct export_figure *figure)
{
    double share = flat->all.value > 0 ? (double)figure->value / (double)flat->all.value : 0;
    double inside = fmin(fmax(share, 0), 1), samples = fmin(fmax(flat->effective, 0), 1e15);
    struct profile_interval interval =
        profile_wilson((uint64_t)llround(inside * samples), (uint64_t)llround(samples));
    return (struct export_share){share, fmin(interval.low, inside), fmax(interval.high, inside)};
}
