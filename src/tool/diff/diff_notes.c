/* diff_notes.c - what makes the sides hard to compare: other programs, other images, other extents. */
#include <string.h>

#include "diff_rows.h"
#include "profile_extent.h"

/* --- notes --- */

/* The file of the command's first word; "" when it is not known. */
static void program_of(const struct profile *profile, struct base_text *name)
{
    const char *command = profile_meta(profile, "command");
    size_t length = command ? strcspn(command, " ") : 0;
    while (length && memchr(command, '/', length)) {
        size_t skip = (size_t)((const char *)memchr(command, '/', length) - command) + 1;
        command += skip;
        length -= skip;
    }
    base_text_add_bytes(name, command ? command : "", length);
}

static uint32_t image_called(const struct diff_matcher *matcher, const char *name)
{
    for (uint32_t i = 1; i < matcher->image_count; i++)
        if (matcher->images[i].kind == PROFILE_IMAGE_FILE && !strcmp(matcher->images[i].name, name))
            return matcher->images[i].same;
    return 0;
}

static void note_programs(struct diff *diff, void (*each)(struct diff *, const char *))
{
    struct base_text old = {0}, new = {0}, note = {0};
    program_of(diff->runs[0].profile, &old);
    program_of(diff->runs[diff->old_count].profile, &new);
    if (old.length && new.length && strcmp(old.data, new.data) &&
        image_called(&diff->matcher, old.data) != image_called(&diff->matcher, new.data)) {
        base_text_addf(
            &note, "different programs, %s and %s: only functions of one name in one library are compared",
            old.data, new.data);
        each(diff, base_text_string(&note));
    }
    diff->out->failed |= old.failed || new.failed || note.failed;
    base_text_free(&old);
    base_text_free(&new);
    base_text_free(&note);
}

static void note_images(struct diff *diff, void (*each)(struct diff *, const char *))
{
    for (uint32_t i = 1; i < diff->matcher.image_count; i++) {
        const struct diff_match_image *image = &diff->matcher.images[i];
        struct base_text note = {0};
        if (image->same == i)
            continue;
        base_text_addf(&note, "%s is taken for what %s was", image->name,
                       diff->matcher.images[image->same].name);
        each(diff, base_text_string(&note));
        diff->out->failed |= note.failed;
        base_text_free(&note);
    }
}

/* What was counted of an image's functions in a run; false when nothing of it was looked at. */
static bool counted_of(const struct diff *diff, size_t run, uint32_t image, uint64_t *counted,
                       uint64_t *found)
{
    const struct profile *profile = diff->runs[run].profile;
    bool any = false;
    *counted = *found = 0;
    for (size_t i = 1; i < profile->coverage_count; i++) {
        const struct profile_coverage *coverage = &profile->coverage[i];
        uint32_t own = diff->matcher.image_of[run][coverage->image];
        if (coverage->kind != PROFILE_COVERAGE_FUNCTIONS || diff->matcher.images[own].same != image)
            continue;
        any = true;
        *counted += coverage->counted;
        *found += coverage->found;
    }
    return any;
}

/* Calls that only one side could see are no change of the program. */
static void note_coverage(struct diff *diff, void (*each)(struct diff *, const char *))
{
    for (uint32_t i = 1; i < diff->matcher.image_count && diff->calls; i++) {
        uint64_t counted[2], found[2];
        bool old = counted_of(diff, 0, i, &counted[0], &found[0]),
             new = counted_of(diff, diff->old_count, i, &counted[1], &found[1]);
        struct base_text note = {0};
        if (diff->matcher.images[i].sides != 3 || (!old && !new))
            continue;
        if (old != new)
            base_text_addf(&note, "calls in %s were counted on the %s side only",
                           diff->matcher.images[i].name, old ? "old" : "new");
        else if (counted[0] * found[1] != counted[1] * found[0])
            base_text_addf(
                &note, "of the functions of %s, %llu of %llu were counted in old and %llu of %llu in new",
                diff->matcher.images[i].name, (unsigned long long)counted[0], (unsigned long long)found[0],
                (unsigned long long)counted[1], (unsigned long long)found[1]);
        if (note.length)
            each(diff, note.data);
        diff->out->failed |= note.failed;
        base_text_free(&note);
    }
}

static void note_noise(struct diff *diff, void (*each)(struct diff *, const char *))
{
    if (diff->exact && !diff_several(diff))
        each(diff, "one run a side does not tell which of these figures are the same in every run");
    else if (!diff_several(diff))
        each(diff,
             "one run a side does not tell how much runs differ: intervals are of sampling alone, and the "
             "whole is not judged (tally diff A1,A2,A3 B1,B2,B3)");
    else if (diff->old_count == 1 || diff->run_count - diff->old_count == 1)
        each(diff, "one side has a single run, which is taken to vary as the other side's do");
}

static struct profile_extent extent_of(const struct diff *diff, size_t run)
{
    return profile_extent_named(diff->runs[run].profile, diff->counter);
}

bool diff_all_counted(const struct diff *diff)
{
    bool all = true;
    for (size_t run = 0; run < diff->run_count; run++)
        all = all && extent_of(diff, run).degree == PROFILE_EXTENT_ALL;
    return all;
}

/* Where a loss stands against the figures, or some recordings of a merged one did not count, they may differ
 * by that alone. Of samples, a loss is as likely in any place. */
static void note_extents(struct diff *diff, void (*each)(struct diff *, const char *))
{
    for (size_t run = 0; run < diff->run_count; run++) {
        struct profile_extent extent = extent_of(diff, run);
        struct base_text note = {0};
        bool lost = extent.loss || extent.degree == PROFILE_EXTENT_NONE;
        if (!extent.partial && !(lost && diff->exact))
            continue;
        base_text_addf(&note, "%s has not all of %s: ", diff->runs[run].file, diff->counter);
        profile_extent_reason(&extent, &note);
        each(diff, base_text_string(&note));
        diff->out->failed |= note.failed;
        base_text_free(&note);
    }
}

void diff_notes(struct diff *diff, void (*each)(struct diff *diff, const char *note))
{
    note_programs(diff, each);
    note_images(diff, each);
    note_coverage(diff, each);
    note_extents(diff, each);
    for (size_t run = 0; run < diff->run_count; run++) {
        struct base_text note = {0};
        const char *partial = profile_meta(diff->runs[run].profile, "import_partial");
        if (profile_meta(diff->runs[run].profile, "complete"))
            continue;
        base_text_addf(&note, "%s is unfinished: %s", diff->runs[run].file,
                       partial ? partial : "its recording did not come to its end");
        each(diff, base_text_string(&note));
        diff->out->failed |= note.failed;
        base_text_free(&note);
    }
    note_noise(diff, each);
}
