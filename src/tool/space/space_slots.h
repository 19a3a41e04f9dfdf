/* space_slots.h - the words that ld.so fills, and where calls through them go. Context: tool, one thread;
 * space_slots_bound and space_slots_resolve on several threads, each with its own resolution. */
#ifndef SPACE_SLOTS_H
#define SPACE_SLOTS_H

#include "space.h"

/* Reads them of all live objects; what cannot be read keeps its value. */
void space_slots_read(struct space *space);

/* Marks objects some of whose calls go through slots that were bound since their stubs were made, to
 * functions with hooks: the next make is for them too. Slots were read just now. False: there are none. */
bool space_slots_mark_bound(struct space *space);

/* What a slot was found to lead to. */
struct space_slots_answer {
    uint64_t slot, end;
};

/* The context of slab_resolve: thousands of sites go through a few hundred slots, so answers are kept. */
#define SPACE_SLOTS_ANSWERS 1024
struct space_slots_resolution {
    const struct space *space;
    const struct space_object *object;
    struct space_slots_answer *answers; /* SPACE_SLOTS_ANSWERS of them, zeros */
};

/* What ld.so has bound the slot to; 0: nothing yet. Reads nothing that is made beside this object's slab, so
 * that stubs know their length while other objects' hooks have no places. */
uint64_t space_slots_bound(void *resolution, uint64_t slot);
/* The same, past the hook that another object's patch, made or in force, has there. */
uint64_t space_slots_resolve(void *resolution, uint64_t slot);

#endif
