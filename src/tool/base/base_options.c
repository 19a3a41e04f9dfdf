#include "base_options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base_wrap.h"

/* --- values --- */

int base_options_read_number(const char *text, uint64_t *value, struct base_error *error)
{
    char *end;
    errno = 0;
    /* strtoull alone would take " 5", "+5" and "-5" too. */
    unsigned long long number = isdigit((unsigned char)*text) ? strtoull(text, &end, 10) : (end = NULL, 0);
    if (!end || *end)
        return base_fail(error, BASE_EUSAGE, "'%s' is not a number", text);
    if (errno == ERANGE)
        return base_fail(error, BASE_EUSAGE, "%s is too big", text);
    *value = number;
    return BASE_OK;
}

/* A decimal number at the beginning of the text; NULL when there is none. Hexadecimal, "inf", "nan", signs
 * and blanks, which strtod would take, are none. LC_NUMERIC is "C" in Tally, so the point is a point. */
static const char *read_decimal(const char *text, double *value)
{
    size_t length = strspn(text, "0123456789.");
    char *end;
    if (!length || length == strspn(text, ".") || text[length] == 'x' || text[length] == 'X')
        return NULL;
    *value = strtod(text, &end);
    return isfinite(*value) ? end : NULL;
}

int base_options_read_real(const char *text, double *value, struct base_error *error)
{
    const char *end = read_decimal(text, value);
    if (!end || *end)
        return base_fail(error, BASE_EUSAGE, "'%s' is not a number", text);
    return BASE_OK;
}

struct unit {
    const char *name;
    double factor;
};

/* A number and one of the units behind it (the first one is meant when there is none), as a whole number. */
static int read_with_unit(const char *text, const struct unit *units, size_t count, const char *what,
                          uint64_t *value, struct base_error *error)
{
    double number;
    const char *unit = read_decimal(text, &number);
    for (size_t i = 0; unit && i < count; i++) {
        if (strcasecmp(unit, units[i].name) && (*unit || i))
            continue;
        number *= units[i].factor;
        if (number >= 18446744073709551615.0)
            return base_fail(error, BASE_EUSAGE, "%s is too big", text);
        *value = (uint64_t)(number + 0.5);
        return BASE_OK;
    }
    return base_fail(error, BASE_EUSAGE, "'%s' is not a %s", text, what);
}

int base_options_read_duration(const char *text, uint64_t *ns, struct base_error *error)
{
    static const struct unit units[] = {{"s", 1e9},  {"ms", 1e6},   {"us", 1e3},  {"ns", 1},
                                        {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    return read_with_unit(text, units, sizeof units / sizeof *units, "duration (5, 1.5, 500ms, 2m)", ns,
                          error);
}

int base_options_read_size(const char *text, uint64_t *bytes, struct base_error *error)
{
    static const struct unit units[] = {{"B", 1},
                                        {"K", 1024.0},
                                        {"KB", 1024.0},
                                        {"KiB", 1024.0},
                                        {"M", 1024.0 * 1024},
                                        {"MB", 1024.0 * 1024},
                                        {"MiB", 1024.0 * 1024},
                                        {"G", 1024.0 * 1024 * 1024},
                                        {"GB", 1024.0 * 1024 * 1024},
                                        {"GiB", 1024.0 * 1024 * 1024}};
    return read_with_unit(text, units, sizeof units / sizeof *units, "size (4096, 64K, 1.5M, 1G)", bytes,
                          error);
}

/* --- mistyped words --- */

enum { WORD_MOST = 63 };

static unsigned least_of_three(unsigned a, unsigned b, unsigned c)
{
    return a < b ? (a < c ? a : c) : b < c ? b : c;
}

/* Edits from one word to the other, a transposition of neighbours being one (optimal string alignment).
 * Source: F. Damerau, A technique for computer detection and correction of spelling errors, CACM 7 (1964). */
static unsigned count_edits(const char *left, const char *right)
{
    size_t rows = strlen(left), columns = strlen(right);
    unsigned cost[WORD_MOST + 1][WORD_MOST + 1];
    if (rows > WORD_MOST || columns > WORD_MOST)
        return WORD_MOST;
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (!i || !j) {
                cost[i][j] = (unsigned)(i + j);
                continue;
            }
            bool same = left[i - 1] == right[j - 1];
            cost[i][j] = least_of_three(cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + !same);
            bool swapped = i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1];
            if (swapped && cost[i - 2][j - 2] + 1 < cost[i][j])
                cost[i][j] = cost[i - 2][j - 2] + 1;
        }
    }
    return cost[rows][columns];
}

static size_t same_beginning(const char *left, const char *right)
{
    size_t length = 0;
    while (left[length] && left[length] == right[length])
        length++;
    return length;
}

const char *base_options_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    unsigned fewest = WORD_MOST;
    size_t length = strlen(word);
    for (size_t i = 0; i < count; i++) {
        unsigned needed = count_edits(word, candidates[i]);
        /* What was begun right and not finished is nearest, however much is missing. */
        if (length > 1 && !strncmp(word, candidates[i], length))
            needed = 0;
        bool as_near = nearest && needed == fewest;
        if (needed < fewest ||
            (as_near && same_beginning(word, candidates[i]) > same_beginning(word, nearest))) {
            fewest = needed;
            nearest = candidates[i];
        }
    }
    return fewest <= 1 + length / 4 ? nearest : NULL;
}

/* --- finding the option --- */

enum { OPTIONS_MOST = 128 }; /* of a command */

struct parser {
    const struct base_options_command *command;
    char **argv;
    int argc, at; /* at: the word being looked at */
    void *target;
    struct base_error *error;
    bool met[OPTIONS_MOST]; /* of the table */
};

static bool is_option(const struct base_option *option)
{
    return option->kind != BASE_OPTION_HEADING;
}

static const struct base_option *find_letter(const struct base_options_command *command, char letter)
{
    for (const struct base_option *option = command->options; option->kind; option++) {
        if (is_option(option) && option->letter == letter)
            return option;
    }
    return NULL;
}

static const struct base_option *find_name(const struct base_options_command *command, const char *name,
                                           size_t length)
{
    for (const struct base_option *option = command->options; option->kind; option++) {
        if (is_option(option) && option->name && strlen(option->name) == length &&
            !memcmp(option->name, name, length))
            return option;
    }
    return NULL;
}

static int fail_unknown(struct parser *parser, const char *name, size_t length)
{
    const char *names[OPTIONS_MOST];
    size_t count = 0;
    char word[WORD_MOST + 1];
    for (const struct base_option *option = parser->command->options; option->kind; option++) {
        if (is_option(option) && option->name && count < OPTIONS_MOST - 1)
            names[count++] = option->name;
    }
    names[count++] = "help";
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    const char *nearest = base_options_nearest(word, names, count);
    if (nearest)
        return base_fail(parser->error, BASE_EUSAGE, "unknown option --%.*s; did you mean --%s?", (int)length,
                         name, nearest);
    return base_fail(parser->error, BASE_EUSAGE, "unknown option --%.*s (see %s --help)", (int)length, name,
                     parser->command->name);
}

/* --- setting what it stands for --- */

static int check_range(const struct base_option *option, const char *text, double value,
                       struct base_error *error)
{
    const char *unit = option->kind == BASE_OPTION_DURATION ? " s" : "";
    if (option->minimum == 0 && option->maximum == 0)
        return BASE_OK;
    if (value >= option->minimum && (value <= option->maximum || option->maximum <= option->minimum))
        return BASE_OK;
    if (option->maximum <= option->minimum)
        return base_fail(error, BASE_EUSAGE, "%s is too small: it must be at least %.15g%s", text,
                         option->minimum, unit);
    return base_fail(error, BASE_EUSAGE, "%s is out of range: %.15g to %.15g%s", text, option->minimum,
                     option->maximum, unit);
}

/* "none|include|delta" as "none, include or delta". */
static int fail_choice(const char *text, const char *choices, struct base_error *error)
{
    char list[128];
    size_t used = 0;
    while (*choices && used < sizeof list - 1) {
        size_t size = strcspn(choices, "|");
        const char *between = !choices[size] ? "" : strchr(choices + size + 1, '|') ? ", " : " or ";
        used += (size_t)snprintf(list + used, sizeof list - used, "%.*s%s", (int)size, choices, between);
        choices += size + (choices[size] != '\0');
    }
    return base_fail(error, BASE_EUSAGE, "invalid value '%s' (expected %s)", text, list);
}

static int read_choice(const struct base_option *option, const char *text, int *chosen,
                       struct base_error *error)
{
    size_t length = strlen(text);
    int position = 0;
    for (const char *choice = option->argument;; position++) {
        size_t size = strcspn(choice, "|");
        if (size == length && !memcmp(choice, text, length)) {
            *chosen = position;
            return BASE_OK;
        }
        if (!choice[size])
            return fail_choice(text, option->argument, error);
        choice += size + 1;
    }
}

static int read_number(const struct base_option *option, const char *text, void *member,
                       struct base_error *error)
{
    uint64_t number = 0;
    int result;
    switch (option->kind) {
    case BASE_OPTION_DURATION:
        result = base_options_read_duration(text, &number, error);
        break;
    case BASE_OPTION_SIZE:
        result = base_options_read_size(text, &number, error);
        break;
    default:
        result = base_options_read_number(text, &number, error);
    }
    double scale = option->kind == BASE_OPTION_DURATION ? 1e9 : 1;
    if (result == BASE_OK)
        result = check_range(option, text, (double)number / scale, error);
    if (result == BASE_OK)
        *(uint64_t *)member = number;
    return result;
}

static int read_real(const struct base_option *option, const char *text, double *member,
                     struct base_error *error)
{
    double value;
    int result = base_options_read_real(text, &value, error);
    if (result == BASE_OK)
        result = check_range(option, text, value, error);
    if (result == BASE_OK)
        *member = value;
    return result;
}

/* An optional value that was left out. */
static void set_without_value(const struct base_option *option, void *member)
{
    if (option->kind == BASE_OPTION_CHOICE)
        *(int *)member = option->value;
    else if (option->kind == BASE_OPTION_NUMBER)
        *(uint64_t *)member = (uint64_t)option->value;
}

static int set_value(const struct base_option *option, const char *text, void *target,
                     struct base_error *error)
{
    void *member = (char *)target + option->offset;
    switch (option->kind) {
    case BASE_OPTION_FLAG:
    case BASE_OPTION_UNFLAG:
        *(bool *)member = option->kind == BASE_OPTION_FLAG;
        return BASE_OK;
    case BASE_OPTION_SET:
        *(int *)member = option->value;
        return BASE_OK;
    case BASE_OPTION_CALL:
        return option->handler(option, text, target, error);
    default:
        break;
    }
    if (!text) {
        set_without_value(option, member);
        return BASE_OK;
    }
    if (option->kind == BASE_OPTION_FILE && !strcmp(text, "-"))
        return base_fail(error, BASE_EUSAGE, "'-' is not allowed: name a file (./- for one called -)");
    if (option->kind == BASE_OPTION_TEXT || option->kind == BASE_OPTION_FILE)
        *(const char **)member = text;
    else if (option->kind == BASE_OPTION_CHOICE)
        return read_choice(option, text, member, error);
    else if (option->kind == BASE_OPTION_REAL)
        return read_real(option, text, member, error);
    else
        return read_number(option, text, member, error);
    return BASE_OK;
}

/* --- words --- */

static int fail_without_value(struct parser *parser, const char *spelled, const struct base_option *option)
{
    return base_fail(parser->error, BASE_EUSAGE, "%s needs a value: %s%s%s", spelled, spelled,
                     spelled[1] == '-' ? "=" : " ", option->argument);
}

/* The word after an option is its value. Where a FILE is missing, at the end or before "--", the member keeps its
 * default, if it has one: "-o -- COMMAND" does not name a file "--". */
static int take_value(struct parser *parser, const struct base_option *option, const char *spelled,
                      const char **value)
{
    bool last = parser->at + 1 >= parser->argc;
    bool is_file = option->kind == BASE_OPTION_FILE;
    *value = NULL;
    if (!last && !(is_file && !strcmp(parser->argv[parser->at + 1], "--"))) {
        *value = parser->argv[++parser->at];
        return BASE_OK;
    }
    if (is_file && *(const char **)(void *)((char *)parser->target + option->offset))
        return BASE_OK;
    return fail_without_value(parser, spelled, option);
}

/* Of options that give one member different values, the last would silently win. */
static int check_group(const struct parser *parser, const struct base_option *option, const char *spelled)
{
    const struct base_option *other = parser->command->options;
    for (size_t i = 0; other[i].kind && i < OPTIONS_MOST; i++) {
        if (!parser->met[i] || other[i].kind != BASE_OPTION_SET || option->kind != BASE_OPTION_SET ||
            other[i].offset != option->offset || other[i].value == option->value)
            continue;
        char letter[] = {other[i].letter, '\0'};
        return base_fail(parser->error, BASE_EUSAGE, "%s%s and %s exclude each other",
                         other[i].name ? "--" : "-", other[i].name ? other[i].name : letter, spelled);
    }
    return BASE_OK;
}

static int set_spelled(struct parser *parser, const struct base_option *option, const char *spelled,
                       const char *value)
{
    size_t index = (size_t)(option - parser->command->options);
    int result = check_group(parser, option, spelled);
    if (result < 0)
        return result;
    if (index < OPTIONS_MOST)
        parser->met[index] = true;
    result = set_value(option, value, parser->target, parser->error);
    return result < 0 ? base_fail_context(parser->error, result, "%s", spelled) : BASE_OK;
}

/* --name, --name=VALUE, --name VALUE */
static int parse_long(struct parser *parser, const char *word)
{
    const char *name = word + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    if (length == 4 && !memcmp(name, "help", 4))
        return equals ? base_fail(parser->error, BASE_EUSAGE, "--help takes no value") : BASE_OPTIONS_HELP;
    const struct base_option *option = find_name(parser->command, name, length);
    if (!option)
        return fail_unknown(parser, name, length);
    const char *value = equals ? equals + 1 : NULL;
    char spelled[WORD_MOST + 3];
    snprintf(spelled, sizeof spelled, "--%s", option->name);
    if (equals && !option->argument)
        return base_fail(parser->error, BASE_EUSAGE, "%s takes no value", spelled);
    if (!equals && option->argument && !option->optional) {
        int result = take_value(parser, option, spelled, &value);
        if (result < 0 || !value)
            return result;
    }
    return set_spelled(parser, option, spelled, value);
}

/* -x, -xy, -xVALUE, -x VALUE */
static int parse_letters(struct parser *parser, const char *letters)
{
    for (; *letters; letters++) {
        const struct base_option *option = find_letter(parser->command, *letters);
        char spelled[] = {'-', *letters, '\0'};
        if (!option && *letters == 'h')
            return BASE_OPTIONS_HELP;
        if (!option)
            return base_fail(parser->error, BASE_EUSAGE, "unknown option %s (see %s --help)", spelled,
                             parser->command->name);
        if (!option->argument || option->optional) {
            int result = set_spelled(parser, option, spelled, NULL);
            if (result < 0)
                return result;
            continue;
        }
        if (letters[1])
            return set_spelled(parser, option, spelled, letters + 1);
        const char *value;
        int result = take_value(parser, option, spelled, &value);
        return result < 0 || !value ? result : set_spelled(parser, option, spelled, value);
    }
    return BASE_OK;
}

/* The name of the argument at `position`: the words of command->arguments. */
static int fail_missing(const struct base_options_command *command, int position, struct base_error *error)
{
    const char *name = command->arguments ? command->arguments : "argument";
    while (position-- > 0 && strchr(name, ' '))
        name = strchr(name, ' ') + 1;
    return base_fail(error, BASE_EUSAGE, "missing %.*s (see %s --help)", (int)strcspn(name, " "), name,
                     command->name);
}

static int check_count(const struct base_options_command *command, const struct base_options_rest *rest,
                       struct base_error *error)
{
    if (rest->count < (int)command->minimum_arguments)
        return fail_missing(command, rest->count, error);
    if (!command->stop_at_argument && rest->count > (int)command->maximum_arguments)
        return base_fail(error, BASE_EUSAGE, "'%s' is one argument too many (see %s --help)",
                         rest->arguments[command->maximum_arguments], command->name);
    return BASE_OK;
}

/* Arguments are moved to the front of argv as they are met: never past the word being read. */
int base_options_parse(const struct base_options_command *command, int argc, char **argv, void *target,
                       struct base_options_rest *rest, struct base_error *error)
{
    struct parser parser = {command, argv, argc, 1, target, error, {false}};
    *rest = (struct base_options_rest){.arguments = argv + 1};
    bool ended = false;
    for (; parser.at < argc; parser.at++) {
        char *word = argv[parser.at];
        int result = BASE_OK;
        if (ended || word[0] != '-' || !word[1]) {
            rest->arguments[rest->count++] = word;
            ended = ended || command->stop_at_argument;
        } else if (!strcmp(word, "--")) {
            ended = rest->after_dashes = true;
        } else {
            result = word[1] == '-' ? parse_long(&parser, word) : parse_letters(&parser, word + 1);
        }
        if (result != BASE_OK)
            return result;
    }
    if (argc > 0)
        rest->arguments[rest->count] = NULL;
    return check_count(command, rest, error);
}

/* --- help --- */

enum { HELP_WIDTH = 80, HELP_COLUMN = 28 };

/* Words from column `indent` on, and the line's end. */
static void add_wrapped(struct base_text *out, const char *text, unsigned indent, size_t width)
{
    base_wrap(out, text, indent, indent, (unsigned)width);
    base_text_add(out, "\n");
}

/* "  -F, --frequency HZ" */
static void add_spelling(struct base_text *line, const struct base_option *option)
{
    if (option->letter)
        base_text_addf(line, "  -%c", option->letter);
    else
        base_text_add(line, "    ");
    if (option->name)
        base_text_addf(line, "%s --%s", option->letter ? "," : " ", option->name);
    if (!option->argument)
        return;
    if (option->optional)
        base_text_addf(line, "[=%s]", option->argument);
    else
        base_text_addf(line, " %s", option->argument);
}

/* Choices that do not fit into a line go on in the next one, behind their bars and below the first of
 * them. */
static void add_choices(struct base_text *out, const struct base_text *line, size_t width)
{
    const char *text = base_text_string(line), *first = strrchr(text, ' ') ? strrchr(text, ' ') + 1 : text;
    size_t column = (size_t)(first - text);
    base_text_add_bytes(out, text, column);
    for (size_t indent = column, length; *first; first += length) {
        length = strcspn(first, "|");
        length += first[length] == '|';
        if (column + length > width && column > indent) {
            base_text_add(out, "\n");
            base_text_add_repeated(out, ' ', indent);
            column = indent;
        }
        base_text_add_bytes(out, first, length);
        column += length;
    }
}

static void add_option(struct base_text *out, const struct base_option *option, size_t width)
{
    struct base_text line = {0};
    add_spelling(&line, option);
    add_choices(out, &line, width);
    if (line.length + 2 > HELP_COLUMN)
        base_text_add(out, "\n");
    size_t used = line.length + 2 > HELP_COLUMN ? 0 : line.length;
    base_text_add_repeated(out, ' ', HELP_COLUMN - used);
    add_wrapped(out, option->help ? option->help : "", HELP_COLUMN, width);
    base_text_free(&line);
}

static void add_notes(struct base_text *out, const char *const *notes, size_t width)
{
    bool example = false; /* the line before was one */
    for (; notes && *notes; notes++) {
        if (**notes != ' ' || !example)
            base_text_add(out, "\n");
        example = **notes == ' ';
        if (example)
            base_text_addf(out, "%s\n", *notes);
        else
            add_wrapped(out, *notes, 0, width);
    }
}

void base_options_help(const struct base_options_command *command, unsigned width, struct base_text *out)
{
    static const struct base_option help = {
        .name = "help", .letter = 'h', .kind = BASE_OPTION_FLAG, .help = "show this help"};
    size_t columns = width ? width : HELP_WIDTH;
    bool headings = false;
    for (int i = 0; i < BASE_OPTIONS_SYNOPSES && command->synopsis[i]; i++)
        base_text_addf(out, "%s %s%s%s\n", i ? "      " : "Usage:", command->name,
                       *command->synopsis[i] ? " " : "", command->synopsis[i]);
    base_text_add(out, "\n");
    add_wrapped(out, command->summary, 0, columns);
    if (command->options->kind != BASE_OPTION_HEADING)
        base_text_add(out, "\n");
    for (const struct base_option *option = command->options; option->kind; option++) {
        if (option->kind == BASE_OPTION_HEADING) {
            base_text_addf(out, "\n%s\n", option->help);
            headings = true;
        } else {
            add_option(out, option, columns);
        }
    }
    if (headings)
        base_text_add(out, "\n");
    add_option(out, &help, columns);
    add_notes(out, command->notes, columns);
}
