"""Programs that forbid themselves system calls, or the processor's clock: with an agent inside they behave as without, and what it does without is said."""
import re
import subprocess

import tally
import tap

FILTERS = ("list", "masks", "error", "trap", "threads", "strict", "clock", "all", "before")
COLLECTORS = (("--heap",), ("--fds",), ("--function", "timed_*"), ("--heap", "--fds", "--function", "timed_*"))
FORBIDDEN, UNTIMED = 65, 48
BLOCKS, CALLS = 4000, 7650  # of one round of work; there are two


def skip_if(result, *reasons):
    for reason in reasons:
        if reason in result.errors.decode():
            raise tap.Skip(result.errors.decode().strip())


def launched(context, how, options):
    """The profile of a run that ended as it does alone."""
    command = [context.program("filtered"), how]
    alone = tally.run(context, command)
    result = tally.record(context, command, ["--no-time", *options])
    skip_if(result, "time-stamp counter", "rdfsbase", "not allowed to read")
    context.equal((result.status, result.output), (alone.status, alone.output), f"{how} with {' '.join(options)} ({result.text()})")
    return tally.Profile(context, result.profile)


def below_work(profile, counter):
    return sum(value for frames, value in profile.stacks(counter) if "timed_work" in frames)


@tap.case
def launch(context):
    """Each filter with each collector."""
    for options in COLLECTORS:
        for how in FILTERS:
            launched(context, how, options)


@tap.case
def timers(context):
    """Samples of time end where a filter forbids what they need."""
    for how in FILTERS:
        alone = tally.run(context, [context.program("filtered"), how])
        result = tally.record(context, [context.program("filtered"), how], ["--engine=agent", "--heap"])
        skip_if(result, "need Linux", "not allowed to read")
        context.equal((result.status, result.output), (alone.status, alone.output), f"{how} with timers ({result.text()})")


@tap.case
def attach(context):
    """The filter is set while it is recorded; and before it is."""
    for how in [*FILTERS, "threads", "threads", "threads"]:  # threads that have just begun are no sooner known than they must be quiet
        if how == "before":
            continue
        program = tally.start(context, [context.program("filtered"), how, "wait"], stdin=subprocess.PIPE)
        program.stdout.readline()
        recording = tally.start(context, [context.tally, "record", "--no-time", "--heap", "--fds", "--function", "timed_*", "-o", context.path("attached"),
                                          "-p", str(program.pid)], stderr=subprocess.PIPE)
        context.check(tally.wait_for(lambda one=program, other=recording: ours(one.pid) or other.poll() is not None), "tally did not begin")
        if recording.poll() is not None:
            skip_if(tally.finish(recording), "time-stamp counter", "rdfsbase")
        output, _ = program.communicate(b"\n", timeout=60)
        alone = tally.run(context, [context.program("filtered"), how])
        context.equal((program.returncode, output), (alone.status, alone.output.split(b"\n", 1)[1]), f"the end of {how}")
        tally.finish(recording)


def ours(pid):
    """Is the agent there, and no tracer?"""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            maps = file.read()
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:
            traced = not re.search(r"^TracerPid:\s0$", file.read(), re.MULTILINE)
    except OSError:
        return False
    return "tally" in maps and not traced


@tap.case
def said(context):
    """A loss for each call that is done without, their names, and all that was counted nevertheless."""
    profile = launched(context, "masks", ["--heap"])
    context.equal(profile.losses().get(FORBIDDEN), 1, "kinds of calls")
    context.check("forbids itself rt_sigprocmask" in profile.meta().get("agent_notice", ""), profile.meta().get("agent_notice", ""))
    context.equal(below_work(profile, "heap.count"), 2 * BLOCKS, "blocks")
    profile = launched(context, "all", ["--heap"])
    context.equal((profile.losses().get(FORBIDDEN), profile.meta().get("agent_notice")), (None, None), "what nothing forbids")


@tap.case
def clock(context):
    """Calls are counted without their time from then on."""
    profile = launched(context, "clock", ["--function", "timed_work"])
    context.equal((below_work(profile, "function.calls"), profile.losses().get(UNTIMED)), (2 * CALLS, CALLS), "calls, and those that are not timed")
    context.check("rdtsc" in profile.meta().get("agent_notice", ""), profile.meta().get("agent_notice", ""))


tap.run()
