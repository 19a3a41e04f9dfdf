/* request_check.c - which options of tally record go together: one table. */
#include "request.h"

/* What a request has, a bit each. Of several options that break one rule the message names that with the
 * lowest bit. */
enum {
    HAS_FREQUENCY = 1 << 0,
    HAS_TIME_USER = 1 << 1,
    HAS_TIME_REAL = 1 << 2,
    HAS_KERNEL = 1 << 3,
    HAS_STACKS = 1 << 4,
    HAS_TIMELINE = 1 << 5,
    HAS_CPUS = 1 << 6,
    HAS_ENGINE = 1 << 7,
    HAS_CALLS = 1 << 8,
    HAS_FUNCTION = 1 << 9,
    HAS_FDS = 1 << 10,
    HAS_EMPTY = 1 << 11,
    HAS_HEAP = 1 << 12,
    HAS_THROWS = 1 << 13,
    HAS_INSTRUMENTED = 1 << 14,
    /* these have no option of their own in a message */
    HAS_ENGINE_AGENT = 1 << 15,
    HAS_HEAP_SAMPLE = 1 << 16,
    HAS_HEAP_OVERHEAD = 1 << 17,
    HAS_ALLOC_FUNCTIONS = 1 << 18,
    HAS_AGENT_MEMORY = 1 << 19,
    HAS_NO_TIME = 1 << 20,
    HAS_OTHERS = 1 << 21, /* processes that nobody named: -a, --cgroup */
    HAS_NO_TARGET = 1 << 22,
    HAS_TARGETS = 1 << 23, /* more than one way to name one */

    OF_TIME = HAS_FREQUENCY | HAS_TIME_USER | HAS_TIME_REAL | HAS_KERNEL | HAS_STACKS | HAS_TIMELINE |
              HAS_CPUS | HAS_ENGINE,
    OF_AGENT = HAS_HEAP | HAS_THROWS | HAS_FDS | HAS_INSTRUMENTED | HAS_FUNCTION,
};

/* ORDER the bits above. */
static const char *const option_names[] = {"-F",       "--time=user", "--time=real",   "--kernel",
                                           "--stacks", "--timeline",  "--cpu",         "--engine",
                                           "--calls",  "--function",  "--fds",         "--empty",
                                           "--heap",   "--throws",    "--instrumented"};

/* Broken by a request that has all of `when`, one of `any` (0: whatever it has) and none of `unless`. */
struct request_rule {
    unsigned when, any, unless;
    bool named; /* the message begins with the first option of `any` */
    const char *message;
};

static const struct request_rule request_rules[] = {
    {.when = HAS_NO_TARGET, .message = "nothing to record: name a COMMAND, or -p PID, -a or --cgroup PATH"},
    {.when = HAS_TARGETS, .message = "a COMMAND, -p, -a and --cgroup exclude each other"},
    {.when = HAS_OTHERS,
     .any = HAS_CALLS | HAS_EMPTY | OF_AGENT,
     .named = true,
     .message = "needs a COMMAND or -p PID: it changes the programs it counts in"},
    {.when = HAS_EMPTY | HAS_HEAP_SAMPLE,
     .message = "--empty looks at every block, and --heap=sample follows only some"},
    {.when = HAS_EMPTY | HAS_HEAP_OVERHEAD,
     .message = "--empty is about the bytes that were asked for, and --heap-overhead counts others"},
    {.when = HAS_AGENT_MEMORY,
     .unless = OF_AGENT | HAS_ENGINE_AGENT,
     .message = "--agent-memory goes with --heap, --throws, --fds, --function or --instrumented"},
    {.when = HAS_ALLOC_FUNCTIONS,
     .unless = HAS_HEAP,
     .message = "--alloc-functions goes with --heap or --empty"},
    {.when = HAS_HEAP_OVERHEAD, .unless = HAS_HEAP, .message = "--heap-overhead goes with --heap"},
    {.when = HAS_NO_TIME,
     .unless = HAS_CALLS | OF_AGENT,
     .message = "--no-time leaves nothing to record; --calls, --heap, --throws, --fds, --function or "
                "--instrumented would be something"},
    {.when = HAS_NO_TIME,
     .any = OF_TIME,
     .named = true,
     .message = "is about samples of CPU time, and --no-time asks for none"},
    {.when = HAS_ENGINE_AGENT | HAS_OTHERS,
     .message = "--engine=agent needs a COMMAND or -p PID: it changes the programs it samples"},
    {.when = HAS_ENGINE_AGENT, /* what only perf_event gives */
     .any = HAS_KERNEL | HAS_STACKS | HAS_TIMELINE | HAS_CPUS | HAS_CALLS | HAS_FUNCTION | HAS_FDS,
     .named = true,
     .message = "does not go with --engine=agent"},
    {.when = HAS_TIME_REAL | HAS_OTHERS,
     .message = "--time=real needs a COMMAND or -p PID: it looks at each thread"},
    {.when = HAS_TIME_REAL, /* what is of samples on CPUs alone */
     .any = HAS_CPUS | HAS_TIMELINE,
     .named = true,
     .message = "does not go with --time=real"},
    {.when = HAS_KERNEL, .any = HAS_TIME_USER | HAS_TIME_REAL, .message = "--kernel needs --time=cpu"},
};

static unsigned request_targets(const struct request *request, int words)
{
    int ways = (words > 0) + (request->pids.count > 0) + request->system + (request->cgroup != NULL);
    return (ways == 0 ? HAS_NO_TARGET : 0) | (ways > 1 ? HAS_TARGETS : 0) |
           (request->system || request->cgroup ? HAS_OTHERS : 0);
}

static unsigned request_bits(const struct request *request)
{
    return (request->rate_hz > 0 ? HAS_FREQUENCY : 0) |
           (request->time_kind == REQUEST_TIME_USER ? HAS_TIME_USER : 0) |
           (request->time_kind == REQUEST_TIME_REAL ? HAS_TIME_REAL : 0) |
           (request->kernel ? HAS_KERNEL : 0) | (request->stacks ? HAS_STACKS : 0) |
           (request->timeline_bytes ? HAS_TIMELINE : 0) | (request->cpus ? HAS_CPUS : 0) |
           (request->engine ? HAS_ENGINE : 0) | (request->calls ? HAS_CALLS : 0) |
           (request->function_count ? HAS_FUNCTION : 0) | (request->fds ? HAS_FDS : 0) |
           (request->empty ? HAS_EMPTY : 0) | (request->heap ? HAS_HEAP : 0) |
           (request->throws ? HAS_THROWS : 0) | (request->instrumented ? HAS_INSTRUMENTED : 0) |
           (request->engine == RECORD_ENGINE_AGENT ? HAS_ENGINE_AGENT : 0) |
           (request->heap_sample_bytes ? HAS_HEAP_SAMPLE : 0) | (request->overhead ? HAS_HEAP_OVERHEAD : 0) |
           (request->named.count ? HAS_ALLOC_FUNCTIONS : 0) | (request->agent_memory ? HAS_AGENT_MEMORY : 0) |
           (request->no_time ? HAS_NO_TIME : 0);
}

int request_check(const struct request *request, int words, struct base_error *error)
{
    unsigned has = request_targets(request, words) | request_bits(request);
    for (size_t i = 0; i < sizeof request_rules / sizeof *request_rules; i++) {
        const struct request_rule *rule = &request_rules[i];
        if ((has & rule->when) != rule->when || (rule->any && !(has & rule->any)) || (has & rule->unless))
            continue;
        if (!rule->named)
            return base_fail(error, BASE_EUSAGE, "%s", rule->message);
        return base_fail(error, BASE_EUSAGE, "%s %s", option_names[__builtin_ctz(has & rule->any)],
                         rule->message);
    }
    return BASE_OK;
}
