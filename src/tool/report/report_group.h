/* report_group.h - whose a sample is: the thread's, the process's, that of all processes of one command name or of
 * one control group, the CPU's. What rows of --flat stand for when they are not of the program's code. Private
 * to src/tool/report. Context: tool. */
#ifndef REPORT_GROUP_H
#define REPORT_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "view.h"

struct report_group {
    struct view_context *context;
    enum view_by by;
    size_t keys;         /* a key is below it: a thread, a CPU, or a process, the first one of its group */
    uint32_t *first;     /* by process, the first one of its group */
    uint32_t *processes; /* by process, how many are in the group whose first one it is */
};

bool report_group_is(enum view_by by);
/* Zero it. Negative: memory ran out, the error has a message. The caller frees in either case. */
int report_group_init(struct report_group *group, struct view_context *context);
void report_group_free(struct report_group *group);

uint32_t report_group_key(const struct report_group *group, const struct profile_cell *cell);
/* The columns that name a row, and their cells; the members of its object. */
void report_group_columns(const struct report_group *group, struct view_table *table);
void report_group_cells(const struct report_group *group, struct view_table *table, uint32_t key);
void report_group_json(const struct report_group *group, uint32_t key);

#endif
