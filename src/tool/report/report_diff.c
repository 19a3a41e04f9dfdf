/* report_diff.c - the comparison from end to end: which counter, whether the sides can be compared at all,
 * which rows to show. */
#include "report_diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile_extent.h"
#include "report_diff_rows.h"

enum { NARROWEST_TERMINAL = 40 };

int report_diff_memory(struct report_diff *diff)
{
    return base_fail(diff->error, BASE_ENOMEM, "out of memory for the comparison");
}

/* --- which counter --- */

static const struct profile_counter *find_counter(const struct profile *profile, const char *name)
{
    uint32_t index = profile_counter_named(profile, name);
    return index ? &profile->counters[index] : NULL;
}

/* It is calls by edge, and not only called so. */
static bool is_calls(const struct profile *profile, const char *name)
{
    uint32_t index = profile_counter_named(profile, name);
    return index && index == profile_counts_calls(profile);
}

static void list_counters(const struct profile *profile, struct base_text *list)
{
    for (size_t i = 1; i < profile->counter_count; i++)
        base_text_addf(list, "%s%s", list->length ? ", " : "",
                       profile_text(profile, profile->counters[i].name));
    if (!list->length)
        base_text_add(list, "none");
}

static int fail_counter(struct report_diff *diff, size_t run, const char *name)
{
    struct base_text list = {0}, first = {0};
    list_counters(diff->runs[run].profile, &list);
    list_counters(diff->runs[0].profile, &first);
    if (name)
        base_fail(diff->error, BASE_EUSAGE, "no counter %s in %s; it has %s", name, diff->runs[run].file,
                  base_text_string(&list));
    else
        base_fail(diff->error, BASE_EUSAGE,
                  "%s counts %s, %s counts %s: these do not measure the same, record both alike",
                  diff->runs[0].file, base_text_string(&first), diff->runs[run].file,
                  base_text_string(&list));
    base_text_free(&list);
    base_text_free(&first);
    return BASE_EUSAGE;
}

/* time.cpu where all have it, else the first of the first run that all have; calls only where they have
 * nothing else in common. */
static const char *default_counter(const struct report_diff *diff)
{
    const struct profile *first = diff->runs[0].profile;
    const char *chosen = NULL, *calls = NULL;
    for (size_t i = 1; i < first->counter_count; i++) {
        const char *name = profile_text(first, first->counters[i].name);
        bool everywhere = true;
        for (size_t run = 1; run < diff->run_count && everywhere; run++)
            everywhere = find_counter(diff->runs[run].profile, name) &&
                         is_calls(diff->runs[run].profile, name) == is_calls(first, name);
        if (everywhere && is_calls(first, name))
            calls = name;
        else if (everywhere && (!chosen || !strcmp(name, "time.cpu")))
            chosen = name;
    }
    return chosen ? chosen : calls;
}

static int choose_counter(struct report_diff *diff)
{
    const char *wanted = diff->options->counter;
    if (diff->options->view == REPORT_DIFF_EDGES)
        wanted = PROFILE_CALLS;
    for (size_t run = 0; run < diff->run_count && wanted; run++)
        if (!find_counter(diff->runs[run].profile, wanted) ||
            (diff->options->view == REPORT_DIFF_EDGES && !is_calls(diff->runs[run].profile, wanted)))
            return fail_counter(diff, run, wanted);
    diff->counter = wanted ? wanted : default_counter(diff);
    for (size_t run = 1; run < diff->run_count && !diff->counter; run++)
        if (!default_counter(&(struct report_diff){
                .runs = (struct report_diff_run[]){diff->runs[0], diff->runs[run]}, .run_count = 2}))
            return fail_counter(diff, run, NULL);
    if (!diff->counter)
        return fail_counter(diff, diff->run_count - 1, NULL);
    const struct profile *first = diff->runs[0].profile;
    const struct profile_counter *counter = find_counter(first, diff->counter);
    diff->unit = profile_text(first, counter->unit);
    diff->calls = is_calls(first, diff->counter);
    diff->peak = counter->combine == PROFILE_PEAK;
    diff->exact = counter->exact || diff->peak;
    for (size_t run = 1; run < diff->run_count; run++)
        if (is_calls(diff->runs[run].profile, diff->counter) != diff->calls)
            return base_fail(diff->error, BASE_EUSAGE,
                             "%s are counted by edge in one of %s and %s and by stack in the other",
                             diff->counter, diff->runs[0].file, diff->runs[run].file);
        else if (find_counter(diff->runs[run].profile, diff->counter)->exact != counter->exact)
            return base_fail(diff->error, BASE_EUSAGE,
                             "%s is exact in one of %s and %s and sampled in the other", diff->counter,
                             diff->runs[0].file, diff->runs[run].file);
    return 0;
}

static int check_options(struct report_diff *diff)
{
    const struct report_diff_options *options = diff->options;
    if (diff->calls && (options->total || options->view == REPORT_DIFF_PATHS))
        return base_fail(diff->error, BASE_EUSAGE,
                         "calls are counted by edge, not by stack: neither --total nor --paths has them");
    return 0;
}

static int select_all(struct report_diff *diff)
{
    for (size_t run = 0; run < diff->run_count; run++) {
        struct report_options options = {.counter = diff->calls ? NULL : diff->counter,
                                         .part = diff->options->part};
        int code = report_select(diff->runs[run].profile, &options, &diff->selections[run], diff->error);
        if (code)
            return base_fail_context(diff->error, code, "%s", diff->runs[run].file);
        if (!diff->exact && !diff->selections[run].taken.samples)
            return base_fail(diff->error, BASE_EUSAGE,
                             "%s has no samples of %s%s: there is nothing to compare", diff->runs[run].file,
                             diff->counter,
                             report_select_filtered(&diff->selections[run]) ? " that the filters leave" : "");
    }
    return 0;
}

/* --- can they be compared? --- */

/* Something of the target's own, not of the kernel, that both sides have. Nothing at all on one side differs
 * from nothing in common. */
static int check_common(struct report_diff *diff)
{
    size_t sides[2] = {0, 0}, both = 0;
    for (size_t i = 1; i < diff->row_count; i++) {
        const struct report_diff_row *row = &diff->rows[i];
        bool file = diff->matcher.images[diff->matcher.items[row->item].image].kind == PROFILE_IMAGE_FILE;
        bool has[2] = {false, false};
        for (size_t run = 0; run < diff->run_count && file; run++)
            has[run >= diff->old_count] |= diff->figures[i * diff->run_count + run].value != 0;
        sides[0] += has[0];
        sides[1] += has[1];
        both += has[0] && has[1];
    }
    if (both || !sides[0] || !sides[1] || diff->options->view == REPORT_DIFF_PATHS)
        return 0;
    return base_fail(diff->error, BASE_EUSAGE,
                     "%s and %s have no function in common: they are of different programs",
                     diff->runs[0].file, diff->runs[diff->old_count].file);
}

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

static uint32_t image_called(const struct report_matcher *matcher, const char *name)
{
    for (uint32_t i = 1; i < matcher->image_count; i++)
        if (matcher->images[i].kind == PROFILE_IMAGE_FILE && !strcmp(matcher->images[i].name, name))
            return matcher->images[i].same;
    return 0;
}

static void note_programs(struct report_diff *diff, void (*each)(struct report_diff *, const char *))
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

static void note_images(struct report_diff *diff, void (*each)(struct report_diff *, const char *))
{
    for (uint32_t i = 1; i < diff->matcher.image_count; i++) {
        const struct report_match_image *image = &diff->matcher.images[i];
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
static bool counted_of(const struct report_diff *diff, size_t run, uint32_t image, uint64_t *counted,
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
static void note_coverage(struct report_diff *diff, void (*each)(struct report_diff *, const char *))
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

static void note_noise(struct report_diff *diff, void (*each)(struct report_diff *, const char *))
{
    if (diff->exact && !report_diff_several(diff))
        each(diff, "one run a side does not tell which of these figures are the same in every run");
    else if (!report_diff_several(diff))
        each(diff,
             "one run a side does not tell how much runs differ: intervals are of sampling alone, and the "
             "whole is not judged (tally diff A1,A2,A3 B1,B2,B3)");
    else if (diff->old_count == 1 || diff->run_count - diff->old_count == 1)
        each(diff, "one side has a single run, which is taken to vary as the other side's do");
}

static struct profile_extent extent_of(const struct report_diff *diff, size_t run)
{
    return profile_extent_named(diff->runs[run].profile, diff->counter);
}

bool report_diff_all_counted(const struct report_diff *diff)
{
    bool all = true;
    for (size_t run = 0; run < diff->run_count; run++)
        all = all && extent_of(diff, run).degree == PROFILE_EXTENT_ALL;
    return all;
}

/* Where a loss stands against the figures, or some recordings of a merged one did not count, they may differ
 * by that alone. Of samples, a loss is as likely in any place. */
static void note_extents(struct report_diff *diff, void (*each)(struct report_diff *, const char *))
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

void report_diff_notes(struct report_diff *diff, void (*each)(struct report_diff *diff, const char *note))
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

/* --- which rows --- */

static double heat(const struct report_diff *diff, const struct report_diff_row *row)
{
    return diff->exact ? fmax(row->old_cost, row->new_cost) : fmax(row->old_share, row->new_share);
}

static int by_weight(const void *a, const void *b, void *context)
{
    const struct report_diff *diff = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct report_diff_row *x = &diff->rows[i], *y = &diff->rows[j];
    if (x->significant != y->significant)
        return x->significant ? -1 : 1;
    double one = x->significant ? fabs(x->cost.value) : heat(diff, x),
           two = x->significant ? fabs(y->cost.value) : heat(diff, y);
    if (one != two)
        return one > two ? -1 : 1;
    int order =
        strcmp(report_match_name(&diff->matcher, x->item), report_match_name(&diff->matcher, y->item));
    if (!order)
        order = strcmp(report_match_image_name(&diff->matcher, x->item),
                       report_match_image_name(&diff->matcher, y->item));
    return order ? order : (i > j) - (i < j);
}

static bool is_hidden(const struct report_diff *diff, const struct report_diff_row *row)
{
    const struct report_diff_options *options = diff->options;
    if (row->significant)
        return false;
    return options->significant || row->verdict == REPORT_CHANGE_NONE ||
           (options->limit_percent > 0 &&
            100 * fmax(row->old_share, row->new_share) < options->limit_percent);
}

static int choose_rows(struct report_diff *diff)
{
    size_t count = 0, most = diff->options->limit_rows ? diff->options->limit_rows : diff->row_count;
    diff->order = calloc(diff->row_count, sizeof *diff->order);
    if (!diff->order)
        return report_diff_memory(diff);
    for (uint32_t i = 1; i < diff->row_count; i++)
        if (diff->rows[i].listed && !is_hidden(diff, &diff->rows[i]))
            diff->order[count++] = i;
    if (count)
        qsort_r(diff->order, count, sizeof *diff->order, by_weight, diff);
    diff->past = count > most;
    diff->shown = diff->past ? most : count;
    return 0;
}

/* --- the gate --- */

void report_diff_percent_text(const struct report_diff_row *row, struct base_text *out)
{
    double percent = report_diff_percent(row);
    if (isinf(percent))
        base_text_add(out, "new");
    else
        base_text_addf(out, fabs(percent) < 99.95 ? "%+.1f %%" : "%+.0f %%", percent);
}

static void add_failed(const struct report_diff *diff, const struct report_diff_row *row,
                       struct report_diff_gate *gate)
{
    enum { NAMED = 5 };
    if (!report_diff_fails(diff, row) || gate->failed++ >= NAMED)
        return;
    base_text_add(&gate->names, gate->failed > 1 ? ", " : "");
    base_text_add(&gate->names,
                  row == &diff->sum ? "the whole" : report_match_name(&diff->matcher, row->item));
    base_text_add(&gate->names, " (");
    report_diff_percent_text(row, &gate->names);
    base_text_add(&gate->names, ")");
}

/* All rows count, those that a limit hides too; the order is that of the report. */
static int check_gate(struct report_diff *diff, struct report_diff_gate *gate)
{
    if (!gate)
        return 0;
    uint32_t *order = calloc(diff->row_count, sizeof *order);
    size_t count = 0;
    if (!order)
        return report_diff_memory(diff);
    for (uint32_t i = 1; i < diff->row_count; i++)
        if (report_diff_fails(diff, &diff->rows[i]))
            order[count++] = i;
    if (count)
        qsort_r(order, count, sizeof *order, by_weight, diff);
    add_failed(diff, &diff->sum, gate);
    for (size_t i = 0; i < count; i++)
        add_failed(diff, &diff->rows[order[i]], gate);
    free(order);
    return gate->names.failed ? report_diff_memory(diff) : 0;
}

/* --- all of it --- */

static int compare(struct report_diff *diff, const struct profile **profiles, struct report_diff_gate *gate)
{
    int code = choose_counter(diff);
    for (size_t run = 0; run < diff->run_count; run++)
        profiles[run] = diff->runs[run].profile;
    if (!code)
        code = check_options(diff);
    if (!code)
        code = select_all(diff);
    if (!code && !report_match_init(&diff->matcher, profiles, diff->run_count, diff->old_count))
        code = report_diff_memory(diff);
    if (!code)
        code = report_diff_gather(diff);
    if (!code)
        code = check_common(diff);
    if (!code)
        code = report_diff_judge(diff);
    if (!code)
        code = choose_rows(diff);
    return code ? code : check_gate(diff, gate);
}

static void print(struct report_diff *diff)
{
    struct base_json json = {.out = diff->out, .lines = 2};
    if (!diff->options->json) {
        report_diff_text(diff);
        return;
    }
    diff->json = &json;
    report_diff_json(diff);
}

static void release(struct report_diff *diff)
{
    for (size_t run = 0; diff->selections && run < diff->run_count; run++)
        report_select_free(&diff->selections[run]);
    free(diff->selections);
    free(diff->whole);
    free(diff->effective);
    report_match_free(&diff->matcher);
    free(diff->rows);
    free(diff->figures);
    base_map_free(&diff->map);
    free(diff->order);
}

int report_diff_print(const struct report_diff_run *runs, size_t count, size_t old_count,
                      const struct report_diff_options *options, struct report_diff_gate *gate,
                      struct base_text *out, struct base_error *error)
{
    struct report_diff_options own = *options;
    if (own.width && own.width < NARROWEST_TERMINAL)
        own.width = NARROWEST_TERMINAL;
    struct report_diff diff = {.options = &own,
                               .runs = runs,
                               .run_count = count,
                               .old_count = old_count,
                               .out = out,
                               .error = error,
                               .selections = calloc(count, sizeof *diff.selections),
                               .whole = calloc(count, sizeof *diff.whole),
                               .effective = calloc(count, sizeof *diff.effective)};
    const struct profile **profiles = calloc(count, sizeof *profiles);
    size_t before = out->length;
    int code = diff.selections && diff.whole && diff.effective && profiles ? compare(&diff, profiles, gate)
                                                                           : report_diff_memory(&diff);
    if (!code)
        print(&diff);
    if (!code && out->failed)
        code = report_diff_memory(&diff);
    release(&diff);
    free(profiles);
    if (code && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return code;
}
