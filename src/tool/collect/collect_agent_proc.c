#include "collect_agent_proc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t collect_agent_proc_start(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[size] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

pid_t collect_agent_proc_of_thread(pid_t tid)
{
    char path[64], line[256];
    pid_t pid = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)tid);
    FILE *file = fopen(path, "re");
    while (file && !pid && fgets(line, sizeof line, file))
        if (!strncmp(line, "Tgid:", 5))
            pid = (pid_t)strtol(line + 5, NULL, 10);
    if (file)
        fclose(file);
    return pid;
}
