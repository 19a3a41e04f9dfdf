"""Coming and going: exact counting of processes that run, again and again, leaves no trace and changes nothing they do.

TALLY_CALLS_ROUNDS sets how often each program is attached to (3; with TALLY_LONG 200).
"""
import os
import random
import signal
import subprocess
import time

import calls
import tally
import tap
import workloads

ROUNDS = int(os.environ.get("TALLY_CALLS_ROUNDS", "200" if tap.LONG else "3"))


def once(context, pid, duration):
    """Attaches for a moment. A target that has ended meanwhile is fine."""
    path = context.path("profile")
    if os.path.exists(path):
        os.unlink(path)
    result = tally.run(context, [context.tally, "record", *calls.options(), "-o", path, "--duration", f"{duration:.3f}", "-p", str(pid)])
    return result


def mapping_count(pid):
    """Of files and of tally's memory; a program's own memory comes and goes."""
    return sum(1 for *_, path in calls.mappings(pid) if path.startswith("/"))


def come_and_go(context, process, pid, source, rounds=None):
    """Attaches and detaches at random moments; the numbers of mappings afterwards."""
    found, done = [], 0
    for number in range(rounds or ROUNDS):
        time.sleep(source.random() * 0.05)
        if process.poll() is not None:
            break
        result = once(context, pid, 0.02 + source.random() * 0.15)
        if process.poll() is not None:
            break
        context.equal(result.status, 0, f"status of round {number} ({result.text()})")
        try:
            calls.is_untouched(context, pid, f"after round {number}")
            found.append(mapping_count(pid))
        except ProcessLookupError:  # it ends while it is looked at
            process.wait(timeout=60)
            break
        done += 1
        if context.failures:
            break
    return found


IMAGES = 600 if tap.LONG else 400  # some 10 ms each


@tap.case
def attach_while_it_execs(context):
    """A process that runs one image after another: each that begins after tally has is counted whole, and none fails an attach."""
    for number in range(2 * ROUNDS):
        with open(context.path("output"), "wb") as output:
            process = tally.start(context, [context.program("calls_process"), "exec", str(IMAGES)], stdout=output)
        time.sleep(0.01 + number % 7 * 0.003)
        path = context.path(f"profile{number}")
        result = tally.run(context, [context.tally, "record", *calls.options(), "-o", path, "-p", str(process.pid)])
        process.wait(timeout=60)
        if not context.equal((process.returncode, result.status), (0, 0), f"status of the program and of tally ({result.text()})"):
            return
        with open(context.path("output"), encoding="utf-8") as output:
            printed = output.read()
        # the image with COUNT still to come calls process_leaf 100 + COUNT times; the last ones are counted, but the first of them in part
        leaves = sorted(row[4] for row in calls.truths(printed) if row[1:3] == ("process_work", "process_leaf"))
        counted = dict(tally.Profile(context, path).rows("select callee, sum(calls) from edges group by 1"))
        images = counted.get("process_work", 0)
        context.check(images > 0 and sum(leaves[:images]) <= counted["process_leaf"] <= sum(leaves[:images + 1]),
                      f"calls that were counted: {counted}, of images that make {leaves[:images + 1][-3:]}")


def does_not_grow(context, before, counts):
    """What must stay stays once: the second and the last visit leave the same."""
    if len(counts) > 2:
        context.check(counts[-1] <= max(counts[:2]), f"mappings before {before}, after each visit {counts}")


def visit_all(context, command, seed):
    """One run with visitors: its status and output, and the numbers of mappings after each visit."""
    with open(context.path("output"), "wb") as output:
        process = tally.start(context, command, stdout=output)
        time.sleep(0.02)
        before = mapping_count(process.pid)
        counts = come_and_go(context, process, process.pid, random.Random(seed))
        process.wait(timeout=120)
    does_not_grow(context, before, counts)
    with open(context.path("output"), "rb") as file:
        return process.returncode, file.read(), counts


def visited(context, workload, amount, seed):
    """The program's outcome is the same with visitors as without. Where the machine is so slow that it ends before the third visit,
    it is given more to do."""
    for more in (1, 3, 9):
        command = workload(context, amount * LONGER * more)
        bare = tally.run(context, command)
        status, output, counts = visit_all(context, command, seed)
        context.equal(status, bare.status, "status")
        context.check(output == bare.output, f"stdout: {tap.shorten(output, 200)} is not {tap.shorten(bare.output, 200)}")
        if len(counts) >= 3 or context.failures:
            return
    context.check(False, f"the program ended after {len(counts)} rounds")


LONGER = max(1, ROUNDS // 8)


@tap.case
def bzip2(context):
    visited(context, workloads.bzip2, 14, 1)


@tap.case
def xz(context):
    """Two worker threads, made anew for each file."""
    visited(context, workloads.xz, 6, 2)


@tap.case
def lua(context):
    visited(context, workloads.lua, 24, 3)


@tap.case
def sqlite3(context):
    visited(context, workloads.sqlite, 350000, 4)


@tap.case
def python(context):
    visited(context, workloads.python, 45, 5)


@tap.case
def compiler(context):
    visited(context, workloads.compiler, 600, 6)


@tap.case
def signals(context):
    """A handler at 10 kHz, on an alternate stack, that calls what is counted: the program's own figures tell whether one call went astray."""
    process = tally.start(context, [context.program("calls_signals"), str(40000000 * LONGER), "100"])
    time.sleep(0.05)
    before = mapping_count(process.pid)
    counts = come_and_go(context, process, process.pid, random.Random(7))
    output = process.communicate(timeout=200)[0].decode()
    does_not_grow(context, before, counts)
    context.equal(process.returncode, 0, "status")
    made = {(caller, callee): number for _, caller, callee, kind, number in calls.truths(output) if kind == "indirect"}
    context.equal(made, {("signals_main", "signals_step"): 40000000 * LONGER}, "calls the program made by pointer")


@tap.case
def signals_from_outside(context):
    """Signals that the target ignores, at 10 kHz, from another process."""
    command = workloads.lua(context, 24)
    bare = tally.run(context, command)
    process = tally.start(context, command)
    sender = tally.start(context, ["/usr/bin/python3", "-c", "import os, sys, time, signal\n"
                         "try:\n while True:\n  os.kill(int(sys.argv[1]), signal.SIGWINCH); time.sleep(0.00004)\n"
                         "except ProcessLookupError: pass", str(process.pid)])
    come_and_go(context, process, process.pid, random.Random(8), 4)
    output = process.communicate(timeout=120)[0]
    sender.kill()
    context.equal((process.returncode, output), (bare.status, bare.output), "outcome")


@tap.case
def threads(context):
    """Eight that call for ever."""
    process = tally.start_busy(context, "threads", "8", "--together", "--forever")
    before = mapping_count(process.pid)
    does_not_grow(context, before, come_and_go(context, process, process.pid, random.Random(9)))


@tap.case
def threads_that_come_and_go(context):
    process = tally.start(context, [context.program("calls_threads"), "churn", str(60000 * LONGER)])
    counts = come_and_go(context, process, process.pid, random.Random(10), 5)
    context.check(counts, "no round")
    output = process.communicate(timeout=120)[0].decode()
    context.equal(process.returncode, 0, "status")
    made = {(caller, callee): number for _, caller, callee, kind, number in calls.truths(output) if number}
    context.equal(made.get(("thread_short", "thread_leaf")), 3 * 60000 * LONGER, "calls the program made")


def inherited_mappings(pid):
    """As the threads that live see them."""
    lines = []
    for name in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{name}/maps", encoding="utf-8") as file:
            lines += file.readlines()
    return lines


@tap.case
def after_the_first_thread(context):
    """What is counted and left when the first thread has ended is what its threads run in."""
    process = tally.start_busy(context, "threads", "2", "--together", "--forever", "--headless")
    context.check(tally.wait_for(lambda: calls.state(process.pid) == "Z"), "the first thread lives")
    result = once(context, process.pid, 1)
    context.equal(result.status, 0, f"status ({result.text()})")
    found = calls.edges(tally.Profile(context, context.path("profile")))
    context.check(any("thread_work" in str(edge) and "thread_busy" in str(edge) for edge in found), f"edges: {found}")
    ours = [line for line in inherited_mappings(process.pid) if "/memfd:tally" in line]
    context.equal(ours, [], "what stayed")
    context.check(process.poll() is None, "the target has ended")


@tap.case
def after_a_fork(context):
    """A child that was made while its parent was counted, and lives on, is left as it was, too."""
    script = "import os, sys, time\nr, w = os.pipe()\nos.write(1, b'ready\\n')\nos.read(0, 1)\npid = os.fork()\n" \
             "if pid == 0:\n    os.write(1, b'%d\\n' % os.getpid())\n    os.read(0, 1)\n    os.write(1, b'%d\\n' % sum(i * i for i in range(300000)))\n    os._exit(3)\n" \
             "os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    process = tally.start(context, ["/usr/bin/python3", "-I", "-c", script], stdin=subprocess.PIPE)
    process.stdout.readline()
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: recorder.poll() is not None or calls.counting(process.pid)), "tally did not begin")
    process.stdin.write(b"g")
    process.stdin.flush()
    child = int(process.stdout.readline())
    context.check(tally.wait_for(lambda: calls.counting(child), 5), "the child is not counted")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder, 30)
    context.equal(result.status, 0, f"status ({result.text()})")
    calls.is_untouched(context, process.pid, "in the parent")
    calls.is_untouched(context, child, "in the child")
    process.stdin.write(b"g")
    process.stdin.flush()
    output = process.stdout.read()
    process.wait(timeout=30)
    context.equal((process.returncode, output), (3, b"8999955000050000\n"), "outcome")


@tap.case
def detach_by_interrupt(context):
    process = tally.start_busy(context, "threads", "2", "--together", "--forever")
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: recorder.poll() is not None or calls.counting(process.pid)), "tally did not begin")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder, 30)
    context.equal(result.status, 0, f"status ({result.text()})")
    calls.is_untouched(context, process.pid)
    counted = {(row[1], row[2]): row[4] for row in calls.edges(tally.Profile(context, context.path("profile")))}
    context.check(counted.get(("thread_work", "thread_busy"), 0) > 0, f"edges: {counted}")


tap.run()
