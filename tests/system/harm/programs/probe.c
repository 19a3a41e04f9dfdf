/* Sets uprobes in whoever maps a file, as perf, bcc and bpftrace do: probe FILE OFFSET... says "set", takes them away when its standard
 * input ends, and says then how often they were hit. Status 9: this kernel, or this user, has none. */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST 1024

static int events[MOST], event_count;

static void set(const char *file, const char *offset, int cpu)
{
    struct perf_event_attr attributes = {.size = sizeof attributes};
    FILE *type = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
    if (!type || fscanf(type, "%u", &attributes.type) != 1)
        exit(9);
    fclose(type);
    attributes.uprobe_path = (uintptr_t)file;
    attributes.probe_offset = strtoull(offset, NULL, 0);
    int event = (int)syscall(SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
    if (event < 0) {
        perror("perf_event_open");
        exit(9);
    }
    events[event_count++] = event;
}

int main(int count, char **arguments)
{
    long long hits = 0, all = 0;
    char byte;
    int cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 2; i < count; i++)
        for (int cpu = 0; cpu < cpus && event_count < MOST; cpu++)
            set(arguments[1], arguments[i], cpu);
    puts("set");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        ;
    for (int i = 0; i < event_count; i++)
        if (read(events[i], &hits, sizeof hits) == sizeof hits)
            all += hits;
    printf("%lld\n", all);
    return 0;
}
