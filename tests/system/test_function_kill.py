"""Tally killed while it times functions: the program goes on with return addresses replaced, until somebody puts them back."""
import random
import subprocess
import time

import tally
import tap

KILLS = 100 if tap.LONG else 6


def ours(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [line for line in file if "tally" in line]


@tap.case
def killed_anywhere(context):
    """At random moments of attaching, timing and leaving; the program catches exceptions, jumps and switches stacks meanwhile."""
    source = random.Random(20261121)
    target = tally.start(context, [context.program("function_rollcall"), "forever"], stdin=subprocess.PIPE)
    context.equal(target.stdout.readline(), b"ready\n", "the first line")
    left = 0
    for _ in range(KILLS):
        one = tally.start(context, [context.tally, "record", "--no-time", "--function", "timed_*", "-o", context.path("killed"), "--duration", "0.05",
                                    "-p", str(target.pid)])
        context.check(tally.wait_for(lambda: ours(target.pid) or one.poll() is not None), "tally did not begin")
        time.sleep(source.random() * 0.08)
        one.kill()
        _, errors = one.communicate()
        for reason in ("time-stamp counter", "rdfsbase"):
            if reason in errors.decode():
                raise tap.Skip(errors.decode().strip())
        left += bool(ours(target.pid))
        time.sleep(0.02)  # the program goes on with what was left
        context.check(tally.wait_for(lambda: detached(context, target.pid)), "memory left after detach")
    context.note(f"{left} of {KILLS} left something")
    context.check(left > 0, "no kill came while something was there")
    output, _ = target.communicate(timeout=60)
    context.equal((target.returncode, output), (0, b"ended 1\n"), "the program's end")


def last_words(context, how, options):
    """What the program prints at its end when tally is killed while all its stacks have calls that are timed."""
    program = [context.program("late_unwinder"), how]
    alone = tally.run(context, program, input=b"\n").output
    one = tally.start(context, [context.tally, "record", "--no-time", *options, "--function", "timed_*", "-o", context.path("killed"), "--", *program],
                      stdin=subprocess.PIPE)
    line = one.stdout.readline()
    if line != b"ready\n":
        reason = one.stderr.read().decode()
        if "time-stamp counter" in reason or "rdfsbase" in reason:
            raise tap.Skip(reason.strip())
        raise AssertionError(f"the first line is {line}: {reason}")
    one.kill()
    one.stdin.write(b"\n")
    one.stdin.flush()
    context.equal((line + one.stdout.read()).decode(), alone.decode(), f"what {how} found of its stacks")
    one.wait()


@tap.case
def unwinder_loaded_after(context):
    """Nobody hooks it any more: it is to find the stack as it would be without us."""
    for how in ("backtrace", "threads", context.program("late_unwinder_plugin.so")):
        last_words(context, how, [])


@tap.case
def unwinder_loaded_after_beside_calls(context):
    """What tells of objects there is no part of the agent."""
    for how in ("backtrace", "threads"):
        last_words(context, how, ["--calls"])


def detached(context, pid):
    """A machine that is busy may need another try."""
    tally.run(context, [context.tally, "detach", "-p", str(pid)])
    return not ours(pid)


tap.run()
