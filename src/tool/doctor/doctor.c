#include "doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool doctor_can_record(const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        if (doctor->lines[i].state == DOCTOR_MISSING)
            return false;
    }
    return true;
}

struct doctor_line *doctor_add(struct doctor *doctor, const char *name, enum doctor_state state)
{
    size_t at = doctor->count < DOCTOR_LINES ? doctor->count++ : DOCTOR_LINES - 1;
    doctor->lines[at] = (struct doctor_line){.name = name, .state = state};
    return &doctor->lines[at];
}

void doctor_explain(struct doctor_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->meaning, sizeof line->meaning, format, arguments);
    va_end(arguments);
}

void doctor_advise(struct doctor_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->remedy, sizeof line->remedy, format, arguments);
    va_end(arguments);
}

bool doctor_has(const struct doctor *doctor, unsigned capability)
{
    return doctor->capabilities >> capability & 1;
}

bool doctor_setting(const struct doctor *doctor, const char *path, int64_t *value)
{
    char name[512];
    snprintf(name, sizeof name, "%s%s", doctor->root, path);
    FILE *file = fopen(name, "re");
    if (!file)
        return false;
    bool read = fscanf(file, "%" SCNd64, value) == 1;
    fclose(file);
    return read;
}
