"""All collectors at once on programs that call every hooked function: results and errno as without Tally.

heap_rollcall calls all that allocates, fd_rollcall all that opens and closes, map_truth all that maps, function_rollcall what unwinds,
jumps, forks and is interrupted; each is the witness of what it does: its output is compared, and it ends as before."""
import os
import re

import tally
import tap

MEMORY = ["--heap", "--empty=zero", "--throws"]
RETURNS = ["--fds", "--function"]  # what replaces return addresses does not go with timers
WAYS = {"all": ["--no-time", *RETURNS], "calls": ["--no-time", "--calls", *RETURNS], "events": RETURNS, "timers": ["--engine=agent"]}
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


def at_once(way):
    def case(context):
        for program, parts in PROGRAMS.items():
            for arguments in parts:
                one(context, program, arguments, WAYS[way], way)
    return case


tap.cases(WAYS, at_once)
tap.run()
