/* tally browse: a profile on the terminal, to walk about in. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base_terminal.h"
#include "base_text.h"
#include "browse.h"
#include "cli.h"
#include "cli_profile.h"

struct browse_request {
    int color;
    const char *counter;
    struct view_part part;
    bool debuginfod;
};

#define MEMBER(member) .offset = offsetof(struct browse_request, member)

static const struct base_option browse_options[] = {
    {.name = "counter",
     .kind = BASE_OPTION_TEXT,
     MEMBER(counter),
     .argument = "NAME",
     .help = "the figures to begin with (default: time.cpu, or the first counter of the profile)"},
    CLI_PROFILE_OVERHEAD(MEMBER),
    CLI_PROFILE_DEBUGINFOD(MEMBER),
    {.name = "color",
     .kind = BASE_OPTION_CHOICE,
     MEMBER(color),
     .argument = "auto|always|never",
     .help = "auto: unless NO_COLOR is set"},
    {0},
};

static const char *const browse_notes[] = {
    "Keys: 1 functions, 2 the tree, Enter goes into a function, Backspace back, / searches, c the next "
    "counter, "
    "? all of them, q leaves.",
    NULL,
};

static const struct base_options_command browse_command = {
    .name = "tally browse",
    .synopsis = {"[OPTIONS] [FILE]"},
    .summary =
        "Look through a profile on the terminal: functions, the tree of calls, callers and callees. FILE "
        "is a profile that tally record left (default tally.out).",
    .options = browse_options,
    .maximum_arguments = 1,
    .arguments = "FILE",
    .notes = browse_notes,
};

/* --- annotating --- */

struct shown {
    const char *file;
    bool debuginfod;
};

/* The name of an image as a pattern that only it fits. */
static void add_pattern(struct base_text *out, const char *name)
{
    for (; *name; name++) {
        if (strchr("*?[]\\", *name))
            base_text_add(out, "\\");
        base_text_add_bytes(out, name, 1);
    }
}

static void run_annotate(const struct shown *shown, const char *function, const char *image,
                         const char *counter)
{
    struct base_text of = {0}, by = {0}, name = {0}, file = {0};
    char *arguments[8], **next = arguments;
    base_text_addf(&by, "--counter=%s", counter);
    base_text_add(&of, "--image=");
    add_pattern(&of, image);
    base_text_add(&name, function);
    base_text_add(&file, shown->file);
    *next++ = (char[]){"annotate"};
    *next++ = by.data;
    if (*image)
        *next++ = of.data;
    if (shown->debuginfod)
        *next++ = (char[]){"--debuginfod"};
    *next++ = (char[]){"--"};
    *next++ = name.data;
    *next++ = file.data;
    *next = NULL;
    if (by.failed || of.failed || name.failed || file.failed)
        cli_say("out of memory");
    else
        cmd_annotate((int)(next - arguments), arguments);
    base_text_free(&of);
    base_text_free(&by);
    base_text_free(&name);
    base_text_free(&file);
}

/* What it says stays until the reader has seen it. */
static void show_annotation(void *context, const char *function, const char *image, const char *counter)
{
    run_annotate(context, function, image, counter);
    fputs("\n(Enter goes back to browsing)", stdout);
    fflush(stdout);
    for (int byte = 0; byte != '\n' && byte != EOF;)
        byte = getchar();
}

/* --- the command --- */

/* Ended by a signal, we say so the way the shell expects it of a command. */
static int status_of(int result, const struct base_error *error)
{
    return result < 0 ? cli_fail(error) : result ? 128 + result : CLI_OK;
}

static int browse_profile(const struct profile *profile, const struct browse_request *request,
                          const char *file, struct base_error *error)
{
    struct shown shown = {file, request->debuginfod};
    struct browse_options options = {
        .in = stdin,
        .out = stdout,
        .file = file,
        .counter = request->counter,
        .color = base_terminal_color(STDOUT_FILENO, (enum base_terminal_color)request->color),
        .ascii = !base_terminal_utf8(),
        .annotate = show_annotation,
        .context = &shown,
    };
    return status_of(browse_run(profile, &options, error), error);
}

int cmd_browse(int argc, char **argv)
{
    struct browse_request request = {0};
    struct base_options_rest rest;
    struct base_error error = {0};
    struct profile *profile = NULL;
    int status;
    if (!cli_parse(&browse_command, argc, argv, &request, &rest, &status))
        return status;
    const char *file = rest.count ? rest.arguments[0] : "tally.out";
    if (!base_terminal_is(STDIN_FILENO) || !base_terminal_is(STDOUT_FILENO)) {
        cli_say("browse needs a terminal; tally report prints the same");
        return CLI_FAILED;
    }
    const struct cli_profile_wanted wanted = {
        .lines = true, .debuginfod = request.debuginfod, .part = &request.part};
    if (cli_profile_load(file, &wanted, &profile, &error) < 0)
        return cli_fail(&error);
    status = browse_profile(profile, &request, file, &error);
    profile_free(profile);
    return status;
}
