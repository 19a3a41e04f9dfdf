#include "cli_doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool cli_doctor_can_record(const struct cli_doctor *doctor)
{
    for (size_t i = 0; i < doctor->count; i++) {
        if (doctor->lines[i].state == CLI_DOCTOR_MISSING)
            return false;
    }
    return true;
}

struct cli_doctor_line *cli_doctor_add(struct cli_doctor *doctor, const char *name,
                                       enum cli_doctor_state state)
{
    size_t at = doctor->count < CLI_DOCTOR_LINES ? doctor->count++ : CLI_DOCTOR_LINES - 1;
    doctor->lines[at] = (struct cli_doctor_line){.name = name, .state = state};
    return &doctor->lines[at];
}

void cli_doctor_explain(struct cli_doctor_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->meaning, sizeof line->meaning, format, arguments);
    va_end(arguments);
}

void cli_doctor_advise(struct cli_doctor_line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line->remedy, sizeof line->remedy, format, arguments);
    va_end(arguments);
}

bool cli_doctor_has(const struct cli_doctor *doctor, unsigned capability)
{
    return doctor->capabilities >> capability & 1;
}

bool cli_doctor_setting(const struct cli_doctor *doctor, const char *path, int64_t *value)
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
