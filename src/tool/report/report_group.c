#include "report_group.h"

#include <stdlib.h>

#include "base_map.h"
#include "view_json.h"

bool report_group_is(enum view_by by)
{
    return by == VIEW_BY_THREAD || by == VIEW_BY_CPU || by == VIEW_BY_PROCESS || by == VIEW_BY_COMMAND ||
           by == VIEW_BY_CGROUP;
}

/* What processes of one group have in common. */
static uint32_t group_mark(const struct report_group *group, uint32_t process)
{
    const struct profile_process *it = &group->context->profile->processes[process];
    return group->by == VIEW_BY_COMMAND ? it->name : group->by == VIEW_BY_CGROUP ? it->cgroup : process;
}

static bool group_processes(struct report_group *group, struct base_map *firsts)
{
    size_t count = group->context->profile->process_count;
    group->first = calloc(count + 1, sizeof *group->first);
    group->processes = calloc(count + 1, sizeof *group->processes);
    if (!group->first || !group->processes)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t mark = group_mark(group, i), first = mark ? base_map_find(firsts, mark) : 0;
        if (first == BASE_MAP_NONE && !base_map_set(firsts, mark, first = i))
            return false;
        group->first[i] = first;
        group->processes[group->first[i]] += i > 0; /* the first row is no process */
    }
    return true;
}

int report_group_init(struct report_group *group, struct view_context *context)
{
    const struct profile *profile = context->profile;
    struct base_map firsts = {0};
    group->context = context;
    group->by = context->options->by;
    group->keys = group->by == VIEW_BY_THREAD ? profile->thread_count + 1
                  : group->by == VIEW_BY_CPU  ? (size_t)PROFILE_NO_CPU + 1
                                              : profile->process_count + 1;
    bool done = group_processes(group, &firsts);
    base_map_free(&firsts);
    return done ? 0 : view_memory(context);
}

void report_group_free(struct report_group *group)
{
    free(group->first);
    free(group->processes);
    *group = (struct report_group){0};
}

uint32_t report_group_key(const struct report_group *group, const struct profile_cell *cell)
{
    return group->by == VIEW_BY_THREAD ? cell->thread
           : group->by == VIEW_BY_CPU  ? cell->cpu
                                       : group->first[group->context->profile->threads[cell->thread].process];
}

/* --- text --- */

void report_group_columns(const struct report_group *group, struct view_table *table)
{
    if (group->by == VIEW_BY_CPU) {
        view_table_add_column(table, "CPU", VIEW_LEFT, VIEW_FLEXIBLE);
        return;
    }
    if (group->by == VIEW_BY_COMMAND || group->by == VIEW_BY_CGROUP) {
        view_table_add_column(table, "processes", VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(table, group->by == VIEW_BY_COMMAND ? "command" : "cgroup", VIEW_LEFT,
                              VIEW_FLEXIBLE);
        return;
    }
    if (group->by == VIEW_BY_THREAD) {
        view_table_add_column(table, "tid", VIEW_RIGHT, VIEW_FIXED);
        view_table_add_column(table, "thread", VIEW_LEFT, VIEW_FLEXIBLE);
    }
    view_table_add_column(table, "pid", VIEW_RIGHT, VIEW_FIXED);
    view_table_add_column(table, "process", VIEW_LEFT, VIEW_FLEXIBLE);
    if (group->by == VIEW_BY_PROCESS)
        view_table_add_column(table, "command line", VIEW_LEFT, VIEW_FLEXIBLE);
}

static void group_number_cell(struct view_table *table, long long number)
{
    struct base_text text = {0};
    base_text_addf(&text, "%lld", number);
    table->failed |= text.failed;
    view_table_cell(table, base_text_string(&text), false);
    base_text_free(&text);
}

static const char *group_name(const struct report_group *group, uint32_t string)
{
    return string ? profile_text(group->context->profile, string) : "(unknown)";
}

static void group_process_cells(const struct report_group *group, struct view_table *table, uint32_t index)
{
    const struct profile_process *process = &group->context->profile->processes[index];
    bool ascii = group->context->options->ascii;
    group_number_cell(table, process->pid);
    view_table_cell(table, group_name(group, process->name), ascii);
}

void report_group_cells(const struct report_group *group, struct view_table *table, uint32_t key)
{
    const struct profile *profile = group->context->profile;
    bool ascii = group->context->options->ascii;
    switch (group->by) {
    case VIEW_BY_CPU:
        if (key == PROFILE_NO_CPU)
            view_table_cell(table, "unknown", false);
        else
            group_number_cell(table, key);
        return;
    case VIEW_BY_THREAD:
        group_number_cell(table, profile->threads[key].tid);
        view_table_cell(table, profile_text(profile, profile->threads[key].name), ascii);
        group_process_cells(group, table, profile->threads[key].process);
        return;
    case VIEW_BY_PROCESS:
        group_process_cells(group, table, key);
        view_table_cell(table, profile_text(profile, profile->processes[key].command), ascii);
        return;
    default:
        group_number_cell(table, group->processes[key]);
        view_table_cell(table, group_name(group, group_mark(group, key)), ascii);
    }
}

/* --- JSON --- */

static void group_json_process(struct view_context *context, uint32_t index)
{
    const struct profile_process *process = &context->profile->processes[index];
    base_json_integer(context->json, "pid", process->pid);
    base_json_string(context->json, "process", profile_text(context->profile, process->name));
    base_json_string(context->json, "command_line",
                     process->command ? profile_text(context->profile, process->command) : NULL);
    base_json_string(context->json, "cgroup",
                     process->cgroup ? profile_text(context->profile, process->cgroup) : NULL);
}

void report_group_json(const struct report_group *group, uint32_t key)
{
    struct view_context *context = group->context;
    if (group->by == VIEW_BY_CPU) {
        base_json_integer(context->json, "cpu", key == PROFILE_NO_CPU ? -1 : (int64_t)key);
    } else if (group->by == VIEW_BY_THREAD) {
        view_json_thread(context, key);
    } else if (group->by == VIEW_BY_PROCESS) {
        group_json_process(context, key);
    } else {
        uint32_t mark = group_mark(group, key);
        base_json_string(context->json, group->by == VIEW_BY_COMMAND ? "command" : "cgroup",
                         mark ? profile_text(context->profile, mark) : NULL);
        base_json_unsigned(context->json, "processes", group->processes[key]);
    }
}
