#include "profile_extent.h"

#include <stdio.h>
#include <string.h>

#include "profile_loss.h"
#include "wire_loss.h"

#define TIME   (PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_TIMERS | PROFILE_EXTENT_WAITS)
#define BLOCKS (PROFILE_EXTENT_HEAP | PROFILE_EXTENT_EMPTY)
#define TIMED  (PROFILE_EXTENT_FUNCTION | PROFILE_EXTENT_FUNCTION_TIME)
#define COUNTED                                                                                              \
    (BLOCKS | PROFILE_EXTENT_MAPS | PROFILE_EXTENT_THROWS | PROFILE_EXTENT_DESCRIPTORS | TIMED |             \
     PROFILE_EXTENT_INSTRUMENTED)
#define AGENT (COUNTED | PROFILE_EXTENT_TIMERS)

/* --- losses --- */

struct effect {
    enum profile_extent_effect effect;
    unsigned kinds;
};

#define HARMLESS                                                                                             \
    {                                                                                                        \
        PROFILE_EXTENT_HARMLESS, 0                                                                           \
    }
#define FIGURES(kinds)                                                                                       \
    {                                                                                                        \
        PROFILE_EXTENT_FIGURES, kinds                                                                        \
    }
#define PROGRAMS(kinds)                                                                                      \
    {                                                                                                        \
        PROFILE_EXTENT_PROGRAMS, kinds                                                                       \
    }

/* ORDER wire_loss.h. A test looks for a number that is missing here. */
static const struct effect effects[WIRE_LOSS_END] = {
    [WIRE_LOSS_RING_FULL] = FIGURES(PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_WAITS),
    [WIRE_LOSS_THROTTLED] = FIGURES(PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_WAITS),
    [WIRE_LOSS_STACK_CUT] = HARMLESS,
    [WIRE_LOSS_NO_ROWS] = HARMLESS,
    [WIRE_LOSS_ODD_RULE] = HARMLESS,
    [WIRE_LOSS_BAD_READ] = HARMLESS,
    [WIRE_LOSS_NO_MAPPING] = HARMLESS,
    [WIRE_LOSS_FRAME_POINTER] = HARMLESS,
    [WIRE_LOSS_NO_PROGRESS] = HARMLESS,
    [WIRE_LOSS_TOO_DEEP] = HARMLESS,
    [WIRE_LOSS_FOLDED] = HARMLESS,
    [WIRE_LOSS_NO_USER_REGISTERS] = HARMLESS,
    [WIRE_LOSS_IMAGE_UNREADABLE] = HARMLESS,
    [WIRE_LOSS_IMAGE_CHANGED] = HARMLESS,
    [WIRE_LOSS_NO_SYMBOL] = HARMLESS,
    [WIRE_LOSS_NOT_YET_RESOLVED] = HARMLESS,
    [WIRE_LOSS_JIT_UNKNOWN] = HARMLESS,
    [WIRE_LOSS_THREAD_UNSEEN] = FIGURES(PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_WAITS),
    [WIRE_LOSS_PROCESS_GONE] = HARMLESS,
    [WIRE_LOSS_RATE_LOWERED] = HARMLESS,
    [WIRE_LOSS_OUT_OF_MEMORY] = FIGURES(PROFILE_EXTENT_ALL_KINDS),
    [WIRE_LOSS_OVER_LIMIT] = HARMLESS,
    [WIRE_LOSS_CLOCK_DISORDER] = HARMLESS,
    [WIRE_LOSS_READ_LATE] = HARMLESS,
    [WIRE_LOSS_SHORT_LIVED] = FIGURES(PROFILE_EXTENT_SAMPLES | PROFILE_EXTENT_WAITS),
    [WIRE_LOSS_NOT_PLANNED] = FIGURES(PROFILE_EXTENT_CALLS),
    [WIRE_LOSS_CALLS_UNSEEN] = PROGRAMS(PROFILE_EXTENT_CALLS),
    [WIRE_LOSS_PRIVILEGES] = HARMLESS, /* to the figures */
    [WIRE_LOSS_CALLS_SHARED] = FIGURES(PROFILE_EXTENT_CALLS),
    [WIRE_LOSS_AGENT_INTERRUPTED] = FIGURES(COUNTED),
    [WIRE_LOSS_AGENT_THREADS] = FIGURES(COUNTED),
    [WIRE_LOSS_AGENT_STACKS] = HARMLESS,
    [WIRE_LOSS_AGENT_FULL] = FIGURES(COUNTED),
    [WIRE_LOSS_AGENT_RELEASES] = FIGURES(BLOCKS),
    [WIRE_LOSS_AGENT_UNANSWERED] = FIGURES(AGENT),
    [WIRE_LOSS_AGENT_INERT] = PROGRAMS(AGENT),
    [WIRE_LOSS_AGENT_REFUSED] = FIGURES(AGENT),
    [WIRE_LOSS_AGENT_ABSENT] = PROGRAMS(AGENT),
    [WIRE_LOSS_AGENT_NO_ROWS] = HARMLESS,
    [WIRE_LOSS_AGENT_ODD_RULE] = HARMLESS,
    [WIRE_LOSS_AGENT_BAD_READ] = HARMLESS,
    [WIRE_LOSS_AGENT_NO_MAPPING] = HARMLESS,
    [WIRE_LOSS_AGENT_FRAME_POINTER] = HARMLESS,
    [WIRE_LOSS_AGENT_NO_PROGRESS] = HARMLESS,
    [WIRE_LOSS_AGENT_TOO_DEEP] = HARMLESS,
    [WIRE_LOSS_AGENT_MAPPINGS] = FIGURES(PROFILE_EXTENT_MAPS),
    [WIRE_LOSS_TIMELINE_FULL] = HARMLESS,
    [WIRE_LOSS_FUNCTION_UNTIMED] = FIGURES(PROFILE_EXTENT_FUNCTION_TIME),
    [WIRE_LOSS_FUNCTION_PUT_BACK] = FIGURES(PROFILE_EXTENT_FUNCTION_TIME | PROFILE_EXTENT_DESCRIPTORS),
    [WIRE_LOSS_FUNCTION_FORGOTTEN] = FIGURES(PROFILE_EXTENT_FUNCTION_TIME),
    [WIRE_LOSS_FUNCTION_ABSENT] = FIGURES(TIMED),
    [WIRE_LOSS_AGENT_EMPTY_UNSEEN] = FIGURES(PROFILE_EXTENT_EMPTY),
    [WIRE_LOSS_FUNCTION_NO_HISTOGRAM] = HARMLESS,
    [WIRE_LOSS_AGENT_NAME_ABSENT] = FIGURES(BLOCKS),
    [WIRE_LOSS_DESCRIPTOR_UNSEEN] = FIGURES(PROFILE_EXTENT_DESCRIPTORS),
    [WIRE_LOSS_DESCRIPTOR_CLOSED] = FIGURES(PROFILE_EXTENT_DESCRIPTORS),
    [WIRE_LOSS_DESCRIPTOR_CALLS] = FIGURES(PROFILE_EXTENT_DESCRIPTORS),
    [WIRE_LOSS_AGENT_SAMPLED] = HARMLESS, /* the counters that are estimates are not exact */
    [WIRE_LOSS_AGENT_UNTIMED] = FIGURES(PROFILE_EXTENT_TIMERS),
    [WIRE_LOSS_INSTRUMENTED_ABSENT] = {PROFILE_EXTENT_WHOLE, PROFILE_EXTENT_INSTRUMENTED},
    [WIRE_LOSS_INSTRUMENTED_DEEP] = HARMLESS,
    [WIRE_LOSS_FUNCTION_INNER] = FIGURES(TIMED),
    [WIRE_LOSS_WAIT_UNSEEN] = FIGURES(PROFILE_EXTENT_WAITS),
    [WIRE_LOSS_WAIT_REFUSED] = HARMLESS,
    [WIRE_LOSS_AGENT_FORBIDDEN] = FIGURES(AGENT),
    [WIRE_LOSS_FUNCTION_RESTED] = FIGURES(TIMED),
    [WIRE_LOSS_CALLS_FREED] = PROGRAMS(PROFILE_EXTENT_CALLS),
    [WIRE_LOSS_TEXT_ALTERED] = FIGURES(PROFILE_EXTENT_CALLS | AGENT),
    [WIRE_LOSS_AGENT_NO_ROOM] = FIGURES(COUNTED),
    [WIRE_LOSS_FUNCTION_REFUSED] = FIGURES(TIMED),
};

enum profile_extent_effect profile_extent_effect(unsigned loss, unsigned *kinds)
{
    const struct effect *it = loss < WIRE_LOSS_END ? &effects[loss] : NULL;
    bool known = it && it->effect != PROFILE_EXTENT_UNKNOWN;
    *kinds = known ? it->kinds : PROFILE_EXTENT_ALL_KINDS;
    return known ? it->effect : PROFILE_EXTENT_UNKNOWN;
}

/* --- counters --- */

unsigned profile_extent_kinds(const struct profile *profile, uint32_t counter)
{
    static const struct {
        const char *name; /* or its beginning, with a dot behind it */
        unsigned kinds;
    } names[] = {
        {"heap.", PROFILE_EXTENT_HEAP},
        {"empty.", PROFILE_EXTENT_EMPTY},
        {"map.", PROFILE_EXTENT_MAPS},
        {"throw.", PROFILE_EXTENT_THROWS},
        {"fd.", PROFILE_EXTENT_DESCRIPTORS},
        {"function.calls", PROFILE_EXTENT_FUNCTION},
        {"function.time", PROFILE_EXTENT_FUNCTION_TIME},
        {"call.", PROFILE_EXTENT_INSTRUMENTED},
    };
    const char *name = profile_text(profile, profile->counters[counter].name);
    const char *engine = profile_meta(profile, "engine");
    bool timers = engine && !strncmp(engine, "agent ", 6);
    if (counter && counter == profile_counts_calls(profile)) /* another profiler's may be called so too */
        return PROFILE_EXTENT_CALLS;
    if (!strncmp(name, "time.", 5))
        return (timers ? PROFILE_EXTENT_TIMERS : PROFILE_EXTENT_SAMPLES) |
               (strcmp(name, "time.real") ? 0 : PROFILE_EXTENT_WAITS);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i].name);
        if (names[i].name[length - 1] == '.' ? !strncmp(name, names[i].name, length)
                                             : !strcmp(name, names[i].name))
            return names[i].kinds;
    }
    return 0;
}

static bool has_cells_of(const struct profile *profile, uint32_t counter)
{
    for (size_t i = 0; i < profile->cell_count; i++)
        if (profile->cells[i].counter == counter && (profile->cells[i].value || profile->cells[i].samples))
            return true;
    return false;
}

static bool has_cells(const struct profile *profile, unsigned kinds)
{
    for (uint32_t i = 1; i < profile->counter_count; i++)
        if (profile_extent_kinds(profile, i) & kinds && has_cells_of(profile, i))
            return true;
    return false;
}

static bool has_coverage(const struct profile *profile)
{
    for (size_t i = 1; i < profile->coverage_count; i++)
        if (profile->coverage[i].kind != PROFILE_COVERAGE_LISTED && profile->coverage[i].counted)
            return true;
    return false;
}

/* Is there a figure of any counter of these kinds? Of calls an edge is enough: it was watched. */
static bool has_figures(const struct profile *profile, unsigned kinds)
{
    return kinds & PROFILE_EXTENT_CALLS ? profile->edge_count > 1 : has_cells(profile, kinds);
}

/* --- the extent --- */

static void add_loss(struct profile_extent *extent, unsigned loss, uint64_t count)
{
    if (!extent->loss) {
        extent->loss = loss;
        extent->count = count;
    }
    if (extent->degree == PROFILE_EXTENT_ALL)
        extent->degree = PROFILE_EXTENT_PART;
}

/* True: a whole recording has counted nothing. */
static bool add_losses(struct profile_extent *extent, const struct profile *profile, unsigned kinds)
{
    bool whole = false;
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        unsigned against;
        enum profile_extent_effect effect = profile_extent_effect(i, &against);
        if (!profile->losses[i] || effect == PROFILE_EXTENT_HARMLESS || !(against & kinds))
            continue;
        add_loss(extent, i, profile->losses[i]);
        extent->anywhere = extent->anywhere || i != WIRE_LOSS_NOT_PLANNED;
        whole = whole || effect == PROFILE_EXTENT_WHOLE;
        if (effect == PROFILE_EXTENT_PROGRAMS)
            extent->programs += profile->losses[i];
    }
    return whole;
}

/* A sum of 0: was nothing there, or was nothing counted? *why: what is known of that. */
static bool nothing_counted(const struct profile_extent *extent, const struct profile *profile,
                            unsigned kinds, bool whole, const char **why)
{
    const char *absent = kinds == PROFILE_EXTENT_THROWS ? profile_meta(profile, "throws_absent") : NULL;
    bool lost = whole || (extent->programs && extent->programs + 1 >= profile->process_count);
    bool uncovered = kinds & PROFILE_EXTENT_CALLS && !has_coverage(profile);
    if (!(lost || absent || uncovered) || has_figures(profile, kinds))
        return false;
    *why = *why ? *why : absent ? absent : uncovered ? "no image's calls were counted" : NULL;
    return true;
}

/* What a merged profile says of a counter that not all recordings had; or NULL. */
static const char *partial_of(const struct profile *profile, uint32_t counter)
{
    char key[256];
    snprintf(key, sizeof key, PROFILE_EXTENT_PARTIAL "%s",
             profile_text(profile, profile->counters[counter].name));
    return profile_meta(profile, key);
}

struct profile_extent profile_extent_of(const struct profile *profile, uint32_t counter)
{
    struct profile_extent extent = {.degree = PROFILE_EXTENT_ALL};
    unsigned kinds = profile_extent_kinds(profile, counter);
    if (!counter) {
        extent.degree = PROFILE_EXTENT_NONE;
        return extent;
    }
    extent.sampled = !profile->counters[counter].exact;
    extent.unfinished = !profile_meta(profile, "complete");
    bool whole = kinds && add_losses(&extent, profile, kinds);
    bool some = kinds & PROFILE_EXTENT_CALLS && profile_meta(profile, "calls_partial");
    const char *partial = partial_of(profile, counter);
    extent.anywhere = extent.anywhere || some;
    extent.partial = some || partial;
    if (extent.degree == PROFILE_EXTENT_ALL && (extent.unfinished || extent.partial))
        extent.degree = PROFILE_EXTENT_PART;
    extent.why = partial;
    if (extent.unfinished && !extent.why)
        extent.why = profile_meta(profile, "import_partial");
    if ((extent.programs || whole) && kinds & (AGENT | PROFILE_EXTENT_CALLS))
        extent.why = profile_meta(profile, kinds & PROFILE_EXTENT_CALLS ? "calls_notice" : "agent_notice");
    if (kinds && nothing_counted(&extent, profile, kinds, whole, &extent.why))
        extent.degree = PROFILE_EXTENT_NONE;
    return extent;
}

struct profile_extent profile_extent_named(const struct profile *profile, const char *counter)
{
    return profile_extent_of(profile, profile_counter_named(profile, counter));
}

bool profile_extent_has_calls(const struct profile *profile)
{
    uint32_t calls = profile_counts_calls(profile);
    return calls && profile_extent_of(profile, calls).degree != PROFILE_EXTENT_NONE;
}

/* --- words --- */

bool profile_extent_is_exact(const struct profile_extent *extent)
{
    return extent->degree == PROFILE_EXTENT_ALL && !extent->sampled;
}

const char *profile_extent_words(const struct profile_extent *extent)
{
    return extent->degree == PROFILE_EXTENT_NONE   ? "not counted"
           : extent->sampled                       ? "sampled"
           : extent->degree == PROFILE_EXTENT_PART ? "exact for what was counted"
                                                   : "exact";
}

/* "functions that could not be hooked: 2": of the loss's sentence what stands before its colon. */
static void add_loss_words(const struct profile_extent *extent, struct base_text *out)
{
    const char *sentence = profile_loss_text(extent->loss);
    if (sentence)
        base_text_add_bytes(out, sentence, strcspn(sentence, ":"));
    else
        base_text_addf(out, "loss %u", extent->loss);
    base_text_addf(out, ": %llu", (unsigned long long)extent->count);
}

void profile_extent_reason(const struct profile_extent *extent, struct base_text *out)
{
    size_t before = out->length;
    if (extent->programs)
        base_text_addf(out, "%llu %s lost", (unsigned long long)extent->programs,
                       extent->programs == 1 ? "program" : "programs");
    else if (extent->loss && !(extent->partial && extent->why)) /* a whole recording is more than a loss */
        add_loss_words(extent, out);
    else if (extent->unfinished && !extent->why)
        base_text_add(out, "the recording is unfinished");
    else if (extent->partial && !extent->why)
        base_text_add(out, "calls of some images or recordings may be missing");
    if (extent->why)
        base_text_addf(out, "%s%s", out->length > before ? ": " : "", extent->why);
}

void profile_extent_not_counted(const struct profile_extent *extent, struct base_text *out)
{
    struct base_text reason = {0};
    profile_extent_reason(extent, &reason);
    base_text_add(out, "not counted");
    if (reason.length)
        base_text_addf(out, " (%s)", base_text_string(&reason));
    out->failed |= reason.failed;
    base_text_free(&reason);
}

void profile_extent_not_counted_briefly(const struct profile_extent *extent, struct base_text *out)
{
    struct profile_extent brief = *extent;
    brief.why = extent->loss ? NULL : extent->why;
    profile_extent_not_counted(&brief, out);
}

void profile_extent_caveat(const struct profile_extent *extent, struct base_text *out)
{
    if (extent->loss || extent->partial)
        base_text_add(out, "; not all was counted");
}

void profile_extent_lost(const struct profile *profile, struct base_text *out)
{
    bool part = false;
    size_t before = out->length;
    for (uint32_t i = 1; i < profile->counter_count; i++) {
        struct profile_extent extent = profile_extent_of(profile, i);
        part = part || extent.degree == PROFILE_EXTENT_PART;
        if (extent.degree == PROFILE_EXTENT_NONE)
            base_text_addf(out, "%s%s", out->length > before ? ", " : "all of ",
                           profile_text(profile, profile->counters[i].name));
    }
    if (out->length == before && !profile_meta(profile, "complete"))
        base_text_add(out, profile_meta(profile, "import_partial") ? "what the file does not have"
                                                                   : "what came later");
    else if (out->length == before)
        base_text_add(out, part ? "what some recordings did not count" : PROFILE_EXTENT_NOTHING);
}
