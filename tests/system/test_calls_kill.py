"""Tally killed at any moment: the target goes on unharmed, is detached, and a later tally can attach and clean what was left.

TALLY_CALLS_KILLS sets at how many random moments (6; with TALLY_LONG 100).
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

KILLS = int(os.environ.get("TALLY_CALLS_KILLS", "100" if tap.LONG else "6"))


def let_go(context, pid, what):
    """The helper outlives tally, and ends as soon as it sees that it is alone."""
    free = tally.wait_for(lambda: not os.path.exists(f"/proc/{pid}/task") or not traced(pid), 5)
    context.check(free, f"{what}: threads are traced: {tracers_of(pid)}")


def traced(pid):
    try:
        return bool(calls.tracers(pid))
    except (FileNotFoundError, ProcessLookupError):
        return False


def tracers_of(pid):
    try:
        return calls.tracers(pid)
    except (FileNotFoundError, ProcessLookupError):
        return {}


def attach_again(context, pid, what):
    """A later tally can attach, counts, and leaves the text as the file's. Long enough for a loaded machine to run the target."""
    path = context.path("later")
    result = tally.run(context, [context.tally, "record", *calls.options(), "-o", path, "--duration", "1", "-p", str(pid)])
    if not context.equal(result.status, 0, f"{what}: status of a later tally ({result.text()})"):
        return
    number = sum(row[4] for row in calls.edges(tally.Profile(context, path)))
    context.check(number > 0, f"{what}: the later tally counted nothing")
    calls.is_untouched(context, pid, what)


@tap.case
def attached_and_killed(context):
    """At random moments of attaching, counting and, being asked to end, of detaching."""
    source = random.Random(20261123)
    process = tally.start_busy(context, "threads", "4", "--together", "--forever")
    for number in range(KILLS):
        recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "--duration", "0.05", "-p", str(process.pid)])
        time.sleep(source.random() * 0.14)
        recorder.kill()
        recorder.communicate()
        let_go(context, process.pid, f"kill {number}")
        context.check(process.poll() is None, f"the target died of kill {number} ({process.returncode})")
        if context.failures:
            return
    attach_again(context, process.pid, "after all")


@tap.case
def output_of_a_killed_launch(context):
    """A launched program goes on by itself, counts into memory nobody reads, and writes what it always writes."""
    source = random.Random(20261124)
    path = workloads.text_file(context, 2)
    wanted = subprocess.run(["bzip2", "-c", path], stdout=subprocess.PIPE, check=True).stdout
    for number in range(max(4, KILLS // 2)):
        output, done = context.path(f"output{number}"), context.path(f"done{number}")
        script = 'echo $$ > "$3.pid"; bzip2 -c "$1" > "$2"; echo $? > "$3"'
        recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "--",
                                         "sh", "-c", script, "sh", path, output, done], start_new_session=True)
        time.sleep(source.random() * 0.25)
        recorder.kill()
        recorder.communicate()
        begun = os.path.exists(done + ".pid")
        if not begun:  # killed before the program ran: it may have been detached or not; it must not hang half way
            begun = tally.wait_for(lambda: os.path.exists(done + ".pid"), 0.5)
        if begun:
            context.check(tally.wait_for(lambda: os.path.exists(done) and os.path.getsize(done) > 0, 30), f"kill {number}: the program did not end")
            with open(output, "rb") as file:
                context.check(file.read() == wanted, f"kill {number}: its output differs")
            with open(done, encoding="ascii") as file:
                context.equal(file.read().strip(), "0", f"kill {number}: its status")


@tap.case
def killed_with_threads_and_children(context):
    """While threads are created all the time, and children."""
    source = random.Random(20261125)
    for arguments in (["calls_threads", "churn", "20000"], ["calls_process", "fork", "40"]):
        for number in range(max(2, KILLS // 4)):
            process = tally.start(context, [context.program(arguments[0]), *arguments[1:]], stdin=subprocess.PIPE,
                                  env=dict(os.environ, CALLS_WAIT="1"), stdout=open(context.path("output"), "wb"))
            tally.wait_for(lambda: os.path.getsize(context.path("output")) > 0)
            recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
            tally.wait_for(lambda: recorder.poll() is not None or calls.counting(process.pid))
            process.stdin.write(b"g")
            process.stdin.flush()
            time.sleep(source.random() * 0.2)
            recorder.kill()
            recorder.communicate()
            context.equal(process.wait(timeout=60), 0, f"{arguments[0]}, kill {number}: status")
            with open(context.path("output"), encoding="ascii") as file:
                truth = calls.truths(file.read())
            context.check(truth, f"{arguments[0]}, kill {number}: no truth")
            process.stdin.close()


SENDS = ("sendmsg", "recvmsg", "sendto", "recvfrom")


def killed_at(context, syscall, when, pid):
    """Runs tally under strace, which kills it when it makes that system call for the Nth time. strace does not follow the helper.
    Whether it was killed."""
    log = context.path("strace.log")
    command = ["strace", "-o", log, "-e", f"trace={syscall}", "-e", f"inject={syscall}:signal=KILL:when={when}",
               context.tally, "record", *calls.options(), "-o", context.path("profile"), "--duration", "0.02", "-p", str(pid)]
    for _ in range(5):  # on a loaded machine a thread, or tally, may get no processor in time: tally says so, and has done nothing
        result = tally.run(context, command)
        if b"did not stop within" not in result.errors and b"did nothing for a while" not in result.errors:
            break
    with open(log, encoding="utf-8", errors="replace") as text:
        killed = "killed by SIGKILL" in text.read()
    if not killed:
        context.equal(result.status, 0, f"{syscall} {when}: status ({result.text()})")
    return killed


def each_request(syscall):
    def run(context):
        """Each thing that tally asks of the helper, which makes the ptrace calls, and each answer, is once the last."""
        tap.need("strace")
        process = tally.start_busy(context, "threads", "2", "--together", "--forever")
        when = 1
        while killed_at(context, syscall, when, process.pid):
            let_go(context, process.pid, f"{syscall} {when}")
            context.check(process.poll() is None, f"the target died of {syscall} {when}")
            if context.failures:
                return
            when += 1 if when < 12 or KILLS >= 100 else 7
        context.note(f"killed at {when - 1} calls of {syscall}")
        if when > 1:
            attach_again(context, process.pid, "after all")
    run.__name__ = "killed_at_each_" + syscall
    tap.case(run)


for name in SENDS:
    each_request(name)


@tap.case
def detach_cleans(context):
    """tally detach -p: what a killed tally left is taken away, without recording."""
    process = tally.start_busy(context, "threads", "2", "--together", "--forever")
    before = {path for _, _, _, _, path in calls.mappings(process.pid)}
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: recorder.poll() is not None or calls.counting(process.pid)), "tally did not begin")
    recorder.kill()
    recorder.communicate()
    let_go(context, process.pid, "killed")
    context.check(calls.changed_text(process.pid), "nothing was left to clean")
    result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
    context.equal(result.status, 0, f"status of detach ({result.text()})")
    calls.is_untouched(context, process.pid)
    left = {path for _, _, _, _, path in calls.mappings(process.pid)} - before
    context.note(f"memory that stayed: {sorted(left)}; {result.errors.decode()[:300]}")
    again = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
    context.check(again.status in (0, 1, 2), f"detach of what is clean: {again.text()}")
    calls.is_untouched(context, process.pid)
    attach_again(context, process.pid, "after detach")


tap.run()
