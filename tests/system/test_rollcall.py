"""All collectors at once on programs that call every hooked function: results and errno as without Tally.

heap_rollcall calls all that allocates, fd_rollcall all that opens and closes, map_truth all that maps, function_rollcall what unwinds,
jumps, forks and is interrupted; each is the witness of what it does: its output is compared, and it ends as before."""
import os
import re

import tally
import tap

MEMORY = ["--heap", "--empty=zero", "--throws"]
RETURNS = ["--fds", "--function"]  # what replaces return addresses does not go with timers
LIBRARIES = [word for image in ("libc.so.6", "libstdc++.so.6", "libgcc_s.so.1") for word in ("--function", f"*@{image}")]
WAYS = {"all": ["--no-time", *RETURNS], "calls": ["--no-time", "--calls", *RETURNS], "events": RETURNS, "timers": ["--engine=agent"],
        "entries": ["--no-time", *LIBRARIES, *RETURNS]}
PROGRAMS = {
    "heap_rollcall": [[]],
    "fd_rollcall": [[part] for part in ("results", "stdio", "rights", "ranges", "threads", "forks", "vforks", "cancellation", "handlers")],
    "function_rollcall": [[part] for part in ("results", "exceptions", "cancellation", "jumps", "coroutines", "forks", "signals")],
    "throws": [["run"]],
}
COUNTED = {"heap_rollcall": "heap.count", "fd_rollcall": "fd.used", "function_rollcall": "function.calls", "throws": "throw.count"}


def said(text):
    """But for numbers of processes."""
    return re.sub(r"rollcall\.\d+", "", re.sub(r"^\d+ (?=\d+ \d+ \d+$)", "", text, flags=re.MULTILINE))


def impossible(errors):
    for reason in ("time-stamp counter", "rdfsbase", "shadow stacks"):
        if reason in errors:
            raise tap.Skip(errors.strip())


def one(context, program, arguments, options, what):
    environment = dict(os.environ, TRUTH=os.devnull)
    command = [context.program(program), *arguments]
    plain = tally.run(context, command, env=environment)
    context.equal(plain.status, 0, f"status of {program} {arguments} without Tally ({plain.text()})")
    result = tally.record(context, command, [*MEMORY, *options, *([f"*@{program}"] if "--function" in options else [])], env=environment)
    impossible(result.errors.decode())
    context.equal(result.status, 0, f"{what}: status of {program} {arguments} ({result.text()})")
    context.equal(said(result.output.decode()), said(plain.output.decode()), f"{what}: output of {program} {arguments}")
    profile = tally.Profile(context, result.profile)
    for counter in {COUNTED[program], "function.calls"} if "--function" in options else {"heap.count"}:
        found = profile.rows(f"SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN counters k ON k.id = c.counter WHERE k.name = '{counter}'")
        context.check(found[0][0] > 0, f"{what}: nothing of {counter} in {program} {arguments}")


def by_stack(profile, counter, callee):
    """What each stack has of a counter. `callee`: what its last frame has is its caller's."""
    sums = {}
    for frames, value in profile.stacks(counter):
        key = tuple(frames[:-1] if callee else frames)
        sums[key] = sums.get(key, 0) + value
    return {key: value for key, value in sums.items() if value}


def timed(context, program, arguments, options, functions, losses):
    """Functions that are hooked for something else too: every call is timed, and in a histogram; but for losses that are expected."""
    wanted = [word for name in functions for word in ("--function", name)]
    command = [context.program(program), *arguments]
    result = tally.record(context, command, ["--no-time", *options, *wanted], env=dict(os.environ, TRUTH=os.devnull))
    impossible(result.errors.decode())
    context.equal(result.status, 0, f"status of {program} with {options} ({result.text()})")
    context.check("not timed" not in result.errors.decode(), result.text())
    profile = tally.Profile(context, result.profile)
    calls = sum(by_stack(profile, "function.calls", True).values())
    context.check(calls > 0 and sum(by_stack(profile, "function.time", True).values()) > 0, f"{program} with {options}: {calls} calls, or no time")
    context.equal(profile.rows("SELECT sum(calls) FROM latency"), [(calls,)], f"calls of {program} in histograms, with {options}")
    unseen = {number: count for number, count in profile.losses().items() if number in (48, 49, 50, 53, 62) and number not in losses}
    context.equal(unseen, {}, f"calls of {program} whose ends were not seen, with {options}")
    return profile


def same_calls(context, profile, counter):
    counted = by_stack(profile, counter, False)
    context.check(counted, f"nothing of {counter}")
    context.equal(by_stack(profile, "function.calls", True), counted, f"calls by stack, and {counter}")


def at_once(way):
    def case(context):
        for program, parts in PROGRAMS.items():
            for arguments in parts:
                one(context, program, arguments, WAYS[way], way)
    return case


tap.cases(WAYS, at_once)



@tap.case
def memory_and_time(context):
    """Two collectors on one entry: each has every call, under the same stack."""
    functions = ("malloc", "calloc", "realloc", "aligned_alloc", "posix_memalign")
    for options in (["--heap"], ["--heap", "--calls"], ["--empty=unused"]):
        profile = timed(context, "heap_truth", ["single"], options, functions, ())
        same_calls(context, profile, "heap.count")


@tap.case
def exceptions_and_time(context):
    """A throw does not return: it is timed until the stack is unwound."""
    for options in (["--throws"], ["--throws", "--heap", "--calls"]):
        profile = timed(context, "throws", ["run"], options, ("__cxa_throw", "__cxa_rethrow", "std::rethrow_exception*"), (49,))
        same_calls(context, profile, "throw.count")


@tap.case
def descriptors_and_time(context):
    for options in (["--fds"], ["--fds", "--calls"]):
        profile = timed(context, "fd_rollcall", ["results"], options, ("open*", "dup*", "fcntl*", "pipe*", "socket*", "accept*", "close*"), ())
        context.check(sum(by_stack(profile, "fd.used", False).values()) > 0, "no descriptors")


tap.run()
