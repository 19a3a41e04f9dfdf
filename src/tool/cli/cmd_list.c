/* tally list: what can be measured here. Nothing is read off a version number: each is tried. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base_json.h"
#include "base_text.h"
#include "base_wrap.h"
#include "calls_probe.h"
#include "cli.h"
#include "cli_output.h"
#include "doctor_probe.h"
#include "perf_event.h"
#include "probe_timer.h"

struct list_request {
    bool json;
};

static const struct base_option list_options[] = {
    {.name = "json",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct list_request, json),
     .help = "for machines"},
    {0},
};

static const struct base_options_command list_command = {
    .name = "tally list",
    .synopsis = {"[--json]"},
    .summary = "List the collectors of this Tally and the events that this machine gives you. Every one is "
               "tried; what is "
               "missing is listed with the cause.",
    .options = list_options,
};

/* What needs no more than exact calls do: to stop a program and to give it memory with code. The last is
 * sampled time. */
static const char *const inside[] = {"calls", "heap",         "throws",      "function",
                                     "fds",   "instrumented", "engine=agent"};
enum { INSIDE = sizeof inside / sizeof *inside, COLLECTORS = 1 + INSIDE };
enum { RATE_HZ = 999 /* what `tally record` asks for by itself */ };
enum { NAME_COLUMN = 28, WHY_COLUMN = 33, WIDTH = 80 };

/* What keeps it from working keeps the clock from being opened, too. */
static void probe_time(struct doctor_probe *probe, const struct doctor_probe *clock)
{
    struct perf_event_form form = {.want_kernel_time = true, .stacks = PERF_STACKS_FULL, .stack_copy = 16384};
    struct base_error error = {0};
    *probe = (struct doctor_probe){.group = "collector", .name = "time"};
    probe->available = perf_event_probe(&form, &error) == BASE_OK;
    const char *why = probe->available ? form.why_no_kernel_time : clock->available ? error.text : clock->why;
    snprintf(probe->why, sizeof probe->why, "%.*s", DOCTOR_PROBE_WHY - 1, why);
}

/* The kernel must be new enough besides, and is asked less often than it could be. */
static void probe_timers(struct doctor_probe *probe)
{
    struct shared_timers timers;
    struct base_error error = {0};
    double rate = RATE_HZ;
    probe->available = probe_timer_plan(false, &rate, &timers, &error) == BASE_OK;
    if (!probe->available)
        snprintf(probe->why, sizeof probe->why, "%.*s", DOCTOR_PROBE_WHY - 1, error.text);
    else if (rate < RATE_HZ)
        snprintf(probe->why, sizeof probe->why, "%.0f samples a second at most, by ticks of %.0f ms", rate,
                 (double)timers.tick_ns / 1e6);
}

static void probe_inside(struct doctor_probe probes[INSIDE])
{
    struct base_error error = {0};
    bool available = calls_probe(&error) == BASE_OK;
    for (int i = 0; i < INSIDE; i++) {
        probes[i] = (struct doctor_probe){.group = "collector", .available = available};
        snprintf(probes[i].name, sizeof probes[i].name, "%s", inside[i]);
        snprintf(probes[i].why, sizeof probes[i].why, "%.*s", DOCTOR_PROBE_WHY - 1, error.text);
    }
    if (available)
        probe_timers(&probes[INSIDE - 1]);
}

static void list_add_line(struct base_text *out, const struct doctor_probe *probe)
{
    base_text_addf(out, "  %-*s%s", NAME_COLUMN - 2, probe->name, probe->available ? "yes" : "no");
    if (probe->why[0])
        base_text_add_repeated(out, ' ', (size_t)(WHY_COLUMN - NAME_COLUMN - (probe->available ? 3 : 2)));
    base_wrap(out, probe->why, WHY_COLUMN, WHY_COLUMN, WIDTH);
    base_text_add(out, "\n");
}

static void add_texts(struct base_text *out, const struct doctor_probe *probes, size_t count)
{
    const char *group = "";
    for (size_t i = 0; i < count; i++) {
        if (strcmp(group, probes[i].group))
            base_text_addf(out, "%s%s\n", i ? "\n" : "", probes[i].group);
        group = probes[i].group;
        list_add_line(out, &probes[i]);
    }
}

static void list_add_json(struct base_text *out, const struct doctor_probe *probes, size_t count)
{
    struct base_json json = {.out = out, .lines = 1};
    base_json_begin(&json, NULL, '[');
    for (size_t i = 0; i < count; i++) {
        base_json_begin(&json, NULL, '{');
        base_json_string(&json, "group", probes[i].group);
        base_json_string(&json, "name", probes[i].name);
        base_json_bool(&json, "available", probes[i].available);
        base_json_string(&json, "why", probes[i].why[0] ? probes[i].why : NULL);
        base_json_end(&json, '}');
    }
    base_json_end(&json, ']');
}

int cmd_list(int argc, char **argv)
{
    struct list_request request = {0};
    struct base_options_rest rest;
    struct doctor_probe probes[DOCTOR_PROBES_MOST + COLLECTORS];
    struct base_text text = {0};
    int status;
    if (!cli_parse(&list_command, argc, argv, &request, &rest, &status))
        return status;
    size_t count = COLLECTORS + doctor_probe_all(probes + COLLECTORS);
    probe_time(&probes[0], &probes[COLLECTORS]);
    probe_inside(&probes[1]);
    if (request.json)
        list_add_json(&text, probes, count);
    else
        add_texts(&text, probes, count);
    status = cli_output_text(&text);
    base_text_free(&text);
    return status;
}
