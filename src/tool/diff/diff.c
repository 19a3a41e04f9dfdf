/* diff.c - the comparison from end to end: which counter, whether the sides can be compared at all,
 * which rows to show. */
#include "diff.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "diff_rows.h"
#include "profile_extent.h"

enum { NARROWEST_TERMINAL = 40 };

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

static int fail_counter(struct diff *diff, size_t run, const char *name)
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
static const char *default_counter(const struct diff *diff)
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

static int choose_counter(struct diff *diff)
{
    const char *wanted = diff->options->counter;
    if (diff->options->view == DIFF_EDGES)
        wanted = PROFILE_CALLS;
    for (size_t run = 0; run < diff->run_count && wanted; run++)
        if (!find_counter(diff->runs[run].profile, wanted) ||
            (diff->options->view == DIFF_EDGES && !is_calls(diff->runs[run].profile, wanted)))
            return fail_counter(diff, run, wanted);
    diff->counter = wanted ? wanted : default_counter(diff);
    for (size_t run = 1; run < diff->run_count && !diff->counter; run++)
        if (!default_counter(
                &(struct diff){.runs = (struct diff_run[]){diff->runs[0], diff->runs[run]}, .run_count = 2}))
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

static int check_options(struct diff *diff)
{
    const struct diff_options *options = diff->options;
    if (diff->calls && (options->total || options->view == DIFF_PATHS))
        return base_fail(diff->error, BASE_EUSAGE,
                         "calls are counted by edge, not by stack: neither --total nor --paths has them");
    return 0;
}

static int select_all(struct diff *diff)
{
    for (size_t run = 0; run < diff->run_count; run++) {
        struct view_options options = {.counter = diff->calls ? NULL : diff->counter,
                                       .part = diff->options->part};
        int code = view_select(diff->runs[run].profile, &options, &diff->selections[run], diff->error);
        if (code)
            return base_fail_context(diff->error, code, "%s", diff->runs[run].file);
        if (!diff->exact && !diff->selections[run].taken.samples)
            return base_fail(diff->error, BASE_EUSAGE,
                             "%s has no samples of %s%s: there is nothing to compare", diff->runs[run].file,
                             diff->counter,
                             view_select_filtered(&diff->selections[run]) ? " that the filters leave" : "");
    }
    return 0;
}

/* --- can they be compared? --- */

/* Something of the target's own, not of the kernel, that both sides have. Nothing at all on one side differs
 * from nothing in common. */
static int check_common(struct diff *diff)
{
    size_t sides[2] = {0, 0}, both = 0;
    for (size_t i = 1; i < diff->row_count; i++) {
        const struct diff_row *row = &diff->rows[i];
        bool file = diff->matcher.images[diff->matcher.items[row->item].image].kind == PROFILE_IMAGE_FILE;
        bool has[2] = {false, false};
        for (size_t run = 0; run < diff->run_count && file; run++)
            has[run >= diff->old_count] |= diff->figures[i * diff->run_count + run].value != 0;
        sides[0] += has[0];
        sides[1] += has[1];
        both += has[0] && has[1];
    }
    if (both || !sides[0] || !sides[1] || diff->options->view == DIFF_PATHS)
        return 0;
    return base_fail(diff->error, BASE_EUSAGE,
                     "%s and %s have no function in common: they are of different programs",
                     diff->runs[0].file, diff->runs[diff->old_count].file);
}

/* --- which rows --- */

static double row_heat(const struct diff *diff, const struct diff_row *row)
{
    return diff->exact ? fmax(row->old_cost, row->new_cost) : fmax(row->old_share, row->new_share);
}

static int by_weight(const void *a, const void *b, void *context)
{
    const struct diff *diff = context;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct diff_row *x = &diff->rows[i], *y = &diff->rows[j];
    if (x->significant != y->significant)
        return x->significant ? -1 : 1;
    double one = x->significant ? fabs(x->cost.value) : row_heat(diff, x),
           two = x->significant ? fabs(y->cost.value) : row_heat(diff, y);
    if (one != two)
        return one > two ? -1 : 1;
    int order = strcmp(diff_match_name(&diff->matcher, x->item), diff_match_name(&diff->matcher, y->item));
    if (!order)
        order = strcmp(diff_match_image_name(&diff->matcher, x->item),
                       diff_match_image_name(&diff->matcher, y->item));
    return order ? order : (i > j) - (i < j);
}

static bool is_hidden(const struct diff *diff, const struct diff_row *row)
{
    const struct diff_options *options = diff->options;
    if (row->significant)
        return false;
    return options->significant || row->verdict == DIFF_CHANGE_NONE ||
           (options->limit_percent > 0 &&
            100 * fmax(row->old_share, row->new_share) < options->limit_percent);
}

static int choose_rows(struct diff *diff)
{
    size_t count = 0, most = diff->options->limit_rows ? diff->options->limit_rows : diff->row_count;
    diff->order = calloc(diff->row_count, sizeof *diff->order);
    if (!diff->order)
        return diff_memory(diff);
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

static void add_failed(const struct diff *diff, const struct diff_row *row, struct diff_gate *gate)
{
    enum { NAMED = 5 };
    if (!diff_fails(diff, row) || gate->failed++ >= NAMED)
        return;
    base_text_add(&gate->names, gate->failed > 1 ? ", " : "");
    base_text_add(&gate->names, row == &diff->sum ? "the whole" : diff_match_name(&diff->matcher, row->item));
    base_text_add(&gate->names, " (");
    diff_percent_text(row, &gate->names);
    base_text_add(&gate->names, ")");
}

/* All rows count, those that a limit hides too; the order is that of the report. */
static int check_gate(struct diff *diff, struct diff_gate *gate)
{
    if (!gate)
        return 0;
    uint32_t *order = calloc(diff->row_count, sizeof *order);
    size_t count = 0;
    if (!order)
        return diff_memory(diff);
    for (uint32_t i = 1; i < diff->row_count; i++)
        if (diff_fails(diff, &diff->rows[i]))
            order[count++] = i;
    if (count)
        qsort_r(order, count, sizeof *order, by_weight, diff);
    add_failed(diff, &diff->sum, gate);
    for (size_t i = 0; i < count; i++)
        add_failed(diff, &diff->rows[order[i]], gate);
    free(order);
    return gate->names.failed ? diff_memory(diff) : 0;
}

/* --- all of it --- */

static int compare_profiles(struct diff *diff, const struct profile **profiles, struct diff_gate *gate)
{
    int code = choose_counter(diff);
    for (size_t run = 0; run < diff->run_count; run++)
        profiles[run] = diff->runs[run].profile;
    if (!code)
        code = check_options(diff);
    if (!code)
        code = select_all(diff);
    if (!code && !diff_match_init(&diff->matcher, profiles, diff->run_count, diff->old_count))
        code = diff_memory(diff);
    if (!code)
        code = diff_gather(diff);
    if (!code)
        code = check_common(diff);
    if (!code)
        code = diff_judge(diff);
    if (!code)
        code = choose_rows(diff);
    return code ? code : check_gate(diff, gate);
}

static void print_comparison(struct diff *diff)
{
    struct base_json json = {.out = diff->out, .lines = 2};
    if (!diff->options->json) {
        diff_text(diff);
        return;
    }
    diff->json = &json;
    diff_json(diff);
}

static void release_diff(struct diff *diff)
{
    for (size_t run = 0; diff->selections && run < diff->run_count; run++)
        view_select_free(&diff->selections[run]);
    free(diff->selections);
    free(diff->whole);
    free(diff->effective);
    diff_match_free(&diff->matcher);
    free(diff->rows);
    free(diff->figures);
    base_map_free(&diff->map);
    free(diff->order);
}

int diff_print(const struct diff_sides *sides, const struct diff_options *options, struct diff_gate *gate,
               struct base_text *out, struct base_error *error)
{
    struct diff_options own = *options;
    size_t count = sides->count;
    if (own.width && own.width < NARROWEST_TERMINAL)
        own.width = NARROWEST_TERMINAL;
    struct diff diff = {.options = &own,
                        .runs = sides->runs,
                        .run_count = count,
                        .old_count = sides->old_count,
                        .out = out,
                        .error = error,
                        .selections = calloc(count, sizeof *diff.selections),
                        .whole = calloc(count, sizeof *diff.whole),
                        .effective = calloc(count, sizeof *diff.effective)};
    const struct profile **profiles = calloc(count, sizeof *profiles);
    size_t before = out->length;
    int code = diff.selections && diff.whole && diff.effective && profiles
                   ? compare_profiles(&diff, profiles, gate)
                   : diff_memory(&diff);
    if (!code)
        print_comparison(&diff);
    if (!code && out->failed)
        code = diff_memory(&diff);
    release_diff(&diff);
    free(profiles);
    if (code && out->length > before) {
        out->length = before;
        out->data[before] = '\0';
    }
    return code;
}
