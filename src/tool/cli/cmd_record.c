/* tally record: run or attach, sample, leave one profile file.
 *
 * Signals are blocked and read from a signalfd, so that nothing of how they are handled changes for a
 * launched program. Where signalfd is refused they are asked for at every step.
 *
 *   signal            a program was launched                            processes were attached to
 *   SIGINT, SIGQUIT   from the terminal the target has it already, as   stop recording
 *                     the shell would have it; sent to Tally alone it
 *                     is passed on
 *   SIGTERM, SIGHUP   passed on; the target's end ends the recording    stop recording
 *   SIGTSTP           when the terminal has stopped the target, Tally   Tally stops itself
 *                     stops too; a SIGCONT (fg) wakes both
 *   SIGCHLD           the target stopped or ended                       -
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base_error.h"
#include "base_options.h"
#include "base_quote.h"
#include "base_terminal.h"
#include "base_text.h"
#include "base_wait.h"
#include "cli.h"
#include "cli_pids.h"
#include "collect_agent_functions.h"
#include "collect_session.h"
#include "profile_extent.h"
#include "report_counted.h"
#include "report_heap.h"
#include "report_losses.h"
#include "symbol_name.h"
#include "view_calls.h"
#include "view_text.h"
#include "wire_loss.h"

enum { NOT_STARTED = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127, BY_SIGNAL = 128 };
enum {
    GLOBS_MAX = 256,
    STEP_MS = 250,
    STATUS_COLUMNS = 78,
    HEAP_SAMPLE_BYTES = 512 << 10,
    MEGABYTE = 1 << 20,
    TIMELINE_BYTES = 256 << 20,
    RATE_HZ = 999
};

enum time_kind { TIME_CPU, TIME_USER, TIME_REAL };

/* Globs as typed: texts between commas, cut out of a copy. */
struct record_globs {
    const char *items[GLOBS_MAX];
    size_t count;
};

struct record_wish {
    const char *output, *cgroup, *cpus;
    double rate_hz; /* 0: not said */
    uint64_t duration_ns, max_nodes;
    int time_kind; /* enum time_kind */
    int engine;    /* enum collect_engine */
    int stacks;    /* enum collect_stacks */
    int overhead;  /* enum profile_heap_overhead */
    int empty;     /* enum profile_heap_empty */
    struct collect_agent_named named;
    bool system, kernel, follow, debuginfod, verbose, calls, no_time, heap, throws, fds, instrumented;
    uint64_t heap_sample_bytes, agent_memory;
    uint64_t timeline_bytes; /* 0: no timeline */
    struct patch_function_wish functions[GLOBS_MAX];
    size_t function_count;
    struct record_globs call_names, call_images;
    struct cli_pids pids;
};

static int read_pids(const struct base_option *option, const char *argument, void *target,
                     struct base_error *error)
{
    (void)option;
    return cli_pids_read(&((struct record_wish *)target)->pids, argument, error);
}

/* The copy lasts as long as the command, as argv does. */
static int read_globs(struct record_globs *globs, const char *argument, struct base_error *error)
{
    char *copy = strdup(argument);
    if (!copy)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    for (char *glob = copy, *rest; glob; glob = rest) {
        rest = symbol_name_cut(glob);
        if (!*glob)
            return base_fail(error, BASE_EUSAGE, "'%s' has an empty name in it", argument);
        if (globs->count == GLOBS_MAX)
            return base_fail(error, BASE_EUSAGE, "more than %d names", GLOBS_MAX);
        globs->items[globs->count++] = glob;
    }
    return BASE_OK;
}

static int read_calls(const struct base_option *option, const char *argument, void *target,
                      struct base_error *error)
{
    struct record_wish *wish = target;
    (void)option;
    wish->calls = true;
    return argument ? read_globs(&wish->call_names, argument, error) : BASE_OK;
}

static int read_call_images(const struct base_option *option, const char *argument, void *target,
                            struct base_error *error)
{
    struct record_wish *wish = target;
    (void)option;
    wish->calls = true;
    return read_globs(&wish->call_images, argument, error);
}

/* As --calls-image '!GLOB', without asking for calls. */
static int read_skipped_images(const struct base_option *option, const char *argument, void *target,
                               struct base_error *error)
{
    struct record_globs *globs = &((struct record_wish *)target)->call_images;
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
    struct record_wish *wish = target;
    (void)option;
    wish->heap = true;
    if (!argument)
        return BASE_OK;
    if (!strcmp(argument, "sample")) {
        wish->heap_sample_bytes = HEAP_SAMPLE_BYTES;
        return BASE_OK;
    }
    if (strncmp(argument, "sample:", 7))
        return base_fail(error, BASE_EUSAGE, "--heap=%s: --heap alone, or --heap=sample:BYTES", argument);
    int result = base_options_read_size(argument + 7, &wish->heap_sample_bytes, error);
    if (result == BASE_OK && (wish->heap_sample_bytes < 16 || wish->heap_sample_bytes > UINT64_C(1) << 40))
        return base_fail(error, BASE_EUSAGE, "%s is no number of bytes from 16 to 1024G", argument + 7);
    return result;
}

static int read_timeline(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error)
{
    struct record_wish *wish = target;
    (void)option;
    wish->timeline_bytes = TIMELINE_BYTES;
    int result = argument ? base_options_read_size(argument, &wish->timeline_bytes, error) : BASE_OK;
    if (result == BASE_OK && (wish->timeline_bytes < 4096 || wish->timeline_bytes > UINT64_C(1) << 40))
        return base_fail(error, BASE_EUSAGE, "%s is no number of bytes from 4k to 1024G", argument);
    return result;
}

/* NAME[@IMAGE]; the copy lasts as long as the command. */
static int read_function(const struct base_option *option, const char *argument, void *target,
                         struct base_error *error)
{
    struct record_wish *wish = target;
    char *copy = strdup(argument), *image = copy ? strrchr(copy, '@') : NULL;
    (void)option;
    if (!copy)
        return base_fail(error, BASE_ENOMEM, "out of memory");
    if (image)
        *image++ = '\0';
    if (!*copy || *copy == '-' || (image && !*image)) /* as of `--function -- COMMAND`, which lacks it */
        return base_fail(error, BASE_EUSAGE, "'%s': NAME, or NAME@IMAGE", argument);
    if (collect_agent_functions_is_odd(copy))
        return base_fail(error, BASE_EUSAGE,
                         "%s cannot be timed: it keeps its return address, or looks for its caller by it",
                         copy);
    if (wish->function_count == GLOBS_MAX)
        return base_fail(error, BASE_EUSAGE, "more than %d functions", GLOBS_MAX);
    wish->functions[wish->function_count++] =
        (struct patch_function_wish){.name = copy, .image = image, .written = true};
    return BASE_OK;
}

static int read_alloc_functions(const struct base_option *option, const char *argument, void *target,
                                struct base_error *error)
{
    (void)option;
    return collect_agent_named_read(&((struct record_wish *)target)->named, argument, error);
}

static int read_empty(const struct base_option *option, const char *argument, void *target,
                      struct base_error *error)
{
    struct record_wish *wish = target;
    (void)option;
    wish->heap = true;
    wish->empty = PROFILE_HEAP_EMPTY_ZERO;
    while (argument && strcmp(argument, profile_heap_empty_name((enum profile_heap_empty)wish->empty)))
        if (++wish->empty == PROFILE_HEAP_EMPTY_MIXED)
            return base_fail(error, BASE_EUSAGE, "'%s' is none of zero, init and unused", argument);
    return BASE_OK;
}

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
     .offset = offsetof(struct record_wish, system),
     .help = "every process of the machine"},
    {.name = "cgroup",
     .kind = BASE_OPTION_TEXT,
     .argument = "PATH",
     .offset = offsetof(struct record_wish, cgroup),
     .help = "every process of a control group"},
    {.name = "cpu",
     .kind = BASE_OPTION_TEXT,
     .argument = "LIST",
     .offset = offsetof(struct record_wish, cpus),
     .help = "only what runs on these CPUs, such as 0,2-5"},
    {.name = "no-follow",
     .kind = BASE_OPTION_UNFLAG,
     .offset = offsetof(struct record_wish, follow),
     .help = "the processes named and their threads, but not their children"},
    {.name = "duration",
     .kind = BASE_OPTION_DURATION,
     .argument = "TIME",
     .minimum = 0.001,
     .maximum = 1e8,
     .offset = offsetof(struct record_wish, duration_ns),
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
     .offset = offsetof(struct record_wish, overhead),
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
     .offset = offsetof(struct record_wish, agent_memory),
     .help = "what counting may take of memory in each process (default 256M)"},
    {.kind = BASE_OPTION_HEADING, .help = "Exceptions"},
    {.name = "throws",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, throws),
     .help = "count every C++ exception that is thrown, by stack"},
    {.kind = BASE_OPTION_HEADING, .help = "Descriptors"},
    {.name = "fds",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, fds),
     .help = "count every file descriptor that is opened, by stack, and tell what is open at the end"},
    {.kind = BASE_OPTION_HEADING, .help = "Functions"},
    {.name = "function",
     .kind = BASE_OPTION_CALL,
     .argument = "NAME[@IMAGE]",
     .handler = read_function,
     .help =
         "count and time every call of functions so named (a glob), by stack; may be given several times"},
    {.name = "instrumented",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, instrumented),
     .help = "count and time every call of functions built with -finstrument-functions, by their path"},
    {.kind = BASE_OPTION_HEADING, .help = "Time"},
    {.name = "no-time",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, no_time),
     .help = "no samples of CPU time, only what else was asked for"},
    {.kind = BASE_OPTION_HEADING, .help = "How"},
    {.name = "frequency",
     .letter = 'F',
     .kind = BASE_OPTION_REAL,
     .argument = "HZ",
     .minimum = 0.1,
     .maximum = 1e6,
     .offset = offsetof(struct record_wish, rate_hz),
     .help = "samples a second of CPU time (default 999)"},
    {.name = "time",
     .kind = BASE_OPTION_CHOICE,
     .argument = "cpu|user|real",
     .optional = true,
     .offset = offsetof(struct record_wish, time_kind),
     .help = "CPU time with the kernel's part (the default), or in user code alone, or all the time of each "
             "thread, that in which it waits too"},
    {.name = "engine",
     .kind = BASE_OPTION_CHOICE,
     .argument = "auto|perf|agent",
     .offset = offsetof(struct record_wish, engine),
     .help =
         "what samples CPU time: the kernel's perf_event, or timers inside the program; auto (the default) "
         "takes the timers where perf_event is refused"},
    {.name = "kernel",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, kernel),
     .help = "keep the kernel's frames too, where allowed"},
    {.name = "stacks",
     .kind = BASE_OPTION_CHOICE,
     .argument = "full|address|none",
     .offset = offsetof(struct record_wish, stacks),
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
     .offset = offsetof(struct record_wish, output),
     .help = "where it goes (default tally.out); an older profile there becomes FILE.old"},
    {.name = "max-nodes",
     .kind = BASE_OPTION_NUMBER,
     .argument = "N",
     .minimum = 1000,
     .maximum = 500e6,
     .offset = offsetof(struct record_wish, max_nodes),
     .help = "distinct stacks kept in the tree (default 1000000); past that the coldest are folded"},
    {.name = "debuginfod",
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, debuginfod),
     .help = "ask debuginfod servers for missing debug information"},
    {.name = "verbose",
     .letter = 'v',
     .kind = BASE_OPTION_FLAG,
     .offset = offsetof(struct record_wish, verbose),
     .help = "say more while recording"},
    {0}};

static const char *const notes[] = {
    "The exit status of a launched command is passed on (128 + the signal's number if one ended it); 127: "
    "not found, 126: "
    "not executable, 125: Tally failed before the command ran. Otherwise 0, or 2 after an error.",
    NULL};

static const struct base_options_command record_command = {
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

/* --- what was asked for --- */

/* The first option given that is only about samples of time; NULL: none. */
static const char *option_of_time(const struct record_wish *wish)
{
    return wish->rate_hz > 0      ? "-F"
           : wish->time_kind      ? wish->time_kind == TIME_USER ? "--time=user" : "--time=real"
           : wish->kernel         ? "--kernel"
           : wish->stacks         ? "--stacks"
           : wish->timeline_bytes ? "--timeline"
           : wish->cpus           ? "--cpu"
           : wish->engine         ? "--engine"
                                  : NULL;
}

/* What only perf_event gives; NULL: nothing of that was asked for. */
static const char *not_by_agent(const struct record_wish *wish)
{
    return wish->kernel           ? "--kernel"
           : wish->stacks         ? "--stacks"
           : wish->timeline_bytes ? "--timeline"
           : wish->cpus           ? "--cpu"
           : wish->calls          ? "--calls"
           : wish->function_count ? "--function"
           : wish->fds            ? "--fds"
                                  : NULL;
}

/* What is of samples on CPUs alone; NULL: nothing of that was asked for. */
static const char *not_of_waits(const struct record_wish *wish)
{
    return wish->cpus ? "--cpu" : wish->timeline_bytes ? "--timeline" : NULL;
}

/* Is anything counted inside the target? */
static bool has_agent(const struct record_wish *wish)
{
    return wish->heap || wish->throws || wish->fds || wish->instrumented || wish->function_count;
}

static int check_wish(const struct record_wish *wish, int words, struct base_error *error)
{
    const char *of_time = option_of_time(wish);
    int ways = (words > 0) + (wish->pids.count > 0) + wish->system + (wish->cgroup != NULL);
    if (ways == 0)
        return base_fail(error, BASE_EUSAGE,
                         "nothing to record: name a COMMAND, or -p PID, -a or --cgroup PATH");
    if (ways > 1)
        return base_fail(error, BASE_EUSAGE, "a COMMAND, -p, -a and --cgroup exclude each other");
    if (wish->calls && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--calls needs a COMMAND or -p PID: it changes the programs it counts in");
    if (wish->heap && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "%s needs a COMMAND or -p PID: it changes the programs it counts in",
                         wish->empty ? "--empty" : "--heap");
    if (wish->empty && wish->heap_sample_bytes)
        return base_fail(error, BASE_EUSAGE,
                         "--empty looks at every block, and --heap=sample follows only some");
    if (wish->empty && wish->overhead)
        return base_fail(error, BASE_EUSAGE,
                         "--empty is about the bytes that were asked for, and --heap-overhead counts others");
    if (wish->throws && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--throws needs a COMMAND or -p PID: it changes the programs it counts in");
    if (wish->fds && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--fds needs a COMMAND or -p PID: it changes the programs it counts in");
    if (wish->instrumented && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--instrumented needs a COMMAND or -p PID: it changes the programs it counts in");
    if (wish->function_count && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--function needs a COMMAND or -p PID: it changes the programs it counts in");
    if (wish->agent_memory && !has_agent(wish) && wish->engine != COLLECT_ENGINE_AGENT)
        return base_fail(error, BASE_EUSAGE,
                         "--agent-memory goes with --heap, --throws, --fds, --function or --instrumented");
    if (wish->named.count && !wish->heap)
        return base_fail(error, BASE_EUSAGE, "--alloc-functions goes with --heap or --empty");
    if (wish->overhead && !wish->heap)
        return base_fail(error, BASE_EUSAGE, "--heap-overhead goes with --heap");
    if (wish->no_time && !wish->calls && !has_agent(wish))
        return base_fail(
            error, BASE_EUSAGE,
            "--no-time leaves nothing to record; --calls, --heap, --throws, --fds, --function or "
            "--instrumented would be something");
    if (wish->no_time && of_time)
        return base_fail(error, BASE_EUSAGE, "%s is about samples of CPU time, and --no-time asks for none",
                         of_time);
    if (wish->engine == COLLECT_ENGINE_AGENT && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--engine=agent needs a COMMAND or -p PID: it changes the programs it samples");
    if (wish->engine == COLLECT_ENGINE_AGENT && not_by_agent(wish))
        return base_fail(error, BASE_EUSAGE, "%s does not go with --engine=agent", not_by_agent(wish));
    if (wish->time_kind == TIME_REAL && (wish->system || wish->cgroup))
        return base_fail(error, BASE_EUSAGE,
                         "--time=real needs a COMMAND or -p PID: it looks at each thread");
    if (wish->time_kind == TIME_REAL && not_of_waits(wish))
        return base_fail(error, BASE_EUSAGE, "%s does not go with --time=real", not_of_waits(wish));
    if (wish->kernel && wish->time_kind)
        return base_fail(error, BASE_EUSAGE, "--kernel needs --time=cpu");
    return BASE_OK;
}

static void describe_target(const struct record_wish *wish, char *const *words, int count,
                            struct base_text *line)
{
    for (int i = 0; i < count; i++)
        base_quote_word(line, words[i]);
    if (wish->system)
        base_text_add(line, "the whole machine");
    if (wish->cgroup)
        base_text_addf(line, "cgroup %s", wish->cgroup);
    for (size_t i = 0; i < wish->pids.count; i++)
        base_text_addf(line, "%s%d",
                       i                      ? ","
                       : wish->pids.count > 1 ? "processes "
                                              : "process ",
                       (int)wish->pids.items[i]);
}

static struct collect_options session_options(const struct record_wish *wish,
                                              const struct base_options_rest *rest, const char *line)
{
    enum collect_mode mode = wish->pids.count ? COLLECT_ATTACH
                             : wish->system   ? COLLECT_SYSTEM
                             : wish->cgroup   ? COLLECT_CGROUP
                                              : COLLECT_LAUNCH;
    return (struct collect_options){
        .mode = mode,
        .engine = (enum collect_engine)wish->engine,
        .command = rest->arguments,
        .pids = wish->pids.items,
        .pid_count = wish->pids.count,
        .cgroup = wish->cgroup,
        .output = wish->output,
        .command_line = line,
        .no_time = wish->no_time,
        .calls = wish->calls,
        .wish = {.names = wish->call_names.items,
                 .images = wish->call_images.items,
                 .name_count = wish->call_names.count,
                 .image_count = wish->call_images.count},
        .heap = wish->heap,
        .throws = wish->throws,
        .fds = wish->fds,
        .instrumented = wish->instrumented,
        .heap_sample_bytes = wish->heap_sample_bytes,
        .heap_overhead = (enum profile_heap_overhead)wish->overhead,
        .functions = wish->functions,
        .function_count = wish->function_count,
        .empty = (enum profile_heap_empty)wish->empty,
        .named = &wish->named,
        .agent_memory = (wish->agent_memory + MEGABYTE - 1) / MEGABYTE * MEGABYTE,
        .rate_hz = wish->rate_hz > 0 ? wish->rate_hz : RATE_HZ,
        .user_only = wish->time_kind == TIME_USER,
        .waits = wish->time_kind == TIME_REAL,
        .kernel_frames = wish->kernel,
        .follow = wish->follow,
        .timeline_bytes = wish->timeline_bytes,
        .debuginfod = wish->debuginfod,
        .cpus = wish->cpus,
        .max_nodes = (uint32_t)wish->max_nodes,
        .stacks = (enum collect_stacks)wish->stacks,
    };
}

/* --- the status line --- */

struct recorder {
    const struct record_wish *wish;
    struct collect_session *session;
    int signals; /* signalfd; -1: refused */
    pid_t child;
    int child_status; /* as from waitpid */
    bool child_ended, stop, drawn;
    uint64_t drawn_ns; /* when the status line was, since the start */
    int terminal; /* an open file of our own of standard error, where that can redraw; -1: no status line */
};

/* A terminal that is stopped (Ctrl-S), or whose other end does not read, would stop us, and processes wait for our answers. What
 * cannot be polled is written to. */
static bool may_say(void)
{
    struct pollfd file = {.fd = STDERR_FILENO, .events = POLLOUT};
    int ready = poll(&file, 1, 0);
    return ready < 0 || (ready > 0 && (file.revents & POLLOUT) != 0);
}

static void clear_line(struct recorder *recorder)
{
    if (recorder->drawn)
        dprintf(recorder->terminal, "\r%*s\r", STATUS_COLUMNS, "");
    recorder->drawn = false;
}

static void draw_line(struct recorder *recorder, const char *text)
{
    if (recorder->terminal < 0 || !base_terminal_foreground(STDERR_FILENO))
        return;
    recorder->drawn = true;
    dprintf(recorder->terminal, "\r%-*.*s", STATUS_COLUMNS, STATUS_COLUMNS, text);
}

/* By the losses from `first` to `last`; frames that were found by frame pointer are not lost. */
static uint64_t lost_between(const struct profile *profile, unsigned first, unsigned last)
{
    uint64_t lost = 0;
    for (unsigned reason = first; reason <= last; reason++)
        if (reason != WIRE_LOSS_FRAME_POINTER && reason != WIRE_LOSS_AGENT_FRAME_POINTER)
            lost += profile->losses[reason];
    return lost;
}

static uint64_t lost_stacks(const struct profile *profile)
{
    return lost_between(profile, WIRE_LOSS_STACK_CUT, WIRE_LOSS_TOO_DEEP);
}

static double own_percent(const struct collect_status *status)
{
    return status->elapsed_ns ? 100.0 * (double)status->tool_cpu_ns / (double)status->elapsed_ns : 0;
}

static void draw_status(struct recorder *recorder)
{
    const struct collect_status *status = collect_session_status(recorder->session);
    char text[256];
    if (recorder->drawn && status->elapsed_ns - recorder->drawn_ns < STEP_MS * 1000000ull)
        return;
    recorder->drawn_ns = status->elapsed_ns;
    snprintf(
        text, sizeof text, "tally: %.0f s, %llu samples, %llu lost, %llu stacks incomplete, own CPU %.1f %%",
        (double)status->elapsed_ns / 1e9, (unsigned long long)status->samples,
        (unsigned long long)status->lost,
        (unsigned long long)lost_stacks(collect_session_profile(recorder->session)), own_percent(status));
    draw_line(recorder, text);
}

static void say_notice(struct recorder *recorder)
{
    const struct collect_status *status = collect_session_status(recorder->session);
    if (!status->notice[0])
        return;
    clear_line(recorder);
    cli_say("%s", status->notice);
    collect_session_clear_notice(recorder->session);
}

static void draw_names(void *context, size_t done, size_t total)
{
    static const char bar[] = "##############################";
    struct recorder *recorder = context;
    const struct collect_status *status = collect_session_status(recorder->session);
    char text[256];
    if (status->naming_ns < 500000000u)
        return;
    int width = total ? (int)(done * 30 / total) : 0;
    snprintf(text, sizeof text, "tally: looking up names [%-30.*s] %zu of %zu", width > 30 ? 30 : width, bar,
             done, total);
    draw_line(recorder, text);
}

/* --- signals --- */

static const int TAKEN[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGTSTP, SIGCHLD};
static const int BLOCKED_ONLY[] = {SIGPIPE, SIGTTOU, SIGXFSZ}; /* writes then fail with an error instead */

static sigset_t taken_signals(void)
{
    sigset_t taken;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof TAKEN / sizeof *TAKEN; i++)
        sigaddset(&taken, TAKEN[i]);
    return taken;
}

/* Who cannot block them would end at once by one of them, with the program half left. */
static int take_signals(sigset_t *before, int *file, struct base_error *error)
{
    sigset_t taken = taken_signals(), blocked = taken;
    for (size_t i = 0; i < sizeof BLOCKED_ONLY / sizeof *BLOCKED_ONLY; i++)
        sigaddset(&blocked, BLOCKED_ONLY[i]);
    if (sigprocmask(SIG_BLOCK, &blocked, before))
        return base_fail_errno(error, errno, "signals cannot be blocked: rt_sigprocmask");
    *file = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return BASE_OK;
}

/* Stops Tally itself as the default action would, until SIGCONT; nothing that is recorded waits for it meanwhile. */
static void stop_self(struct recorder *recorder)
{
    clear_line(recorder);
    collect_session_suspend(recorder->session);
    kill(getpid(), SIGSTOP);
    collect_session_resume(recorder->session);
}

static void look_at_child(struct recorder *recorder)
{
    int status;
    while (!recorder->child_ended &&
           base_wait(recorder->child, &status, WNOHANG | WUNTRACED) == recorder->child) {
        if (!WIFSTOPPED(status)) {
            recorder->child_ended = true;
            recorder->child_status = status;
        } else if (WSTOPSIG(status) == SIGTSTP || WSTOPSIG(status) == SIGTTIN ||
                   WSTOPSIG(status) == SIGTTOU) {
            stop_self(recorder);
        }
    }
}

static void on_signal(struct recorder *recorder, int number, int code)
{
    bool launched = recorder->child > 0;
    if (number == SIGCHLD)
        return; /* looked at after every step */
    if (number == SIGTSTP) {
        if (!launched)
            stop_self(recorder);
        return;
    }
    if (!launched) {
        recorder->stop = true;
        return;
    }
    bool from_terminal = (number == SIGINT || number == SIGQUIT) && code > 0;
    if (!from_terminal && !recorder->child_ended)
        kill(recorder->child, number);
}

static void read_signals(struct recorder *recorder)
{
    const sigset_t taken = taken_signals();
    struct signalfd_siginfo info;
    siginfo_t waits;
    while (read(recorder->signals, &info, sizeof info) == (ssize_t)sizeof info)
        on_signal(recorder, (int)info.ssi_signo, info.ssi_code);
    while (recorder->signals < 0 && sigtimedwait(&taken, &waits, &(struct timespec){0}) > 0)
        on_signal(recorder, waits.si_signo, waits.si_code);
}

static void look_at_signals(struct recorder *recorder)
{
    read_signals(recorder);
    if (recorder->child > 0)
        look_at_child(recorder);
}

/* --- the recording --- */

static bool is_over(const struct recorder *recorder)
{
    const struct collect_status *status = collect_session_status(recorder->session);
    if (recorder->stop || (recorder->child > 0 ? recorder->child_ended : status->target_gone))
        return true;
    return recorder->wish->duration_ns && status->elapsed_ns >= recorder->wish->duration_ns;
}

static int step_length(const struct recorder *recorder)
{
    if (!recorder->wish->duration_ns)
        return STEP_MS;
    uint64_t elapsed = collect_session_status(recorder->session)->elapsed_ns;
    uint64_t left_ms =
        elapsed < recorder->wish->duration_ns ? (recorder->wish->duration_ns - elapsed) / 1000000 + 1 : 0;
    return left_ms < STEP_MS ? (int)left_ms : STEP_MS;
}

static int record_until_over(struct recorder *recorder, struct base_error *error)
{
    int result = BASE_OK;
    look_at_signals(recorder);
    while (!is_over(recorder)) {
        result = collect_session_step(recorder->session, step_length(recorder), error);
        look_at_signals(recorder);
        if (result < 0)
            return result;
        if (may_say())
            say_notice(recorder);
        if (!is_over(recorder))
            draw_status(recorder);
    }
    return result;
}

/* A launched program goes on, with nobody watching, when the profile cannot be written any more. */
static void wait_for_child(struct recorder *recorder)
{
    while (recorder->child > 0 && !recorder->child_ended) {
        sigset_t child;
        sigemptyset(&child);
        sigaddset(&child, SIGCHLD);
        struct timespec tenth = {.tv_nsec = 100000000};
        sigtimedwait(&child, NULL, &tenth);
        read_signals(recorder);
        look_at_child(recorder);
    }
}

static const char *describe_status(int status, char *text, size_t size)
{
    if (WIFEXITED(status) && !WEXITSTATUS(status))
        return "success";
    if (WIFEXITED(status))
        snprintf(text, size, "exit status %d", WEXITSTATUS(status));
    else
        snprintf(text, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    return text;
}

static void add_figure(struct base_text *line, const char *before, uint64_t figure, const char *unit)
{
    base_text_add(line, before);
    view_text_count(line, figure);
    base_text_add(line, unit);
}

static void say_heap(const struct profile *profile, const struct collect_status *status)
{
    struct report_heap heap;
    struct base_text line = {0};
    if (!report_heap_gather(profile, &heap))
        return;
    report_heap_text(&line, profile, &heap, !base_terminal_utf8());
    if (status->recorded_ns && heap.sums[PROFILE_HEAP_COUNT] > 0)
        add_figure(&line, ", ",
                   (uint64_t)((double)heap.sums[PROFILE_HEAP_COUNT] * 1e9 / (double)status->recorded_ns),
                   " allocations/s");
    cli_say("%s", base_text_string(&line));
    base_text_free(&line);
}

static void say_timeline(const struct profile *profile)
{
    uint64_t bytes, samples = profile_timeline_size(profile, &bytes),
                    left = profile->losses[WIRE_LOSS_TIMELINE_FULL];
    struct base_text line = {0};
    if (samples) {
        add_figure(&line, "timeline: ", samples, " samples, ");
        add_figure(&line, "", (bytes + 500) / 1000, " kB");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (left) {
        add_figure(&line, "timeline: full before ", left,
                   " more samples, which only figures have; --timeline=BYTES is its size");
        cli_say("%s", base_text_string(&line));
    }
    base_text_free(&line);
}

static void say_counted(const struct profile *profile)
{
    struct base_text line = {0};
    report_counted_empty(&line, profile, !base_terminal_utf8());
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_maps(&line, profile, !base_terminal_utf8());
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_throws(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_descriptors(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_clear(&line);
    report_counted_instrumented(&line, profile);
    if (line.length)
        cli_say("%s", base_text_string(&line));
    base_text_free(&line);
}

static void say_lost_counts(const struct profile *profile)
{
    struct base_text line = {0};
    base_text_add(&line, "lost: ");
    size_t before = line.length;
    report_losses_of_counts(profile, &line);
    if (line.length > before)
        cli_say("%s (tally report --losses)", base_text_string(&line));
    base_text_free(&line);
}

static void say_lost(const struct profile *profile, const struct collect_status *status)
{
    uint64_t stacks = lost_stacks(profile);
    uint64_t allocations = lost_between(profile, WIRE_LOSS_AGENT_NO_ROWS, WIRE_LOSS_AGENT_TOO_DEEP);
    uint64_t untimed = profile->losses[WIRE_LOSS_AGENT_UNTIMED];
    struct base_text line = {0};
    if (status->lost || stacks) {
        add_figure(&line, "lost: ", status->lost, " samples dropped");
        add_figure(&line, ", ", stacks, "");
        add_figure(&line, " of ", status->samples, " stacks incomplete (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (allocations) {
        add_figure(&line, "lost: stacks of ", allocations,
                   " allocations or calls incomplete (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_clear(&line);
    if (untimed) {
        add_figure(&line, "lost: ", untimed, " ms of CPU time that no timer reached (tally report --losses)");
        cli_say("%s", base_text_string(&line));
    }
    base_text_free(&line);
}

/* Daemons, and children that nobody waited for. Who said how long to record knows that it ends before. */
static void say_left(const struct recorder *recorder, size_t left)
{
    if (left && recorder->child_ended)
        cli_say("%zu %s of the command %s on, unrecorded", left, left == 1 ? "process" : "processes",
                left == 1 ? "goes" : "go");
}

static void add_calls(struct base_text *figures, const struct profile *profile)
{
    uint64_t calls;
    size_t edges;
    if (!profile_extent_has_calls(profile)) {
        base_text_add(figures, ", no calls counted");
        return;
    }
    view_calls_count(profile, &calls, &edges);
    add_figure(figures, ", ", calls, " calls");
    add_figure(figures, " on ", edges, " edges");
}

static void say_result(struct recorder *recorder)
{
    const struct collect_status *status = collect_session_status(recorder->session);
    const struct profile *profile = collect_session_profile(recorder->session);
    const char *why = profile_meta(profile, "no_samples_reason");
    const char *kernel = profile_meta(profile, "kernel_notice");
    const char *privileges = profile_meta(profile, "privileges_notice");
    struct base_text figures = {0};
    if (!recorder->wish->no_time)
        add_figure(&figures, ", ", status->samples, " samples");
    if (recorder->wish->calls) {
        add_calls(&figures, profile);
    }
    cli_say("%.2f s%s -> %s (%llu kB); own CPU %.1f %%", (double)status->recorded_ns / 1e9,
            base_text_string(&figures), recorder->wish->output, (unsigned long long)status->file_bytes / 1000,
            status->recorded_ns ? 100.0 * (double)status->tool_cpu_ns / (double)status->recorded_ns : 0);
    base_text_free(&figures);
    say_timeline(profile);
    say_heap(profile, status);
    say_counted(profile);
    if (why)
        cli_say("no samples: %s", why);
    say_left(recorder, status->left);
    say_lost(profile, status);
    say_lost_counts(profile);
    if (privileges)
        cli_say("%s", privileges);
    say_notice(recorder); /* what only the end has shown */
    if (kernel)
        cli_say("%s", kernel);
}

static int exit_status(const struct recorder *recorder, int otherwise)
{
    if (!recorder->child_ended)
        return otherwise;
    int status = recorder->child_status;
    return WIFSIGNALED(status) ? BY_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Nothing of ours should be in a process when tally has ended. */
static int say_what_stays(const struct recorder *recorder, struct base_error *error)
{
    const struct collect_status *status = collect_session_status(recorder->session);
    int pid = (int)status->stays;
    if (!pid)
        return CLI_OK;
    if (status->stays_for_good)
        base_fail(error, BASE_EBUSY,
                  "process %d could not be left whole: something else has changed code that tally had "
                  "changed, and may "
                  "lead into memory of tally's, which stays",
                  pid);
    else
        base_fail(
            error, BASE_EBUSY,
            "process %d could not be left whole (a debugger holds it, a thread stays in code of tally's, "
            "the program moved its text, or a filter lets it unmap no memory): tally detach -p %d tries "
            "again",
            pid, pid);
    cli_fail(error);
    return CLI_FAILED;
}

/* The profile cannot be written any more: what runs goes on as if nothing had been. */
static int give_up(struct recorder *recorder, struct base_error *error)
{
    clear_line(recorder);
    cli_fail(error);
    collect_session_leave(recorder->session);
    say_what_stays(recorder, error);
    wait_for_child(recorder);
    return exit_status(recorder, CLI_FAILED);
}

static int record(struct recorder *recorder, struct base_error *error)
{
    char text[128];
    int result = record_until_over(recorder, error);
    if (result < 0)
        return give_up(recorder, error);
    const char *became =
        recorder->child_ended ? describe_status(recorder->child_status, text, sizeof text) : NULL;
    result = collect_session_finish(recorder->session, became, draw_names, recorder, error);
    if (result < 0)
        return give_up(recorder, error);
    clear_line(recorder);
    say_result(recorder);
    return exit_status(recorder, say_what_stays(recorder, error));
}

static int start_failure(bool launch, bool command_failed, int code)
{
    if (!launch)
        return CLI_FAILED;
    return !command_failed ? NOT_STARTED : code == BASE_ENOTFOUND ? NOT_FOUND : NOT_EXECUTABLE;
}

static int record_session(struct recorder *recorder, const struct collect_options *wanted)
{
    struct base_error error = {0};
    bool command_failed = false;
    int result = collect_session_new(wanted, &recorder->session, &error);
    if (result >= 0)
        result = collect_session_start(recorder->session, &command_failed, &error);
    int status;
    if (result < 0) {
        cli_fail(&error);
        if (recorder->session)
            say_what_stays(recorder, &error);
        status = start_failure(wanted->mode == COLLECT_LAUNCH, command_failed, result);
    } else {
        recorder->child = collect_session_status(recorder->session)->child;
        say_notice(recorder);
        if (recorder->wish->verbose && !recorder->wish->no_time)
            cli_say("%s; sampling: %s", profile_meta(collect_session_profile(recorder->session), "engine"),
                    profile_meta(collect_session_profile(recorder->session), "sampling"));
        status = record(recorder, &error);
    }
    collect_session_free(recorder->session);
    return status;
}

int cmd_record(int argc, char **argv)
{
    struct record_wish wish = {.output = "tally.out", .follow = true};
    struct base_options_rest rest;
    struct base_error error = {0};
    int status;
    if (!cli_parse(&record_command, argc, argv, &wish, &rest, &status))
        return status;
    if (check_wish(&wish, rest.count, &error) < 0) {
        collect_agent_named_free(&wish.named);
        return cli_fail_command(record_command.name, &error);
    }
    struct base_text line = {0};
    describe_target(&wish, rest.arguments, rest.count, &line);
    struct collect_options wanted = session_options(&wish, &rest, base_text_string(&line));
    struct recorder recorder = {
        .wish = &wish,
        .terminal = base_terminal_redraws(STDERR_FILENO) ? base_terminal_open(STDERR_FILENO) : -1};
    if (take_signals(&wanted.target_signals, &recorder.signals, &error) == BASE_OK) {
        wanted.wake_fd = recorder.signals;
        status = record_session(&recorder, &wanted);
    } else {
        cli_fail(&error);
        status = wanted.mode == COLLECT_LAUNCH ? NOT_STARTED : CLI_FAILED;
    }
    if (recorder.terminal >= 0)
        close(recorder.terminal);
    collect_agent_named_free(&wish.named);
    base_text_free(&line);
    return status;
}
