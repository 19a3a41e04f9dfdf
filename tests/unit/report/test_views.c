/* Every view of one small profile, compared with the text in expected/, for terminals of 80 and 120 columns.
 * With TALLY_BLESS set the texts are written instead; read what changed before committing it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_utf8.h"
#include "sample_profile.h"

static char *read_all(const char *path)
{
    struct base_text text = {0};
    char bytes[4096];
    size_t count;
    FILE *file = fopen(path, "r");
    while (file && (count = fread(bytes, 1, sizeof bytes, file)) > 0)
        base_text_add_bytes(&text, bytes, count);
    if (file)
        fclose(file);
    base_text_add(&text, "");
    return base_text_detach(&text);
}

static void compare(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.txt", EXPECTED, name);
    if (getenv("TALLY_BLESS")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(text, file);
        assert_int_equal(fclose(file), 0);
    }
    char *expected = read_all(path);
    assert_string_equal(text, expected);
    free(expected);
}

static void check_width(const char *text, unsigned width)
{
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        char *copy = strndup(line, length);
        if (base_utf8_width(copy) > width)
            fail_msg("wider than %u: %s", width, copy);
        assert_false(length && line[length - 1] == ' ');
        free(copy);
        line += length + 1;
    }
}

enum { HEAD_LINES = 4 };

/* Above the first empty line; what the reader has left out has a line of its own there. */
static void check_head(const char *text, const struct view_options *options)
{
    const char *end = strstr(text, "\n\n");
    unsigned lines = 1;
    if (options->header != VIEW_HEADER_SHORT || strstr(text, "\nonly: "))
        return;
    assert_non_null(end);
    for (const char *at = text; at < end; at++)
        lines += *at == '\n';
    if (lines > HEAD_LINES)
        fail_msg("%u lines: %.*s", lines, (int)(end - text), text);
}

static void check_view_of(struct sample_profile sample, const char *name, struct view_options options)
{
    static const unsigned widths[] = {80, 120};
    char full[128];
    options.limit_percent = options.limit_percent ? options.limit_percent : 0.5;
    for (size_t i = 0; i < 2; i++) {
        options.width = widths[i];
        char *text = sample_profile_report(sample.profile, &options);
        snprintf(full, sizeof full, "%s-%u", name, widths[i]);
        compare(full, text);
        check_width(text, widths[i]);
        check_head(text, &options);
        free(text);
    }
    options.width = 52;
    char *text = sample_profile_report(sample.profile, &options);
    check_width(text, 52 + 14); /* columns of figures do not shrink */
    free(text);
    profile_free(sample.profile);
}

static void check_view(const char *name, struct view_options options)
{
    check_view_of(sample_profile_full(), name, options);
}

static void calls(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct view_options options;
    } views[] = {
        {"calls-flat", {.view = VIEW_FLAT}},
        {"calls-flat-ascii", {.view = VIEW_FLAT, .limit_percent = -1, .ascii = true}},
        {"calls-flat-inlines", {.view = VIEW_FLAT, .inlines = true}},
        {"calls-flat-thread", {.view = VIEW_FLAT, .part.thread = "worker"}},
        {"calls-flat-cpu", {.view = VIEW_FLAT, .part.cpus = "0"}},
        {"calls-graph", {.view = VIEW_GRAPH}},
        {"calls-graph-all", {.view = VIEW_GRAPH, .limit_percent = -1, .limit_rows = 4}},
        {"calls-edges", {.view = VIEW_EDGES}},
        {"calls-edges-all", {.view = VIEW_EDGES, .limit_percent = -1}},
        {"calls-edges-rows",
         {.view = VIEW_EDGES, .limit_percent = -1, .limit_rows = 2, .part.thread = "sqlite3"}},
        {"calls-edges-line", {.view = VIEW_EDGES, .by = VIEW_BY_LINE, .limit_percent = -1}},
        {"calls-edges-address", {.view = VIEW_EDGES, .by = VIEW_BY_ADDRESS, .limit_percent = -1}},
        {"calls-edges-image", {.view = VIEW_EDGES, .by = VIEW_BY_IMAGE, .limit_percent = -1}},
        {"calls-edges-thread", {.view = VIEW_EDGES, .by = VIEW_BY_THREAD, .limit_rows = 4}},
        {"calls-candidates", {.view = VIEW_CANDIDATES}},
        {"calls-candidates-cost", {.view = VIEW_CANDIDATES, .speedup = 10, .invoke_ns = 2000}},
        {"calls-candidates-full", {.view = VIEW_CANDIDATES, .header = VIEW_HEADER_FULL}},
        {"calls-candidates-threads-full",
         {.view = VIEW_CANDIDATES, .parallel = 64, .limit_percent = 50, .header = VIEW_HEADER_FULL}},
        {"calls-candidates-threads", {.view = VIEW_CANDIDATES, .parallel = 64, .limit_percent = 5}},
        {"calls-candidates-ascii", {.view = VIEW_CANDIDATES, .speedup = 0.5, .ascii = true, .limit_rows = 3}},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++)
        check_view_of(sample_profile_counted(), views[i].name, views[i].options);
    check_view("calls-none-edges", (struct view_options){.view = VIEW_EDGES});
    check_view("calls-none-candidates", (struct view_options){.view = VIEW_CANDIDATES, .invoke_ns = 1});
}

static void flat_by_everything(void **state)
{
    (void)state;
    static const char *const names[] = {"flat", "line",    "address", "image", "thread",
                                        "cpu",  "process", "command", "cgroup"};
    for (int by = 0; by < 9; by++)
        check_view(names[by], (struct view_options){.by = (enum view_by)by});
}

static void headers(void **state)
{
    (void)state;
    check_view("header-full", (struct view_options){.header = VIEW_HEADER_FULL, .limit_rows = 1});
    check_view("header-alone", (struct view_options){.header = VIEW_HEADER_ALONE});
    struct sample_profile wrong = sample_profile_full(); /* all that the fourth line may have to say */
    profile_set_meta(wrong.profile, "exit_status", "signal 11 (Segmentation fault)");
    profile_set_meta(wrong.profile, "calls_notice", "two processes got away");
    profile_set_meta(wrong.profile, "rate_notice", "the rate was lowered");
    for (unsigned number = 1; number < 9; number++)
        profile_lose(wrong.profile, number, 1234567);
    check_view_of(wrong, "header-wrong", (struct view_options){.limit_rows = 1});
    check_view_of(sample_profile_counted(), "calls-header-full",
                  (struct view_options){.header = VIEW_HEADER_FULL, .limit_rows = 1});
}

static void flat_otherwise(void **state)
{
    (void)state;
    check_view("inlines", (struct view_options){.inlines = true});
    check_view("limit-percent", (struct view_options){.limit_percent = 10});
    check_view("limit-rows", (struct view_options){.limit_rows = 3});
    check_view("flat-ascii", (struct view_options){.limit_percent = 10, .ascii = true});
}

static void graph(void **state)
{
    (void)state;
    check_view("graph", (struct view_options){.view = VIEW_GRAPH});
    check_view("graph-rows", (struct view_options){.view = VIEW_GRAPH, .limit_rows = 2, .inlines = true});
}

static void tree(void **state)
{
    (void)state;
    check_view("tree", (struct view_options){.view = VIEW_TREE});
    check_view("tree-ascii", (struct view_options){.view = VIEW_TREE, .ascii = true, .limit_rows = 6});
}

static void paths(void **state)
{
    (void)state;
    check_view("paths", (struct view_options){.view = VIEW_PATHS});
    check_view("paths-lines", (struct view_options){.view = VIEW_PATHS, .lines = true, .limit_percent = 5});
}

static void losses(void **state)
{
    (void)state;
    check_view("losses", (struct view_options){.view = VIEW_LOSSES});
    static const struct {
        const char *name;
        struct view_options options;
    } views[] = {
        {"coverage", {.view = VIEW_LOSSES}},
        {"coverage-all", {.view = VIEW_LOSSES, .limit_percent = -1, .ascii = true}},
        {"coverage-rows",
         {.view = VIEW_LOSSES, .limit_percent = -1, .limit_rows = 2, .part.image = "sqlite3"}},
        {"coverage-header", {.view = VIEW_FLAT, .part.thread = "worker", .limit_rows = 1}},
    };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        struct sample_profile sample = sample_profile_counted();
        sample_profile_cover(&sample);
        check_view_of(sample, views[i].name, views[i].options);
    }
    check_view_of(sample_profile_counted(), "coverage-unsaid", (struct view_options){.view = VIEW_LOSSES});
}

static void filters(void **state)
{
    (void)state;
    check_view("only-thread", (struct view_options){.part.thread = "work*"});
    check_view("filters",
               (struct view_options){.part.process = "100", .part.image = "libsql*", .part.cpus = "0,7-9"});
}

/* Colour adds escape sequences and nothing else. */
static void colour_only_decorates(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_counted();
    sample_profile_cover(&sample);
    for (int view = 0; view <= VIEW_LOSSES; view++) {
        struct view_options options = {.view = (enum view_kind)view, .limit_percent = 5, .width = 80};
        char *plain = sample_profile_report(sample.profile, &options);
        options.color = true;
        char *colored = sample_profile_report(sample.profile, &options), *to = colored;
        assert_non_null(strchr(colored, '\033'));
        for (const char *from = colored; *from;) {
            if (*from == '\033')
                from += strcspn(from, "m") + 1;
            else
                *to++ = *from++;
        }
        *to = '\0';
        assert_string_equal(colored, plain);
        assert_null(strchr(plain, '\033'));
        free(plain);
        free(colored);
    }
    profile_free(sample.profile);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flat_by_everything),
        cmocka_unit_test(headers),
        cmocka_unit_test(flat_otherwise),
        cmocka_unit_test(graph),
        cmocka_unit_test(tree),
        cmocka_unit_test(paths),
        cmocka_unit_test(losses),
        cmocka_unit_test(calls),
        cmocka_unit_test(filters),
        cmocka_unit_test(colour_only_decorates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
