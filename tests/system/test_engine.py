"""Time sampled from inside the program, by timers (--engine=agent): it does what it does without, and its shares are right."""
import fcntl
import os
import pty
import signal
import subprocess
import termios
import time

import tally
import tap

AGENT = ("--engine=agent",)
# Modes of tests/programs/timed.c; the number is of milliseconds, rounds or threads.
MODES = [("calls", "40"), ("actions", "40"), ("unseen", "40"), ("stack", "40"), ("waits", "40"), ("threads", "8"), ("threads", "64"), ("churn", "2000"), ("children", "0"),
         ("filter", "60")]


def plain(context, command):
    result = tally.run(context, command)
    context.equal(result.status, 0, f"{command}: {result.text()}")
    return result.output.decode()


def same(context, program):
    for mode in MODES:
        command = [context.program(program), *mode]
        truth = plain(context, command)
        profile = tally.recorded(context, command, AGENT)
        context.equal(profile.output, truth, f"{program} {mode}")


@tap.case
def same_as_without(context):
    same(context, "timed")


@tap.case
def same_when_static(context):
    same(context, "timed_static")


@tap.case
def same_when_ended(context):
    """Calls that a signal of the program's ends, or does not."""
    command = [context.program("ended"), "60", context.path("")]
    profile = tally.recorded(context, command, AGENT)
    context.equal(profile.output, "ends 0, goes on 0, own mask 0\n", "calls that were ended")


def share(profile, function):
    rows = profile.rows("SELECT value, stack FROM stacks WHERE counter IN ('time.cpu', 'time.user')")
    return sum(value for value, stack in rows if function in stack.split(";")) / sum(value for value, _ in rows)


@tap.case
def shares(context):
    """Three quarters are burn_three's: within what so many samples allow for, five times the standard deviation."""
    for options in (AGENT, (*AGENT, "--time=user"), (*AGENT, "--heap")):
        profile = tally.recorded(context, [context.program("timed"), "shares", "1500"], options)
        samples = profile.rows("SELECT sum(samples) FROM data_cells c JOIN data_counters k ON k.id = c.counter"
                               " JOIN data_strings s ON s.id = k.name WHERE s.text GLOB 'time.*'")[0][0]
        context.check(samples >= 40, f"{options}: only {samples} samples")
        spread = 5 * (0.75 * 0.25 / samples) ** 0.5
        found = share(profile, "burn_three")
        context.check(abs(found - 0.75) < spread, f"{options}: {found} of {samples} samples")
        context.check(share(profile, "main") > 0.95, f"{options}: stacks do not reach main")


@tap.case
def followed(context):
    """Threads, and children of fork, have timers too."""
    profile = tally.recorded(context, [context.program("timed"), "threads", "8"], AGENT)
    context.check(share(profile, "burn_blocked") > 0.9, "threads")
    profile = tally.recorded(context, [context.program("timed"), "children", "0"], AGENT)
    processes = profile.rows("SELECT count(DISTINCT t.process) FROM data_cells c JOIN data_threads t ON t.id = c.thread")[0][0]
    context.check(processes >= 2, f"{processes} processes have samples")


def refused(context, *words):
    return tally.run(context, [context.program("timed"), "refuse", context.tally, "record", "-o", context.path("refused"), *words,
                               "--", context.program("timed"), "shares", "400"])


@tap.case
def chosen_by_itself(context):
    """Where perf_event is refused, and said."""
    result = refused(context)
    context.equal((result.status, result.output), (0, b"shares\n"), result.text())
    context.check(b"perf_event is refused" in result.errors, result.text())
    found = tally.Profile(context, context.path("refused")).meta()
    context.check(found["engine"].startswith("agent timers"), found["engine"])
    result = refused(context, "--engine=perf")
    context.check(result.status == 125 and b"perf_event" in result.errors, result.text())


@tap.case
def claimed(context):
    """A program that takes the signal has it; that it is not sampled any more is said."""
    profile = tally.recorded(context, [context.program("timed"), "actions", "200"], AGENT)
    context.check("not sampled any more" in profile.meta().get("agent_notice", ""), str(profile.meta()))
    profile = tally.recorded(context, [context.program("timed"), "unseen", "100"], AGENT)
    context.check("not sampled any more" in profile.meta().get("agent_notice", ""), str(profile.meta()))


MOVED = "moves 1\nchild: exit 10\nas without: 1\ncame 3 and 1 times\n"


def moved(context, program, *options):
    profile = tally.recorded(context, [context.program(program), "moves", "400"], (*AGENT, *options), start_new_session=True)
    context.equal(profile.output, MOVED, f"{program}, {options}")
    context.check(share(profile, "burn_one") > 0, "no samples after the signal was taken")
    context.check("not sampled any more" in profile.meta().get("agent_notice", ""), str(profile.meta()))


@tap.case
def goes_on_with_another(context):
    """A program that takes the signal, and has no use for SIGWINCH, is sampled with that, until it takes it too."""
    truth = plain(context, [context.program("timed"), "moves", "0"])
    context.equal(truth.replace("moves 0", "moves 1"), MOVED, "alone")
    for options in ((), ("--heap",), ("--no-follow",)):
        moved(context, "timed", *options)
    moved(context, "timed_static")


def with_terminal(terminal):
    os.setsid()
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)


@tap.case
def stays_where_it_is(context):
    """With a controlling terminal SIGWINCH may come, and would end calls; it may for who left the terminal, but not its group."""
    for mode in ("stays", "leaves"):
        ours, theirs = pty.openpty()
        profile = tally.recorded(context, [context.program("timed"), mode, "400"], AGENT, preexec_fn=lambda: with_terminal(theirs))
        os.close(ours)
        os.close(theirs)
        context.equal(profile.output, "stays 1, came 1 times\n", mode)
        context.check("not sampled any more" in profile.meta().get("agent_notice", ""), str(profile.meta()))


def left(process):
    """What of ours is in a process: mappings, timers, a handler."""
    with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps:
        mapped = sum("tally" in line for line in maps)
    with open(f"/proc/{process.pid}/timers", encoding="utf-8") as timers:
        timed = timers.read().count("ID:")
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        caught = [line for line in status if line.startswith("SigCgt")]
    return mapped, timed, caught


def end(context, process, truth):
    output = process.communicate(timeout=60)[0].decode()
    context.equal((process.returncode, output), (0, truth), "the program's end")


def truth_of_forever(context):
    done = subprocess.run([context.program("timed"), "forever"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=60, check=True)
    return done.stdout.decode().partition("\n")[2]


@tap.case
def attached_and_left(context):
    """Nothing stays, and no call ends otherwise, while threads work, wait, and are created."""
    truth = truth_of_forever(context)
    process = tally.start_busy(context, "timed", "forever", stdin=subprocess.PIPE)
    before = left(process)
    for _ in range(12 if tap.LONG else 6):
        path = context.path("attached")
        result = tally.run(context, [context.tally, "record", *AGENT, "--duration", "0.2", "-o", path, "-p", str(process.pid)])
        context.equal(result.status, 0, result.text())
        context.equal(left(process), before, "what is left")
    end(context, process, truth)


@tap.case
def own_timer_stays(context):
    """Threads are created all the time, and some are about to note their timer as tally leaves: none of ours stays, and the program's does."""
    for _ in range(6 if tap.LONG else 2):
        process = tally.start_busy(context, "own_timer", stdin=subprocess.PIPE)
        before = left(process)
        for number in range(12 if tap.LONG else 6):
            result = tally.run(context, [context.tally, "record", *AGENT, "--duration", "0.05", "-o", context.path("created"), "-p", str(process.pid)])
            context.equal((result.status, left(process)), (0, before), f"what is left after visit {number} ({result.text()})")
        end(context, process, "there 1 interval 1000\n")


def catches(process, number):
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as status:
        return any(int(line.split()[1], 16) >> (number - 1) & 1 for line in status if line.startswith("SigCgt"))


def take(context, process):
    """Tally is attached, and the program takes the signal: who records it, and what was there before but for that."""
    recorder = tally.start(context, [context.tally, "record", *AGENT, "-o", context.path("taken"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: left(process)[1] > 0), "no timer was made")
    process.stdin.write(b"1")
    process.stdin.flush()
    context.check(tally.wait_for(lambda: catches(process, signal.SIGWINCH) and left(process)[1] > 0), "the timers did not move")
    return recorder


@tap.case
def moved_and_left(context):
    """Nothing stays of timers that moved, whether tally ends or is killed."""
    for how in (signal.SIGINT, signal.SIGKILL):
        process = tally.start_busy(context, "timed", "taken", stdin=subprocess.PIPE, start_new_session=True)
        recorder = take(context, process)
        recorder.send_signal(how)
        recorder.communicate(timeout=60)
        if how == signal.SIGKILL:
            result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
            context.equal(result.status, 0, result.text())
        context.equal(left(process)[:2], (0, 0), f"what is left after {how}")
        context.equal((catches(process, signal.SIGURG), catches(process, signal.SIGWINCH)), (True, False), "handlers")
        end(context, process, "taken: came 1 and 0 times\n")


@tap.case
def killed(context):
    """Tally is killed: the program goes on, and detach takes everything away."""
    truth = truth_of_forever(context)
    process = tally.start_busy(context, "timed", "forever", stdin=subprocess.PIPE)
    before = left(process)
    recorder = tally.start(context, [context.tally, "record", *AGENT, "-o", context.path("killed"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: left(process)[1] > 0), "no timer was made")
    recorder.send_signal(signal.SIGKILL)
    recorder.wait()
    time.sleep(0.3)
    context.equal(process.poll(), None, "the program ended")
    result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
    context.equal(result.status, 0, result.text())
    context.equal(left(process), before, "what is left")
    end(context, process, truth)


tap.run()
