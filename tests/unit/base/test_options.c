/* base_options: every spelling, every kind, every mistake with its exact message, and the help to the letter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base_options.h"

struct parsed {
    bool lines, follow;
    int view, color, when;
    const char *output;
    uint64_t number, duration, size, level;
    double rate;
    const char *seen;
    int calls;
};

static int handle(const struct base_option *option, const char *argument, void *target,
                  struct base_error *error)
{
    struct parsed *parsed = target;
    (void)option;
    parsed->calls++;
    parsed->seen = argument;
    return argument && !strcmp(argument, "bad") ? base_fail(error, BASE_EUSAGE, "'bad' is bad") : BASE_OK;
}

#define AT(member) .offset = offsetof(struct parsed, member)

static const struct base_option options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What"},
    {.name = "lines", .letter = 'l', .kind = BASE_OPTION_FLAG, AT(lines), .help = "show lines"},
    {.name = "no-follow", .letter = 'n', .kind = BASE_OPTION_UNFLAG, AT(follow), .help = "do not follow"},
    {.name = "tree", .kind = BASE_OPTION_SET, .value = 7, AT(view), .help = "a tree"},
    {.name = "output",
     .letter = 'o',
     .kind = BASE_OPTION_TEXT,
     .argument = "FILE",
     AT(output),
     .help = "where to"},
    {.name = "count",
     .letter = 'c',
     .kind = BASE_OPTION_NUMBER,
     .argument = "N",
     .minimum = 1,
     .maximum = 1000,
     AT(number),
     .help = "how many, of which there may be many, so many that this text needs several lines to say so"},
    {.name = "frequency",
     .letter = 'F',
     .kind = BASE_OPTION_REAL,
     .argument = "HZ",
     .minimum = 0.5,
     .maximum = 100,
     AT(rate),
     .help = "how often"},
    {.name = "duration",
     .kind = BASE_OPTION_DURATION,
     .argument = "TIME",
     .minimum = 0.001,
     AT(duration),
     .help = "how long"},
    {.name = "size", .kind = BASE_OPTION_SIZE, .argument = "BYTES", AT(size), .help = "how big"},
    {.name = "color", .kind = BASE_OPTION_CHOICE, .argument = "auto|always|never", AT(color), .help = "when"},
    {.name = "time",
     .kind = BASE_OPTION_CHOICE,
     .argument = "cpu|user",
     .optional = true,
     .value = 1,
     AT(when),
     .help = "which"},
    {.name = "level",
     .letter = 'L',
     .kind = BASE_OPTION_NUMBER,
     .argument = "N",
     .optional = true,
     .value = 3,
     AT(level),
     .help = "which level"},
    {.name = "pid",
     .letter = 'p',
     .kind = BASE_OPTION_CALL,
     .argument = "PID",
     .handler = handle,
     .help = "whom"},
    {.name = "calls",
     .kind = BASE_OPTION_CALL,
     .argument = "GLOB",
     .optional = true,
     .handler = handle,
     .help = "count calls"},
    {.letter = 'q', .kind = BASE_OPTION_FLAG, AT(lines), .help = "a letter alone"},
    {0},
};

static const struct base_option groups[] = {
    {.name = "tree", .kind = BASE_OPTION_SET, .value = 1, AT(view), .help = "a tree"},
    {.name = "flat", .letter = 'f', .kind = BASE_OPTION_SET, .value = 2, AT(view), .help = "flat"},
    {.name = "list", .kind = BASE_OPTION_SET, .value = 2, AT(view), .help = "the same"},
    {.letter = 'w', .kind = BASE_OPTION_SET, .value = 3, AT(view), .help = "a letter alone"},
    {.name = "now", .kind = BASE_OPTION_SET, .value = 3, AT(when), .help = "of another group"},
    {0},
};

static const char *const notes[] = {"A note that is said.", "  an example", "  another", NULL};

static const struct base_options_command command = {
    .name = "tally try",
    .synopsis = {"[OPTIONS] ONE [TWO]", "[OPTIONS] -p PID"},
    .summary = "Try it.",
    .options = options,
    .minimum_arguments = 1,
    .maximum_arguments = 2,
    .arguments = "ONE TWO",
    .notes = notes,
};

enum { WORDS_MOST = 12 };

struct tried {
    struct parsed parsed;
    struct base_options_rest rest;
    struct base_error error;
    char *argv[WORDS_MOST + 1];
    int result;
};

/* Parses the words up to NULL. */
static void try_with(struct tried *tried, const struct base_options_command *with, const char *const *words)
{
    int argc = 0;
    *tried = (struct tried){.parsed = {.follow = true, .color = -1, .when = -1}};
    tried->argv[argc++] = (char *)(uintptr_t) "try";
    for (; words[argc - 1]; argc++)
        tried->argv[argc] = (char *)(uintptr_t)words[argc - 1];
    tried->result = base_options_parse(with, argc, tried->argv, &tried->parsed, &tried->rest, &tried->error);
}

#define TRY(tried, ...) try_with(tried, &command, (const char *const[]){__VA_ARGS__, NULL})

static void assert_refused(const char *message, const char *const *words)
{
    struct tried tried;
    try_with(&tried, &command, words);
    assert_int_equal(tried.result, BASE_EUSAGE);
    assert_string_equal(tried.error.text, message);
}

#define REFUSED(message, ...) assert_refused(message, (const char *const[]){__VA_ARGS__, NULL})

static void every_spelling(void **state)
{
    (void)state;
    static const char *const spellings[][3] = {{"--count=42"}, {"--count", "42"}, {"-c", "42"},
                                               {"-c42"},       {"-lc42"},         {"-nlc", "42"}};
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        struct tried tried;
        const char *words[4] = {"one", spellings[i][0], spellings[i][1], NULL};
        try_with(&tried, &command, words);
        assert_int_equal(tried.result, BASE_OK);
        assert_int_equal(tried.parsed.number, 42);
        assert_int_equal(tried.rest.count, 1);
        assert_string_equal(tried.rest.arguments[0], "one");
        assert_null(tried.rest.arguments[1]);
        assert_int_equal(tried.parsed.lines, i >= 4);
        assert_int_equal(tried.parsed.follow, i != 5);
    }
}

static void every_kind(void **state)
{
    (void)state;
    struct tried tried;
    TRY(&tried, "--tree", "-oa b", "-F", "0.5", "--duration=1.5", "--size", "64K", "--color=never", "x",
        "-p17");
    assert_int_equal(tried.result, BASE_OK);
    assert_int_equal(tried.parsed.view, 7);
    assert_string_equal(tried.parsed.output, "a b");
    assert_true(tried.parsed.rate == 0.5);
    assert_int_equal(tried.parsed.duration, 1500000000);
    assert_int_equal(tried.parsed.size, 65536);
    assert_int_equal(tried.parsed.color, 2);
    assert_string_equal(tried.parsed.seen, "17");
    assert_int_equal(tried.parsed.when, -1);
}

static void optional_values(void **state)
{
    (void)state;
    struct tried tried;
    TRY(&tried, "--time", "cpu");
    assert_int_equal(tried.parsed.when, 1);
    assert_string_equal(tried.rest.arguments[0], "cpu"); /* not its value */
    TRY(&tried, "x", "--time=cpu", "--level", "--calls");
    assert_int_equal(tried.parsed.when, 0);
    assert_int_equal(tried.parsed.level, 3);
    assert_int_equal(tried.parsed.calls, 1);
    assert_null(tried.parsed.seen);
    TRY(&tried, "x", "--calls=std::*", "-Ll");
    assert_string_equal(tried.parsed.seen, "std::*");
    assert_int_equal(tried.parsed.level, 3);
    assert_true(tried.parsed.lines);
    TRY(&tried, "x", "--level=9", "--output=");
    assert_int_equal(tried.parsed.level, 9);
    assert_string_equal(tried.parsed.output, "");
}

static void arguments_and_dashes(void **state)
{
    (void)state;
    struct tried tried;
    TRY(&tried, "one", "-l", "-");
    assert_int_equal(tried.rest.count, 2);
    assert_string_equal(tried.rest.arguments[1], "-");
    assert_false(tried.rest.after_dashes);
    TRY(&tried, "-l", "--", "--tree", "-x");
    assert_int_equal(tried.result, BASE_OK);
    assert_true(tried.rest.after_dashes);
    assert_string_equal(tried.rest.arguments[0], "--tree");
    assert_string_equal(tried.rest.arguments[1], "-x");
    assert_int_equal(tried.parsed.view, 0);
    TRY(&tried, "--", "--");
    assert_int_equal(tried.rest.count, 1);
    TRY(&tried, "-o", "--", "x"); /* a value may look like anything */
    assert_string_equal(tried.parsed.output, "--");
}

static void a_command_keeps_its_own_options(void **state)
{
    (void)state;
    struct base_options_command stopping = command;
    struct tried tried;
    stopping.stop_at_argument = true;
    try_with(&tried, &stopping, (const char *const[]){"-l", "ls", "-l", "--color=no", "--", "c", NULL});
    assert_int_equal(tried.result, BASE_OK);
    assert_int_equal(tried.rest.count, 5);
    assert_string_equal(tried.rest.arguments[0], "ls");
    assert_string_equal(tried.rest.arguments[3], "--");
    assert_null(tried.rest.arguments[5]);
    try_with(&tried, &stopping, (const char *const[]){"--", "ls", "--", NULL});
    assert_int_equal(tried.rest.count, 2);
    assert_true(tried.rest.after_dashes);
}

static void help_is_always_there(void **state)
{
    (void)state;
    struct tried tried;
    TRY(&tried, "--help");
    assert_int_equal(tried.result, BASE_OPTIONS_HELP);
    TRY(&tried, "-lh");
    assert_int_equal(tried.result, BASE_OPTIONS_HELP);
    TRY(&tried, "--", "--help");
    assert_int_equal(tried.result, BASE_OK);
    REFUSED("--help takes no value", "x", "--help=me");
}

static void mistakes(void **state)
{
    (void)state;
    REFUSED("missing ONE (see tally try --help)", "-l");
    REFUSED("'three' is one argument too many (see tally try --help)", "one", "two", "three");
    REFUSED("unknown option --cuont; did you mean --count?", "--cuont=3");
    REFUSED("unknown option --freq; did you mean --frequency?", "--freq", "3");
    REFUSED("unknown option --hlep; did you mean --help?", "--hlep");
    REFUSED("unknown option --zzzzzz (see tally try --help)", "--zzzzzz=1");
    REFUSED("unknown option -z (see tally try --help)", "-lz");
    REFUSED("--count needs a value: --count=N", "--count");
    REFUSED("-c needs a value: -c N", "-lc");
    REFUSED("--lines takes no value", "--lines=yes");
    REFUSED("-F: '12x' is not a number", "-F12x");
    REFUSED("--frequency: 101 is out of range: 0.5 to 100", "--frequency=101");
    REFUSED("-F: 0.4 is out of range: 0.5 to 100", "-F", "0.4");
    REFUSED("--count: 0 is out of range: 1 to 1000", "--count=0");
    REFUSED("--count: '-5' is not a number", "--count=-5");
    REFUSED("-c: '' is not a number", "-c", "");
    REFUSED("--count: 99999999999999999999 is too big", "--count=99999999999999999999");
    REFUSED("--duration: 0 is too small: it must be at least 0.001 s", "--duration=0");
    REFUSED("--color: invalid value 'sometimes' (expected auto, always or never)", "--color=sometimes");
    REFUSED("--color: invalid value 'auto|always' (expected auto, always or never)", "--color=auto|always");
    REFUSED("-p: 'bad' is bad", "-p", "bad");
}

/* "-o -- COMMAND" names no file. */
static void a_file_keeps_its_default(void **state)
{
    (void)state;
    static const struct base_option files[] = {{.name = "output",
                                                .letter = 'o',
                                                .kind = BASE_OPTION_FILE,
                                                .argument = "FILE",
                                                AT(output),
                                                .help = "where to"},
                                               {0}};
    static const struct base_options_command writes = {
        .name = "tally write", .synopsis = {"[OPTIONS]"}, .options = files, .maximum_arguments = 3};
    static const char *const words[][4] = {{"-o"}, {"--output"}, {"-o", "--", "x"}, {"--output", "--", "x"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int defaults = 0; defaults < 2; defaults++) {
            char first[8] = "write", copies[4][16], *argv[6] = {first};
            int argc = 1;
            for (size_t w = 0; w < 4 && words[i][w]; w++) {
                snprintf(copies[w], sizeof copies[w], "%s", words[i][w]);
                argv[argc++] = copies[w];
            }
            struct parsed parsed = {.output = defaults ? "default" : NULL};
            struct base_options_rest rest;
            struct base_error error = {0};
            int result = base_options_parse(&writes, argc, argv, &parsed, &rest, &error);
            assert_int_equal(result, defaults ? BASE_OK : BASE_EUSAGE);
            if (defaults) {
                assert_string_equal(parsed.output, "default");
                assert_int_equal(rest.count, argc > 2);
                assert_int_equal(rest.after_dashes, argc > 2);
            } else {
                assert_non_null(strstr(error.text, " needs a value: "));
            }
        }
}

static void groups_exclude(void **state)
{
    (void)state;
    const struct base_options_command of_groups = {.name = "tally try", .options = groups};
    const struct {
        const char *words[WORDS_MOST];
        const char *message;
    } cases[] = {
        {{"--tree", "--flat"}, "--tree and --flat exclude each other"},
        {{"--flat", "--now", "--tree"}, "--flat and --tree exclude each other"},
        {{"-fw"}, "--flat and -w exclude each other"},
        {{"-w", "-f"}, "-w and -f exclude each other"},
    };
    struct tried tried;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        try_with(&tried, &of_groups, cases[i].words);
        assert_int_equal(tried.result, BASE_EUSAGE);
        assert_string_equal(tried.error.text, cases[i].message);
    }
    try_with(&tried, &of_groups, (const char *const[]){"--flat", "-f", "--now", "--list", NULL});
    assert_int_equal(tried.result, BASE_OK);
    assert_int_equal(tried.parsed.view, 2);
    assert_int_equal(tried.parsed.when, 3);
}

static void three_dashes_are_no_option(void **state)
{
    (void)state;
    struct tried tried;
    TRY(&tried, "---");
    assert_int_equal(tried.result, BASE_EUSAGE);
    TRY(&tried, "--=x");
    assert_int_equal(tried.result, BASE_EUSAGE);
}

static void long_words_do_no_harm(void **state)
{
    (void)state;
    struct tried tried;
    char word[5000];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = '\0';
    word[0] = word[1] = '-';
    TRY(&tried, word);
    assert_int_equal(tried.result, BASE_EUSAGE);
    TRY(&tried, "-F", word);
    assert_int_equal(tried.result, BASE_EUSAGE);
    word[0] = 'x';
    assert_null(base_options_nearest(word, (const char *const[]){"record"}, 1));
}

/* Whatever the words: a result that keeps the contract. Fixed seed. */
static void any_words(void **state)
{
    (void)state;
    static const char *const pieces[] = {
        "-",         "--",           "---",        "-l",          "-o",       "-oX", "-c",      "-c7",
        "-cx",       "-F1",          "-lnq",       "-L",          "-p",       "-z",  "--lines", "--count",
        "--count=5", "--color=auto", "--time",     "--time=user", "--level=", "--=", "=",       "",
        "one",       "\xff\xfe",     "--calls=\n", "--size=1G",   "--pid=bad"};
    uint64_t random = 1;
    unsigned good = 0;
    for (int round = 0; round < 20000; round++) {
        const char *words[WORDS_MOST + 1] = {NULL};
        struct tried tried;
        random = random * 6364136223846793005u + 1442695040888963407u;
        int count = (int)(random >> 33) % WORDS_MOST;
        for (int i = 0; i < count; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            words[i] = pieces[(random >> 33) % (sizeof pieces / sizeof *pieces)];
        }
        try_with(&tried, &command, words);
        assert_true(tried.result == BASE_OK || tried.result == BASE_EUSAGE);
        assert_int_equal(tried.result == BASE_EUSAGE, tried.error.text[0] != '\0');
        if (tried.result == BASE_OK) {
            assert_in_range(tried.rest.count, 1, 2);
            assert_null(tried.rest.arguments[tried.rest.count]);
            good++;
        }
    }
    assert_in_range(good, 100, 19000); /* both happen */
}

/* --- values --- */

struct value {
    const char *text;
    uint64_t value;
    bool good;
};

static void durations(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"5", 5000000000, true},
        {"1.5", 1500000000, true},
        {"500ms", 500000000, true},
        {"2m", 120000000000, true},
        {"1h", 3600000000000, true},
        {"20us", 20000, true},
        {"7ns", 7, true},
        {"0.25s", 250000000, true},
        {"0", 0, true},
        {".5", 500000000, true},
        {"5 s", 0, false},
        {"s", 0, false},
        {"", 0, false},
        {"-1", 0, false},
        {"1e3x", 0, false},
        {"nan", 0, false},
        {"inf", 0, false},
        {"0x10", 0, false},
        {"1e300", 0, false},
        {"1..5", 0, false},
        {".", 0, false},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint64_t ns = 99;
        int result = base_options_read_duration(values[i].text, &ns, NULL);
        assert_int_equal(result, values[i].good ? BASE_OK : BASE_EUSAGE);
        assert_int_equal(ns, values[i].good ? values[i].value : 99);
    }
}

static void sizes(void **state)
{
    (void)state;
    static const struct value values[] = {
        {"4096", 4096, true},       {"64K", 65536, true},     {"64k", 65536, true}, {"64KiB", 65536, true},
        {"1.5M", 1572864, true},    {"1G", 1073741824, true}, {"10B", 10, true},    {"1T", 0, false},
        {"99999999999G", 0, false}, {"K", 0, false},
    };
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint64_t bytes = 99;
        int result = base_options_read_size(values[i].text, &bytes, NULL);
        assert_int_equal(result, values[i].good ? BASE_OK : BASE_EUSAGE);
        assert_int_equal(bytes, values[i].good ? values[i].value : 99);
    }
}

static void numbers(void **state)
{
    (void)state;
    uint64_t number;
    double real;
    struct base_error error = {0};
    assert_int_equal(base_options_read_number("18446744073709551615", &number, NULL), BASE_OK);
    assert_true(number == UINT64_MAX);
    assert_int_equal(base_options_read_number("18446744073709551616", &number, NULL), BASE_EUSAGE);
    assert_int_equal(base_options_read_number(" 5", &number, NULL), BASE_EUSAGE);
    assert_int_equal(base_options_read_number("+5", &number, NULL), BASE_EUSAGE);
    assert_int_equal(base_options_read_number("5.0", &number, &error), BASE_EUSAGE);
    assert_string_equal(error.text, "'5.0' is not a number");
    assert_int_equal(base_options_read_real("27e3", &real, NULL), BASE_OK);
    assert_true(real == 27000);
    assert_int_equal(base_options_read_real("1e999", &real, NULL), BASE_EUSAGE);
}

static void nearest_words(void **state)
{
    (void)state;
    static const char *const words[] = {"record", "report", "query", "list", "doctor"};
    assert_string_equal(base_options_nearest("recrod", words, 5), "record");
    assert_string_equal(base_options_nearest("rep", words, 5), "report");
    assert_string_equal(base_options_nearest("qurey", words, 5), "query");
    assert_string_equal(base_options_nearest("lst", words, 5), "list");
    /* One edit from "all", and the beginning of "calls". */
    assert_string_equal(base_options_nearest("call", (const char *const[]){"all", "calls"}, 2), "calls");
    /* As near as the other: the one that begins like it; else the first. */
    assert_string_equal(base_options_nearest("hoap", (const char *const[]){"soap", "hoop"}, 2), "hoop");
    assert_string_equal(base_options_nearest("heep", (const char *const[]){"heap", "help"}, 2), "heap");
    assert_null(base_options_nearest("annotate", words, 5));
    assert_null(base_options_nearest("", words, 5));
    assert_null(base_options_nearest("x", words, 0));
}

/* --- help --- */

static const char whole_help[] =
    "Usage: tally try [OPTIONS] ONE [TWO]\n"
    "       tally try [OPTIONS] -p PID\n"
    "\n"
    "Try it.\n"
    "\n"
    "What\n"
    "  -l, --lines               show lines\n"
    "  -n, --no-follow           do not follow\n"
    "      --tree                a tree\n"
    "  -o, --output FILE         where to\n"
    "  -c, --count N             how many, of which there may be many, so many that\n"
    "                            this text needs several lines to say so\n"
    "  -F, --frequency HZ        how often\n"
    "      --duration TIME       how long\n"
    "      --size BYTES          how big\n"
    "      --color auto|always|never\n"
    "                            when\n"
    "      --time[=cpu|user]     which\n"
    "  -L, --level[=N]           which level\n"
    "  -p, --pid PID             whom\n"
    "      --calls[=GLOB]        count calls\n"
    "  -q                        a letter alone\n"
    "\n"
    "  -h, --help                show this help\n"
    "\n"
    "A note that is said.\n"
    "\n"
    "  an example\n"
    "  another\n";

static void help_to_the_letter(void **state)
{
    (void)state;
    struct base_text text = {0};
    base_options_help(&command, 0, &text);
    assert_string_equal(base_text_string(&text), whole_help);
    base_text_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling),
        cmocka_unit_test(every_kind),
        cmocka_unit_test(optional_values),
        cmocka_unit_test(arguments_and_dashes),
        cmocka_unit_test(a_command_keeps_its_own_options),
        cmocka_unit_test(help_is_always_there),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(groups_exclude),
        cmocka_unit_test(a_file_keeps_its_default),
        cmocka_unit_test(three_dashes_are_no_option),
        cmocka_unit_test(long_words_do_no_harm),
        cmocka_unit_test(any_words),
        cmocka_unit_test(durations),
        cmocka_unit_test(sizes),
        cmocka_unit_test(numbers),
        cmocka_unit_test(nearest_words),
        cmocka_unit_test(help_to_the_letter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
