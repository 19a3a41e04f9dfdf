"""Programs that threads start at the same time, by posix_spawn, vfork and fork: in every mode each is as it is alone, and is counted whole or
is a counted loss. Launched, and attached before the first is started."""
import os
import struct
import subprocess
import time

import harm
import tally
import tap

PROGRAMS, ROUNDS, EXCEPTIONS = 150, 100, 10  # of programs/starters.cpp
BURN = 50  # ms of each where time is sampled: some six samples
FEWEST = 145  # programs with a sample; by chance one in 500 has none
MODES = {**harm.MODES, "function": ["--function", "own_work"], "calls+function": ["--calls", "--function", "own_work"],
         "all": ["--calls", "--heap", "--fds", "--throws", "--function", "own_work"]}


def below(profile, counter, function):
    """The counter's sum in stacks that go through a function."""
    return sum(value for frames, value in profile.stacks(counter) if function in frames)


def figures(profile, options):
    """{what was counted: (how often, how often it was done)} of a mode."""
    found = {}
    if "--calls" in options:
        edges = "select coalesce(sum(calls), 0) from edges where caller = 'be_program' and callee = 'own_work'"
        found["calls"] = profile.rows(edges)[0][0], PROGRAMS * ROUNDS
    for option, counter, function, number in (("--heap", "heap.count", "own_work", ROUNDS), ("--fds", "fd.used", "own_work", ROUNDS),
                                              ("--throws", "throw.count", "own_throw", EXCEPTIONS),
                                              ("--function", "function.calls", "own_work", ROUNDS)):
        if option in options:
            found[counter] = below(profile, counter, function), PROGRAMS * number
    return found


def with_samples(profile):
    """How many processes have samples in the function that burns time."""
    return profile.rows("select count(distinct t.process) from data_cells c join data_threads t on t.id = c.thread join counters k on k.id = c.counter"
                        " where k.name glob 'time.*'")[0][0]


def judge(context, profile, mode, result):
    losses = profile.losses()
    for what, (got, wanted) in figures(profile, MODES[mode]).items():
        context.equal(got, wanted, f"{what} in mode {mode} (losses {losses}, {result.errors!r})")
    if "--engine=agent" in MODES[mode]:
        programs = with_samples(profile)
        context.note(f"{programs} programs with samples, losses {losses}")
        context.check(programs >= FEWEST, f"{programs} programs have samples in mode {mode} (losses {losses})")


def environment(options):
    return {**os.environ, **({"BURN": str(BURN)} if "--engine=agent" in options else {})}


def options_of(mode):
    return [*MODES[mode], *([] if "--engine=agent" in MODES[mode] else ["--no-time"])]


def program(context):
    return harm.Row("starters", source="starters.cpp", compile="g++ -O1 -g -pthread -o {program} {source}").prepare(context)


OUTPUT = b"begun\n150 programs, 0 wrong\n"


def launched(mode):
    def run(context):
        result = tally.record(context, program(context), options_of(mode), env=environment(MODES[mode]))
        context.equal((result.status, result.output), (0, OUTPUT), f"outcome ({result.text()})")
        judge(context, tally.Profile(context, result.profile), mode, result)
    run.__name__ = f"launched_{mode}".replace("+", "_")
    tap.case(run)


def attached(mode):
    def run(context):
        process = tally.start(context, [*program(context), "waits"], stdin=subprocess.PIPE, env=environment(MODES[mode]))
        line = process.stdout.readline()
        one = tally.start(context, [context.tally, "record", *options_of(mode), "-o", context.path("profile"), "-p", str(process.pid)])
        begun = tally.wait_for(lambda: harm.inside(process.pid) or one.poll() is not None)
        context.check(begun and one.poll() is None, "tally did not begin")
        time.sleep(0.5)
        output, errors = process.communicate(b"go\n", timeout=60)
        context.equal((process.returncode, line + output, errors), (0, OUTPUT, b""), "outcome")
        result = tally.finish(one, 60)
        context.equal(result.status, 0, f"status of tally ({result.text()})")
        judge(context, tally.Profile(context, context.path("profile")), mode, result)
    run.__name__ = f"attached_{mode}".replace("+", "_")
    tap.case(run)


MISSED = 27  # doc/losses.md
ATTACHES, EACH = 15, 100  # EACH: calls of own_work by a child of programs/creations.c


def count_forks(path):
    """(all of them, those that were traced from the beginning)"""
    with open(path, "rb") as file:
        return struct.unpack("qq", file.read(16))


class Creations:
    """programs/creations.c without a pause, always at the same addresses, and a recording of its calls that has begun."""

    def __init__(self, context, *arguments):
        row = harm.Row("creations", source="creations.c", compile="gcc -O1 -g -pthread -o {program} {source} -ldl")
        self.context, self.file = context, context.path("count")
        self.process = tally.start(context, ["setarch", "-R", *row.prepare(context), self.file, *arguments], stdin=subprocess.PIPE)
        self.process.stdout.readline()
        self.before, _ = count_forks(self.file)
        self.tally = tally.start(context, [context.tally, "record", "--calls", "--no-time", "-o", context.path("profile"), "-p", str(self.process.pid)])
        begun = tally.wait_for(lambda: harm.ours(self.process.pid) or self.tally.poll() is not None)
        context.check(begun and self.tally.poll() is None, "tally did not begin")
        context.check(tally.wait_for(lambda: count_forks(self.file)[1] > 20), "20 children that are traced in 10 s")
        self.ours = harm.ours(self.process.pid)

    def end(self):
        """The program's end, and then tally's: its result."""
        self.process.stdin.close()
        self.context.equal(self.process.wait(20), 0, "status of the program")
        result = tally.finish(self.tally)
        self.context.equal(result.status, 0, f"status of tally ({result.text()})")
        return result


@tap.case
def children_created_while_it_is_attached(context):
    """Once in some six attaches a child is created after its process is followed, and before anything is mapped there: it is counted, too,
    from its first instruction to its last."""
    tap.need("setarch")
    for _ in range(ATTACHES):
        program = Creations(context, "fork", "0")
        result = program.end()
        profile = tally.Profile(context, context.path("profile"))
        context.equal(profile.losses().get(MISSED, 0), 0, f"processes that were missed ({result.text()}; {profile.meta().get('calls_notice')})")
        counted = profile.rows("select coalesce(sum(calls), 0) from edges where callee = 'own_work'")[0][0]
        context.equal(counted % EACH, 0, f"calls beyond whole children, of {counted}")
        made, traced = count_forks(program.file)
        context.check(traced <= counted // EACH <= made - program.before, f"{counted // EACH} children of {made} are counted, {traced} were traced")


@tap.case
def memory_of_children_stays(context):
    """Such a child has memory of its own where tally maps its in the parent, which has none there any more."""
    tap.need("setarch")
    first = Creations(context, "fork", "0")
    start, end = max((entry[:2] for entry in first.ours), key=lambda place: place[1] - place[0])
    first.end()
    there = 0
    for _ in range(ATTACHES):
        program = Creations(context, "buffer", "0", hex(start), hex(end))
        there += any(entry[0] < end and entry[1] > start for entry in program.ours)
        program.end()
        if context.failures:
            return
    context.check(there > 0, f"tally never mapped {start:x} to {end:x}, but {program.ours}")  # it may when the parent has just unmapped it


for name, mode_options in MODES.items():
    if mode_options and (harm.LONG or "+" not in name):
        launched(name)
    if mode_options and (harm.LONG or name in ("calls", "heap", "all")):
        attached(name)
tap.run()
