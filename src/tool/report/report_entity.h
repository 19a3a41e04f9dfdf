/* report_entity.h - what a row of a report stands for: a function, a line, an address, an image.
 *
 * An address of the profile turns into a chain of entities, innermost first: the inlined functions at it,
 * then the ELF function; how finely is chosen once, by the detail. Equal things get equal numbers, from 1, so
 * that reports count in plain arrays. Context: tool. */
#ifndef REPORT_ENTITY_H
#define REPORT_ENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "base_text.h"
#include "profile.h"

enum report_detail {
    REPORT_DETAIL_FUNCTION, /* ELF functions */
    REPORT_DETAIL_INLINED,  /* inlined frames too */
    REPORT_DETAIL_LINE,     /* source lines; inlined frames too */
    REPORT_DETAIL_ADDRESS,
    REPORT_DETAIL_IMAGE,
};

enum report_entity_kind {
    REPORT_FUNCTION = 1,
    REPORT_JIT_FUNCTION, /* by name: generated code moves */
    REPORT_INLINED_FUNCTION,
    REPORT_ADDRESS, /* by detail, or for want of a function */
    REPORT_LINE,
    REPORT_IMAGE,
    REPORT_UNKNOWN, /* no address, or one outside every image */
    REPORT_SIGNAL,  /* the mark between a handler and what it interrupted */
    REPORT_CUT,     /* the mark where the outer part of a stack is missing */
    REPORT_ENTITY_KINDS,
};

struct report_entity {
    enum report_entity_kind kind;
    uint32_t image;      /* 0: none */
    uint32_t name;       /* string: of the function; 0: none */
    uint32_t address;    /* index: of REPORT_ADDRESS */
    uint32_t file, line; /* string, number: of REPORT_LINE */
};

struct report_entities {
    const struct profile *profile;
    enum report_detail detail;
    struct report_entity *items; /* index 0 is none */
    size_t count, capacity;
    uint32_t *chains; /* runs of: length, entities */
    size_t chain_count, chain_capacity;
    uint32_t *chain_of; /* by address: where its run is; 0: not yet */
    struct base_map maps[REPORT_ENTITY_KINDS], places, owners;
};

/* False when memory ran out; report_entity_free is right in any case. */
bool report_entity_init(struct report_entities *entities, const struct profile *profile,
                        enum report_detail detail);
void report_entity_free(struct report_entities *entities);

/* The entities at an address, innermost first; *count is 0 when memory ran out. Valid until the next call. */
const uint32_t *report_entity_chain(struct report_entities *entities, uint32_t address, size_t *count);

/* REPORT_UNKNOWN, REPORT_SIGNAL or REPORT_CUT; 0 when memory ran out. */
uint32_t report_entity_mark(struct report_entities *entities, enum report_entity_kind kind);

/* Appends what a reader calls it: "name", "image+0xADDRESS", "[unknown]". Raw text from the target: clean
 * it. */
void report_entity_name(const struct report_entities *entities, uint32_t entity, struct base_text *out);
/* "" when there is none. */
const char *report_entity_image(const struct report_entities *entities, uint32_t entity);
/* "file:line" with the file's last component, or nothing. */
void report_entity_line(const struct report_entities *entities, uint32_t entity, struct base_text *out);
bool report_entity_inlined(const struct report_entities *entities, uint32_t entity);

#endif
