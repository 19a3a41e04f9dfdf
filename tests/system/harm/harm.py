"""What Tally must not do to a program: a table of programs, each with the ways and modes it is recorded in, and what must be equal.

A table is a script test_harm_AREA.py:

    import harm

    harm.row("static_names", source="names_arena.c", check=nothing_counted)
    harm.row("limits", source="rlimit.c", command=["{program}", "2000"], modes=harm.AGENT, ways=["launched", "attached"])
    harm.run()

A row's program is compiled by the row (`compile`; sources are in programs/), or it is any command of the machine. It runs alone, and
then in each way and each mode; exit status, output and errors (without tally's own lines) must be the same. `check` looks at the
profile too: check(context, profile, mode, result).

Ways:
  launched   tally record MODE -- COMMAND
  attached   the command runs, says so by a first line of output, and ends when its standard input does; tally record MODE -p PID
             comes and goes meanwhile. Afterwards what /proc tells of it is as before: see Footprint.
  killed     the same, but tally is killed by SIGKILL while it records, and `tally detach -p PID` cleans.
  again      the same, but another recording, in the same mode, takes the place of `tally detach`.

With TALLY_LONG in the environment rows run in all modes they have; without it in `short` ones where the row names some.
"""
import contextlib
import os
import re
import shlex
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import calls  # noqa: E402
import tally  # noqa: E402
import tap  # noqa: E402

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
LONG = tap.LONG
LOOKS = 12  # at a process that opens and closes descriptors, or loads and unloads objects
COMPILE = "gcc -O1 -g -pthread -o {program} {source}"

# Every mode of recording that puts something into a program, and one that does not. `function` times main: every C program has it.
TIME = {"time": []}
CALLS = {"calls": ["--calls"]}
AGENT = {"heap": ["--heap"], "fds": ["--fds"], "throws": ["--throws"], "function": ["--function", "main"], "agent": ["--engine=agent"]}
BOTH = {"calls+heap": ["--calls", "--heap"], "calls+function": ["--calls", "--function", "main"], "calls+fds": ["--calls", "--fds"],
        "heap+fds": ["--heap", "--fds"], "heap+agent": ["--heap", "--engine=agent"],
        "all": ["--calls", "--heap", "--fds", "--throws", "--function", "main"]}
MODES = {**TIME, **CALLS, **AGENT, **BOTH}


class Row:
    """One entry of a table; see the module's text."""

    def __init__(self, name, source=None, compile=COMPILE, command=("{program}",), modes=None, short=None, ways=("launched",), env=None,
                 before=None, needs=(), root=False, clean=None, check=None, status=None, options=("--no-time",), seconds="0.4", files=(), restless=False,
                 around=contextlib.nullcontext):
        self.name, self.source, self.compile, self.command = name, source, compile, list(command)
        self.modes, self.ways, self.env, self.before = dict(modes or MODES), ways, env or {}, before
        self.short, self.needs, self.root = short, needs, root
        self.clean, self.check, self.status = clean or (lambda text: text), check, status
        self.options, self.seconds, self.files, self.restless = list(options), seconds, files, restless
        self.around = around  # what is done before and after, as a context manager

    def chosen(self):
        """(mode, options) of the modes to run in."""
        names = self.modes if LONG or self.short is None else self.short
        return [(name, self.modes[name]) for name in names]

    def prepare(self, context):
        """Compiles the program; the command to run."""
        if self.root:
            tap.need_root()
        tap.need(*self.needs)
        places = {"program": context.path(self.name), "directory": context.directory, "programs": context.programs, "sources": PROGRAMS}
        if self.source:
            places["source"] = os.path.join(PROGRAMS, self.source)
            for line in self.compile.splitlines():
                words = [word.format(**places) for word in shlex.split(line)]
                tap.need(words[0])
                done = subprocess.run(words, cwd=context.directory, check=False, stderr=subprocess.PIPE)
                if done.returncode != 0:
                    raise AssertionError(f"{' '.join(words)}: {done.stderr.decode()}")
        return [word.format(**places) for word in self.command]

    def how(self):
        """Options of subprocess for the program and whatever starts it."""
        return {"env": {**os.environ, **self.env}, "preexec_fn": self.before}

    def mode_options(self, mode):
        return list(mode) + ([] if "--engine=agent" in mode or not mode else self.options)

    def outcome(self, context, result):
        """(status, output, errors, files): what may not change."""
        errors = b"".join(line for line in result.errors.splitlines(True) if not line.startswith(b"tally: "))
        contents = []
        for name in self.files:
            with open(context.path(name), "rb") as file:
                contents.append(self.clean(file.read()))
        return result.status, self.clean(result.output), self.clean(errors), contents

    def compare(self, context, mode, got, alone):
        for number, what in enumerate(("status", "output", "errors", "files")):
            context.equal(got[number], alone[number], f"{what} in mode {mode}")


class Footprint:
    """What /proc tells of a process that Tally might change and must put back: mappings of files and executable ones, text, tracers,
    descriptors, signals, timers, limits, locked memory. Anonymous memory that is only data is the program's to grow."""

    def __init__(self, pid, restless=False):
        """`restless`: it creates threads, opens descriptors and loads objects all the time; what one look in LOOKS does not show is not
        compared."""
        self.restless = restless
        looks = []
        for _ in range(LOOKS if restless else 1):
            time.sleep(0.003 if looks else 0)
            looks.append((self.mappings(pid), self.descriptors(pid)))
        self.facts = {
            "mappings": [entry for entry in looks[0][0] if all(entry in mappings for mappings, _ in looks)],
            "text": calls.changed_text(pid),
            "tracers": calls.tracers(pid),
            "descriptors": dict(set.intersection(*(set(descriptors.items()) for _, descriptors in looks))),
            "status": self.status(pid, restless),
            "timers": self.read(pid, "timers"),
            "limits": self.read(pid, "limits"),
        }

    @staticmethod
    def read(pid, name):
        with open(f"/proc/{pid}/{name}", encoding="utf-8") as file:
            return file.read()

    @staticmethod
    def mappings(pid):
        kept = []
        for start, end, protection, offset, path in calls.mappings(pid):
            if path != "[uprobes]" and ("x" in protection or path.startswith("/") or "tally" in path):  # the kernel's, for others' probes
                kept.append((hex(start), hex(end), protection, offset, path))
        return kept

    @staticmethod
    def descriptors(pid):
        found = {}
        for name in os.listdir(f"/proc/{pid}/fd"):
            try:
                found[name] = os.readlink(f"/proc/{pid}/fd/{name}")
            except FileNotFoundError:  # closed meanwhile
                pass
        return found

    @staticmethod
    def status(pid, restless):
        names = ("Uid", "Gid", "VmLck", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp", "CapEff", "CoreDumping")
        found = dict(line.split(":", 1) for line in Footprint.read(pid, "status").splitlines())
        if restless:
            return {name: found.get(name, "").strip() for name in names}
        names += ("Threads",)
        blocked = {tid: Footprint.always_blocked(pid, tid) for tid in sorted(os.listdir(f"/proc/{pid}/task"))}
        return {**{name: found.get(name, "").strip() for name in names}, "SigBlk": blocked}

    @staticmethod
    def always_blocked(pid, tid):
        """Signals blocked at each of several looks: a library blocks all of them for a moment (fork, a debugging allocator's lock)."""
        mask = ~0
        for look in range(4):
            time.sleep(0.003 if look else 0)
            mask &= int(re.search(r"^SigBlk:\s*(\w+)", Footprint.read(pid, f"task/{tid}/status"), re.MULTILINE).group(1), 16)
        return f"{mask:016x}"

    def same(self, context, pid, what):
        """Whether the process is as it was; for a moment it may differ by what it does itself, such as creating a thread."""
        found = []

        def settled():
            later = Footprint(pid, self.restless)
            found[:] = [(name, later.facts[name]) for name, value in self.facts.items() if later.facts[name] != value]
            return not found
        tally.wait_for(settled, 3)
        for name, value in found:
            before = self.facts[name]
            if isinstance(value, list):  # of mappings and text: what came, and what went
                context.check(False, f"{name} {what}: new {[one for one in value if one not in before]}, gone {[one for one in before if one not in value]}")
            else:
                context.equal(value, before, f"{name} {what}")


def ours(pid):
    """The mappings that are Tally's."""
    return [entry for entry in calls.mappings(pid) if entry[4].startswith("/memfd:tally")]


def inside(pid):
    """Whether Tally has begun to work in a process."""
    return bool(ours(pid)) or bool(calls.tracers(pid)) or bool(calls.changed_text(pid))


def begin(row, context, command):
    """Starts the program for an attachment, and waits for its first line. (process, that line)"""
    process = tally.start(context, command, stdin=subprocess.PIPE, **row.how())
    line = process.stdout.readline()
    if not line:
        raise AssertionError(f"{row.name} did not begin: {process.stderr.read()!r}")
    return process, line


def end(row, context, process, line):
    """Lets it end by itself: its outcome."""
    output, errors = process.communicate(timeout=60)
    return row.outcome(context, tally.Result(process.returncode, line + output, errors))


def record_command(row, context, mode, name, pid, *more):
    return [context.tally, "record", *row.mode_options(mode), *more, "-o", context.path(name), "-p", str(pid)]


def look(row, context, mode, name, result):
    """The row's own check of a profile."""
    if row.check and context.check(os.path.exists(context.path(name)), f"no profile was written in mode {mode} ({result.text()})"):
        row.check(context, tally.Profile(context, context.path(name)), mode, result)


def launch(row, context, command, name, mode, alone):
    """One recording, whose program does what it does alone. On a machine so busy that tally has no processor for half a second it lets
    the program go on, says so, and its profile lacks what it says: then it is done again."""
    for attempt in range(3):
        result = tally.record(context, command, row.mode_options(mode), name, **row.how())
        row.compare(context, name, row.outcome(context, result), alone)
        if b"did nothing for a while" not in result.errors:
            break
        context.note(f"mode {name}, attempt {attempt + 1}: tally had no processor")
    return result


def launched(row, context, command):
    alone = row.outcome(context, tally.run(context, command, **row.how()))
    if row.status is not None:
        context.equal(alone[0], row.status, "status alone")
    for name, mode in row.chosen():
        result = launch(row, context, command, name, mode, alone)
        look(row, context, name, name, result)


def visit(row, context, process, mode, name):
    """A recording that comes and goes."""
    result = tally.run(context, record_command(row, context, mode, name, process.pid, "--duration", row.seconds))
    context.equal(result.status, 0, f"status of tally in mode {name} ({result.text()})")
    look(row, context, name, name, result)


def killed_visit(row, context, process, mode, name):
    """A recording that is killed while it records."""
    one = tally.start(context, record_command(row, context, mode, name, process.pid))
    begun = tally.wait_for(lambda: inside(process.pid) or one.poll() is not None or not mode, 20)
    context.check(begun and one.poll() is None, f"tally did not begin in mode {name}")
    tally.wait_for(lambda: False, 0.2)
    one.kill()
    one.communicate()
    context.check(tally.wait_for(lambda: not calls.tracers(process.pid), 5), f"it is traced still in mode {name}")


def cleaned(row, context, process, mode, name):
    killed_visit(row, context, process, mode, name)
    result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
    context.equal(result.status, 0, f"status of detach in mode {name} ({result.text()})")


def taken_over(row, context, process, mode, name):
    killed_visit(row, context, process, mode, name)
    visit(row, context, process, mode, name)


def attachment(visitor):
    def way(row, context, command):
        """Each mode visits one process after another; then it ends as one that nobody visited."""
        process, line = begin(row, context, command)
        alone = end(row, context, process, line)
        process, line = begin(row, context, command)
        before = Footprint(process.pid, row.restless)
        for name, mode in row.chosen():
            visitor(row, context, process, mode, name)
            if not context.check(process.poll() is None, f"it ended in mode {name}: {process.poll()}"):
                return
            before.same(context, process.pid, f"after mode {name}")
        row.compare(context, "(all)", end(row, context, process, line), alone)
    return way


WAYS = {"launched": launched, "attached": attachment(visit), "killed": attachment(cleaned), "again": attachment(taken_over)}


def row(name, **options):
    """One entry: a case for each of its ways."""
    entry = Row(name, **options)
    for way in entry.ways:
        def run_way(context, way=way):
            command = entry.prepare(context)
            with entry.around():
                WAYS[way](entry, context, command)
        run_way.__name__ = f"{name}_{way}"
        tap.case(run_way)


def run():
    tap.run()
