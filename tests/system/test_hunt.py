"""A hunt for deadlocks: whatever may interrupt, load, fork, throw or end while memory, descriptors, exceptions and functions are recorded.

A program that waits for itself is one that does not end in time. What is counted must be right all the same. TALLY_HUNT is how many times
as long as usual to hunt (10 with TALLY_LONG)."""
import os
import subprocess

import tally
import tap

TIMES = int(os.environ.get("TALLY_HUNT", "10" if tap.LONG else "1"))
ROUNDS = 3000  # of each of 64 threads
THREADS = 10000
VISITS = 8
PATIENCE = 120 * TIMES
INTERRUPTED, RESTED = 30, 66
ALL = ["--heap", "--fds", "--throws", "--function", "own_*"]


def reported(output):
    words = output.decode().split() if isinstance(output, bytes) else output.split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2], strict=True)}


def counted(profile, counter):
    """What own_malloc and own_realloc did themselves in the process that was started."""
    return profile.rows(
        "SELECT coalesce(sum(c.value), 0) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
        " JOIN data_strings s ON s.id = k.name JOIN data_frames f ON f.node = c.node JOIN data_threads t ON t.id = c.thread"
        f" WHERE s.text = '{counter}' AND f.function IN ('own_malloc', 'own_realloc') AND t.process = (SELECT min(id) FROM data_processes)")[0][0]


def thrown(profile):
    return profile.rows("SELECT coalesce(sum(value), 0) FROM stacks WHERE counter = 'throw.count' AND stack GLOB '*own_throw*'")[0][0]


def hunted(context, arguments, options):
    profile = tally.recorded(context, [context.program("hunt"), *arguments], ["--no-time", *options], timeout=PATIENCE)
    said = reported(profile.output)
    got = {"blocks": counted(profile, "heap.count"), "bytes": counted(profile, "heap.total"),
           "live-blocks": counted(profile, "heap.live.count"), "live": counted(profile, "heap.live")}
    return profile, said, got


def check_exact(context, said, got, what):
    context.equal(got, {name: said[name] for name in got}, what)


def check_but_for_interrupted(context, profile, said, got, what):
    """A handler that interrupts a hook is not counted, which is a counted loss."""
    lost = profile.losses().get(INTERRUPTED, 0)
    context.check(said["blocks"] - lost <= got["blocks"] <= said["blocks"], f"{what}: {got} of {said}, {lost} lost")


def crowd(context):
    return ["crowd", str(ROUNDS * TIMES), context.program("heap_plugin.so")]


@tap.case
def without_tally(context):
    """The program by itself: what follows is none of its own faults."""
    result = tally.run(context, [context.program("hunt"), *crowd(context)], timeout=PATIENCE)
    context.equal((result.status, reported(result.output)["children"]), (0, 12), f"the program: {result.text()}")


@tap.case
def memory(context):
    profile, said, got = hunted(context, crowd(context), ["--heap"])
    check_exact(context, said, got, "blocks and bytes")
    context.equal(said["children"], 12, "children that ended well")
    context.note(f"{profile.losses().get(INTERRUPTED, 0)} calls of handlers in the midst of a hook: what they mapped")


@tap.case
def everything(context):
    for options in (["--heap", "--fds", "--throws"], ALL):
        profile, said, got = hunted(context, crowd(context), options)
        check_but_for_interrupted(context, profile, said, got, " ".join(options))
        context.equal(said["children"], 12, "children that ended well")
        context.equal(thrown(profile), said["thrown"], "exceptions")


@tap.case
def threads_that_come_and_go(context):
    for options in (["--heap"], ALL):
        _, said, got = hunted(context, ["churn", str(THREADS * TIMES)], options)
        context.equal(said["blocks"], 2 * THREADS * TIMES, "blocks of the program")
        check_exact(context, said, got, " ".join(options))


def counted_calls(profile):
    return {name.split("(")[0]: int(row["self"]) for name, row in profile.flat("function.calls").items() if int(row["self"]) > 0}


@tap.case
def under_signals(context):
    """Short functions and their handlers' functions, timed at 10 kHz: the program gets on, and every call counts or is lost. The last handler's
    take longer, timed, than from one signal to the next."""
    for arguments in (["1000000", "100"], ["1000000", "0", "4"], ["100000", "500"]):
        profile = tally.recorded(context, [context.program("storm"), *arguments], ["--no-time", "--function", "own_*"], timeout=PATIENCE)
        said, counted, losses = reported(profile.output), counted_calls(profile), profile.losses()
        rested, made = losses.get(RESTED, 0), said["own_step"]
        context.check(made - rested <= counted.get("own_step", 0) <= made, f"calls that no handler made: {counted} of {made}, {rested} lost")
        context.equal(sum(counted.values()) + losses.get(INTERRUPTED, 0) + rested, sum(said.values()), "calls, with those lost")


def left_in(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [line for line in file if "tally" in line]


@tap.case
def come_and_go(context):
    """Recorded and left, again and again, while all of it goes on."""
    process = tally.start(context, [context.program("hunt"), "crowd", "0", context.program("heap_plugin.so")], stdin=subprocess.PIPE)
    done = 0
    for number in range(VISITS * TIMES):
        result = tally.run(context, [context.tally, "record", "--no-time", *ALL, "-o", context.path("visit"), "--duration", "0.1",
                                     "-p", str(process.pid)], timeout=PATIENCE)
        refused = b"did not stop within" in result.errors  # a busy machine: tally left before it began
        context.check(refused or result.status == 0, f"status of visit {number} ({result.text()})")
        context.equal(left_in(process.pid), [], f"memory left after visit {number} ({result.text()})")
        done += not refused
    output, errors = process.communicate(timeout=PATIENCE)
    context.equal(process.returncode, 0, f"its status ({errors})")
    context.equal(reported(output)["children"], 12, "children that ended well")
    tally.check_rounds(context, done, VISITS * TIMES)


tap.run()
