"""Tally beside a program that comes, goes, forbids and is held: nothing waits for a tally that cannot answer, and each ends by itself."""
import ctypes
import json
import os
import signal
import subprocess
import time

import harm
import calls
import tally
import tap

MODES = {"calls": ["--calls"], "heap": ["--heap"], "all": ["--calls", "--heap", "--fds"]}


def build(context, name):
    tap.need("gcc")
    program = context.path(name)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, f"{name}.c"), "-ldl"], check=True)
    return program


# --- two tallies, and a debugger ---


ONE = {**harm.CALLS, **harm.AGENT, "function": ["--function", "own_work"]}
del ONE["throws"]  # the program throws nothing


def reported(profile, mode):
    """How often own_work() and what is in it were done, as a mode counted it; of time sampled whether any was."""
    if mode == "calls":
        return profile.rows("select sum(calls) from edges where caller = 'main' and callee = 'own_work'")[0][0]
    counter = {"heap": "heap.count", "fds": "fd.used", "function": "function.calls", "agent": "time.cpu"}[mode]
    number = sum(value for frames, value in profile.stacks(counter) if ("own_burn" if mode == "agent" else "own_work") in frames)
    return number > 0 if mode == "agent" else number


def record_of(context, mode, name, pid, *more):
    alone = [] if mode == "agent" else ["--no-time"]
    return [context.tally, "record", *ONE[mode], *alone, *more, "-o", context.path(name), "-p", str(pid)]


def twice(first):
    def run(context):
        """A process has one tally that changes it, also while that one is stopped; a second in whatever mode is refused, and so is its
        removal. The first one's figures are right."""
        process = tally.start(context, [build(context, "reported")], stdin=subprocess.PIPE)
        process.stdout.readline()
        pid = process.pid
        one = tally.start(context, record_of(context, first, "first", pid))
        context.check(tally.wait_for(lambda: harm.ours(pid) or one.poll() is not None), "tally did not begin")
        time.sleep(0.5)
        say(process)
        for stop in (False, True):
            if stop:
                one.send_signal(signal.SIGSTOP)
            others = [record_of(context, mode, "second", pid, "--duration", "0.2") for mode in ONE]
            for command in [*others, [context.tally, "detach", "-p", str(pid)]]:
                result = tally.run(context, command)
                context.equal(result.status, 2, f"status of {command[1:3]} ({result.text()})")
                context.check(b"is being recorded by tally" in result.errors, f"the reason is not reported: {result.text()}")
            say(process)
        one.send_signal(signal.SIGCONT)
        say(process)
        one.send_signal(signal.SIGINT)
        result = tally.finish(one)
        context.equal(result.status, 0, f"status of the first ({result.text()})")
        context.check(not harm.ours(pid), "something stays in the program")
        context.equal(reported(tally.Profile(context, context.path("first")), first), True if first == "agent" else 4000, "what the first counted")
        process.communicate()
        context.equal(process.returncode, 3, "status of the program")
    run.__name__ = f"twice_{first}"
    tap.case(run)


def say(process):
    """Has the program do its work once more."""
    process.stdin.write(b"x")
    process.stdin.flush()
    return process.stdout.readline()


for name in ONE:
    twice(name)


class Debugged:
    """A program that a debugger holds as tally leaves it."""

    def __init__(self, context, mode):
        self.context, self.mode = context, mode
        name = "reported" if mode == "calls" else "plain"  # tally holds what is never quiet
        self.process = tally.start(context, [build(context, name), "on"], stdin=subprocess.PIPE)
        self.process.stdout.readline()
        self.pid = self.process.pid
        options = ["--function", "main"] if mode == "function" else ONE[mode]
        alone = [] if mode == "agent" else ["--no-time"]
        self.tally = tally.start(context, [context.tally, "record", *options, *alone, "-o", context.path(mode), "-p", str(self.pid)])
        context.check(tally.wait_for(lambda: harm.ours(self.pid) or self.tally.poll() is not None), f"tally did not begin, {mode}")

    def hold(self, debugger):
        """By one that lets it run (strace) or not (gdb), once tally is detached from it."""
        tally.wait_for(lambda: not calls.tracers(self.pid), 5)
        self.other = tally.start(self.context, [*debugger, "-p", str(self.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        held = tally.wait_for(lambda: set(calls.tracers(self.pid).values()) == {self.other.pid} or self.other.poll() is not None, 10)
        return held and self.other.poll() is None

    def let_go(self):
        if "gdb" in self.other.args:
            self.other.communicate(b"detach\nquit\n", timeout=20)
        else:
            self.other.send_signal(signal.SIGINT)
            self.other.wait(20)

    def end(self, stays):
        """The debugger goes, before tally gives up or behind it."""
        context = self.context
        if stays:
            self.tally.wait(20)
        self.let_go()
        result = tally.finish(self.tally)
        context.equal(result.status, 2 if stays else 0, f"status of tally, {self.mode} ({result.text()})")
        context.equal(b"tally detach -p" in result.errors, stays, f"it is said how to remove it, {self.mode}")
        if stays:
            context.equal(tally.run(context, [context.tally, "detach", "-p", str(self.pid)]).status, 0, f"status of detach, {self.mode}")
        context.check(not harm.ours(self.pid), f"something stays in the program, {self.mode}")
        self.process.communicate()
        context.equal(self.process.returncode, 3, f"status of the program, {self.mode}")


DEBUGGERS = {"strace": ["strace", "-f", "-q", "-o", "/dev/null"], "gdb": ["gdb", "-q", "-nx"]}


def left_under_debugger(name, seconds):
    def run(context):
        """Who traces the program as tally leaves is waited for; or it is said what stays, and how it is removed."""
        tap.need(name)
        programs = [Debugged(context, mode) for mode in ONE]
        time.sleep(0.3)
        for program in programs:
            context.check(program.hold(DEBUGGERS[name]), f"{name} did not begin, {program.mode}")
            program.tally.send_signal(signal.SIGINT)
            if seconds < 5:
                time.sleep(seconds)
                program.end(False)
        time.sleep(max(0, seconds - 5))
        for program in programs if seconds > 5 else []:
            program.end(True)
    run.__name__ = f"left_under_{name}_{'long' if seconds > 5 else 'short'}"
    tap.case(run)


for who in DEBUGGERS:
    for held in (1, 8):
        left_under_debugger(who, held)


# --- many threads at once ---


@tap.case
def threads_alive_at_once(context):
    """Each is counted, and its creation waits for nothing that grows with those before it: a full stop for every few took minutes."""
    program, threads = build(context, "alive"), 5000
    alone = tally.run(context, [program, str(threads)])
    if alone.status == 77:
        raise tap.Skip(f"{threads} threads cannot be made here")
    result = tally.record(context, [program, str(threads)], ["--calls", "--no-time"], timeout=120)
    context.equal((result.status, result.output), (alone.status, alone.output), f"outcome ({result.text()})")
    profile = tally.Profile(context, context.path("profile"))
    found = {(calls.plain(caller), calls.plain(callee)): count for _, caller, callee, _, count in calls.edges(profile)}
    context.equal(found.get(("run", "job")), threads * 50, "calls")
    context.equal(profile.losses(), {}, "losses")


# --- numbers of processes ---


@tap.case
def other_namespaces(context):
    """A number that /proc takes for another process is refused before anybody is looked at; in a namespace with its own /proc all is well."""
    tap.need_root()
    tap.need("unshare")
    program, profile = build(context, "plain"), context.path("namespace")
    record = f"{context.tally} record --no-time -o {profile}"
    other = b"/proc belongs to another PID namespace"
    for command in (f"{record} --calls -p $$", f"{record} --heap -p $$", f"{context.tally} record -o {profile} -p $$", f"{record} --calls -- {program}",
                    f"{context.tally} record -a -o {profile} --duration 0.1", f"{context.tally} detach -p $$"):
        result = tally.run(context, ["unshare", "--pid", "--fork", "sh", "-c", command + "; exit $?"])
        context.equal(result.status, 125 if " -- " in command else 2, f"status of {command} ({result.text()})")
        context.check(other in result.errors, f"{command} says {result.errors!r}")
    result = tally.run(context, ["unshare", "--pid", context.tally, "record", "--calls", "--no-time", "-o", profile, "--", program])
    context.check(result.status == 125 and b"created in another PID namespace" in result.errors, f"without a fork: {result.text()}")
    alone = tally.run(context, [program])
    for mode in MODES.values():
        result = tally.run(context, ["unshare", "--pid", "--fork", "--mount-proc", context.tally, "record", *mode, "-o", profile, "--", program])
        context.equal((result.status, result.output), (alone.status, alone.output), f"with a /proc of its own and {mode} ({result.text()})")
    for command, why in (["unshare", "--pid", "--fork"], other), (["unshare", "--pid"], b"created in another PID namespace"):
        reported = tally.run(context, [*command, context.tally, "doctor"], timeout=60)
        context.check(why in reported.output, f"{command}: doctor says {reported.output!r}")
    checks = json.loads(tally.run(context, ["unshare", "--pid", "--fork", context.tally, "doctor", "--json"]).output)["checks"]
    context.equal([check["remedy"] for check in checks if check["name"] == "processes"], ["sudo unshare --mount-proc tally record ..."], "remedy")


# --- tally that cannot go on ---

INSIDE = {"heap": ["--heap"], "calls": ["--calls"], "agent": ["--engine=agent", "--heap"], "all": ["--calls", "--heap", "--function", "timed_*"]}
FULL = 'mount -t tmpfs -o size=400k tally-test "$1" || exit 77; shift; exec "$@"'


def left_whole(context, process, result, mode, why):
    context.check(result.status == 2 and why in result.errors, f"mode {mode}: nothing says why it ended ({result.text()})")
    context.equal(harm.ours(process.pid), [], f"memory that stays in mode {mode}")
    context.equal(calls.changed_text(process.pid), [], f"changed text in mode {mode}")
    context.equal((process.communicate(b"", timeout=60)[0], process.returncode), (b"ended 1\n", 0), f"the program in mode {mode}")


def begun(context):
    process = tally.start(context, [context.program("function_rollcall"), "forever"], stdin=subprocess.PIPE)
    process.stdout.readline()
    return process


@tap.case
def disk_full_inside(context):
    """The profile cannot be written any more: all that was put into the program goes."""
    tap.need_root()
    tap.need("unshare", "mount")
    os.makedirs(context.path("disk"), exist_ok=True)
    for mode in ("heap", "calls", "all"):
        process = begun(context)
        command = [context.tally, "record", *INSIDE[mode], "-F", "5000", "--duration", "60", "-o", context.path("disk/profile"), "-p", str(process.pid)]
        result = tally.run(context, ["unshare", "-m", "--propagation", "private", "sh", "-c", FULL, "sh", context.path("disk"), *command])
        if result.status == 77:
            process.communicate(b"")
            raise tap.Skip("no tmpfs can be mounted: " + result.errors.decode().strip())
        left_whole(context, process, result, mode, b"no space left")


@tap.case
def helper_killed_inside(context):
    """So it is where the process that traces for tally is killed."""
    for mode, options in INSIDE.items():
        process = begun(context)
        recorder = tally.start(context, [context.tally, "record", *options, "-o", context.path("profile"), "-p", str(process.pid)])
        context.check(tally.wait_for(lambda: harm.ours(process.pid) or recorder.poll() is not None), "tally did not begin")
        time.sleep(0.5)
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="utf-8") as children:
            for child in children.read().split():
                os.kill(int(child), signal.SIGKILL)
        left_whole(context, process, tally.finish(recorder), mode, b"has ended")

# --- children that nobody tells of ---


class Tracer:
    """Another tracer of a process, by ptrace(2), that passes signals on."""

    SEIZE, INTERRUPT, CONT, DETACH = 0x4206, 0x4207, 7, 17
    WALL = 0x40000000

    def __init__(self, pid):
        self.pid = pid
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        if self.libc.ptrace(self.SEIZE, pid, None, None):
            raise tap.Skip("no process can be traced")

    def signal(self, number):
        os.kill(self.pid, number)
        passed = 0
        while passed != number:
            _, status = os.waitpid(self.pid, self.WALL)
            passed = os.WSTOPSIG(status)
            self.libc.ptrace(self.CONT, self.pid, None, ctypes.c_void_p(passed))

    def end(self):
        self.libc.ptrace(self.INTERRUPT, self.pid, None, None)
        os.waitpid(self.pid, self.WALL)
        self.libc.ptrace(self.DETACH, self.pid, None, None)


def is_traced(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in status)


@tap.case
def child_that_is_recorded(context):
    """A child that was followed from its creation is its tally's, also while nothing traces it."""
    process = tally.start(context, [build(context, "forker")])
    process.stdout.readline()
    recorder = tally.start(context, [context.tally, "record", "--no-time", "--calls", "-o", context.path("profile"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: harm.ours(process.pid) or recorder.poll() is not None), "tally did not begin")
    time.sleep(0.5)
    process.send_signal(signal.SIGUSR1)
    child = int(process.stdout.readline())
    context.check(tally.wait_for(lambda: harm.ours(child) and not is_traced(child)), "the child is not detached")
    detached = tally.run(context, [context.tally, "detach", "-p", str(child)])
    second = tally.run(context, [context.tally, "record", "--calls", "--duration", "0.1", "-o", context.path("second"), "-p", str(child)])
    for result in (detached, second):
        context.check(result.status == 2 and f"tally {recorder.pid}".encode() in result.errors, f"it is not reported whose it is ({result.text()})")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder)
    left = {pid: (harm.ours(pid), calls.changed_text(pid)) for pid in (process.pid, child)}
    os.kill(child, signal.SIGKILL)
    process.kill()
    context.equal(result.status, 0, f"status of tally ({result.text()})")
    context.equal(left, {process.pid: ([], []), child: ([], [])}, "what stays in the program and its child")
    context.equal(tally.Profile(context, context.path("profile")).losses(), {}, "losses")


@tap.case
def child_behind_another_tracer(context):
    """Somebody else traces the program as it forks: the child has what was put into its parent, until tally leaves, too."""
    process = tally.start(context, [build(context, "forker")])
    process.stdout.readline()
    recorder = tally.start(context, [context.tally, "record", "--no-time", "--calls", "-o", context.path("profile"), "-p", str(process.pid)])
    begun = tally.wait_for(lambda: recorder.poll() is not None or (harm.ours(process.pid) and not is_traced(process.pid)))
    context.check(begun and recorder.poll() is None, "tally did not begin, or did not detach")
    tracer = Tracer(process.pid)
    tracer.signal(signal.SIGUSR1)
    child = int(process.stdout.readline())
    tracer.end()
    context.check(harm.ours(child) != [], "the child has nothing: the test proves nothing")
    recorder.send_signal(signal.SIGINT)
    result = tally.finish(recorder)
    left = {pid: (harm.ours(pid), calls.changed_text(pid), os.kill(pid, 0)) for pid in (process.pid, child)}
    os.kill(child, signal.SIGKILL)
    process.kill()
    context.equal(result.status, 0, f"status of tally ({result.text()})")
    context.equal(left, {process.pid: ([], [], None), child: ([], [], None)}, "what stays in the program and its child")
    context.check(tally.Profile(context, context.path("profile")).losses().get(27, 0) > 0, "no loss tells of the child")


harm.run()
