#include "request.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base_quote.h"
#include "probe_functions.h"
#include "symbol_name.h"

enum { HEAP_SAMPLE_BYTES = 512 << 10, MEGABYTE = 1 << 20, TIMELINE_BYTES = 256 << 20, RATE_HZ = 999 };

/* --- options with arguments of their own --- */

static int read_pids(const struct base_option *option, const char *argument, void *target,
                     struct base_error *error)
{
    (void)option;
    return request_pids_read(&((struct request *)target)->pids, argument, error);
}

/* The copy lasts as long as the command, as argv does. */
static int read_globs(struct request_globs *globs, const char *argument, struct base_error *error)
{
    char *copy = strdup(argument);
    if (!copy)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (char *glob = copy, *rest; glob; glob = rest) {
        rest = symbol_name_cut(glob);
        if (!*glob)
            return base_fail(error, BASE_EUSAGE, "'%s' has an empty name in it", argument);
        if (globs->count == REQUEST_GLOBS)
            return base_fail(error, BASE_EUSAGE, "more than %d names", REQUEST_GLOBS);
        globs->items[globs->count++] = glob;
    }
    return BASE_OK;
}

static int read_calls(const struct base_option *option, const char *argument, void *target,
                      struct base_error *error)
{
    struct request *request = target;
    (void)option;
    request->calls = true;
    return argument ? read_globs(&request->call_names, argument, error) : BASE_OK;
}

static int read_call_images(const struct base_option *option, const char *argument, void *target,
                            struct base_error *error)
{
    struct request *request = target;
    (void)option;
    request->calls = true;
    return read_globs(&request->call_images, argument, error);
}

/* As --calls-image '!GLOB', without asking for calls. */
static int read_skipped_images(const struct base_option *option, const char *argument, void *target,
                               struct base_error *error)
{
    struct request_globs *globs = &((struct request *)target)->call_images;
    size_t before = globs->count;
    (void)option;
    int result = read_globs(globs, argument, error);
    for (size_t i = before; result == BASE_OK && i < globs->count; i++) {
        char *glob = NULL;
        if (asprintf(&glob, "!%s", globs->items[i]) < 0)
            return base_fail(error, BASE_ENOMEM, "out of memory");
        globs->items[i] = glob;
    }
    return result;
}

static int read_heap(const struct base_option *option, const char *argument, void *target,
                     struct base_error *error)
{
    struct request *request = target;
    (void)option;
    request->heap = true;
    if (!argument)
        return BASE_OK;
    if (!strcmp(argument, "sample")) {
        request->heap_sample_bytes = HEAP_SAMPLE_BYTES;
        return BASE_OK;
    }
    if (strncmp(argument, "sample:", 7))
        return base_fail(error, BASE_EUSAGE, "--heap=%s: --heap alone, or --heap=sample:BYTES", argument);
    int result = base_options_read_size(argument + 7, &request->heap_sample_bytes, error);
    if (result == BASE_OK &&
        (request->heap_sample_bytes < 16 || request->heap_sample_bytes > UINT64_C(1) << 40))
        return base_fail(error, BASE_EUSAGE, "%s is no number of bytes from 16 to 1024G", argument + 7);
    return result;
}

static int read_timeline(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error)
{
    struct request *request = target;
    (void)option;
    request->timeline_bytes = TIMELINE_BYTES;
    int result = argument ? base_options_read_size(argument, &request->timeline_bytes, error) : BASE_OK;
    if (result == BASE_OK && (request->timeline_bytes < 4096 || request->timeline_bytes > UINT64_C(1) << 40))
        return base_fail(error, BASE_EUSAGE, "%s is no number of bytes from 4k to 1024G", argument);
    return result;
}

/* NAME[@IMAGE]; the copy lasts as long as the command. */
static int read_function(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error)
{
    struct request *request = target;
    char *copy = strdup(argument), *image = copy ? strrchr(copy, '@') : NULL;
    (void)option;
    if (!copy)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (image)
        *image++ = '\0';
    if (!*copy || *copy == '-' || (image && !*image)) /* as of `--function -- COMMAND`, which lacks it */
        return base_fail(error, BASE_EUSAGE, "'%s': NAME, or NAME@IMAGE", argument);
    if (probe_functions_is_odd(copy))
        return base_fail(error, BASE_EUSAGE,
                         "%s cannot be timed: it keeps its return address, or looks for its caller by it",
                         copy);
    if (request->function_count == REQUEST_GLOBS)
        return base_fail(error, BASE_EUSAGE, "more than %d functions", REQUEST_GLOBS);
    request->functions[request->function_count++] =
        (struct plan_function_request){.name = copy, .image = image, .written = true};
    return BASE_OK;
}

static int read_alloc_functions(const struct base_option *option, const char *argument, void *target,
                                struct base_error *error)
{
    (void)option;
    return probe_named_read(&((struct request *)target)->named, argument, error);
}

static int read_empty(const struct base_option *option, const char *argument, void *target,
                      struct base_error *error)
{
    struct request *request = target;
    (void)option;
    request->heap = true;
    request->empty = PROFILE_HEAP_EMPTY_ZERO;
    while (argument && strcmp(argument, profile_heap_empty_name((enum profile_heap_empty)request->empty)))
        if (++request->empty == PROFILE_HEAP_EMPTY_MIXED)
            return base_fail(error, BASE_EUSAGE, "invalid value '%s' (expected zero, init or unused)",
                             argument);
    return BASE_OK;
}

/* --- all options --- */

static const struct base_option options[] = {
    {.kind = BASE_OPTION_HEADING, .help = "What to record"},
    {.name = "pid",
     .letter = 'p',
     .kind = BASE_OPTION_CALL,
     .argument = "PID[,PID...]",
     .handler = read_pids,
     .help = "attach to running processes, all their threads; they go on when the recording stops"},
    {.name = "all",
     .letter = 'a',
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, system),
     .help = "every process of the machine"},
    {.name = "cgroup",
     .kind = BASE_OPTION_TEXT,
     .argument = "PATH",
     .offset = offsetof(struct request, cgroup),
     .help = "every process of a control group"},
    {.name = "cpu",
     .kind = BASE_OPTION_TEXT,
     .argument = "LIST",
     .offset = offsetof(struct request, cpus),
     .help = "only what runs on these CPUs, such as 0,2-5"},
    {.name = "no-follow",
     .kind = BASE_OPTION_UNFLAG,
     .offset = offsetof(struct request, follow),
     .help = "the processes named and their threads, but not their children"},
    {.name = "duration",
     .kind = BASE_OPTION_DURATION,
     .argument = "TIME",
     .minimum = 0.001,
     .maximum = 1e8,
     .offset = offsetof(struct request, duration_ns),
     .help = "stop after that long: 5 (seconds), 500ms, 2m"},
    {.kind = BASE_OPTION_HEADING, .help = "Calls"},
    {.name = "calls",
     .kind = BASE_OPTION_CALL,
     .argument = "GLOB,...",
     .optional = true,
     .handler = read_calls,
     .help = "count every call, exactly, from each caller to each callee; with names, only calls from or to "
             "functions so named"},
    {.name = "calls-image",
     .kind = BASE_OPTION_CALL,
     .argument = "GLOB,...",
     .handler = read_call_images,
     .help = "count in images so named, or in 'all' (default: all but the C and C++ runtimes); not in those "
             "named after '!'"},
    {.kind = BASE_OPTION_HEADING, .help = "Memory"},
    {.name = "heap",
     .kind = BASE_OPTION_CALL,
     .argument = "sample:BYTES",
     .optional = true,
     .handler = read_heap,
     .help = "count every block that is allocated and released, by stack: totals, the peak, leaks; with "
             "sample:BYTES only samples that many bytes apart (default 512k)"},
    {.name = "heap-overhead",
     .kind = BASE_OPTION_CHOICE,
     .argument = "none|include|delta",
     .offset = offsetof(struct request, overhead),
     .help = "bytes are those asked for (the default), those that blocks really take with their headers, or "
             "the difference"},
    {.name = "empty",
     .kind = BASE_OPTION_CALL,
     .argument = "zero|init|unused",
     .optional = true,
     .handler = read_empty,
     .help = "count blocks as --heap does, and those of their pages that in the end hold only zeros (zero, "
             "the default), zeros that were written (init), or what nobody ever wrote to (unused)"},
    {.name = "alloc-functions",
     .kind = BASE_OPTION_CALL,
     .argument = "FILE",
     .handler = read_alloc_functions,
     .help = "with --heap: functions that allocate or release under other names, NAME[@IMAGE] = ROLE a line, "
             "such as arena_get = malloc"},
    {.name = "agent-memory",
     .kind = BASE_OPTION_SIZE,
     .argument = "BYTES",
     .minimum = MEGABYTE,
     .maximum = 16384.0 * MEGABYTE,
     .offset = offsetof(struct request, agent_memory),
     .help = "what counting may take of memory in each process (default 256M)"},
    {.kind = BASE_OPTION_HEADING, .help = "Exceptions"},
    {.name = "throws",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, throws),
     .help = "count every C++ exception that is thrown, by stack"},
    {.kind = BASE_OPTION_HEADING, .help = "Descriptors"},
    {.name = "fds",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, fds),
     .help = "count every file descriptor that is opened, by stack, and report what is open at the end"},
    {.kind = BASE_OPTION_HEADING, .help = "Functions"},
    {.name = "function",
     .kind = BASE_OPTION_CALL,
     .argument = "NAME[@IMAGE]",
     .handler = read_function,
     .help =
         "count and time every call of functions so named (a glob), by stack; may be given several times"},
    {.name = "instrumented",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, instrumented),
     .help = "count and time every call of functions built with -finstrument-functions, by their path"},
    {.kind = BASE_OPTION_HEADING, .help = "Time"},
    {.name = "no-time",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, no_time),
     .help = "no samples of CPU time, only what else was asked for"},
    {.kind = BASE_OPTION_HEADING, .help = "How"},
    {.name = "frequency",
     .letter = 'F',
     .kind = BASE_OPTION_REAL,
     .argument = "HZ",
     .minimum = 0.1,
     .maximum = 1e6,
     .offset = offsetof(struct request, rate_hz),
     .help = "samples a second of CPU time (default 999)"},
    {.name = "time",
     .kind = BASE_OPTION_CHOICE,
     .argument = "cpu|user|real",
     .optional = true,
     .offset = offsetof(struct request, time_kind),
     .help = "CPU time with the kernel's part (the default), or in user code alone, or all the time of each "
             "thread, that in which it waits too"},
    {.name = "engine",
     .kind = BASE_OPTION_CHOICE,
     .argument = "auto|perf|agent",
     .offset = offsetof(struct request, engine),
     .help =
         "what samples CPU time: the kernel's perf_event, or timers inside the program; auto (the default) "
         "takes the timers where perf_event is refused"},
    {.name = "kernel",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, kernel),
     .help = "keep the kernel's frames too, where allowed"},
    {.name = "stacks",
     .kind = BASE_OPTION_CHOICE,
     .argument = "full|address|none",
     .offset = offsetof(struct request, stacks),
     .help =
         "what a sample keeps: the whole stack (the default), one address, or nothing but thread and CPU"},
    {.name = "timeline",
     .kind = BASE_OPTION_CALL,
     .argument = "BYTES",
     .optional = true,
     .handler = read_timeline,
     .help =
         "keep when each sample was, and of which thread and stack, until that takes so many bytes of the "
         "file (default 256M)"},
    {.name = "skip-image",
     .kind = BASE_OPTION_CALL,
     .argument = "GLOB,...",
     .handler = read_skipped_images,
     .help =
         "leave the code of images so named as it is, whatever is counted: for programs and libraries that "
         "check their own"},
    {.kind = BASE_OPTION_HEADING, .help = "The profile"},
    {.name = "output",
     .letter = 'o',
     .kind = BASE_OPTION_FILE,
     .argument = "FILE",
     .offset = offsetof(struct request, output),
     .help = "where it goes (default tally.out); an older profile there becomes FILE.old"},
    {.name = "max-nodes",
     .kind = BASE_OPTION_NUMBER,
     .argument = "N",
     .minimum = 1000,
     .maximum = 500e6,
     .offset = offsetof(struct request, max_nodes),
     .help = "distinct stacks kept in the tree (default 1000000); past that the coldest are folded"},
    {.name = "debuginfod",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, debuginfod),
     .help = "ask debuginfod servers for missing debug information"},
    {.name = "quiet",
     .letter = 'q',
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, quiet),
     .help = "no line of progress while it records"},
    {.name = "verbose",
     .letter = 'v',
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct request, verbose),
     .help = "say more while recording"},
    {0}};

static const char *const notes[] = {
    "The exit status of a launched command is passed on (128 + the signal's number if one ended it); 127: "
    "not found, 126: "
    "not executable, 125: Tally failed before the command ran. Otherwise 0, or 2 after an error.",
    NULL};

const struct base_options_command request_command = {
    .name = "tally record",
    .synopsis = {"[OPTIONS] -- COMMAND [ARGUMENTS...]", "[OPTIONS] -p PID[,PID...]",
                 "[OPTIONS] -a | --cgroup PATH"},
    .summary = "Run a program, or attach to what runs, and record where its time goes.",
    .options = options,
    .maximum_arguments = 100000,
    .arguments = "COMMAND",
    .stop_at_argument = true,
    .notes = notes,
};

/* --- for the session --- */

void request_describe(const struct request *request, const struct base_options_rest *rest,
                      struct base_text *line)
{
    for (int i = 0; i < rest->count; i++)
        base_quote_word(line, rest->arguments[i]);
    if (request->system)
        base_text_add(line, "the whole machine");
    if (request->cgroup)
        base_text_addf(line, "cgroup %s", request->cgroup);
    for (size_t i = 0; i < request->pids.count; i++)
        base_text_addf(line, "%s%d",
                       i                         ? ","
                       : request->pids.count > 1 ? "processes "
                                                 : "process ",
                       (int)request->pids.items[i]);
}

struct record_options request_session_options(const struct request *request,
                                              const struct base_options_rest *rest, const char *line)
{
    enum record_mode mode = request->pids.count ? RECORD_ATTACH
                            : request->system   ? RECORD_SYSTEM
                            : request->cgroup   ? RECORD_CGROUP
                                                : RECORD_LAUNCH;
    return (struct record_options){
        .mode = mode,
        .engine = (enum record_engine)request->engine,
        .command = rest->arguments,
        .pids = request->pids.items,
        .pid_count = request->pids.count,
        .cgroup = request->cgroup,
        .output = request->output,
        .command_line = line,
        .no_time = request->no_time,
        .calls = request->calls,
        .request = {.names = request->call_names.items,
                    .images = request->call_images.items,
                    .name_count = request->call_names.count,
                    .image_count = request->call_images.count},
        .heap = request->heap,
        .throws = request->throws,
        .fds = request->fds,
        .instrumented = request->instrumented,
        .heap_sample_bytes = request->heap_sample_bytes,
        .heap_overhead = (enum profile_heap_overhead)request->overhead,
        .functions = request->functions,
        .function_count = request->function_count,
        .empty = (enum profile_heap_empty)request->empty,
        .named = &request->named,
        .agent_memory = (request->agent_memory + MEGABYTE - 1) / MEGABYTE * MEGABYTE,
        .rate_hz = request->rate_hz > 0 ? request->rate_hz : RATE_HZ,
        .user_only = request->time_kind == REQUEST_TIME_USER,
        .waits = request->time_kind == REQUEST_TIME_REAL,
        .kernel_frames = request->kernel,
        .follow = request->follow,
        .timeline_bytes = request->timeline_bytes,
        .debuginfod = request->debuginfod,
        .cpus = request->cpus,
        .max_nodes = (uint32_t)request->max_nodes,
        .stacks = (enum perf_stacks)request->stacks,
    };
}
