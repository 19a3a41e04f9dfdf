/* What keys do, seen on the screens that follow: whole screens are compared with the text in expected/ (with
 * TALLY_BLESS set they are written instead; read what changed before committing it). No terminal is
 * involved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_utf8.h"
#include "browse_screen.h"
#include "sample_profile.h"
#include "wire_loss.h"

struct seat {
    struct sample_profile sample;
    struct browse_model model;
    struct browse_screen screen;
};

static void sit(struct seat *seat, struct sample_profile sample)
{
    struct base_error error = {0};
    *seat = (struct seat){.sample = sample};
    assert_int_equal(browse_model_open(&seat->model, sample.profile, "tally.out", NULL, false, &error), 0);
}

static void leave(struct seat *seat)
{
    browse_screen_free(&seat->screen);
    browse_model_close(&seat->model);
    profile_free(seat->sample.profile);
}

/* Letters are themselves; ^ v < > are the arrows, $ Enter, ~ Backspace, { } pages, ( ) the ends, ! Escape. */
static int press(struct seat *seat, const char *keys)
{
    static const char names[] = "^v<>{}()$~!";
    static const uint32_t codes[] = {BROWSE_KEY_UP,        BROWSE_KEY_DOWN,    BROWSE_KEY_LEFT,
                                     BROWSE_KEY_RIGHT,     BROWSE_KEY_PAGE_UP, BROWSE_KEY_PAGE_DOWN,
                                     BROWSE_KEY_HOME,      BROWSE_KEY_END,     BROWSE_KEY_ENTER,
                                     BROWSE_KEY_BACKSPACE, BROWSE_KEY_ESCAPE};
    int answer = BROWSE_STAYS;
    for (size_t length; *keys; keys += length) {
        uint32_t key = base_utf8_next(keys, &length);
        const char *name = key < 0x80 ? strchr(names, (int)key) : NULL;
        answer = browse_model_key(&seat->model, name ? codes[name - names] : key, NULL);
    }
    return answer;
}

/* The screen as text: the line of the cursor is marked at its end. Every line is as wide as the screen. */
static char *picture(struct seat *seat)
{
    struct base_text text = {0};
    assert_true(browse_screen_draw(&seat->screen, &seat->model));
    assert_int_equal(seat->screen.count, seat->model.lines);
    for (size_t i = 0; i < seat->screen.count; i++) {
        const struct browse_line *line = &seat->screen.lines[i];
        const char *shown = base_text_string(&line->text);
        size_t length = strlen(shown);
        assert_int_equal(base_utf8_width(shown), seat->model.columns);
        while (length && shown[length - 1] == ' ')
            length--;
        base_text_add_bytes(&text, shown, length);
        base_text_add(&text, line->style == BROWSE_CURSOR ? "  <--\n" : "\n");
    }
    return base_text_detach(&text);
}

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

static void compare(struct seat *seat, const char *name)
{
    char path[512], *shown = picture(seat);
    snprintf(path, sizeof path, "%s/%s.txt", EXPECTED, name);
    if (getenv("TALLY_BLESS")) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fputs(shown, file);
        assert_int_equal(fclose(file), 0);
    }
    char *expected = read_all(path);
    assert_string_equal(shown, expected);
    free(expected);
    free(shown);
}

static void assert_shows(struct seat *seat, const char *text)
{
    char *shown = picture(seat);
    if (!strstr(shown, text))
        fail_msg("no '%s' on\n%s", text, shown);
    free(shown);
}

static void assert_at(struct seat *seat, const char *function)
{
    struct base_text name = {0};
    assert_true(browse_model_function(&seat->model, &name));
    assert_string_equal(base_text_string(&name), function);
    base_text_free(&name);
}

static void screens(void **state)
{
    (void)state;
    static const struct {
        const char *name, *keys;
    } steps[] = {{"flat", ""},
                 {"flat-total", "1"},
                 {"tree", "2"},
                 {"tree-all", "2*"},
                 {"tree-folded", "2(<"},
                 {"function", "$"},
                 {"callee", "v$"},
                 {"help", "?"},
                 {"search-typing", "/bt"},
                 {"search", "/BTREE$"},
                 {"search-tree", "2/bytes$i2/BYTES$"},
                 {"search-none", "/nothing$"},
                 {"inlines", "i"}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        struct seat seat;
        sit(&seat, sample_profile_counted());
        browse_model_resize(&seat.model, 80, 24);
        press(&seat, steps[i].keys);
        compare(&seat, steps[i].name);
        leave(&seat);
    }
}

static void sizes(void **state)
{
    (void)state;
    struct seat seat;
    char name[32];
    sit(&seat, sample_profile_counted());
    static const unsigned sizes[][2] = {{40, 8}, {60, 12}, {120, 16}, {39, 24}, {80, 7}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        browse_model_resize(&seat.model, sizes[i][0], sizes[i][1]);
        snprintf(name, sizeof name, "size-%ux%u", sizes[i][0], sizes[i][1]);
        compare(&seat, name);
    }
    /* Any size at all, in every view, after any key. */
    for (const char *keys = "v$2*)?b1)$"; *keys; keys++) {
        press(&seat, (const char[]){*keys, '\0'});
        for (unsigned columns = 0; columns < 130; columns += 13)
            for (unsigned lines = 0; lines < 30; lines += 3) {
                browse_model_resize(&seat.model, columns, lines);
                free(picture(&seat));
            }
    }
    leave(&seat);
}

static void the_cursor_stays_on_the_screen(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    browse_model_resize(&seat.model, 80, 8); /* four rows */
    press(&seat, ")");
    assert_int_equal(seat.model.cursor, seat.model.row_count - 1);
    assert_int_equal(seat.model.top, seat.model.row_count - 4);
    press(&seat, "vvv");
    assert_int_equal(seat.model.cursor, seat.model.row_count - 1);
    press(&seat, "{");
    assert_int_equal(seat.model.cursor, seat.model.row_count - 5);
    press(&seat, "(^");
    assert_int_equal(seat.model.cursor, 0);
    assert_int_equal(seat.model.top, 0);
    press(&seat, " j");
    assert_int_equal(seat.model.cursor, 5);
    browse_model_resize(&seat.model, 80, 24);
    assert_int_equal(seat.model.top, 0);
    leave(&seat);
}

/* Back leads to the row that was left, through any number of functions. */
static void into_and_back(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    press(&seat, "vv");
    struct base_text name = {0};
    assert_true(browse_model_function(&seat.model, &name));
    press(&seat, "$");
    assert_int_equal(seat.model.view, BROWSE_FUNCTION);
    assert_at(&seat, base_text_string(&name)); /* the cursor begins at the function itself */
    press(&seat, "$");
    assert_shows(&seat, "This is the function itself");
    press(&seat, "^$^$");
    press(&seat, "~b!");
    assert_int_equal(seat.model.view, BROWSE_FLAT);
    assert_int_equal(seat.model.cursor, 2);
    assert_at(&seat, base_text_string(&name));
    press(&seat, "~");
    assert_shows(&seat, "This is where it began");
    base_text_free(&name);
    leave(&seat);
}

static void views_remember(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    press(&seat, "vvv2vv");
    assert_int_equal(seat.model.cursor, 2);
    press(&seat, "1");
    assert_int_equal(seat.model.cursor, 3);
    press(&seat, "2");
    assert_int_equal(seat.model.cursor, 2);
    press(&seat, "??");
    assert_int_equal(seat.model.view, BROWSE_TREE);
    assert_int_equal(seat.model.cursor, 2);
    leave(&seat);
}

static void folding(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    press(&seat, "2(");
    size_t before = seat.model.row_count;
    press(&seat, "<");
    assert_true(seat.model.row_count < before);
    size_t folded = seat.model.row_count;
    press(&seat, ">");
    assert_int_equal(seat.model.row_count, before); /* what was unfolded below still is */
    press(&seat, "*");
    assert_true(seat.model.row_count > before);
    press(&seat, ")*(");
    assert_int_equal(seat.model.row_count, seat.model.data.walk_count);
    press(&seat, "vv<<");
    assert_true(seat.model.cursor < 2);
    press(&seat, "(<");
    assert_true(seat.model.row_count < before && seat.model.row_count >= folded);
    press(&seat, "1>");
    assert_shows(&seat, "Only the tree (2) unfolds");
    leave(&seat);
}

static void searching(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    press(&seat, "n");
    assert_shows(&seat, "Nothing was searched for yet");
    press(&seat, "/sqLITE3x~$"); /* sqlite3 */
    assert_at(&seat, "sqlite3BtreeNext");
    press(&seat, "n");
    assert_at(&seat, "libsqlite3.so.0+0xdead");
    press(&seat, "n"); /* and round */
    assert_at(&seat, "sqlite3VdbeExec");
    press(&seat, "N");
    assert_at(&seat, "libsqlite3.so.0+0xdead");
    press(&seat, "/fib!n");
    assert_at(&seat, "sqlite3VdbeExec"); /* given up: the last one counts */
    press(&seat, "/qqq~~~~");
    assert_false(seat.model.typing); /* backspace out of an empty one */
    press(&seat, "/q$");
    assert_int_equal(press(&seat, "q"), BROWSE_QUITS);
    press(&seat, "/ü€😀$");
    assert_shows(&seat, "No function here matches ü€😀");
    press(&seat, "/ü€😀~~~fi$");
    assert_at(&seat, "fib");
    leave(&seat);
}

/* What the tree hides is found, and unfolded. */
static void searching_the_tree(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    press(&seat, "2(<");
    size_t folded = seat.model.row_count;
    press(&seat, "/fib$");
    assert_at(&seat, "fib");
    assert_true(seat.model.row_count > folded);
    leave(&seat);
}

static void counters(void **state)
{
    (void)state;
    struct seat seat;
    struct sample_profile sample = sample_profile_counted();
    uint32_t second = profile_counter(sample.profile, "alloc.bytes", "bytes", true, PROFILE_SUM);
    profile_count(sample.profile, (struct profile_key){1, sample.threads[0], 0, (uint16_t)second}, 4096, 2);
    sit(&seat, sample);
    assert_shows(&seat, " time.cpu: ");
    press(&seat, "2c");
    assert_shows(&seat, " alloc.bytes: 4.00 KiB");
    assert_int_equal(seat.model.view, BROWSE_TREE);
    press(&seat, "c"); /* calls have no stacks */
    assert_shows(&seat, " time.cpu: ");
    leave(&seat);
}

/* Numbers of calls that are wider than their column, recursive ones among them, stay in it. */
/* A sum of an exact counter is one of all only where all was counted. */
static void sums_of_what_was_counted(void **state)
{
    (void)state;
    static const char *const words[] = {"exact", "exact for what was counted"};
    for (int lost = 0; lost < 2; lost++) {
        struct seat seat;
        struct sample_profile sample = sample_profile_counted();
        uint32_t held = profile_counter(sample.profile, "heap.live", "bytes", true, PROFILE_LIVE);
        profile_set_meta(sample.profile, "complete", "1");
        profile_count(sample.profile, (struct profile_key){1, 1, 0, (uint16_t)held}, 4096, 1);
        if (lost)
            profile_lose(sample.profile, WIRE_LOSS_AGENT_INTERRUPTED, 1);
        sit(&seat, sample);
        browse_model_resize(&seat.model, 120, 24);
        for (int i = 0; i < 8 && strcmp(seat.model.data.context.selection.name, "heap.live") != 0; i++)
            press(&seat, "c");
        char wanted[64];
        snprintf(wanted, sizeof wanted, "heap.live: 4.00 KiB, %s; calls", words[lost]);
        assert_shows(&seat, wanted);
        leave(&seat);
    }
}

static void many_calls(void **state)
{
    (void)state;
    struct seat seat;
    struct sample_profile s = sample_profile_new();
    uint32_t mainly = sample_profile_function(&s, s.program, "main", 0x200, NULL, 0);
    uint32_t churn = sample_profile_function(&s, s.program, "churn", 0x400, NULL, 0);
    uint32_t stir = sample_profile_function(&s, s.program, "stir", 0x600, NULL, 0);
    SAMPLE(&s, 0, 500, mainly, churn);
    SAMPLE(&s, 0, 500, mainly, stir);
    sample_profile_call(&s, 0, mainly, churn, PROFILE_CALL_DIRECT, 8571661);
    sample_profile_call(&s, 0, churn, churn, PROFILE_CALL_DIRECT, 1061458);
    sample_profile_call(&s, 0, mainly, stir, PROFILE_CALL_DIRECT, 802369);
    sample_profile_call(&s, 0, stir, stir, PROFILE_CALL_DIRECT, 99999);
    sit(&seat, s);
    assert_shows(&seat, " %     8.6 M+1.1 M  churn");
    assert_shows(&seat, " %  802,369+99,999  stir");
    leave(&seat);
}

static void nothing_to_see(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_new());
    assert_shows(&seat, "No samples in this profile.");
    assert_int_equal(press(&seat, "$2*<>v^{}()/x$nN1ica?b"), BROWSE_STAYS);
    assert_shows(&seat, "No samples in this profile.");
    struct base_text name = {0};
    assert_false(browse_model_function(&seat.model, &name));
    assert_int_equal(press(&seat, "q"), BROWSE_QUITS);
    leave(&seat);
}

static void annotating(void **state)
{
    (void)state;
    struct seat seat;
    sit(&seat, sample_profile_counted());
    assert_int_equal(press(&seat, "a"), BROWSE_ANNOTATES);
    assert_at(&seat, "sqlite3VdbeExec");
    assert_int_equal(press(&seat, "2a"), BROWSE_ANNOTATES);
    assert_at(&seat, "_start");
    leave(&seat);
}

/* Names come from untrusted programs. */
static void hostile_names(void **state)
{
    (void)state;
    struct sample_profile sample = sample_profile_new();
    char huge[5000];
    memset(huge, 'x', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';
    const char *const names[] = {"\033[2Jgone", "a\nb\tc", "\xff\xfe\x80",      "日本語の関数",
                                 "%s%n",        huge,      "\xe2\x80\xae right"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        SAMPLE(&sample, 0, 10 + i,
               sample_profile_function(&sample, sample.program, names[i], 0x100 + 64 * i, NULL, 0));
    struct seat seat;
    sit(&seat, sample);
    for (unsigned columns = 40; columns < 130; columns++) {
        browse_model_resize(&seat.model, columns, 24);
        char *shown = picture(&seat);
        assert_null(strchr(shown, '\033'));
        assert_null(strchr(shown, '\t'));
        assert_null(strstr(shown, "\xe2\x80\xae"));
        free(shown);
    }
    assert_shows(&seat, "日本語の関数");
    leave(&seat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(screens),
        cmocka_unit_test(sizes),
        cmocka_unit_test(the_cursor_stays_on_the_screen),
        cmocka_unit_test(into_and_back),
        cmocka_unit_test(views_remember),
        cmocka_unit_test(folding),
        cmocka_unit_test(searching),
        cmocka_unit_test(searching_the_tree),
        cmocka_unit_test(counters),
        cmocka_unit_test(sums_of_what_was_counted),
        cmocka_unit_test(many_calls),
        cmocka_unit_test(nothing_to_see),
        cmocka_unit_test(annotating),
        cmocka_unit_test(hostile_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
