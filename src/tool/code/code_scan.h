/* code_scan.h - what the passes of a survey share. Private to the module.
 *
 * The passes, in order: functions (code_site.c), addresses taken (code_taken.c), jump tables (code_table.c),
 * landing pads (code_landing.c), then the verdict on each site (code_survey_make.c), which needs all of
 * them. */
#ifndef CODE_SCAN_H
#define CODE_SCAN_H

#include "code_survey.h"

/* Facts while surveying, gone when it is done. */
#define CODE_SITE_INDEXED 0x8000 /* of a site: jumps through a table of 8-byte words */
#define CODE_SITE_UNKNOWN 0x4000 /* of a site: jumps to a register, and where that was loaded is not seen */
#define CODE_FACT_LABELS  0x8000 /* of a function: takes addresses inside itself */

enum { CODE_LINKAGE_MAX = 8, CODE_PROFILER_MAX = 8 };

struct code_candidate { /* an address that may be a jump table's */
    uint64_t table;
    uint32_t function;
};

struct code_scan {
    const struct elf_image *image;
    struct code_survey *survey;
    struct code_instructions instructions; /* of the function at hand; memory is reused */
    struct code_candidate *candidates;
    size_t candidate_count, candidate_capacity;
    uint32_t
        *index; /* for every 256 bytes of the maps: the first function that ends behind their beginning */
    uint32_t *labels;                            /* by function: words of data that point behind its start */
    struct code_bound linkage[CODE_LINKAGE_MAX]; /* the procedure linkage tables */
    size_t linkage_count;
    uint64_t profilers[CODE_PROFILER_MAX]; /* slots of mcount and its like */
    size_t profiler_count;
    uint32_t pads_left; /* landing pads that may still be read */
    bool failed;        /* out of memory */
};

/* code_functions_find, at once. */
uint32_t code_scan_find(const struct code_scan *scan, uint64_t address);
void code_scan_mark(struct code_scan *scan, enum code_map map, uint64_t address);
bool code_scan_in_linkage(const struct code_scan *scan, uint64_t address);
/* Is the name one of these? What follows '@' does not count. NULL gives false. */
bool code_scan_is_one(const char *name, const char *const *names, size_t count);
/* mcount, _mcount, __mcount, __fentry__. */
bool code_scan_is_profiler(const char *name);
/* Notes that `address` is taken, of a function or label of the image's, or of code that belongs to none. */
void code_scan_take(struct code_scan *scan, uint64_t address, enum code_taken how);

/* What the form of the indirect jump `number` says, and that of what stands before it: CODE_SITE_TABLE,
 * CODE_SITE_INDEXED, CODE_SITE_UNKNOWN, or 0: it leaves the function. `code` is the first instruction's
 * bytes. (code_jump.c) */
unsigned code_jump_facts(const struct code_instructions *instructions, size_t number, const uint8_t *code);

/* Does the function of these instructions load the word on the stack that it will return to? `code` as above.
 * (code_return.c) */
bool code_return_is_read(const struct code_instructions *instructions, const uint8_t *code);
/* Is it a function that is called for each call with that word, which it only notes? (code_return.c) */
bool code_return_is_passed(const char *name);

/* The passes. Running out of memory sets scan->failed. */
void code_site_all(struct code_scan *scan);
void code_taken_all(struct code_scan *scan, const struct code_survey_options *options);
void code_table_all(struct code_scan *scan);
void code_landing_all(struct code_scan *scan);

#endif
