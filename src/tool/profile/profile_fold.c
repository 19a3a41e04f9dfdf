/* Folding: when the tree has reached max_nodes, the coldest subtrees become "(folded)".
 *
 * A subtree's heat is the samples (or, without any, the cells) on it. A threshold is sought such that folding
 * every maximal subtree at or below it frees about a quarter of the nodes; since most subtrees of a large
 * tree are equally cold, those at the threshold itself fold only until the quarter is reached. Each folded
 * subtree hands its cells to a child "(folded)" of its parent, which is one of its own nodes taken for the
 * purpose, so that folding needs no new node. The node that a child is being made for, and all above it,
 * stay. Totals do not change: cells move, they are never dropped. Where nothing can be freed, nothing is
 * folded. */
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "profile_model.h"
#include "wire_loss.h"

uint32_t profile_folded_address(struct profile *profile)
{
    if (!profile->folded_address) {
        uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, "(folded)", "", 0);
        profile->folded_address = image ? profile_address(profile, image, 0) : 0;
    }
    return profile->folded_address;
}

enum fold_action {
    STAYS,
    KEPT,  /* above the node that is being made: may not fold */
    TAKEN, /* becomes the (folded) node of its parent */
    GOES,  /* its slot becomes free */
};

struct fold {
    struct profile *profile;
    uint64_t *heat;         /* of the subtree at each node */
    uint32_t *size;         /* nodes in that subtree */
    uint32_t *order;        /* living nodes, parents before children */
    uint32_t *target;       /* where a node's cells go: itself, or the (folded) node */
    uint32_t *folded_child; /* of each parent, 0 none */
    uint8_t *action;
    size_t count;
};

/* Parents before children, whatever the numbers are (slots are reused). */
static bool sort_by_depth(struct fold *fold)
{
    const struct profile *profile = fold->profile;
    uint32_t *first = calloc(profile->node_count + 1, sizeof *first),
             *next = calloc(profile->node_count + 1, sizeof *next);
    if (first && next) {
        for (uint32_t i = 1; i < profile->node_count; i++) {
            if (!profile_node_lives(profile, i))
                continue;
            next[i] = first[profile->nodes[i].parent];
            first[profile->nodes[i].parent] = i;
        }
        for (uint32_t child = first[0]; child; child = next[child])
            fold->order[fold->count++] = child;
        for (size_t at = 0; at < fold->count; at++) {
            for (uint32_t child = first[fold->order[at]]; child; child = next[child])
                fold->order[fold->count++] = child;
        }
    }
    bool done = first && next;
    free(first);
    free(next);
    return done;
}

static bool is_folded(const struct profile *profile, uint32_t node)
{
    return profile->nodes[node].address == profile->folded_address;
}

static void fold_measure(struct fold *fold)
{
    const struct profile *profile = fold->profile;
    for (size_t i = 0; i < profile->cell_count; i++)
        fold->heat[profile->cells[i].node] += profile->cells[i].samples ? profile->cells[i].samples : 1;
    for (size_t at = fold->count; at-- > 0;) {
        uint32_t node = fold->order[at], parent = profile->nodes[node].parent;
        fold->size[node]++;
        fold->size[parent] += fold->size[node];
        fold->heat[parent] += fold->heat[node];
    }
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Living nodes' heats in rising order; NULL when memory ran out. */
static uint64_t *sort_heats(const struct fold *fold)
{
    uint64_t *sorted = malloc((fold->count + 1) * sizeof *sorted);
    if (!sorted)
        return NULL;
    for (size_t at = 0; at < fold->count; at++)
        sorted[at] = fold->heat[fold->order[at]];
    qsort(sorted, fold->count, sizeof *sorted, by_value);
    return sorted;
}

/* Old (folded) nodes serve again; other marks of an earlier plan are forgotten. */
static void begin_plan(struct fold *fold)
{
    const struct profile *profile = fold->profile;
    memset(fold->folded_child, 0, profile->node_count * sizeof *fold->folded_child);
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        fold->target[node] = node;
        if (fold->action[node] != KEPT)
            fold->action[node] = STAYS;
        if (is_folded(profile, node))
            fold->folded_child[profile->nodes[node].parent] = node;
    }
}

/* Decides what happens to every node: subtrees colder than `threshold` fold, those just as cold until `ties`
 * nodes came free by them. Gives how many nodes come free in all. */
static size_t plan_folding(struct fold *fold, uint64_t threshold, size_t ties)
{
    const struct profile *profile = fold->profile;
    size_t freed = 0, freed_by_ties = 0;
    begin_plan(fold);
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at], parent = profile->nodes[node].parent;
        if (parent && fold->action[parent] >= TAKEN) { /* inside a folded subtree */
            fold->action[node] = GOES;
            fold->target[node] = fold->target[parent];
            continue;
        }
        uint64_t heat = fold->heat[node];
        bool tie = heat == threshold;
        if (fold->action[node] == KEPT || is_folded(profile, node) || heat > threshold ||
            (tie && freed_by_ties >= ties))
            continue;
        bool takes = !fold->folded_child[parent];
        if (takes)
            fold->folded_child[parent] = node;
        if (takes && fold->size[node] == 1)
            continue; /* alone it stays: nothing would be won */
        if (!takes && !is_folded(profile, fold->folded_child[parent]))
            fold->action[fold->folded_child[parent]] = TAKEN;
        fold->action[node] = takes ? TAKEN : GOES;
        fold->target[node] = fold->folded_child[parent];
        freed += fold->size[node] - takes;
        freed_by_ties += tie ? fold->size[node] - takes : 0;
    }
    return freed;
}

/* The lowest threshold of a few that frees `goal` nodes, else the one above which nothing lies. */
static size_t choose_plan(struct fold *fold, size_t goal)
{
    enum { STEPS = 8 };
    uint64_t *sorted = sort_heats(fold);
    if (!sorted)
        return 0;
    uint64_t threshold = 0;
    size_t freed = 0;
    for (size_t step = 2; step <= STEPS && freed < goal; step++) {
        threshold = sorted[(fold->count - 1) * step / STEPS];
        freed = plan_folding(fold, threshold, SIZE_MAX);
    }
    free(sorted);
    if (freed <= goal)
        return freed;
    size_t colder = plan_folding(fold, threshold, 0);
    return plan_folding(fold, threshold, colder < goal ? goal - colder : 0);
}

/* Samples on nodes that become (folded) where they are; profile_cells_move counts those that move. */
static void count_taken(struct fold *fold)
{
    struct profile *profile = fold->profile;
    for (size_t i = 0; i < profile->cell_count; i++) {
        uint32_t node = profile->cells[i].node;
        if (node && fold->action[node] == TAKEN)
            profile_lose(profile, WIRE_LOSS_FOLDED, profile->cells[i].samples);
    }
}

static void rebuild_tree(struct fold *fold)
{
    struct profile *profile = fold->profile;
    struct profile_model *self = profile->self;
    count_taken(fold);
    profile_cells_move(profile, fold->target);
    profile_descriptors_move(profile, fold->target);
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        if (fold->action[node] < TAKEN)
            continue;
        if (fold->action[node] == TAKEN) {
            profile->nodes[node].address = profile->folded_address;
            profile->nodes[node].flags = 0;
        } else {
            profile->nodes[node] = (struct profile_node){0};
            self->free_nodes[self->free_count++] = node;
            profile->live_nodes--;
        }
        profile_marks_set(&self->nodes, node);
    }
    profile_table_refill(profile, PROFILE_TABLE_NODES);
}

static bool free_room(struct profile *profile)
{
    struct profile_model *self = profile->self;
    if (self->free_capacity >= profile->node_count)
        return true;
    uint32_t *grown = realloc(self->free_nodes, profile->node_count * sizeof *grown);
    if (!grown)
        return false;
    self->free_nodes = grown;
    self->free_capacity = profile->node_count;
    return true;
}

/* Blocks of the timeline written so far name nodes as they are now; the block made here says what becomes of
 * them. */
static bool fold_describe(struct fold *fold, struct profile_block **block)
{
    *block = NULL;
    if (!fold->profile->self->timeline.used)
        return true;
    profile_timeline_seal(fold->profile);
    *block = profile_timeline_pack_fold(fold->order, fold->count, fold->target);
    return *block;
}

static bool fold_coldest(struct fold *fold, uint32_t keep)
{
    struct profile *profile = fold->profile;
    struct profile_block *block;
    for (uint32_t node = keep; node; node = profile->nodes[node].parent)
        fold->action[node] = KEPT;
    if (!sort_by_depth(fold))
        return false;
    fold_measure(fold);
    if (!choose_plan(fold, profile->live_nodes / 4 + 1) || !fold_describe(fold, &block))
        return false;
    rebuild_tree(fold);
    profile->self->folds++;
    if (block)
        profile_timeline_append(profile, block);
    return true;
}

bool profile_fold(struct profile *profile, uint32_t keep)
{
    size_t count = profile->node_count;
    struct fold fold = {.profile = profile,
                        .heat = calloc(count, sizeof *fold.heat),
                        .size = calloc(count, sizeof *fold.size),
                        .order = malloc(count * sizeof *fold.order),
                        .target = calloc(count, sizeof *fold.target),
                        .folded_child = malloc(count * sizeof *fold.folded_child),
                        .action = calloc(count, 1)};
    bool done = fold.heat && fold.size && fold.order && fold.target && fold.folded_child && fold.action &&
                free_room(profile) && profile_folded_address(profile) && fold_coldest(&fold, keep);
    free(fold.heat);
    free(fold.size);
    free(fold.order);
    free(fold.target);
    free(fold.folded_child);
    free(fold.action);
    return done;
}
