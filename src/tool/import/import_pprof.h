/* import_pprof.h - one profile.proto that is being read, as the files of its reader share it. Context:
 * tool; private to this module. */
#ifndef IMPORT_PPROF_H
#define IMPORT_PPROF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_map.h"
#include "import_images.h"
#include "import_proto.h"
#include "import_stack.h"
#include "profile.h"

enum import_pprof_field {
    IMPORT_PPROF_SAMPLE_TYPE = 1,
    IMPORT_PPROF_SAMPLE,
    IMPORT_PPROF_MAPPING,
    IMPORT_PPROF_LOCATION,
    IMPORT_PPROF_FUNCTION,
    IMPORT_PPROF_STRING,
    IMPORT_PPROF_DROP_FRAMES,
    IMPORT_PPROF_KEEP_FRAMES,
    IMPORT_PPROF_TIME_NANOS,
    IMPORT_PPROF_DURATION_NANOS,
    IMPORT_PPROF_PERIOD_TYPE,
    IMPORT_PPROF_PERIOD,
    IMPORT_PPROF_COMMENT,
    IMPORT_PPROF_DEFAULT_SAMPLE_TYPE,
    IMPORT_PPROF_LAST_FIELD = 15, /* doc_url */
};

enum {
    IMPORT_PPROF_TYPES_MOST = 64,
    IMPORT_PPROF_LEVELS_MOST = 64,
    IMPORT_PPROF_UNKNOWN_LABELS = 5,
    IMPORT_PPROF_COMMENTS_MOST = 100
};

struct import_pprof_type {
    uint64_t name, unit; /* strings */
    uint16_t counter;    /* 0: it counts the samples of another one, or calls */
    int samples;         /* which type counts its samples; -1: none */
    int64_t scale;       /* what values are multiplied by */
    bool calls, counts;  /* exact calls; samples of another */
};

struct import_pprof_mapping {
    uint64_t start, offset, file, build_id;
    uint32_t kind;
    size_t image; /* of import_images, when kind is a file's */
    bool opened;
};

struct import_pprof_location {
    uint64_t mapping, address;
    struct import_proto message; /* for its lines */
    uint32_t made;               /* address of the profile; 0: not yet */
};

struct import_pprof_function {
    uint64_t name, file;
};

struct import_pprof {
    struct profile *profile;
    char *text;      /* all strings, each terminated */
    size_t *strings; /* where they begin */
    size_t string_count, string_capacity, text_length;
    struct import_pprof_type types[IMPORT_PPROF_TYPES_MOST];
    size_t type_count;
    struct import_pprof_mapping *mappings;
    struct import_pprof_location *locations;
    struct import_pprof_function *functions;
    size_t mapping_count, mapping_capacity, location_count, location_capacity, function_count,
        function_capacity;
    struct base_map mapping_of, location_of, function_of; /* by their ids */
    struct import_pprof_type period_type;
    uint64_t default_type, drop, keep;
    int64_t time, duration, period;
    struct import_images images;
    struct import_stack stack;
    struct base_map processes, threads; /* hashes of what labels say */
    uint64_t unknown_labels[IMPORT_PPROF_UNKNOWN_LABELS];
    size_t unknown_count;
    size_t comment_count; /* those that were put into notices */
    uint32_t nowhere;
    bool from_tally, no_memory;
};

/* import_pprof_tables.c */
const char *import_pprof_string(const struct import_pprof *pprof, uint64_t index);
/* The numbers of a message, field by field up to `most`; those that are not there stay. */
bool import_pprof_numbers(struct import_proto message, uint64_t *numbers, uint32_t most);
bool import_pprof_remember(struct import_pprof *pprof, struct base_map *map, uint64_t id, size_t index);
int import_pprof_fail(const struct import_pprof *pprof, struct base_error *error);
int import_pprof_tables(struct import_pprof *pprof, struct import_proto whole, struct base_error *error);

/* import_pprof_counters.c */
bool import_pprof_is_text(const struct import_pprof *pprof, uint64_t string, const char *text);
/* What is a time in ns is so here as well. */
const char *import_pprof_unit(const struct import_pprof *pprof, struct import_pprof_type *type);
bool import_pprof_counters(struct import_pprof *pprof);

/* import_pprof_places.c */
uint32_t import_pprof_address(struct import_pprof *pprof, uint64_t id, bool callee);
/* Is a location one of the marks that Tally's exports have? */
const char *import_pprof_mark(const struct import_pprof *pprof, uint64_t id);

/* import_pprof_samples.c */
int import_pprof_samples(struct import_pprof *pprof, struct import_proto whole, struct base_error *error);

/* import_pprof_notes.c */
/* Comments of others are for people: they go where notes are. */
void import_pprof_comments(struct import_pprof *pprof, struct import_proto whole, bool take);
void import_pprof_describe(struct import_pprof *pprof);

#endif
