"""Stubs that try a function first (calls_guess.c): every call is counted to the unit, wherever it goes, and the program is as it was when
tally has left it, or was killed."""
import os
import signal

import calls
import tally
import tap

CALLS = "100000"
PRINTED = ["moved 1", "faults 3"]


def outcome(context, lines, profile):
    context.equal(calls.other_lines(lines), PRINTED, "what the program found: sites led to other stubs, faults at address 0")
    if profile:
        calls.check(context, profile, least=9, by_process=True)


@tap.case
def launched(context):
    """Another callee midway, both in turn, NULL, signals, a fork child, threads, a child of a process with threads."""
    profile = calls.counted(context, [context.program("calls_guess"), CALLS])
    outcome(context, profile.output, profile)


@tap.case
def launched_with_time(context):
    """Samples fall into such stubs too, and are the callee's or the caller's."""
    profile = tally.recorded(context, [context.program("calls_guess"), CALLS], ["--calls"])
    outcome(context, profile.output, profile)
    strange = {name for name in profile.functions() if "tally" in name or name == "stub"}
    context.equal(strange, set(), "functions of tally's own in the stacks")


def answer(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def read_until(process, word):
    lines = []
    for line in iter(process.stdout.readline, b""):
        lines.append(line.decode())
        if line.startswith(word):
            break
    return "".join(lines)


def begin(context, prefix, **environment):
    return tally.start(context, [*prefix, context.program("calls_guess"), CALLS], stdin=-1, env=dict(os.environ, **environment))


def ended(context, process, before, status=0):
    """Goes on after what it said so far, to its end."""
    answer(process)
    output, _ = process.communicate(timeout=120)
    if status is not None:
        context.equal(process.returncode, status, "exit status")
    return "".join(line + "\n" for line in (before + output.decode()).splitlines() if line != "ready")


@tap.case
def attached(context):
    process = begin(context, [], CALLS_WAIT="1")
    read_until(process, b"ready")
    path = context.path("profile")
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", path, "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: calls.counting(process.pid), 30), "tally does not count")
    text = ended(context, process, "")
    recorder.communicate(timeout=60)
    context.equal(recorder.returncode, 0, "tally's status")
    profile = tally.Profile(context, path)
    profile.output, profile.errors = text, ""
    outcome(context, text, profile)


@tap.case
def detached(context):
    """From stubs that guess; what comes after is not counted, and goes where it would."""
    process = begin(context, [], CALLS_WAIT="1", GUESS_STAY="1")
    read_until(process, b"ready")
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: calls.counting(process.pid), 30), "tally does not count")
    answer(process)
    text = read_until(process, b"ready")
    recorder.send_signal(signal.SIGINT)
    recorder.communicate(timeout=60)
    context.equal(recorder.returncode, 0, "tally's status")
    calls.is_untouched(context, process.pid)
    outcome(context, ended(context, process, text), None)


@tap.case
def tally_is_killed(context):
    """The program goes on in those stubs; its threads have none of their own form any more."""
    recorder = begin(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "--"], GUESS_STAY="1")
    text = read_until(recorder, b"ready")
    recorder.kill()
    outcome(context, ended(context, recorder, text, None), None)


tap.run()
