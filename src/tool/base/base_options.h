/* base_options.h - one parser for the options of every command, and the help that the same table gives.
 *
 * A command has a constant table of options and a structure of its own for what was asked; an entry names
 * the member it sets by its offset, so that neither the table nor the parser holds any state:
 *
 *     struct request { bool lines; uint64_t rate; };
 *     static const struct base_option options[] = {
 *         {.kind = BASE_OPTION_HEADING, .help = "What to record:"},
 *         {.name = "lines", .kind = BASE_OPTION_FLAG, .offset = offsetof(struct request, lines),
 *          .help = "show lines"},
 *         {.name = "frequency", .letter = 'F', .kind = BASE_OPTION_NUMBER, .argument = "HZ",
 *          .offset = offsetof(struct request, rate), .minimum = 1, .maximum = 1e6, .help = "samples a second"},
 *         {0}};
 *     static const struct base_options_command command = {
 *         .name = "tally show", .synopsis = {"[OPTIONS] [FILE]"}, .summary = "Show it.", .options = options,
 *         .maximum_arguments = 1, .arguments = "FILE"};
 *
 * Understood: --name=VALUE, --name VALUE, -x VALUE, -xVALUE, -x=VALUE not (the value would be "=VALUE"),
 * bundled flags (-ab), "--" ends the options. A value that is optional (--name[=VALUE]) is only ever taken
 * behind "=". A lone "-" is an argument. Long names cannot be shortened: a script must not break when an
 * option is added. --help and -h are understood everywhere and need no entry.
 *
 * Nothing is printed here. Context: tool. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base_error.h"
#include "base_text.h"

enum base_option_kind { /* what it takes, and the type of the member at `offset` */
                        BASE_OPTION_END = 0,
                        BASE_OPTION_HEADING, /* a line of the help; `help` is its text */
                        BASE_OPTION_FLAG,    /* takes nothing; bool, becomes true */
                        BASE_OPTION_UNFLAG,  /* takes nothing; bool, becomes false (--no-follow) */
                        BASE_OPTION_SET,  /* takes nothing; int, becomes `value` (--flat, --graph: one member,
                                             several options, which exclude each other) */
                        BASE_OPTION_TEXT, /* const char *: points into argv */
                        BASE_OPTION_FILE, /* likewise, of a file that is written; - is refused, and
                                            without a value it keeps its default, if there is one */
                        BASE_OPTION_NUMBER,   /* uint64_t: a whole number, minimum..maximum */
                        BASE_OPTION_REAL,     /* double, minimum..maximum */
                        BASE_OPTION_DURATION, /* uint64_t, ns: base_options_read_duration; minimum, maximum in
                                                 seconds */
                        BASE_OPTION_SIZE,     /* uint64_t, bytes: base_options_read_size; minimum, maximum in
                                                 bytes */
                        BASE_OPTION_CHOICE,   /* int: the position of the value in `argument`, "cpu|user" -> 0
                                                 or 1 */
                        BASE_OPTION_CALL,     /* `handler` decides; takes a value if `argument` is set */
};

struct base_option;

/* Reads one value into the command's structure. `argument` is NULL when there is none (no `argument` in the
 * entry, or an optional one that was left out), else it lasts as long as argv. Returns BASE_OK, or
 * base_fail(...) with a message that need not name the option: the parser puts it in front. */
typedef int base_option_handler(const struct base_option *option, const char *argument, void *target,
                                struct base_error *error);

struct base_option {
    const char *name; /* long, without dashes; NULL: only a letter */
    char letter;      /* 0: only a name */
    enum base_option_kind kind;
    bool optional; /* the value may be left out; the member then becomes `value` (CHOICE, NUMBER), else stays
                    */
    const char *argument; /* its name in the help: "HZ" */
    const char *help;     /* one phrase, no full stop; wrapped to the width */
    size_t offset;        /* of the member in the command's structure */
    int value;
    double minimum, maximum; /* both 0: any */
    base_option_handler *handler;
};

enum { BASE_OPTIONS_SYNOPSES = 6 };

struct base_options_command {
    const char *name;                            /* "tally record" */
    const char *synopsis[BASE_OPTIONS_SYNOPSES]; /* what follows the name; several lines are several ways */
    const char *summary;                         /* one or two sentences under the synopsis */
    const struct base_option *options;           /* ends with {0} */
    unsigned minimum_arguments, maximum_arguments;
    const char *arguments; /* their names, for "missing FILE": separated by one space, in order */
    bool stop_at_argument; /* the first argument ends the options: it is a command with options of its own */
    const char *const *notes; /* paragraphs under the options, ends with NULL; a line beginning with a blank
                                 is not wrapped */
};

/* What was left over. `arguments` is argv itself, rearranged: arguments[count] is NULL. */
struct base_options_rest {
    char **arguments;
    int count;
    bool after_dashes; /* "--" was given */
};

enum { BASE_OPTIONS_HELP = 1 }; /* --help or -h was met: nothing behind it was looked at */

/* Parses argv[1..]; argv[0] is the command's name. Members that no option sets keep what the caller put
 * there: the defaults. Returns BASE_OK, BASE_OPTIONS_HELP, or BASE_EUSAGE with one line for the user;
 * `target` may then be half set. */
int base_options_parse(const struct base_options_command *command, int argc, char **argv, void *target,
                       struct base_options_rest *rest, struct base_error *error);

/* Appends the help, no line longer than `width` columns (0: 80) unless a synopsis is. */
void base_options_help(const struct base_options_command *command, unsigned width, struct base_text *out);

/* --- values, for handlers --- */

/* Each reads the whole text or fails with "'12x' is not a number" and the like. */
int base_options_read_number(const char *text, uint64_t *value,
                             struct base_error *error); /* 999; 1_000_000, 1e6 not */
int base_options_read_real(const char *text, double *value,
                           struct base_error *error); /* 0.5; finite, decimal */
int base_options_read_duration(const char *text, uint64_t *ns,
                               struct base_error *error); /* 5, 1.5, 500ms, 20us, 7ns, 2s, 2m, 1h */
int base_options_read_size(const char *text, uint64_t *bytes,
                           struct base_error *error); /* 4096, 64K, 1.5M, 1G, KiB; powers of 1024 */

/* --- mistyped words --- */

/* The candidate nearest to `word` (edits, transpositions being one; of those equally near the one that begins
 * most like it, then the first), NULL when none is near. */
const char *base_options_nearest(const char *word, const char *const *candidates, size_t count);

#endif
