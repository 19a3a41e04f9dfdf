"""Stacks of coroutines that come and go: what was readable above them may not be any more, and nobody reads it."""
import tally
import tap

WAYS = ("unmap", "protect", "replace", "remap")
OPTIONS = (["--function", "malloc"], ["--function", "come_by"], ["--fds"], ["--heap"], ["--heap=sample:64"], ["--throws"], ["--heap", "--fds", "--function", "descend"],
           ["--calls", "--function", "come_by"])
CAME_BY = 50 * 2 * 3
COUNTERS = {"--heap": "heap.count", "--fds": "fd.used"}


def went(context, program, arguments, options):
    profile = tally.recorded(context, [context.program(program), *arguments], ["--no-time", *options])
    context.equal(profile.output, f"{CAME_BY}\n", f"what {program} {arguments} says under {options}")
    return profile


@tap.case
def stacks_that_are_gone(context):
    for way in WAYS:
        for options in OPTIONS:
            went(context, "coroutines", [way], options)


@tap.case
def another_thread_takes_them_away(context):
    for way in WAYS:
        went(context, "coroutines", [way, "thread"], ["--function", "come_by"])
        went(context, "coroutines", [way, "thread"], ["--heap", "--fds"])


@tap.case
def instrumented(context):
    for way in WAYS:
        went(context, "coroutines_instrumented", [way], ["--instrumented"])


@tap.case
def timers(context):
    for way in WAYS:
        profile = tally.recorded(context, [context.program("coroutines"), way], ["--engine=agent"])
        context.equal(profile.output, f"{CAME_BY}\n", f"what coroutines {way} says")


@tap.case
def all_is_counted(context):
    profile = went(context, "coroutines", ["unmap"], ["--heap", "--fds", "--function", "come_by"])
    for counter in ("heap.count", "fd.used", "function.calls"):
        sums = profile.rows(f"select coalesce(sum(value), 0) from stacks where counter = '{counter}' and stack glob '*come_by*'")
        context.equal(sums[0][0], CAME_BY, counter)


tap.run()
