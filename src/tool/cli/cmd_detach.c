/* tally detach: removes what a tally that was killed left in running processes. */
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "cli_output.h"
#include "proc_namespace.h"
#include "proc_owner.h"
#include "remains.h"
#include "request_pids.h"

struct detach_request {
    struct request_pids pids;
    bool json;
};

static int read_pids(const struct base_option *option, const char *argument, void *target,
                     struct base_error *error)
{
    (void)option;
    return request_pids_read(&((struct detach_request *)target)->pids, argument, error);
}

static const struct base_option options[] = {{.name = "pid",
                                              .letter = 'p',
                                              .kind = BASE_OPTION_CALL,
                                              .argument = "PID[,PID...]",
                                              .handler = read_pids,
                                              .help = "the processes to look at"},
                                             {.name = "json",
                                              .kind = BASE_OPTION_FLAG,
                                              .offset = offsetof(struct detach_request, json),
                                              .help = "say what was found as JSON, one object a process"},
                                             {0}};

static const char *const notes[] = {"A tally that ends, is stopped or is killed lets its processes go on; "
                                    "only when it was killed does something stay in them: memory, and "
                                    "instructions that lead to it. Exit status 0: nothing is left; "
                                    "1: something had to stay, which is said; 2: an error.",
                                    NULL};

static const struct base_options_command detach_command = {
    .name = "tally detach",
    .synopsis = {"-p PID[,PID...]"},
    .summary = "Remove what a killed tally left in running processes.",
    .options = options,
    .notes = notes,
};

static void detach_print_json(pid_t pid, const struct remains_cleaned *cleaned)
{
    printf("{\"pid\": %d, \"mappings\": %llu, \"places\": %llu, \"bytes_left\": %llu, \"files_unreadable\": "
           "%llu}\n",
           (int)pid, (unsigned long long)cleaned->mappings, (unsigned long long)cleaned->places,
           (unsigned long long)cleaned->bytes_left, (unsigned long long)cleaned->unreadable);
}

static void detach_print_words(pid_t pid, const struct remains_cleaned *cleaned)
{
    if (!cleaned->mappings) {
        printf("process %d: nothing of tally's is in it\n", (int)pid);
        return;
    }
    printf("process %d: %llu places in its code put back", (int)pid, (unsigned long long)cleaned->places);
    if (cleaned->unreadable)
        printf("; %llu files cannot be read any more, so that %llu kB of memory stay\n",
               (unsigned long long)cleaned->unreadable, (unsigned long long)cleaned->bytes_left / 1024);
    else if (cleaned->bytes_left && cleaned->bytes_left <= cleaned->bytes_kept)
        printf(
            "; %llu kB of memory stay until it ends or executes a program, since something else has changed "
            "code that led there\n",
            (unsigned long long)cleaned->bytes_left / 1024);
    else if (cleaned->bytes_left)
        printf("; %llu kB of memory stay, since a thread may still come back there; try again later\n",
               (unsigned long long)cleaned->bytes_left / 1024);
    else
        printf(", %llu mappings removed\n", (unsigned long long)cleaned->mappings);
}

/* CLI_OK, 1: something stays, CLI_FAILED. */
static int clean_running_process(const struct detach_request *request, pid_t pid)
{
    struct remains_cleaned cleaned;
    struct base_error error = {0};
    int owned = -1, result = proc_owner_take(pid, &owned, &error);
    if (result == BASE_OK)
        result = remains_remove(pid, &cleaned, &error);
    if (owned >= 0)
        close(owned);
    if (result < 0)
        return cli_fail(&error);
    if (request->json)
        detach_print_json(pid, &cleaned);
    else
        detach_print_words(pid, &cleaned);
    return cleaned.bytes_left != 0;
}

int cmd_detach(int argc, char **argv)
{
    struct detach_request request = {0};
    struct base_options_rest rest;
    struct base_error error = {0};
    int status, worst = CLI_OK;
    if (!cli_parse(&detach_command, argc, argv, &request, &rest, &status))
        return status;
    if (!request.pids.count) {
        base_fail(&error, BASE_EUSAGE, "which process? (-p PID)");
        return cli_fail_command(detach_command.name, &error);
    }
    if (proc_namespace_check(&error) < 0)
        return cli_fail(&error);
    for (size_t i = 0; i < request.pids.count; i++) {
        status = clean_running_process(&request, request.pids.items[i]);
        worst = status > worst ? status : worst;
    }
    return worst;
}
