/* import_pprof_notes.c - what was recorded: comments, losses that tally export wrote, and what had to be
 * left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_text.h"
#include "import_images.h"
#include "import_pprof.h"
#include "import_proto.h"
#include "import_stack.h"
#include "profile_extent.h"
#include "profile_loss.h"
#include "wire_loss.h"

/* Some are for people; so many that the notice would be most of the profile are not. */
static void note_comment(struct import_pprof *pprof, const char *what, const char *comment)
{
    if (pprof->comment_count < IMPORT_PPROF_COMMENTS_MOST)
        import_stack_notice(pprof->profile, "%s: %s", what, comment);
    else if (pprof->comment_count == IMPORT_PPROF_COMMENTS_MOST)
        import_stack_notice(pprof->profile, "further comments are left out");
    pprof->comment_count++;
}

/* "NUMBER SENTENCE" of a loss, or "NUMBER loss NUMBER" of one that had no sentence where it was exported */
static void take_loss(struct import_pprof *pprof, const char *text)
{
    char *end, later[32];
    uint64_t count = strtoull(text, &end, 10);
    for (unsigned i = 0; i < PROFILE_LOSSES; i++) {
        const char *known = profile_loss_text(i);
        snprintf(later, sizeof later, "loss %u", i);
        if (*end != ' ' || (strcmp(end + 1, later) != 0 && (!known || strcmp(end + 1, known) != 0)))
            continue;
        if (i == WIRE_LOSS_OUT_OF_MEMORY) /* here that would say that the import failed */
            note_comment(pprof, "lost when it was recorded", text);
        else
            profile_lose(pprof->profile, i, count);
    }
}

/* Of counters that are there: a file may have any number of others. */
static void take_partial(struct import_pprof *pprof, const char *comment, const char *colon)
{
    struct base_text key = {0};
    base_text_add_bytes(&key, comment, (size_t)(colon - comment));
    if (key.failed)
        profile_lose(pprof->profile, WIRE_LOSS_OUT_OF_MEMORY, 1);
    else if (profile_counter_named(pprof->profile, base_text_string(&key) + strlen(PROFILE_EXTENT_PARTIAL)))
        profile_set_meta(pprof->profile, base_text_string(&key), colon + 2);
    base_text_free(&key);
}

/* "KEY: VALUE", as Tally's exports have it */
static void take_comment(struct import_pprof *pprof, const char *comment)
{
    static const char *const keys[] = {
        "command",           "hostname",     "kernel", "target_cpu_ns", "overhead_tool_cpu_ns",
        "no_samples_reason", "throws_absent"};
    const char *colon = strstr(comment, ": ");
    if (!colon)
        return;
    if (!strncmp(comment, "lost: ", 6))
        take_loss(pprof, colon + 2);
    if (!strncmp(comment, "unfinished: ", 12))
        import_stack_partial(pprof->profile, colon + 2);
    if (!strncmp(comment, PROFILE_EXTENT_PARTIAL, strlen(PROFILE_EXTENT_PARTIAL)))
        take_partial(pprof, comment, colon);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strlen(keys[i]) == (size_t)(colon - comment) && !strncmp(comment, keys[i], strlen(keys[i])))
            profile_set_meta(pprof->profile, keys[i], colon + 2);
}

/* Comments of others are for people: they go where notes are. */
void import_pprof_comments(struct import_pprof *pprof, struct import_proto whole, bool take)
{
    struct import_proto_field field;
    uint64_t string;
    while (import_proto_next(&whole, &field)) {
        while (field.number == IMPORT_PPROF_COMMENT && import_proto_number(&field, &string)) {
            const char *comment = import_pprof_string(pprof, string);
            pprof->from_tally |= !strncmp(comment, "exported by: tally ", 19);
            if (take && pprof->from_tally)
                take_comment(pprof, comment);
            else if (take && *comment)
                note_comment(pprof, "comment", comment);
        }
    }
}

static void note_left_out(struct import_pprof *pprof)
{
    struct base_text text = {0};
    for (size_t i = 0; i < pprof->unknown_count; i++)
        base_text_addf(&text, "%s%s", i ? ", " : "", import_pprof_string(pprof, pprof->unknown_labels[i]));
    if (text.length)
        import_stack_notice(pprof->profile, "labels that were left out: %s", base_text_string(&text));
    base_text_clear(&text);
    for (size_t i = 1; i < pprof->profile->counter_count && !pprof->from_tally; i++) {
        const struct profile_counter *counter = &pprof->profile->counters[i];
        if (counter->exact)
            base_text_addf(&text, "%s%s", text.length ? ", " : "",
                           profile_text(pprof->profile, counter->name));
    }
    if (text.length)
        import_stack_notice(pprof->profile,
                            "the file does not say how many samples are behind %s: no intervals",
                            base_text_string(&text));
    if (profile_counts_calls(pprof->profile)) {
        import_stack_notice(pprof->profile,
                            "the file does not say of which functions all calls were counted");
        profile_set_meta(pprof->profile, "calls_partial", "1");
    }
    if (*import_pprof_string(pprof, pprof->drop) || *import_pprof_string(pprof, pprof->keep))
        import_stack_notice(pprof->profile, "drop_frames and keep_frames were not applied");
    base_text_free(&text);
}

void import_pprof_describe(struct import_pprof *pprof)
{
    struct profile *profile = pprof->profile;
    const char *path = pprof->mapping_count ? import_pprof_string(pprof, pprof->mappings[0].file) : "";
    struct import_pprof_type period = pprof->period_type;
    bool time = !strcmp(import_pprof_unit(pprof, &period), "ns");
    if (*path && *path != '[' && !profile_meta(profile, "command"))
        profile_set_meta(profile, "command", path); /* by convention the first is the program */
    if (pprof->time > 0)
        profile_set_metaf(profile, "start_time", "%lld", (long long)(pprof->time / 1000000000));
    if (pprof->duration > 0)
        profile_set_metaf(profile, "duration_ns", "%lld", (long long)pprof->duration);
    if (time && pprof->period > 0 && profile_counter_named(profile, "time.cpu"))
        profile_set_metaf(profile, "rate_hz", "%.6g", 1e9 / ((double)pprof->period * (double)period.scale));
    import_images_report(&pprof->images);
    note_left_out(pprof);
}
