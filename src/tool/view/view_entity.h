/* view_entity.h - what a row of a report stands for: a function, a line, an address, an image.
 *
 * An address of the profile turns into a chain of entities, innermost first: the inlined functions at it,
 * then the ELF function; how finely is chosen once, by the detail. Equal things get equal numbers, from 1, so
 * that reports count in plain arrays. Context: tool. */
#ifndef VIEW_ENTITY_H
#define VIEW_ENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "base_text.h"
#include "profile.h"

enum view_detail {
    VIEW_DETAIL_FUNCTION, /* ELF functions */
    VIEW_DETAIL_INLINED,  /* inlined frames too */
    VIEW_DETAIL_LINE,     /* source lines; inlined frames too */
    VIEW_DETAIL_ADDRESS,
    VIEW_DETAIL_IMAGE,
};

enum view_entity_kind {
    VIEW_FUNCTION = 1,
    VIEW_JIT_FUNCTION, /* by name: generated code moves */
    VIEW_INLINED_FUNCTION,
    VIEW_ADDRESS, /* by detail, or for want of a function */
    VIEW_LINE,
    VIEW_IMAGE,
    VIEW_UNKNOWN, /* no address, or one outside every image */
    VIEW_SIGNAL,  /* the mark between a handler and what it interrupted */
    VIEW_CUT,     /* the mark where the outer part of a stack is missing */
    VIEW_ENTITY_KINDS,
};

struct view_entity {
    enum view_entity_kind kind;
    uint32_t image;      /* 0: none */
    uint32_t name;       /* string: of the function; 0: none */
    uint32_t address;    /* index: of VIEW_ADDRESS */
    uint32_t file, line; /* string, number: of VIEW_LINE */
};

struct view_entities {
    const struct profile *profile;
    enum view_detail detail;
    struct view_entity *items; /* index 0 is none */
    size_t count, capacity;
    uint32_t *chains; /* runs of: length, entities */
    size_t chain_count, chain_capacity;
    uint32_t *chain_of; /* by address: where its run is; 0: not yet */
    struct base_map maps[VIEW_ENTITY_KINDS], places, owners;
};

/* False when memory ran out; view_entity_free is right in any case. */
bool view_entity_init(struct view_entities *entities, const struct profile *profile, enum view_detail detail);
void view_entity_free(struct view_entities *entities);

/* The entities at an address, innermost first; *count is 0 when memory ran out. Valid until the next call. */
const uint32_t *view_entity_chain(struct view_entities *entities, uint32_t address, size_t *count);

/* VIEW_UNKNOWN, VIEW_SIGNAL or VIEW_CUT; 0 when memory ran out. */
uint32_t view_entity_mark(struct view_entities *entities, enum view_entity_kind kind);

/* Appends what a reader calls it: "name", "image+0xADDRESS", "[unknown]". Raw text from the target: clean
 * it. */
void view_entity_name(const struct view_entities *entities, uint32_t entity, struct base_text *out);
/* "" when there is none. */
const char *view_entity_image(const struct view_entities *entities, uint32_t entity);
/* "file:line" with the file's last component, or nothing. */
void view_entity_line(const struct view_entities *entities, uint32_t entity, struct base_text *out);
bool view_entity_inlined(const struct view_entities *entities, uint32_t entity);

#endif
