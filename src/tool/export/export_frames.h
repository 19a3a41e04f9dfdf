/* export_frames.h - what an address is called: functions, and places in them, by number.
 *
 * An address turns into a chain of frames, innermost first: what is inlined there, then the ELF function.
 * Equal things have equal numbers, from 1. What counts as one function is what counts as one in reports: an
 * ELF function is itself, generated code goes by image and name, so do inlined functions; an address without
 * a name is a function of its own. Context: tool; private to this module. */
#ifndef EXPORT_FRAMES_H
#define EXPORT_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_map.h"
#include "base_text.h"
#include "export_output.h"
#include "profile.h"

enum export_kind {
    EXPORT_NAMED = 1, /* a function with a name */
    EXPORT_GENERATED, /* the same, in generated code */
    EXPORT_INLINED,
    EXPORT_NAMELESS, /* an address: image+0x... */
    EXPORT_SPECIAL,  /* no code: "(folded)", called like its image */
    EXPORT_UNKNOWN,  /* no address, or one outside every image */
    EXPORT_SIGNAL,   /* the mark between a handler and what it interrupted */
    EXPORT_CUT,      /* the mark where the outer part of a stack is missing */
    EXPORT_PROCESS,  /* what stands above the stacks of a process or thread */
    EXPORT_KINDS,
};

struct export_function {
    enum export_kind kind;
    uint32_t image;   /* index, 0 none */
    uint32_t name;    /* string, 0 none; of EXPORT_PROCESS too */
    uint32_t address; /* index: of EXPORT_NAMELESS */
    uint32_t file;    /* string: the first that was met, 0 unknown */
    int64_t number;   /* of EXPORT_PROCESS: shown behind its name; negative: none */
    uint32_t origin;  /* likewise, of merged profiles */
};

/* A function, or a place in it. */
struct export_frame {
    uint32_t function;
    uint32_t file, line; /* of places; else 0 */
};

enum export_detail {
    EXPORT_DETAIL_INLINES = 1, /* inlined frames are frames */
    EXPORT_DETAIL_LINES =
        2, /* frames are places. Without inlined frames, the place of the innermost one counts */
};

struct export_frames {
    const struct profile *profile;
    unsigned detail; /* enum export_detail */
    struct export_function *functions;
    struct export_frame *frames;
    size_t function_count, function_capacity, frame_count, frame_capacity;
    uint32_t *chains; /* private: runs of length, frames */
    size_t chain_count, chain_capacity;
    uint32_t *chain_of; /* by address */
    struct base_map kinds[EXPORT_KINDS], lines, places;
    char **names; /* by function, once export_frames_write_names has made them */
    size_t name_count;
};

/* False when memory ran out; export_frames_free is right in any case. */
bool export_frames_init(struct export_frames *frames, const struct profile *profile, unsigned detail);
void export_frames_free(struct export_frames *frames);

/* The frames at an address, innermost first; *count is 0 when memory ran out. Valid until the next call. */
const uint32_t *export_frames_chain(struct export_frames *frames, uint32_t address, size_t *count);

/* The frame of a mark, and of what stands above the stacks of a process or thread; 0 when memory ran out. */
uint32_t export_frames_mark(struct export_frames *frames, enum export_kind kind);
uint32_t export_frames_process(struct export_frames *frames, uint32_t name, int64_t number, uint32_t origin);

/* Appends the raw name. */
void export_frames_name(const struct export_frames *frames, uint32_t function, struct base_text *out);
/* "" when there is none. */
const char *export_frames_image(const struct export_frames *frames, uint32_t function);

/* Makes frames->names: what every function there is now is called, escaped, and with `marks` the suffixes of
 * EXPORT_FOLDED. False when memory ran out. */
bool export_frames_write_names(struct export_frames *frames, enum export_escape escape, bool marks);

#endif
