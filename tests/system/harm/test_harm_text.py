"""Programs that move their own text, and what others write into it."""
import os
import signal
import subprocess
import time

import harm
import calls
import tally
import tap

ALTERED = 68  # doc/losses.md

MODES = {"calls": ["--calls"], "heap": ["--heap"], "function": ["--function", "step_fn"], "all": ["--calls", "--heap", "--function", "leaf_fn"]}
MOVED = 1.1  # seconds after its beginning: by then programs/remap.c has moved it
COMPILE = "gcc -O1 -g -no-pie -Wl,--section-start=.hot_text=0x10000 -o {program} {source}"


def check_end(row, context, process, line, result, said=b""):
    """It has moved its text, and ends as one that nobody visited."""
    tally.wait_for(lambda: process.poll() is not None, 0.2)
    status, output, errors, _ = harm.end(row, context, process, line)
    context.equal((status, output, errors), (0, b"begun\nmoved\n" + said, b""), f"outcome ({result.text()})")


def check_left(context, mode, result):
    stays = result.status == 2 and mode == "all" and b"could not remove everything" in result.errors  # the moved text leads through both
    context.check(result.status == 0 or stays, f"status of tally ({result.text()})")


def visited_while_it_moves(how, mode):
    def run(context):
        """Its text moves while it is recorded: leaving must not take it away."""
        row = harm.Row("remap", source="remap.c", compile=COMPILE, command=["{program}", how], seconds="1.1")
        process, line = harm.begin(row, context, row.prepare(context))
        result = tally.run(context, harm.record_command(row, context, MODES[mode], "profile", process.pid, "--duration", row.seconds))
        check_left(context, mode, result)
        check_end(row, context, process, line, result)
    run.__name__ = f"moved_by_{how}_{mode}"
    tap.case(run)


for way in ("1", "2"):
    for name in MODES:
        visited_while_it_moves(way, name)


def killed_as_it_moves(how, mode, delay):
    def run(context):
        """Tally is killed before its text moves, or after; what is left is removed, or stays and is said to."""
        row = harm.Row("remap", source="remap.c", compile=COMPILE, command=["{program}", how])
        process, line = harm.begin(row, context, row.prepare(context))
        one = tally.start(context, harm.record_command(row, context, MODES[mode], "profile", process.pid))
        tally.wait_for(lambda: harm.inside(process.pid) or one.poll() is not None)
        context.check(one.poll() is None, "tally did not begin")
        tally.wait_for(lambda: process.poll() is not None, delay)
        one.kill()
        one.communicate()
        tally.wait_for(lambda: process.poll() is not None, MOVED - delay)
        result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
        context.check(result.status == 0 or result.status in (1, 2) and harm.ours(process.pid), f"status of detach ({result.text()})")
        check_end(row, context, process, line, result)
    run.__name__ = f"moved_by_{how}_{mode}_killed_{'before' if delay < 0.5 else 'after'}"
    tap.case(run)


def followed_no_child(how, mode, when):
    def run(context):
        """A child that is not followed moves its text, too, or was forked when it had been moved: neither is harmed."""
        row = harm.Row("remap", source="remap.c", compile=COMPILE, command=["{program}", how, when])
        process, line = harm.begin(row, context, row.prepare(context))
        command = harm.record_command(row, context, MODES[mode], "profile", process.pid, "--no-follow", "--duration", "1.2")
        result = tally.run(context, command)
        check_left(context, mode, result)
        check_end(row, context, process, line, result, b"child 0\n")
    run.__name__ = f"moved_by_{how}_{mode}_child_{when}"
    tap.case(run)


TURNS = {("1", "calls"), ("2", "heap"), ("1", "function"), ("2", "all")}  # each mode has one way to move in `make check`
for way in ("1", "2"):
    for name in MODES:
        if harm.LONG or (way, name) in TURNS:
            for after in (0.1, MOVED - 0.2):
                killed_as_it_moves(way, name, after)
            for fork in ("before", "after"):
                followed_no_child(way, name, fork)


@tap.case
def loaded_where_it_was(context):
    """An object that comes and goes lies where it lay before: hooks of its functions that went with it are no changes of others."""
    program, plugin = context.path("again"), context.path("again_plugin.so")
    for source, target, flags in ("again.c", program, ["-ldl"]), ("again_plugin.c", plugin, ["-shared", "-fPIC"]):
        subprocess.run(["gcc", "-O1", "-g", "-o", target, os.path.join(harm.PROGRAMS, source), *flags], check=True)
    process = tally.start(context, [program, plugin], stdin=subprocess.PIPE)
    process.stdout.readline()
    one = tally.start(context, [context.tally, "record", "--no-time", "--function", "again_*", "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: harm.ours(process.pid) or one.poll() is not None), "tally did not begin")
    time.sleep(0.3)
    process.stdin.write(b"go\n")
    process.stdin.flush()
    context.equal(process.stdout.readline(), b"open\n", "the object is open")
    one.send_signal(signal.SIGINT)
    result = tally.finish(one)
    context.equal(result.status, 0, f"status of tally ({result.text()})")
    context.equal(tally.Profile(context, context.path("profile")).losses().get(ALTERED, 0), 0, "places changed by others")
    context.equal(harm.ours(process.pid), [], "memory that stays")
    context.equal(calls.changed_text(process.pid), [], "changed text")
    process.stdin.close()
    context.equal(process.wait(20), 0, "status")


# --- handlers that come back to what a jump covers ---


def interrupted(what, mode, options):
    """A handler waits while tally attaches, and then its function goes on behind its first instruction."""
    def run(context):
        process = tally.start_busy(context, "interrupted", *what, stdin=subprocess.PIPE)
        recorder = tally.start(context, [context.tally, "record", "--no-time", *options, "-o", context.path("profile"), "-p", str(process.pid)])
        context.check(tally.wait_for(lambda: harm.ours(process.pid) or recorder.poll() is not None), "tally did not begin")
        time.sleep(0.5)
        output, _ = process.communicate(b"", timeout=20)
        result = tally.finish(recorder)
        context.equal((process.returncode, output), (0, b"met 1 result 13\n" if "malloc" in what else b"met 1 result 16\n"), "the program")
        context.equal(result.status, 0, f"status of tally ({result.text()})")
    run.__name__ = "_".join(["interrupted", *what, mode])
    tap.case(run)


for mode, options in {"calls": ["--calls"], "heap": ["--heap"], "function": ["--function", "own", "--function", "malloc"],
                      "all": ["--calls", "--heap", "--fds", "--function", "own"]}.items():
    for what in (["malloc"], ["own"], ["malloc", "other"], ["own", "other"]):
        interrupted(what, mode, options)


# --- text that is summed ---


def skipped_modes(options):
    """All that counts inside a program, with its image left as it is."""
    return {name: [*mode, *options] for name, mode in {
        "calls": ["--calls"], "heap": ["--heap"], "fds": ["--fds"], "function": ["--function", "work_fn"],
        "all": ["--calls", "--heap", "--fds", "--function", "work_fn"]}.items()}


def nothing_inside(context, profile, mode, result):
    """What is left out is not counted, and a function in it that was asked for is a loss."""
    inside = profile.rows("select coalesce(sum(calls), 0) from calls where callee in ('work_fn', 'leaf_fn')")[0][0]
    context.equal(inside, 0, f"calls inside in mode {mode}")
    context.equal(profile.losses().get(70, 0) > 0, mode in ("function", "all"), f"the function is reported in mode {mode} ({result.text()})")


harm.row("self_sum", source="self_sum.c", modes=skipped_modes(["--skip-image", "self_sum"]), ways=["launched", "attached", "killed", "again"], status=0,
         command=["{program}", "on"], check=nothing_inside)


@tap.case
def self_sum_differs_otherwise(context):
    """The test would see a change: with its image among those that are counted it does."""
    row = harm.Row("self_sum", source="self_sum.c")
    for name, mode in {"calls": ["--calls"], "function": ["--function", "work_fn"]}.items():
        result = tally.record(context, row.prepare(context), [*mode, "--no-time"], name)
        context.equal(result.status, 1, f"status in mode {name} ({result.text()})")


@tap.case
def left_out_by_calls_image(context):
    """--calls-image '!GLOB' leaves the image out of the other modes too."""
    row = harm.Row("self_sum", source="self_sum.c")
    command = row.prepare(context)
    alone = tally.run(context, command)
    result = tally.record(context, command, ["--calls-image", "!self_*", "--function", "work_fn", "--heap", "--no-time"])
    context.equal((result.status, result.output), (0, alone.output), f"outcome ({result.text()})")


# --- somebody else's hooks ---


def say(process, letter):
    """What it answers; nothing when it has died."""
    if process.poll() is not None:
        return b""
    process.stdin.write(letter)
    process.stdin.flush()
    return process.stdout.readline().strip()


def kept_for_good(function, mode):
    def run(context):
        """Another hook went over ours and kept the way to it: that memory stays, also when all looks as it was and somebody asks for its
        removal, or records again. The program goes that way each time."""
        row = harm.Row("overlaid", source="overlaid.c", compile="gcc -O1 -g -fcf-protection=none -o {program} {source}")
        process = tally.start(context, [*row.prepare(context), function], stdin=subprocess.PIPE)
        pid = process.pid
        one = tally.start(context, [context.tally, "record", mode, "--no-time", "-o", context.path("first"), "-p", str(pid)])
        context.check(tally.wait_for(lambda: say(process, b"o") == b"taken" or one.poll() is not None), "no hook was taken over")
        one.send_signal(signal.SIGINT)
        result = tally.finish(one)
        context.check(result.status == 2 and b"which stays" in result.errors, f"what stays is reported: {result.text()}")
        kept = harm.ours(pid)
        context.equal(say(process, b"b"), b"done", "answer when the hook is gone")
        for _ in range(2):
            result = tally.run(context, [context.tally, "detach", "-p", str(pid)])
            context.equal(result.status, 1, f"status of detach ({result.text()})")
            context.check(b"something else has changed" in result.output, f"detach says {result.output}")
            context.equal(say(process, b"c"), b"done", "answer after detach")
        result = tally.run(context, [context.tally, "record", "--calls", "--no-time", "-o", context.path("second"), "--duration", "0.3", "-p", str(pid)])
        context.equal(result.status, 0, f"status of the second recording ({result.text()})")
        context.equal(say(process, b"c"), b"done", "answer after another recording")
        context.equal(harm.ours(pid), kept, "what stays")
        process.communicate()
        context.equal(process.returncode, 0, "status of the program")
    run.__name__ = f"kept_for_good_{mode.strip('-')}"
    tap.case(run)


for what, how in (("work", "--calls"), ("malloc", "--heap")):
    kept_for_good(what, how)


harm.run()
