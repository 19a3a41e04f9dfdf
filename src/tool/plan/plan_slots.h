/* plan_slots.h - the words of an image that ld.so fills with functions' addresses, and the names it fills
 * them by.
 *
 * A *slot* is the place of a relocation JUMP_SLOT or GLOB_DAT (of linkage stubs, and of `call *f@GOT`), or of
 * IRELATIVE (a function chosen by a resolver, without a name). Once bound, ld.so's slots do not change; a
 * word that the program itself may change is not among them, even if a relocation first fills it (a function
 * pointer in data). Context: tool, any thread on its own data. Source: System V ABI AMD64, table of
 * relocation types. */
#ifndef PLAN_SLOTS_H
#define PLAN_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "elf_image.h"

struct plan_slot {
    uint64_t address; /* image address */
    const char *name; /* borrowed from the image; as in the ELF file, without version; "" when it has none */
    /* The file that the symbol's version is required of ("libc.so.6"); "": any; borrowed. */
    const char *library;
};

struct plan_slots {
    struct plan_slot *items; /* ascending addresses */
    size_t count, capacity;
};

/* `image` must outlive the result. Damaged relocations give fewer slots or names, not errors. BASE_ENOMEM:
 * then there is nothing to free. */
int plan_slots_make(const struct elf_image *image, struct plan_slots *slots, struct base_error *error);
void plan_slots_free(struct plan_slots *slots);

/* NULL: not one of ld.so's. */
const struct plan_slot *plan_slots_at(const struct plan_slots *slots, uint64_t slot);
const char *plan_slots_name(const struct plan_slots *slots, uint64_t slot);

#endif
