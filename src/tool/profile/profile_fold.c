/* Folding: when the tree has reached max_nodes, the coldest subtrees become "(folded)".
 *
 * A subtree's heat is the samples (or, without any, the cells) on it. A threshold is sought such that folding every maximal
 * subtree at or below it frees about a quarter of the nodes; each folded subtree hands its cells to a child "(folded)" of its
 * parent, which is one of its own nodes taken for the purpose, so that folding needs no new node. The node that a child is being
 * made for, and all above it, stay. Totals do not change: cells move, they are never dropped. */
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "profile_private.h"
#include "wire_loss.h"

uint32_t profile_folded_address(struct profile *profile)
{
    if (!profile->folded_address) {
        uint32_t image = profile_image(profile, PROFILE_IMAGE_SPECIAL, "(folded)", "", 0);
        profile->folded_address = image ? profile_address(profile, image, 0) : 0;
    }
    return profile->folded_address;
}

enum { KEPT = 1, TAKEN };

struct fold {
    struct profile *profile;
    uint64_t *heat;   /* of the subtree at each node */
    uint32_t *order;  /* living nodes, parents before children */
    uint32_t *target; /* where a node's cells go: itself, or the (folded) node */
    uint8_t *kept;    /* 0, KEPT: may not fold, or TAKEN: becomes a (folded) node */
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

static void measure_heat(struct fold *fold)
{
    const struct profile *profile = fold->profile;
    for (size_t i = 0; i < profile->cell_count; i++)
        fold->heat[profile->cells[i].node] += profile->cells[i].samples ? profile->cells[i].samples : 1;
    for (size_t at = fold->count; at-- > 0;)
        fold->heat[profile->nodes[fold->order[at]].parent] += fold->heat[fold->order[at]];
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* The heat below which a quarter (and a bit, for the (folded) nodes themselves) of the nodes lies. */
static uint64_t choose_threshold(const struct fold *fold)
{
    uint64_t *sorted = malloc(fold->count * sizeof *sorted);
    if (!sorted)
        return 1;
    for (size_t at = 0; at < fold->count; at++)
        sorted[at] = fold->heat[fold->order[at]];
    qsort(sorted, fold->count, sizeof *sorted, by_value);
    uint64_t threshold = sorted[fold->count * 2 / 5];
    free(sorted);
    return threshold ? threshold : 1;
}

static bool is_folded(const struct profile *profile, uint32_t node)
{
    return profile->nodes[node].address == profile->folded_address;
}

/* The (folded) child of each parent: an old one, or the first cold child seen. Indexed by parent. */
static void find_targets(struct fold *fold, uint64_t threshold, uint32_t *folded_child)
{
    const struct profile *profile = fold->profile;
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        if (is_folded(profile, node))
            folded_child[profile->nodes[node].parent] = node;
    }
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at], parent = profile->nodes[node].parent;
        fold->target[node] = node;
        if (parent && fold->target[parent] != parent) {
            fold->target[node] = fold->target[parent]; /* inside a folded subtree */
        } else if (!fold->kept[node] && !is_folded(profile, node) && fold->heat[node] <= threshold) {
            if (!folded_child[parent])
                folded_child[parent] = node; /* gives its slot to the (folded) node */
            fold->target[node] = folded_child[parent];
        }
    }
}

/* A node whose slot becomes the (folded) one has itself for a target; its children must still go there. */
static bool was_taken(const struct fold *fold, const uint32_t *folded_child, uint32_t node)
{
    const struct profile *profile = fold->profile;
    return !is_folded(profile, node) && folded_child[profile->nodes[node].parent] == node;
}

static void send_children(struct fold *fold, const uint32_t *folded_child)
{
    const struct profile *profile = fold->profile;
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at], parent = profile->nodes[node].parent;
        if (parent && (was_taken(fold, folded_child, parent) || fold->target[parent] != parent))
            fold->target[node] = fold->target[parent];
    }
}

static size_t rebuild(struct fold *fold, const uint32_t *folded_child)
{
    struct profile *profile = fold->profile;
    struct profile_private *self = profile->self;
    size_t freed = 0;
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        if (fold->target[node] != node)
            freed++;
    }
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        if (fold->target[node] == node && was_taken(fold, folded_child, node))
            fold->kept[node] = TAKEN;
    }
    for (size_t i = 0; i < profile->cell_count; i++) {
        if (fold->kept[profile->cells[i].node] == TAKEN)
            profile_lose(profile, WIRE_LOSS_FOLDED, profile->cells[i].samples);
    }
    profile_cells_move(profile, fold->target);
    for (size_t at = 0; at < fold->count; at++) {
        uint32_t node = fold->order[at];
        if (fold->kept[node] == TAKEN) {
            profile->nodes[node].address = profile->folded_address;
            profile->nodes[node].flags = 0;
            profile_marks_set(&self->nodes, node);
        } else if (fold->target[node] != node) {
            profile->nodes[node] = (struct profile_node){0};
            profile_marks_set(&self->nodes, node);
            self->free_nodes[self->free_count++] = node;
            profile->live_nodes--;
        }
    }
    profile_table_refill(profile, PROFILE_TABLE_NODES);
    return freed;
}

static bool free_room(struct profile *profile)
{
    struct profile_private *self = profile->self;
    if (self->free_capacity >= profile->node_count)
        return true;
    uint32_t *grown = realloc(self->free_nodes, profile->node_count * sizeof *grown);
    if (!grown)
        return false;
    self->free_nodes = grown;
    self->free_capacity = profile->node_count;
    return true;
}

static void note_fold(struct fold *fold, struct profile_block *block)
{
    fold->profile->self->folds++;
    if (block)
        profile_timeline_append(fold->profile, block);
}

static bool fold_coldest(struct fold *fold, uint32_t keep, uint32_t *folded_child)
{
    struct profile *profile = fold->profile;
    for (uint32_t node = keep; node; node = profile->nodes[node].parent)
        fold->kept[node] = KEPT;
    if (!sort_by_depth(fold))
        return false;
    measure_heat(fold);
    find_targets(fold, choose_threshold(fold), folded_child);
    send_children(fold, folded_child);
    struct profile_block *block = NULL;
    if (profile->self->timeline.used) {
        profile_timeline_seal(profile);
        block = profile_timeline_pack_fold(profile, fold->order, fold->count, fold->target);
        if (!block)
            return false;
    }
    size_t freed = rebuild(fold, folded_child);
    note_fold(fold, block);
    return freed > 0;
}

bool profile_fold(struct profile *profile, uint32_t keep)
{
    size_t count = profile->node_count;
    struct fold fold = {.profile = profile,
                        .heat = calloc(count, sizeof *fold.heat),
                        .order = malloc(count * sizeof *fold.order),
                        .target = calloc(count, sizeof *fold.target),
                        .kept = calloc(count, 1)};
    uint32_t *folded_child = calloc(count, sizeof *folded_child);
    bool done = fold.heat && fold.order && fold.target && fold.kept && folded_child && free_room(profile) &&
                profile_folded_address(profile) && fold_coldest(&fold, keep, folded_child);
    free(fold.heat);
    free(fold.order);
    free(fold.target);
    free(fold.kept);
    free(folded_child);
    return done;
}
