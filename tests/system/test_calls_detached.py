"""A process is detached while it creates no thread and no child, and every creation is seen all the same: counts are exact, signals are free."""
import os
import re
import signal
import subprocess
import time

import calls
import tally
import tap


def may_come_back():
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            return os.geteuid() == 0 or file.read().strip() == "0"
    except FileNotFoundError:
        return True


def steps_of(output, word):
    """The steps before which the program found itself `word`: detached, held."""
    return re.findall(rf"^{word} (.*)$", output, re.MULTILINE)


def meta(profile, key):
    return int(profile.rows(f"select value from meta where key = '{key}'")[0][0])


def exact(context, steps, creations, least=2):
    """All steps were waited for without a tracer, and every process's calls are as it says."""
    if not may_come_back():
        raise tap.Skip("this user may not trace again what he has detached from")
    profile = calls.counted(context, [context.program("calls_detached"), *steps])
    reported = steps_of(profile.output, "detached")
    for step in set(steps) - {"leaf"}:
        context.check(step in reported, f"not detached before {step}: {calls.other_lines(profile.output)}")
    context.equal(steps_of(profile.output, "held"), [], "steps at which it was held")
    calls.check(context, profile, by_process=True, least=least)
    context.equal(meta(profile, "overhead_births"), creations + 1, "creations and images")  # the program's own image
    context.equal(profile.rows("select reason, count from losses"), [], "what is lost")
    followed, traced = meta(profile, "overhead_followed_ns"), meta(profile, "overhead_traced_ns")
    context.check(0 < traced < followed, f"traced for {traced} ns of {followed}")
    return profile


@tap.case
def threads(context):
    exact(context, ["threads", "threads"], 8)


@tap.case
def beside_memory(context):
    """The agent has a hook at syscall(), where a creation may have to ring: the doorbell goes over it."""
    if not may_come_back():
        raise tap.Skip("this user may not trace again what he has detached from")
    profile = tally.recorded(context, [context.program("calls_detached"), "threads"], ["--no-time", "--calls", "--heap", "--fds", "--throws"])
    context.equal((steps_of(profile.output, "detached"), steps_of(profile.output, "held")), (["threads"], []), "steps at which it was detached, or held")


@tap.case
def beside_a_creation(context):
    """A function that must ring is timed by the agent: the doorbell goes over its hook, and every call is counted."""
    profile = tally.recorded(context, [context.program("calls_detached"), "threads"], ["--no-time", "--calls", "--function", "_Fork"])
    context.equal((steps_of(profile.output, "detached"), steps_of(profile.output, "held")), (["threads"], []), "steps at which it was detached, or held")
    context.equal(profile.meta().get("calls_held"), None, "why it stayed held")


@tap.case
def forks(context):
    """The child is detached as well, and has a thread then."""
    profile = exact(context, ["fork"], 2, 4)
    context.check("child" in steps_of(profile.output, "detached"), "the child was not detached")


@tap.case
def other_creations(context):
    """syscall(2), a signal handler that forks."""
    exact(context, ["raw", "handler"], 2, 4)


@tap.case
def spawns(context):
    """Children in their parent's memory, and the images that they run."""
    exact(context, ["vfork", "spawn"], 4, 4)


@tap.case
def shell_and_image(context):
    exact(context, ["system", "exec", "leaf"], 5, 4)


@tap.case
def signals_are_free(context):
    profile = exact(context, ["signals"], 0)
    before, during = map(int, re.search(r"^signals (\d+) (\d+)$", profile.output, re.MULTILINE).groups())
    traced = meta(profile, "overhead_signals")
    context.note(f"{before} signals came until it was detached, {during} while it was, {traced} were traced")
    context.check(during > 1000, f"only {during} signals")
    context.check(traced <= before + during // 4, f"{traced} signals were traced, {before} had come until it was detached")


def loose_forever(context):
    """A recorded process that is detached, and its recorder."""
    if not may_come_back():
        raise tap.Skip("this user may not trace again what he has detached from")
    process = tally.start(context, [context.program("calls_detached"), "threads", "forever"], stdin=subprocess.PIPE,
                          env=dict(os.environ, CALLS_WAIT="1"))
    process.stdout.readline()
    recorder = tally.start(context, [context.tally, "record", *calls.options(), "-o", context.path("profile"), "-p", str(process.pid)])
    tally.wait_for(lambda: recorder.poll() is not None or calls.counting(process.pid), 20)
    return process, recorder


@tap.case
def attached(context):
    """A process that runs already, with threads; detaching puts every byte back."""
    process, recorder = loose_forever(context)
    process.stdin.write(b"g")
    process.stdin.flush()
    for step in ("threads", "forever"):
        context.equal(process.stdout.readline().decode(), f"detached {step}\n", "what the program says")
    context.equal(calls.tracers(process.pid), {}, "tracers while it is recorded")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder, 60)
    context.equal(result.status, 0, f"status of tally ({result.text()})")
    calls.is_untouched(context, process.pid)
    context.check(process.poll() is None, "the program has ended")
    process.kill()


@tap.case
def killed_while_loose(context):
    """Tally is gone: the creations that follow wait for nobody, and a later tally cleans up."""
    process, recorder = loose_forever(context)
    began = tally.wait_for(lambda: calls.changed_text(process.pid) and not calls.tracers(process.pid), 20)
    context.check(began, f"it was not detached: {calls.tracers(process.pid)}")
    recorder.kill()
    recorder.communicate()
    time.sleep(0.2)
    process.stdin.write(b"g")
    process.stdin.flush()
    time.sleep(0.5)
    ended = tally.wait_for(lambda: process.poll() is not None or len(os.listdir(f"/proc/{process.pid}/task")) == 1)
    context.check(process.poll() is None, f"the target died ({process.returncode})")
    context.check(ended, "its threads have not ended")
    result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
    context.equal(result.status, 0, f"status of detach ({result.text()})")
    calls.is_untouched(context, process.pid, "after detach")
    process.kill()


def used_ticks(pid):
    """Of processor time."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        return sum(int(word) for word in file.read().rsplit(")", 1)[1].split()[11:13])


@tap.case
def stopped_while_loose(context):
    """A tally that is stopped answers no doorbell: threads are created after the doorbell's patience, uncounted ones are reported, and tally takes the
    process up again when it goes on."""
    process, recorder = loose_forever(context)
    context.check(tally.wait_for(lambda: calls.changed_text(process.pid) and not calls.tracers(process.pid), 20), "it was not detached")
    recorder.send_signal(signal.SIGSTOP)
    before = used_ticks(process.pid)
    process.stdin.write(b"g")
    process.stdin.flush()
    context.check(tally.wait_for(lambda: used_ticks(process.pid) > before + 20, 20), "the target waits for a tally that is stopped")
    context.check(process.poll() is None, "the target died")
    recorder.send_signal(signal.SIGCONT)
    context.check(tally.wait_for(lambda: calls.tracers(process.pid), 20), "it was not taken up again")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder, 60)
    context.equal(result.status, 0, f"status of tally ({result.text()})")
    context.equal(tally.Profile(context, context.path("profile")).losses().get(27, 0), 1, "processes whose creations were missed")
    calls.is_untouched(context, process.pid)
    context.check(process.poll() is None, "the target died")
    process.kill()


tap.run()
