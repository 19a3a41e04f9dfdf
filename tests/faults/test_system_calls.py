"""The Nth system call of tally fails, for every N, while it launches a program or attaches to one.

Whatever fails: tally ends (no hang, no signal), the target either ran as ever or was never begun, stderr says what was
wrong when tally's own status is given, what is left in the directory is a profile that opens, and nothing runs on.
strace injects the errors into tally alone, not into its children. Calls of the dynamic linker are left alone: what
cannot load is not tally's to report.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "system"))
import tally  # noqa: E402
import tap  # noqa: E402
from tap import Skip  # noqa: E402

# What each of tally's system calls may plausibly answer.
ERRORS = {
    "openat": "EMFILE", "read": "EIO", "pread64": "EIO", "mmap": "ENOMEM", "munmap": "EINVAL", "mremap": "ENOMEM",
    "perf_event_open": "EMFILE", "ioctl": "EINVAL", "fcntl": "EAGAIN", "newfstatat": "EIO", "lseek": "EINVAL",
    "write": "ENOSPC", "pwrite64": "ENOSPC", "ftruncate": "ENOSPC", "rename": "EACCES", "unlink": "EACCES",
    "mkdir": "ENOSPC", "fsync": "EIO", "clone": "EAGAIN", "pipe2": "EMFILE", "poll": "ENOMEM", "ppoll": "ENOMEM",
    "signalfd4": "EMFILE", "rt_sigprocmask": "EINVAL", "rt_sigaction": "EINVAL", "getrandom": "EAGAIN",
    "prlimit64": "EPERM", "setpriority": "EACCES", "getpriority": "EACCES", "process_vm_readv": "EPERM",
    "sched_getaffinity": "EINVAL", "statx": "EIO", "getdents64": "EIO", "readlink": "EACCES", "access": "EACCES",
    "fallocate": "ENOSPC", "flock": "EAGAIN", "uname": "EFAULT", "sysinfo": "EFAULT",
    "pidfd_open": "EMFILE", "socket": "EMFILE", "prctl": "EINVAL", "fchmod": "EPERM", "fchown": "EPERM",
    "getrusage": "EINVAL", "renameat": "EACCES", "utimensat": "EPERM",
}
# Calls that cannot fail, whose failure is the C library's own end, or that the kernel never leaves undone as an injected
# error would: close closes whatever it answers, brk answers with the old end.
NOT_TRIED = {
    "brk", "close", "execve", "exit_group", "rt_sigreturn", "wait4", "arch_prctl", "set_tid_address", "set_robust_list", "rseq",
    "mprotect", "futex", "getpid", "gettid", "getuid", "geteuid", "getppid", "clock_gettime", "clock_nanosleep", "kill",
    "restart_syscall", "madvise", "waitid", "dup2", "tgkill",
}
TARGET = ["/bin/sh", "-c", "echo begun; i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done; echo done; exit 3"]
WHOLE = b"begun\ndone\n"
OWN_FAILURE = (2, 125)
STEPS = 40 if tap.LONG else 10  # of one system call at most so many places are tried, the first ones all


def strace(context, options, command, **extra):
    """A run below strace in a session of its own, so that what it leaves running is found."""
    return tally.run(context, ["strace", "-qq", "-o", context.path("trace"), *options, *command], timeout=30,
                     start_new_session=True, **extra)


def command_line(context, what):
    return [context.tally, "record", "-F", "4000", "-o", context.path("profile"), *what]


def traced_calls(context):
    """Names of tally's system calls in order, and how many the dynamic linker had made before."""
    with open(context.path("trace"), encoding="utf-8", errors="replace") as trace:
        lines = trace.read().splitlines()
    names = [match.group(1) for match in (re.match(r"(\w+)\(", line) for line in lines) if match]
    opened = next(i for i, line in enumerate(lines) if "ld.so.cache" in line)
    loaded = next(i for i, line in enumerate(lines) if i > opened and line.startswith("munmap("))
    return names, names[: loaded + 1]


def places(first, last):
    """Which of the calls first+1 .. last are tried."""
    every = list(range(first + 1, last + 1))
    half = STEPS // 2
    if len(every) <= STEPS:
        return every
    rest = every[half:]
    return every[:half] + rest[:: len(rest) // half + 1]


def remaining(context, name):
    """What was left behind; an empty journal only where it could not be emptied, looked at or removed."""
    known = ["trace", "profile", "profile.old"]
    known += ["profile-journal"] if name in ("ftruncate", "newfstatat", "unlink") else []
    return sorted(left for left in os.listdir(context.directory) if left not in known)


def clean(context):
    for name in os.listdir(context.directory):
        os.unlink(context.path(name))


def check_profile(context, where):
    """What was left opens, or is not there at all."""
    if not os.path.exists(context.path("profile")):
        return False
    for arguments in (["report", context.path("profile")], ["query", context.path("profile"), "select * from meta"]):
        opened = tally.run(context, [context.tally, *arguments], timeout=20)
        context.check(opened.status == 0, f"{where}: tally {arguments[0]} cannot read what was left: {opened.text()}")
    return True


def running_in(session):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(pid))
    return found


def run_injected(context, name, place, what):
    """(result, processes that run on): strace is the leader of the session that is looked at."""
    injection = ["-e", f"trace={name}", "-e", f"inject={name}:error={ERRORS[name]}:when={place}"]
    command = ["strace", "-qq", "-o", context.path("trace"), *injection, *command_line(context, what)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               cwd=context.directory, start_new_session=True)
    try:
        output, errors = process.communicate(timeout=30)
    except subprocess.TimeoutExpired:
        for pid in running_in(process.pid):
            os.kill(pid, 9)
        output, errors = process.communicate()
        return tally.Result("hangs", output, errors), []
    left = running_in(process.pid)
    for pid in left:
        os.kill(pid, 9)
    return tally.Result(process.returncode, output, errors), left


def check_message(context, result, where):
    lines = [line for line in result.errors.decode(errors="replace").splitlines() if line.startswith("tally: ")]
    context.check(lines, f"{where}: no reason was given: {result.text()}")


def check_launch(context, name, place):
    where = f"{name} number {place}"
    result, left = run_injected(context, name, place, ["--", *TARGET])
    context.check(result.status in (3, *OWN_FAILURE), f"{where}: {result.text()}")
    context.check(result.output in (b"", WHOLE), f"{where}: the target's output: {result.text()}")
    context.check(not left, f"{where}: left running: {left}")
    context.equal(remaining(context, name), [], f"{where}: left in the directory")
    profile = check_profile(context, where)
    if result.status == 3:
        context.equal(result.output, WHOLE, f"{where}: output of a target that was run")
        if not profile:
            check_message(context, result, where)
    else:
        check_message(context, result, where)
    clean(context)


def try_calls(context, what, check):
    """Every call of every name that a run without faults makes."""
    strace(context, [], command_line(context, what))
    calls, before = traced_calls(context)
    clean(context)
    unknown = sorted(set(calls) - set(ERRORS) - NOT_TRIED)
    context.equal(unknown, [], "system calls that this test knows no error for")
    tried = 0
    for name in sorted(set(calls) & set(ERRORS)):
        for place in places(before.count(name), calls.count(name)):
            check(context, name, place)
            tried += 1
    context.note(f"{tried} system calls failed one by one, of {len(calls) - len(before)}")


def need_strace(context):
    tap.need("strace")
    done = strace(context, [], ["/bin/true"])
    if done.status != 0:
        raise Skip("strace may not trace here")
    clean(context)


@tap.case
def launching_survives_every_failing_call(context):
    need_strace(context)
    try_calls(context, ["--", *TARGET], check_launch)


@tap.case
def attaching_survives_every_failing_call(context):
    need_strace(context)
    target = tally.start_busy(context, "threads")
    what = ["-p", str(target.pid), "--duration", "0.1"]

    def check_attach(context, name, place):
        where = f"{name} number {place}"
        result, left = run_injected(context, name, place, what)
        context.check(result.status in (0, *OWN_FAILURE), f"{where}: {result.text()}")
        context.check(not left, f"{where}: left running: {left}")
        context.equal(remaining(context, name), [], f"{where}: left in the directory")
        if not check_profile(context, where) or result.status:
            check_message(context, result, where)
        context.check(target.poll() is None, f"{where}: the target ended")
        clean(context)

    try_calls(context, what, check_attach)


tap.run()
