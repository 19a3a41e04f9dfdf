"""Runs the command under test and reads what it leaves, through the stable views of a profile only."""
import csv
import io
import os
import sqlite3
import subprocess
import time

import tap

NOBODY = 65534
LOST_ROOTS = (3, 4, 5, 6, 7, 9, 10)  # numbers of doc/losses.md: stacks without an outermost frame


class Result:
    """What became of a run."""

    def __init__(self, status, output, errors, profile=None):
        self.status, self.output, self.errors, self.profile = status, output, errors, profile

    def text(self):
        return f"status {self.status}, stdout {tap.shorten(self.output)}, stderr {tap.shorten(self.errors)}"


def run(context, arguments, timeout=120, **options):
    """Any command to its end; streams are bytes."""
    options.setdefault("stdin", subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout, check=False,
                          cwd=options.pop("cwd", context.directory), **options)
    return Result(done.returncode, done.stdout, done.stderr)


def record(context, command, options=(), name="profile", **extra):
    """tally record, writing context.directory/name."""
    path = context.path(name)
    result = run(context, [context.tally, "record", "-o", path, *options, "--", *command], **extra)
    result.profile = path
    return result


def recorded(context, command, options=(), name="profile", status=0, **extra):
    """The same where it must succeed; returns the Profile."""
    result = record(context, command, options, name, **extra)
    context.equal(result.status, status, f"status of recording {os.path.basename(command[0])} ({result.text()})")
    if not os.path.exists(result.profile):
        raise AssertionError("no profile was left: " + result.text())
    profile = Profile(context, result.profile)
    profile.output, profile.errors = result.output.decode(errors="replace"), result.errors.decode(errors="replace")
    return profile


def start(context, arguments, **options):
    """A command that runs on; ended with the case if need be."""
    options.setdefault("stdin", subprocess.DEVNULL)
    options.setdefault("stdout", subprocess.PIPE)
    options.setdefault("stderr", subprocess.PIPE)
    process = subprocess.Popen(arguments, cwd=options.pop("cwd", context.directory), **options)
    context.started.append(process)
    return process


def start_busy(context, program="threads", *arguments, **options):
    """A program that works until it is killed, begun when this returns."""
    arguments = arguments or (("2", "--together", "--forever") if program == "threads" else ())
    process = start(context, [context.program(program), *arguments], **options)
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"{program} did not begin")
    return process


def wait_for(condition, seconds=20, step=0.01):
    """Whether the condition came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(step)
    return bool(condition())


def finish(process, seconds=30):
    """Waits for a started command to end by itself."""
    output, errors = process.communicate(timeout=seconds)
    return Result(process.returncode, output or b"", errors or b"")


def visits(context, program, options, rounds=8):
    """(profile, pid) of each of several short recordings of a test program that waits on its standard input: nothing of ours stays
    in it after any, and it ends well."""
    process = start(context, [context.program(program), "wait"], stdin=subprocess.PIPE)
    time.sleep(0.1)
    for number in range(rounds):
        output = context.path(f"visit-{number}")
        result = run(context, [context.tally, "record", *options, "-o", output, "--duration", "0.3", "-p", str(process.pid)])
        context.equal(result.status, 0, f"status of recording ({result.text()})")
        yield Profile(context, output), process.pid
        with open(f"/proc/{process.pid}/maps", encoding="utf-8") as file:
            context.equal([line for line in file if "tally" in line], [], "memory left in the program")
    process.stdin.close()
    context.equal(process.wait(60), 0, "its status")


def check_rounds(context, done, rounds):
    """Recordings that a busy machine lets Tally refuse: some must have been made, and how many is said."""
    context.note(f"{rounds - done} of {rounds} rounds were refused")
    context.check(done > 0, f"each of {rounds} rounds was refused: nothing was tested")


def as_nobody():
    """Options for subprocess that make a child an unprivileged user."""

    def become():
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)

    return {"preexec_fn": become, "env": dict(os.environ, HOME="/nonexistent", XDG_CACHE_HOME="/nonexistent")}


def reachable_by_nobody(context):
    """Whether an unprivileged user can run the command under test."""
    context_options = as_nobody()
    done = subprocess.run(["/usr/bin/test", "-x", context.tally], check=False, **context_options)
    return done.returncode == 0


class Profile:
    """A profile, read through its views."""

    def __init__(self, context, path):
        self.context, self.path = context, path
        self.output = self.errors = ""

    def rows(self, sql, parameters=()):
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True)
        try:
            return connection.execute(sql, parameters).fetchall()
        finally:
            connection.close()

    def query(self, sql, form="--csv"):
        """Through `tally query`: the rows as text, with the header."""
        result = run(self.context, [self.context.tally, "query", self.path, sql, form])
        self.context.equal(result.status, 0, f"status of tally query ({result.text()})")
        return list(csv.reader(io.StringIO(result.output.decode()))) if form == "--csv" else result.output.decode()

    def report(self, *options):
        result = run(self.context, [self.context.tally, "report", self.path, *options])
        self.context.equal(result.status, 0, f"status of tally report {' '.join(options)} ({result.text()})")
        return result.output.decode()

    def losses(self):
        return dict(self.rows("select number, count from losses"))

    def meta(self):
        return dict(self.rows("select key, value from meta"))

    def counter(self):
        """The first one: time.cpu, or time.user where the kernel's part may not be counted."""
        names = self.rows("select name from counters order by id limit 1")
        return names[0][0] if names else ""

    def flat(self, counter=None):
        """{function: row as a dictionary}; functions of one name in several images are summed by whoever cares."""
        names = ("function", "image", "self", "total", "self_low", "self_high", "total_low", "total_high", "samples")
        sql = f"select {', '.join(names)} from flat where counter = ?"
        return {row[0]: dict(zip(names, row)) for row in self.rows(sql, (counter or self.counter(),))}

    def stacks(self, counter=None):
        """[(frames from the root to the leaf, value)]"""
        rows = self.rows("select stack, value from stacks where counter = ?", (counter or self.counter(),))
        return [(stack.split(";"), value) for stack, value in rows]

    def total(self):
        return sum(value for _, value in self.stacks())

    def functions(self):
        return {frame for frames, _ in self.stacks() for frame in frames}

    def share_containing(self, function):
        stacks = self.stacks()
        inside = sum(value for frames, value in stacks if function in frames)
        return inside / max(1, sum(value for _, value in stacks))
