"""All the time of threads (--time=real): what they wait, by function, beside what they know of it themselves."""
import platform
import subprocess

import tally
import tap

REAL = ("--time=real",)
ENGINES = (REAL, (*REAL, "--engine=agent"))
CLOCKS = 0.004  # seconds: a wait is measured from inside a call to inside a call, and its beginning is queued or run
QUEUED = "(waiting for a CPU)"
UNSEEN = 63  # doc/losses.md


def truths(output):
    """{function: seconds it waited}"""
    found = {}
    for line in output.splitlines():
        if line.startswith("wait "):
            _, name, seconds = line.split()
            found[name] = found.get(name, 0) + float(seconds)
    return found


def engines():
    return ENGINES if platform.machine() == "x86_64" else ENGINES[:1]


def waited(profile, name, leaves=("clock_nanosleep", "__poll", "poll", "read", "__libc_read", "wait4", "__wait4")):
    """Seconds at `name` in a system call, and how often it was found there."""
    rows = profile.rows("SELECT value, stack FROM stacks WHERE counter = 'time.real'")
    return sum(value for value, stack in rows if name in stack.split(";") and stack.split(";")[-1] in leaves) / 1e9


def apart(profile):
    """What was waited between two looks may be given to where the second one finds the thread."""
    return int(profile.meta()["waits_apart_most_ns"]) / 1e9 + CLOCKS


def slack(profile):
    return profile.losses().get(UNSEEN, 0) * 1e-3 + apart(profile)


def compare(context, what, profile, truth):
    """What is missing is counted as such, function by function where each wait is long."""
    for name, seconds in truth.items():
        found, least, most = waited(profile, name), seconds - slack(profile), seconds + apart(profile)
        context.check(least <= found <= most, f"{what}: {name} {found:.4f} s of {seconds:.4f}, {least:.4f} to {most:.4f}")


def record(context, program, mode, options, milliseconds="400"):
    profile = tally.recorded(context, [context.program(program), mode, milliseconds], options)
    return profile, truths(profile.output)


@tap.case
def long_waits(context):
    """Each place exactly, in threads and children, with frame pointers and without."""
    for options in engines():
        for program in ("waits", "waits_fp"):
            for mode in ("long", "threads", "children"):
                profile, truth = record(context, program, mode, options)
                compare(context, f"{options} {program} {mode}", profile, {name: truth[name] for name in truth if truth[name] > 0.3})


@tap.case
def stacks(context):
    """From the function that waits to the program's start."""
    for program in ("waits", "waits_fp"):
        profile, _ = record(context, program, "long", REAL)
        stacks_of = [(stack.split(";"), value) for value, stack in profile.rows("SELECT value, stack FROM stacks WHERE counter = 'time.real'")]
        inside = sum(value for frames, value in stacks_of if "wait_poll" in frames)
        whole = sum(value for frames, value in stacks_of if "wait_poll" in frames and "main" in frames[: frames.index("wait_poll")])
        context.check(inside > 0 and whole == inside, f"{program}: {whole / 1e6} of {inside / 1e6} ms lead to main")


@tap.case
def short_waits(context):
    """Two places in turn, with work between: their sum is known."""
    for options in engines():
        profile, truth = record(context, "waits", "alternate", options, "2000")
        whole = truth["wait_long"] + truth["wait_short"]
        found = {name: waited(profile, name) for name in truth}
        least, most = whole - slack(profile), whole + apart(profile) + 0.05 * whole  # and what little is waited between these
        context.check(least <= sum(found.values()) <= most, f"{options}: {found}, truth {truth}, losses {profile.losses()}")


@tap.case
def work_too(context):
    """Time on a CPU is in it as it is in time.cpu."""
    for options in engines():
        profile, _ = record(context, "waits", "alternate", options, "2000")
        rows = profile.rows("SELECT value, stack FROM stacks WHERE counter = 'time.real'")
        work = sum(value for value, stack in rows if "work" in stack.split(";")) / 1e9
        process = float(next(line.split()[1] for line in profile.output.splitlines() if line.startswith("process")))
        context.check(0.5 * process < work < 1.5 * process, f"{options}: {work} s of work, {process} s of CPU time")
        context.equal(profile.counter(), "time.real", "the counter")


@tap.case
def stopped(context):
    """A child that is stopped waits where it stopped itself."""
    for options in engines():
        profile, truth = record(context, "waits", "stopped", options)
        rows = profile.rows("SELECT value, stack FROM stacks WHERE counter = 'time.real'")
        stood = sum(value for value, stack in rows if "raise" in stack.split(";") or "__pthread_kill_implementation" in stack) / 1e9
        late = sum(value for value, stack in rows if stack == QUEUED) / 1e9  # it stops when a CPU has let it run
        least, most = truth["wait_poll"] - slack(profile) - late, int(profile.meta()["duration_ns"]) / 1e9
        context.check(least <= stood <= most, f"{options}: {stood} of {truth}, {least} to {most}")


@tap.case
def threads_that_come(context):
    """What of short lives was not seen is counted."""
    for options in engines():
        profile, truth = record(context, "waits", "come", options, "600")
        found = waited(profile, "wait_long")
        context.check(UNSEEN in profile.losses(), f"{options}: {profile.losses()}")
        if options == REAL:  # where creations are reported
            context.check(found >= truth["wait_long"] - slack(profile), f"{found} of {truth}, losses {profile.losses()}")


@tap.case
def attached(context):
    for options in engines():
        process = tally.start_busy(context, "waits_fp", "stdin", stdin=subprocess.PIPE)
        path = context.path("attached")
        result = tally.run(context, [context.tally, "record", *options, "--duration", "0.5", "-o", path, "-p", str(process.pid)])
        context.equal(result.status, 0, result.text())
        profile = tally.Profile(context, path)
        duration = int(profile.meta()["duration_ns"]) / 1e9
        found = waited(profile, "wait_read")
        context.check(0.5 - slack(profile) <= found <= duration + apart(profile), f"{options}: {found} of {duration} s")
        process.stdin.close()
        process.wait(10)
        context.equal(process.returncode, 0, "its status")


@tap.case
def beside_calls(context):
    if platform.machine() != "x86_64":
        raise tap.Skip("calls are counted on x86-64 only")
    for program in ("waits", "waits_fp"):
        profile, truth = record(context, program, "threads", (*REAL, "--calls"))
        compare(context, f"--calls {program}", profile, {name: truth[name] for name in truth if truth[name] > 0.3})
        context.equal(sum(truth[name] > 0.3 for name in truth), 4, "waits")


tap.run()
