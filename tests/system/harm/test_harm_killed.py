"""What a killed tally left, and what comes next: every mode killed at a random moment of its life, followed by every mode or by `tally
detach`, on programs that are never at rest. None is harmed, and afterwards all is as before.

The pairs are drawn from a fixed seed: TALLY_KILLED_ROUNDS says how many for each program (12; with TALLY_LONG 400).
"""
import os
import random
import subprocess
import time

import harm
import calls
import tally
import tap

ROUNDS = int(os.environ.get("TALLY_KILLED_ROUNDS", "400" if harm.LONG else "12"))
MODES = {name: mode for name, mode in harm.MODES.items() if mode}
NEXT = [*MODES, "detach"]
FIRST = [("calls", "calls+heap", 0.3), ("all", "calls", 0.4), ("calls", "all", 0.3)]  # hooks that take over a dead tally's jumps
PATIENCE = 5  # seconds for what a killed tally left to go, on a machine with other work


def command(context, mode, pid, *more):
    return [context.tally, "record", *MODES[mode], "--no-time", *more, "-o", context.path("profile"), "-p", str(pid)] \
        if "--engine=agent" not in MODES[mode] else [context.tally, "record", *MODES[mode], *more, "-o", context.path("profile"), "-p", str(pid)]


def kill_one(context, mode, pid, delay):
    """A recording that is killed `delay` seconds after it began to change the process, or after its start."""
    one = tally.start(context, command(context, mode, pid, "--duration", "0.3"))
    time.sleep(delay)
    one.kill()
    one.communicate()
    return tally.wait_for(lambda: not calls.tracers(pid), PATIENCE)


def follow_up(context, what, pid):
    """The next one, which must succeed: (status, its text)."""
    arguments = [context.tally, "detach", "-p", str(pid)] if what == "detach" else command(context, what, pid, "--duration", "0.15")
    return tally.run(context, arguments)


def rounds(context, pid, alive, seed, restless=False):
    """Each pair of a seeded list; the counts of what had to be left."""
    source = random.Random(seed)
    before = harm.Footprint(pid, restless)
    left = 0
    for number in range(ROUNDS):
        first, second, delay = source.choice(list(MODES)), source.choice(NEXT), source.random() * 0.45
        if number < len(FIRST):
            first, second, delay = FIRST[number]
        what = f"{first} killed after {delay:.3f} s, then {second} (round {number})"
        context.check(kill_one(context, first, pid, delay), f"{what}: it is traced still")
        if not context.check(alive(), f"{what}: it died of the kill"):
            return
        left += bool(harm.ours(pid))
        result = follow_up(context, second, pid)
        context.equal(result.status, 0, f"{what}: status ({result.text()})")
        if not context.check(alive(), f"{what}: it died of what came next"):
            return
        before.same(context, pid, f"after {what}")
        if context.failures:
            return
    context.note(f"{ROUNDS} rounds, {left} in which something was left")
    context.check(left > 0 or ROUNDS < 5, "no kill came while something was there")


@tap.case
def redis(context):
    """A server under load."""
    tap.need("redis-server", "redis-benchmark")
    path = context.path("socket")
    server = tally.start(context, ["redis-server", "--save", "", "--appendonly", "no", "--port", "0", "--unixsocket", path],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    context.check(tally.wait_for(lambda: os.path.exists(path)), "no server")
    load = tally.start(context, ["redis-benchmark", "-s", path, "-c", "20", "-n", "100000000", "-t", "set,get,lpush,hset", "-q"],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(0.2)
    rounds(context, server.pid, lambda: server.poll() is None and load.poll() is None, 1)
    load.kill()
    load.wait()
    server.terminate()
    context.equal(server.wait(20), 0, "status of the server")


@tap.case
def crowd(context):
    """Sixteen threads that do all that is hooked."""
    tap.need("g++")
    program = context.path("crowd")
    subprocess.run(["g++", "-std=c++17", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, "crowd.cpp")], check=True)
    process = tally.start(context, [program], stdin=subprocess.PIPE)
    process.stdout.readline()
    time.sleep(0.1)
    rounds(context, process.pid, lambda: process.poll() is None, 2, restless=True)
    output, errors = process.communicate(timeout=60)
    context.equal((process.returncode, output, errors), (3, b"done\n", b""), "outcome")


PYTHON = """
import sys, threading
over = False
def work():
    while not over:
        assert sum(len(str(i)) for i in range(1000)) == 2890
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
print("begun", flush=True)
sys.stdin.read()
over = True
for thread in threads: thread.join()
print("done")
"""


@tap.case
def python(context):
    process = tally.start(context, ["/usr/bin/python3", "-c", PYTHON], stdin=subprocess.PIPE)
    process.stdout.readline()
    rounds(context, process.pid, lambda: process.poll() is None, 3)
    output, errors = process.communicate(timeout=60)
    context.equal((process.returncode, output, errors), (0, b"done\n", b""), "outcome")


tap.run()
