/* tally doctor: what keeps Tally from measuring here, and the command that helps. Changes nothing. */
#include <stddef.h>
#include <string.h>

#include "base_json.h"
#include "base_options.h"
#include "base_text.h"
#include "base_wrap.h"
#include "cli.h"
#include "cli_output.h"
#include "doctor.h"

enum { CANNOT_RECORD = 1, TEXT_COLUMN = 9, WIDTH = 80 };

struct doctor_request {
    bool json;
};

static const struct base_option doctor_options[] = {
    {.name = "json",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct doctor_request, json),
     .help = "for machines"},
    {0},
};

static const char *const doctor_notes[] = {
    "The exit status is 0 when recording is possible, 1 when it is not. Nothing is changed; settings made by "
    "the sysctl "
    "commands last until the next boot.",
    NULL,
};

static const struct base_options_command doctor_command = {
    .name = "tally doctor",
    .synopsis = {"[--json]"},
    .summary = "Find out what keeps Tally from measuring on this machine, what that means, and the command "
               "that helps.",
    .options = doctor_options,
    .notes = doctor_notes,
};

static const char *const states[] = {"ok", "limited", "missing"};

static void doctor_add_line(struct base_text *out, const struct doctor_line *line)
{
    struct base_text text = {0};
    base_text_addf(&text, "%s: %s", line->name, line->meaning);
    size_t length = strlen(states[line->state]);
    base_text_add(out, states[line->state]);
    base_text_add_repeated(out, ' ', TEXT_COLUMN - length);
    base_wrap(out, base_text_string(&text), TEXT_COLUMN, TEXT_COLUMN, WIDTH);
    base_text_add(out, "\n");
    /* The command stays on one line, to be copied. */
    if (line->remedy[0])
        base_text_addf(out, "%*s$ %s\n", TEXT_COLUMN, "", line->remedy);
    base_text_free(&text);
}

static void add_texts(struct base_text *out, const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++)
        doctor_add_line(out, &doctor->lines[i]);
    base_text_addf(out, "\n%s\n",
                   doctor_can_record(doctor) ? "Recording is possible." : "Recording is not possible.");
}

static void doctor_add_json(struct base_text *out, const struct doctor *doctor)
{
    struct base_json json = {.out = out, .lines = 2};
    base_json_begin(&json, NULL, '{');
    base_json_bool(&json, "can_record", doctor_can_record(doctor));
    base_json_begin(&json, "checks", '[');
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_line *line = &doctor->lines[i];
        base_json_begin(&json, NULL, '{');
        base_json_string(&json, "name", line->name);
        base_json_string(&json, "state", states[line->state]);
        base_json_string(&json, "meaning", line->meaning);
        base_json_string(&json, "remedy", line->remedy[0] ? line->remedy : NULL);
        base_json_end(&json, '}');
    }
    base_json_end(&json, ']');
    base_json_end(&json, '}');
}

int cmd_doctor(int argc, char **argv)
{
    struct doctor_request request = {0};
    struct base_options_rest rest;
    struct doctor doctor = {.root = ""};
    struct base_text text = {0};
    int status;
    if (!cli_parse(&doctor_command, argc, argv, &request, &rest, &status))
        return status;
    doctor_check_all(&doctor);
    if (request.json)
        doctor_add_json(&text, &doctor);
    else
        add_texts(&text, &doctor);
    status = cli_output_text(&text);
    base_text_free(&text);
    return status == CLI_OK && !doctor_can_record(&doctor) ? CANNOT_RECORD : status;
}
