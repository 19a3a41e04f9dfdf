/* profile_extent.h - how much of what a recording was to count it has counted: all, a part, or nothing.
 *
 * The one place that decides what may be called exact, complete, or nothing. Whoever shows a figure asks
 * it: a counter that stands at 0 says nothing of a process that was never counted.
 *
 *   all    no loss stands against the counter's sums. Stacks may have been cut and names be missing: the
 *          figures are there, under another place of the tree
 *   part   something is missing, or is unsure, by the losses; or the recording did not come to its end, or
 *          not all recordings that were merged had the counter
 *   none   nothing was counted, and that is why the sum is 0: every process that the profile knows was lost,
 *          no image's calls were counted, or no function was found that tells of what was to be counted
 *
 * Context: tool. */
#ifndef PROFILE_EXTENT_H
#define PROFILE_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base_text.h"
#include "profile.h"

/* With a counter's name behind it: the meta value that says how many of the recordings of a merged profile
 * had that counter, if not all. */
#define PROFILE_EXTENT_PARTIAL "partial."

/* What losses stand against; a counter may be of several. */
enum profile_extent_kind {
    PROFILE_EXTENT_SAMPLES = 1, /* time that perf_event sampled */
    PROFILE_EXTENT_TIMERS = 2,  /* time that the agent's timers sampled */
    PROFILE_EXTENT_WAITS = 4,
    PROFILE_EXTENT_CALLS = 8,
    PROFILE_EXTENT_HEAP = 16,
    PROFILE_EXTENT_EMPTY = 32,
    PROFILE_EXTENT_MAPS = 64,
    PROFILE_EXTENT_THROWS = 128,
    PROFILE_EXTENT_DESCRIPTORS = 256,
    PROFILE_EXTENT_FUNCTION = 512,
    PROFILE_EXTENT_FUNCTION_TIME = 1024,
    PROFILE_EXTENT_INSTRUMENTED = 2048,
    PROFILE_EXTENT_ALL_KINDS = 4095,
};

/* What a loss does to the sums of those kinds. */
enum profile_extent_effect {
    PROFILE_EXTENT_UNKNOWN,  /* a number that this version does not know: taken as FIGURES of all kinds */
    PROFILE_EXTENT_HARMLESS, /* nothing: it concerns places and names, or no figure at all */
    PROFILE_EXTENT_FIGURES,  /* they are too small, or not sure */
    PROFILE_EXTENT_PROGRAMS, /* each is a process or program of which nothing was counted */
    PROFILE_EXTENT_WHOLE,    /* each is a recording in which nothing was counted */
};
/* *kinds: those that the loss concerns, of enum profile_extent_kind. */
enum profile_extent_effect profile_extent_effect(unsigned loss, unsigned *kinds);

/* Of a counter by its name, enum profile_extent_kind; 0: one that was imported, or of another version. */
unsigned profile_extent_kinds(const struct profile *profile, uint32_t counter);

enum profile_extent_degree { PROFILE_EXTENT_NONE, PROFILE_EXTENT_PART, PROFILE_EXTENT_ALL };

struct profile_extent {
    enum profile_extent_degree degree;
    bool sampled;    /* the counter is not exact even for what was counted */
    bool unfinished; /* the recording did not come to its end */
    bool anywhere; /* what is missing may be of any image, and not only of those of which coverage tells it */
    bool partial;  /* recordings or images, of several, did not count it */
    uint64_t programs; /* processes and programs that were lost as a whole */
    unsigned loss;     /* the first loss that stands against the sums; 0: none */
    uint64_t count;    /* of that one */
    const char *why;   /* the collector's words, where programs were lost, the importer's, where the file was
                          not whole; or NULL. Lives in the profile */
};

/* Of counter 0 (it is not there): NONE. Time: the cells of the profile, at most. */
struct profile_extent profile_extent_of(const struct profile *profile, uint32_t counter);
/* Of a counter by its name. */
struct profile_extent profile_extent_named(const struct profile *profile, const char *counter);

/* Were calls to be counted, and were some counted? Where not, a sum of 0 calls is no figure. */
bool profile_extent_has_calls(const struct profile *profile);

/* May each figure be called exact, and a sum be called everything that there was? */
bool profile_extent_is_exact(const struct profile_extent *extent);
/* "exact", "exact for what was counted", "sampled", "not counted". */
const char *profile_extent_words(const struct profile_extent *extent);
/* Appends what stands against it: "1 program lost: <the collector's words>", "functions that could not be
 * hooked: 2" ...; nothing when nothing does. */
void profile_extent_reason(const struct profile_extent *extent, struct base_text *out);
/* Appends "not counted (<reason>)". */
void profile_extent_not_counted(const struct profile_extent *extent, struct base_text *out);
/* The same where the collector's words stand near by: "not counted (1 program lost)". */
void profile_extent_not_counted_briefly(const struct profile_extent *extent, struct base_text *out);

/* Appends "; not all was counted" where losses or recordings that did not count stand against the sums. */
void profile_extent_caveat(const struct profile_extent *extent, struct base_text *out);

#define PROFILE_EXTENT_NOTHING "nothing"

/* Of a profile without a numbered loss, what was lost all the same: "nothing" only if all of everything was
 * counted, else "all of calls", "what came later". Appended. */
void profile_extent_lost(const struct profile *profile, struct base_text *out);

#endif
