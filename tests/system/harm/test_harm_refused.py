"""System calls that a filter refuses, as those of containers do: every one that Tally makes, in its own processes and in the program.

Each is refused alone, with EPERM and with ENOSYS, in one of these ways:

  launched  in Tally and in the program
  ours      in Tally, which attaches
  theirs    in the program, which Tally attaches to
  killed    in Tally, which is killed while it records

What must hold: the program ends as it does alone under the filter; nobody waits in vain; and what was asked for is counted, or it is said why not.
With TALLY_LONG each is refused in every mode, with both errors, in all ways. Without, so that it does not take half an hour: with one
of the errors in one mode, the next ones for each call, so that all have their turn; and of those who attach a choice (CHOSEN).

Not refused are calls without which no program of this C library begins (read, write, close, pread64, newfstatat of a descriptor, mmap as
a whole, execve, exit_group), or makes a thread or a child (clone, futex as a whole).
"""
import json
import os
import re
import signal
import subprocess
import time

import harm
import calls
import tally
import tap

EPERM, ENOSYS = 1, 38
ERRORS = (EPERM, ENOSYS)
HANGS = 9  # seconds without an end, of what takes less than one: who waits for an answer that does not come waits for ten
MODES = {"calls": ["--calls"], "heap": ["--heap"], "function": ["--function", "work"], "fds": ["--fds"], "agent": ["--engine=agent"],
         "all": ["--calls", "--heap", "--fds", "--function", "work"]}

# By what they are for. Where only some arguments are refused: NAME:ARGUMENT:MASK:VALUE (refuse.c).
OWN = [  # of Tally and its helper
    "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "kcmp", "process_vm_readv", "process_vm_writev", "perf_event_open", "bpf", "futex_waitv", "eventfd2",
    "signalfd4", "close_range", "sched_setscheduler", "sched_getaffinity", "setpriority", "getpriority", "userfaultfd", "epoll_create1", "epoll_ctl",
    "epoll_wait", "setsid", "prlimit64", "fallocate", "ftruncate", "flock", "fchmod", "fchown", "chdir", "chmod", "mkdir", "unlink", "rename", "fsync", "fdatasync", "lseek",
    "pwrite64", "getdents64", "statfs", "statx", "readlink", "readlinkat", "access", "faccessat", "faccessat2", "getcwd", "uname", "sysinfo", "getrandom", "socket", "socketpair",
    "setsockopt", "sendto", "sendmsg", "recvfrom", "recvmsg", "shutdown", "pipe2", "dup2", "ioctl", "poll", "ppoll", "kill", "wait4", "waitid",
    "clock_getres", "clock_nanosleep", "rt_sigtimedwait", "getppid", "getuid", "geteuid", "getpgrp", "sched_yield",
]
BOTH = [  # made in the program, too: by the agent, or in the program's name
    "ptrace", "memfd_create", "prctl", "timer_create", "timer_settime", "timer_delete", "clock_gettime", "madvise", "mremap", "munmap", "remap_file_pages",
    "rt_sigaction", "rt_sigprocmask", "rt_sigpending", "sigaltstack", "gettid", "getpid", "tgkill", "fcntl", "brk", "arch_prctl:0:0xffff:0x1003",
    "set_robust_list", "rseq",
    "futex:1:0x7f:4", "futex:1:0x1ff:1", "futex:1:0x1ff:0",  # CMP_REQUEUE; WAKE and WAIT of shared memory
    "mmap:3:0x100000:0x100000",  # MAP_FIXED_NOREPLACE
    "mmap:3:0x1:0x1", "mmap:2:0x6:0x6", "mprotect:2:0x4:0x4",  # MAP_SHARED; what is written and executed, or executed later
    "madvise:2:0x1f:0x12", "madvise:2:0xff:0x10",  # MADV_WIPEONFORK, MADV_DONTDUMP
]
THEIRS = [name for name in BOTH if name != "ptrace"]  # tracing is all Tally's
CHOSEN = ["pidfd_open", "kcmp", "process_vm_readv", "process_vm_writev", "futex_waitv", "eventfd2", "signalfd4", "close_range", "epoll_create1", "epoll_ctl", "getdents64",
          "sendmsg", "recvmsg", "poll", "ppoll", "wait4", "ptrace", "memfd_create", "prctl", "timer_create", "rt_sigprocmask", "futex:1:0x1ff:1", "mmap:3:0x1:0x1"]
EXPLAINED = dict.fromkeys(["fcntl", "ftruncate", "pwrite64"], "profile: cannot set up")  # by SQLite, which does not say why
STAYS = ["munmap"]  # without it memory stays in the program, and it is said
UNCOUNTED = [r"^loss (36|39|43|58|65)\b"]  # numbers of doc/losses.md
KILLED = ["close_range", "dup2", "signalfd4", "epoll_create1", "pidfd_open", "setsid", "setsockopt", "shutdown", "wait4", "poll", "ppoll"]


def build(context, name):
    """Once for all cases."""
    tap.need("gcc")
    program = os.path.join(context.cache, name)
    if not os.path.exists(program):
        subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", program, os.path.join(harm.PROGRAMS, f"{name}.c"), "-ldl"], check=True)
    return program


def counted(profile):
    """The parts of a recording that have figures."""
    sums = dict(profile.rows("select counter, sum(value) from stacks group by counter"))
    counters_of = {"heap": ["heap.count"], "function": ["function.calls"], "fds": ["fd.used"], "time": ["time.cpu", "time.user"]}
    found = {name for name, counters in counters_of.items()
             if sum(sums.get(counter) or 0 for counter in counters) > 0}
    return found | ({"calls"} if calls.edges(profile) else set())


def reported(context, result, path):
    """(parts that are counted, what is said)"""
    text = [line for line in result.errors.decode().splitlines() if line.startswith("tally: ")]
    if not os.path.exists(path):
        return set(), "\n".join(text)
    profile = tally.Profile(context, path)
    text += [value for key, value in profile.meta().items() if key.endswith("_notice")]
    text += [f"loss {number}: {count}" for number, count in profile.losses().items()]
    return counted(profile), "\n".join(text)


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(word) for word in file.read().split()]
    except FileNotFoundError:
        return []


NORMAL = {}  # by mode: the parts that are counted when nothing is refused


def normal(context, mode):
    if mode not in NORMAL:
        path = context.path("normal")
        result = tally.run(context, [context.tally, "record", *MODES[mode], "-o", path, "--", build(context, "refused")])
        NORMAL[mode] = reported(context, result, path)[0]
        wanted = {"agent": {"time"}, "all": {"calls", "heap", "fds", "function"}}.get(mode, {mode})
        context.check(wanted <= NORMAL[mode], f"only {NORMAL[mode]} in mode {mode} where nothing is refused ({result.text()})")
    return NORMAL[mode]


def is_explained(name, text):
    """The call is named, or its error; or it is a loss that something is not counted."""
    reasons = [name.split(":")[0], "not permitted", "not implemented", EXPLAINED.get(name, name), *UNCOUNTED]
    return any(re.search(reason, text, re.IGNORECASE | re.MULTILINE) for reason in reasons)


def judge(context, name, mode, result, path, what):
    """Counted or explained."""
    found, text = reported(context, result, path)
    context.check(not normal(context, mode) - found or is_explained(name, text), f"nothing is said of {normal(context, mode) - found} {what}: {result.text()}")


def turns(number):
    """The modes and errors of the call of that number."""
    if harm.LONG:
        return [(mode, error) for mode in MODES for error in ERRORS]
    modes = list(MODES)
    return [(modes[number % len(modes)], ERRORS[number // len(modes) % len(ERRORS)])]


def case(way, name, run):
    run.__name__ = way + "_" + name.replace(":", "_")
    tap.case(run)


def launched(number, name):
    def run(context):
        refuse, program, path = build(context, "refuse"), build(context, "refused"), context.path("profile")
        for mode, error in turns(number):
            what = f"without {name} ({error}) in mode {mode}"
            before = [refuse, str(error), name]
            alone = tally.run(context, [*before, program])
            context.check(alone.output.startswith(b"begun\n"), f"the program does not begin {what}: {alone.text()}")
            normal(context, mode)
            if os.path.exists(path):
                os.remove(path)
            try:
                result = tally.run(context, [*before, context.tally, "record", *MODES[mode], "-o", path, "--", program], timeout=HANGS)
            except subprocess.TimeoutExpired:
                context.check(False, f"no end {what}")
                continue
            if result.status != 125:  # refused as a whole, before the program began
                context.equal((result.status, result.output), (alone.status, alone.output), f"outcome {what} ({result.text()})")
            judge(context, name, mode, result, path, what)
    case("launched", name, run)


class Program:
    """One that goes on, and says after each round of its work that it has made it."""

    def __init__(self, context, before):
        self.output = context.path("output")
        with open(self.output, "wb") as file:
            self.process = tally.start(context, [*before, build(context, "refused"), "on"], stdin=subprocess.PIPE, stdout=file)
        self.pid = self.process.pid
        if not tally.wait_for(lambda: self.text().startswith(b"begun\n"), 10):
            raise AssertionError(f"the program does not begin below {before}")

    def text(self):
        with open(self.output, "rb") as file:
            return file.read()

    def works(self, rounds=2):
        """Whether it makes so many more."""
        wanted = self.text().count(b"round\n") + rounds
        return tally.wait_for(lambda: self.text().count(b"round\n") >= wanted)

    def end(self):
        """(status, output without what depends on time, errors)"""
        _, errors = self.process.communicate(b"", timeout=20)
        return self.process.returncode, self.text().replace(b"round\n", b""), errors


def visit(context, program, one, what):
    """A recording of some rounds that comes and goes without a wait in vain; its result."""
    begun = tally.wait_for(lambda: harm.ours(program.pid) or one.poll() is not None, HANGS)
    context.check(begun, f"it does not begin {what}")
    if one.poll() is None:
        context.check(program.works(), f"the program stands {what}")
        one.send_signal(signal.SIGINT)
    return tally.finish(one, HANGS)


def kill(context, program, one, what):
    """A recording that is killed, and the program cleaned."""
    tally.wait_for(lambda: harm.ours(program.pid) or one.poll() is not None)
    program.works()
    helpers = children(one.pid)
    one.kill()
    one.communicate()
    context.check(tally.wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in helpers), 5), f"a helper stays {what}")
    context.check(not calls.tracers(program.pid), f"it is traced still {what}")
    result = tally.run(context, [context.tally, "detach", "-p", str(program.pid)])
    context.equal(result.status, 0, f"status of detach {what} ({result.text()})")


def attached(way, number, name):
    def run(context):
        refuse, path = build(context, "refuse"), context.path("profile")
        for mode, error in turns(number):
            what = f"{way} without {name} ({error}) in mode {mode}"
            before = [refuse, str(error), name]
            normal(context, mode)
            program = Program(context, before if way == "theirs" else [])
            footprint = harm.Footprint(program.pid, restless=True)
            if os.path.exists(path):
                os.remove(path)
            one = tally.start(context, [*([] if way == "theirs" else before), context.tally, "record", *MODES[mode], "-o", path, "-p", str(program.pid)])
            try:
                if way == "killed":
                    kill(context, program, one, what)
                else:
                    result = visit(context, program, one, what)
                    judge(context, name, mode, result, path, what)
                    if name in STAYS:
                        context.check(b"a filter lets it unmap no memory" in result.errors, f"it is not said that memory stays {what}: {result.text()}")
                        del footprint.facts["mappings"]
                if context.check(program.process.poll() is None, f"the program ended {what}: {program.process.poll()}"):
                    footprint.same(context, program.pid, what)
                context.equal(program.end(), (3, b"begun\ndone\n", b""), f"outcome {what}")
            except subprocess.TimeoutExpired as late:
                context.check(False, f"no end {what}: {late}")
    case(way, name, run)


for index, call in enumerate(OWN + BOTH):
    launched(index, call)
for index, call in enumerate(OWN + BOTH if harm.LONG else CHOSEN):
    attached("ours", index, call)
for index, call in enumerate(THEIRS):
    attached("theirs", index, call)
for index, call in enumerate(KILLED):
    attached("killed", index, call)
DOCTORED = ["pidfd_open", "memfd_create", "kcmp", "process_vm_readv", "timer_create", "futex_waitv", "eventfd2", "signalfd4", "epoll_create1", "socketpair",
            "madvise", "mremap", "remap_file_pages"]


@tap.case
def doctor_says_what_is_refused(context):
    """tally doctor tries what tally calls, and says of each call that is refused what is missing without it."""
    refuse = build(context, "refuse")
    def checks(*before):
        result = tally.run(context, [*before, context.tally, "doctor", "--json"])
        return {check["name"]: check for check in json.loads(result.output)["checks"]}
    usual = checks()
    context.equal(usual.get("system calls", {}).get("state"), "ok", "system calls without a filter")
    for error in ("1", "38"):
        for name in DOCTORED:
            found = checks(refuse, error, name)
            context.equal(found.get(name, {}).get("state"), "limited", f"state without {name}")
            context.check("system calls" not in found, f"all is well without {name}")
            others = [other for other in DOCTORED if other != name and other in found]
            context.equal(others, [], f"said to be refused without {name}")


@tap.case
def counted_without_pidfd(context):
    """A filter that refuses pidfd_open, as those of containers: all is counted, launched and attached, and the end is seen."""
    refuse, plain = build(context, "refuse"), build(context, "plain")
    result = tally.run(context, [refuse, "1", "pidfd_open", context.tally, "record", "--heap", "-o", context.path("one"), "--", plain])
    profile = tally.Profile(context, context.path("one"))
    context.check(profile.rows("select count(*) from counters where name like 'heap%'")[0][0] > 0, f"heap is not counted ({result.text()})")
    process = tally.start(context, [plain, "on"], stdin=subprocess.PIPE)
    process.stdout.readline()
    one = tally.start(context, [refuse, "1", "pidfd_open", context.tally, "record", "--heap", "-o", context.path("two"), "-p", str(process.pid)])
    context.check(tally.wait_for(lambda: harm.ours(process.pid) or one.poll() is not None), "tally did not begin")
    time.sleep(0.5)  # one that ends while tally still attaches was not recorded, which tally says
    process.communicate()
    end = tally.finish(one, 10)
    context.equal(end.status, 0, f"it ends with its program ({end.text()})")



harm.run()
