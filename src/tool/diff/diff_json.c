/* diff_json.c - the comparison for machines; doc/man/tally-diff.1 names the members. */
#include <math.h>
#include <stdlib.h>

#include "diff_rows.h"

/* Exact figures with all their digits. */
static void json_number(struct base_json *json, const char *key, double value)
{
    if (fabs(value) < 9e15 && value == floor(value))
        base_json_integer(json, key, (int64_t)value);
    else
        base_json_number(json, key, value);
}

static void write_range(struct base_json *json, const char *key, const struct diff_range *of)
{
    base_json_begin(json, key, '{');
    json_number(json, "value", of->value);
    json_number(json, "low", of->low);
    json_number(json, "high", of->high);
    base_json_end(json, '}');
}

static void write_level(const struct diff *diff, const char *key, double cost, double share, uint64_t samples)
{
    base_json_begin(diff->json, key, '{');
    json_number(diff->json, "value", cost);
    base_json_unsigned(diff->json, "samples", samples);
    base_json_number(diff->json, "share", share);
    base_json_end(diff->json, '}');
}

static void write_figures(const struct diff *diff, const struct diff_row *row)
{
    struct base_json *json = diff->json;
    write_level(diff, "old", row->old_cost, row->old_share, row->old_samples);
    write_level(diff, "new", row->new_cost, row->new_share, row->new_samples);
    if (row != &diff->sum)
        write_range(json, "share_change", &row->share);
    write_range(json, "cost_change", &row->cost);
    base_json_number(json, "percent", diff_percent(row));
    base_json_number(json, "probability", row->probability);
    base_json_bool(json, "significant", row->significant);
    base_json_string(json, "verdict", diff_verdict(row->verdict));
    if (diff->exact)
        base_json_bool(json, "deterministic", !row->varies);
    if (diff->options->fail_above >= 0)
        base_json_bool(json, "fails", diff_fails(diff, row));
}

static void write_matched_function(const struct diff *diff, const char *key, uint32_t of)
{
    const char *image = diff_match_image_name(&diff->matcher, of);
    if (key)
        base_json_begin(diff->json, key, '{');
    base_json_string(diff->json, "function", diff_match_name(&diff->matcher, of));
    base_json_string(diff->json, "image", *image ? image : NULL);
    if (key)
        base_json_end(diff->json, '}');
}

static void json_add_row(const struct diff *diff, const struct diff_row *row)
{
    struct base_json *json = diff->json;
    base_json_begin(json, NULL, '{');
    if (diff->options->view == DIFF_EDGES) {
        write_matched_function(diff, "caller", row->other);
        write_matched_function(diff, "callee", row->item);
    } else if (diff->options->view == DIFF_PATHS) {
        base_json_begin(json, "frames", '[');
        for (; row->item; row = &diff->rows[row->other]) {
            base_json_begin(json, NULL, '{');
            write_matched_function(diff, NULL, row->item);
            base_json_end(json, '}');
        }
        base_json_end(json, ']');
    } else {
        write_matched_function(diff, NULL, row->item);
    }
}

/* By the names of report --json. */
static void write_own(const struct diff *diff, size_t run)
{
    struct diff_own own = diff_own(diff, run, run + 1);
    base_json_unsigned(diff->json, "all_samples", own.all_samples);
    base_json_unsigned(diff->json, "own_samples", own.samples);
    base_json_bool(diff->json, "left_out", own.left_out);
}

static void write_side(const struct diff *diff, const char *key, size_t begin, size_t end)
{
    struct base_json *json = diff->json;
    base_json_begin(json, key, '[');
    for (size_t run = begin; run < end; run++) {
        const struct profile *profile = diff->runs[run].profile;
        base_json_begin(json, NULL, '{');
        base_json_string(json, "file", diff->runs[run].file);
        base_json_string(json, "command", profile_meta(profile, "command"));
        base_json_string(json, "hostname", profile_meta(profile, "hostname"));
        const char *rate = profile_meta(profile, "rate_hz");
        base_json_number(json, "rate_hz", rate ? strtod(rate, NULL) : NAN);
        base_json_bool(json, "complete", profile_meta(profile, "complete") != NULL);
        base_json_integer(json, "value", diff->whole[run].value);
        base_json_unsigned(json, "samples", diff->whole[run].samples);
        write_own(diff, run);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
}

static void json_note(struct diff *diff, const char *text)
{
    base_json_string(diff->json, NULL, text);
}

void diff_json(struct diff *diff)
{
    static const char *const views[] = {"functions", "paths", "edges"};
    struct base_json *json = diff->json;
    base_json_begin(json, NULL, '{');
    base_json_string(json, "diff", views[diff->options->view]);
    base_json_integer(json, "version", 1);
    base_json_string(json, "counter", diff->counter);
    base_json_string(json, "unit", diff->unit);
    base_json_bool(json, "exact", diff->exact && diff_all_counted(diff));
    base_json_bool(json, "total", diff->options->total);
    base_json_number(json, "level", DIFF_STATISTICS_LEVEL);
    base_json_number(json, "fail_above", diff->options->fail_above >= 0 ? diff->options->fail_above : NAN);
    write_side(diff, "old_runs", 0, diff->old_count);
    write_side(diff, "new_runs", diff->old_count, diff->run_count);
    base_json_begin(json, "notes", '[');
    diff_notes(diff, json_note);
    base_json_end(json, ']');
    base_json_begin(json, "whole", '{');
    write_figures(diff, &diff->sum);
    base_json_end(json, '}');
    base_json_unsigned(json, "compared", diff->listed);
    base_json_unsigned(json, "changed", diff->changed);
    base_json_begin(json, "rows", '[');
    for (size_t i = 0; i < diff->shown; i++) {
        const struct diff_row *row = &diff->rows[diff->order[i]];
        json_add_row(diff, row);
        write_figures(diff, row);
        base_json_end(json, '}');
    }
    base_json_end(json, ']');
    base_json_unsigned(json, "rows_left_out", diff->listed - diff->shown);
    base_json_end(json, '}');
}
