"""Another tool's uprobes beside Tally: before it begins, while it records, and after; gone first and gone last. The program's results are
the same, and neither takes the other's bytes away.

The program has copies of its libraries for itself, so that a probe of malloc is nobody else's.
"""
import os
import re
import shutil
import signal
import subprocess
import time

import harm
import calls
import tally
import tap

MODES = {"calls": ["--calls"], "heap": ["--heap"], "fds": ["--fds"], "throws": ["--throws"], "function": ["--function", "*_first"],
         "all": ["--calls", "--heap", "--fds", "--throws", "--function", "*_first"]}
LIBRARIES = {"malloc": "libc.so", "free": "libc.so", "open": "libc.so", "__cxa_throw": "libstdc++.so", "_Fork": "libc.so", "_dl_debug_state": "ld.so"}
DOORBELLS = ["_Fork", "_dl_debug_state"]  # functions that tell exact calls of creations, and of objects
PROBED = [name for name in LIBRARIES if name not in DOORBELLS]
FIRSTS = ["push_first", "sub_first", "lea_first"]
AGENT_HOOKS = [("heap", "malloc"), ("fds", "open"), ("function", "push_first"), ("all", "free"), ("heap", "free"), ("throws", "__cxa_throw"),
               ("function", "sub_first"), ("function", "lea_first"), ("all", "open"), ("all", "sub_first")]
ALTERED = 68  # doc/losses.md


def build(context, *flags):
    """(the program, the one that probes)"""
    tap.need_root()
    tap.need("g++", "nm", "readelf")
    probed, probe = context.path("probed"), context.path("probe")
    os.mkdir(context.path("lib"))
    subprocess.run(["g++", "-O1", "-g", "-pthread", "-Wl,-rpath,$ORIGIN/lib", *flags, "-o", probed, os.path.join(harm.PROGRAMS, "probed.cpp")], check=True)
    subprocess.run(["gcc", "-O1", "-o", probe, os.path.join(harm.PROGRAMS, "probe.c")], check=True)
    needed = subprocess.run(["ldd", probed], check=True, capture_output=True, text=True).stdout
    for path in re.findall(r"=> (/\S+)", needed):
        shutil.copy(os.path.realpath(path), context.path(os.path.join("lib", os.path.basename(path))))
    return probed, probe


def offset(path, symbol):
    """In the file; of a place as OBJECT+DISTANCE too."""
    name, _, distance = symbol.partition("+")
    found = ""
    for table in ([], ["-D"]):
        found += subprocess.run(["nm", *table, path], check=False, capture_output=True, text=True).stdout
    address = next(int(line.split()[0], 16) for line in found.splitlines() if len(line.split()) == 3 and line.split()[2].split("@")[0] == name)
    headers = subprocess.run(["readelf", "-lW", path], check=True, capture_output=True, text=True).stdout
    for start, low, size in re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", headers):
        if 0 <= address - int(low, 16) < int(size, 16):
            return hex(address - int(low, 16) + int(start, 16) + int(distance or "0", 16))
    raise AssertionError(f"{path} has no {symbol}")


def file_of(context, symbol):
    library = LIBRARIES.get(symbol)
    names = os.listdir(context.path("lib"))
    return context.path("probed") if not library else context.path("lib/" + next(name for name in names if name.startswith(library)))


class Probe:
    """Another tool's breakpoints on functions, until `end`."""

    def __init__(self, context, probe, symbols):
        by_file = {}
        for symbol in symbols:
            path = file_of(context, symbol)
            by_file.setdefault(path, []).append(offset(path, symbol))
        self.tools = [tally.start(context, [probe, path, *offsets], stdin=subprocess.PIPE) for path, offsets in by_file.items()]
        for tool in self.tools:
            if not tool.stdout.readline():
                raise tap.Skip(f"no uprobes: {tool.stderr.read()!r}")

    def end(self):
        """How often they were hit."""
        hits = 0
        for tool in self.tools:
            output, _ = tool.communicate(timeout=60)
            hits += int(output)
        return hits


def losses(profile, number=ALTERED):
    return sum(count for count, in profile.rows(f"select count from losses where number = {number}"))


def options(mode):
    return [*MODES[mode], "--no-time"]


def begin(context, program):
    process = tally.start(context, [program, "on"], stdin=subprocess.PIPE)
    process.stdout.readline()
    return process


def begin_alone(context):
    """(the program, the one that probes, the program's process, its footprint without a probe)"""
    program, probe = build(context)
    process = begin(context, program)
    return program, probe, process, harm.Footprint(process.pid, True)


def end(context, process, what):
    output, errors = process.communicate(timeout=60)
    context.equal((process.returncode, output, errors), (0, b"0 wrong\n", b""), f"outcome {what}")


def start_record(context, mode, pid):
    """A recording that has begun to count."""
    one = tally.start(context, [context.tally, "record", *options(mode), "-o", context.path("profile"), "-p", str(pid)])
    begun = tally.wait_for(lambda: harm.ours(pid) or one.poll() is not None)
    context.check(begun and one.poll() is None, f"tally did not begin in mode {mode}")
    time.sleep(0.3)
    return one


def end_record(context, one, mode):
    one.send_signal(signal.SIGINT)
    result = tally.finish(one)
    context.equal(result.status, 0, f"status of tally in mode {mode} ({result.text()})")
    return tally.Profile(context, context.path("profile"))


def modes():
    return MODES if harm.LONG else ["calls", "all"]


@tap.case
def before_launched(context):
    """Probes that are there when the program begins: everything else is counted, and what is not is reported."""
    program, probe = build(context)
    for symbols in ([name] for name in (*FIRSTS, *PROBED)) if harm.LONG else (["push_first"], ["sub_first", "lea_first"], list(PROBED)):
        for mode in MODES:
            tool = Probe(context, probe, symbols)
            result = tally.record(context, [program], options(mode))
            hits = tool.end()
            context.equal((result.status, result.output), (0, b"begun\n0 wrong\n"), f"outcome with {symbols} in mode {mode} ({result.text()})")
            if mode == "calls" and symbols[0] in FIRSTS:
                context.check(hits > 0, f"{symbols} were not hit any more in mode {mode}")
                context.equal(losses(tally.Profile(context, result.profile)), len(symbols), f"places reported with {symbols}")
            if mode == "heap" and "malloc" in symbols:
                context.check(b"not hooked: malloc" in result.errors, f"nothing is said of malloc: {result.text()}")


@tap.case
def before_attached(context):
    """The probes are there before, and afterwards still."""
    program, probe = build(context)
    process = begin(context, program)
    tool = Probe(context, probe, [*FIRSTS, *PROBED])
    before = harm.Footprint(process.pid, True)
    for mode in MODES:
        one = start_record(context, mode, process.pid)
        end_record(context, one, mode)
        before.same(context, process.pid, f"after mode {mode}")
    tool.end()
    context.equal(calls.changed_text(process.pid), [], "text after the probes")
    end(context, process, "with all probes")


@tap.case
def gone_first(context):
    """The probes go while tally records."""
    _, probe, process, before = begin_alone(context)
    for mode in modes():
        tool = Probe(context, probe, [*FIRSTS, *PROBED])
        one = start_record(context, mode, process.pid)
        tool.end()
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        end_record(context, one, mode)
        before.same(context, process.pid, f"after mode {mode}")
    end(context, process, "with probes that went")


@tap.case
def come_and_gone(context):
    """Probes come where tally has changed nothing, or a call's destination, and go again while it records."""
    program, probe, process, before = begin_alone(context)
    call = call_in(program, "calls")
    for mode in modes():
        one = start_record(context, mode, process.pid)
        for symbols in (["_ZL6othersl"], [call]):
            tool = Probe(context, probe, symbols)
            time.sleep(0.2)
            process.send_signal(signal.SIGUSR1)
            time.sleep(0.1)
            context.check(tool.end() > 0, f"the probe of {symbols} was not hit in mode {mode}")
        end_record(context, one, mode)
        before.same(context, process.pid, f"after mode {mode}")
    end(context, process, "with probes that came and went")


def call_in(program, function):
    """The first call in a function of the program, as NAME+DISTANCE."""
    listing = subprocess.run(["objdump", "-d", program], check=True, capture_output=True, text=True).stdout
    name = f"_ZL5{function}l"
    body = re.search(rf"<{name}>:\n(.*?)\n\n", listing, re.DOTALL).group(1)
    lines = [line for line in body.splitlines() if re.match(r"\s*\w+:", line)]
    first = int(lines[0].split(":")[0], 16)
    call = next(int(line.split(":")[0], 16) for line in lines if "\tcall " in line)
    return f"{name}+{call - first:x}"


@tap.case
def come_and_stay(context):
    """A probe comes over a hook whose first instruction is as long as tally's jump: it is hit, survives tally's leaving, and is undone
    last; of tally nothing stays."""
    _, probe, process, before = begin_alone(context)
    for mode in ("calls", "function", "all"):
        one = start_record(context, mode, process.pid)
        tool = Probe(context, probe, ["lea_first"])
        process.send_signal(signal.SIGUSR1)  # its sites go to other stubs
        time.sleep(0.3)
        profile = end_record(context, one, mode)
        context.check(losses(profile) > 0, f"nothing is reported in mode {mode}")
        context.equal(harm.ours(process.pid), [], f"memory after mode {mode}")
        context.equal(len(calls.changed_text(process.pid)), 1, f"changed texts after mode {mode}")
        time.sleep(0.1)
        context.check(tool.end() > 0, f"it was not hit in mode {mode}")
        before.same(context, process.pid, f"after mode {mode}")
    end(context, process, "with a probe that stays")


@tap.case
def come_to_hooks_and_gone(context):
    """A probe comes over a hook whose first instruction is as long as tally's jump, and goes while tally records: the hook has made way,
    so that what the kernel writes then is right."""
    program, probe, process, before = begin_alone(context)
    one = start_record(context, "calls", process.pid)
    tool = Probe(context, probe, ["lea_first"])
    context.check(tally.wait_for(lambda: is_file(process.pid, program, "lea_first"), 10), "the hook was not removed")
    context.check(tool.end() > 0, "the probe was not hit")
    process.send_signal(signal.SIGUSR1)
    time.sleep(0.3)
    context.check(process.poll() is None, f"it ended: {process.poll()}")
    context.check(losses(end_record(context, one, "calls")) > 0, "nothing is reported")
    before.same(context, process.pid, "after a probe that came and went")
    end(context, process, "with a probe that came to a hook and went")


@tap.case
def come_to_doorbells_and_gone(context):
    """The same over the jumps that tell exact calls of creations and of objects: the doorbell makes way, and nothing of either tool stays."""
    program, probe = build(context, f"-Wl,--dynamic-linker={context.path('lib/ld.so')}")
    shutil.copy(next(path for path in ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-x86-64.so.2") if os.path.exists(path)), context.path("lib/ld.so"))
    process = begin(context, program)
    before = harm.Footprint(process.pid, True)
    for symbol in DOORBELLS:
        path = file_of(context, symbol)
        one = start_record(context, "calls", process.pid)
        context.check(tally.wait_for(lambda: not is_file(process.pid, path, symbol), 20), f"there is no doorbell at {symbol}")
        tool = Probe(context, probe, [symbol])
        context.check(tally.wait_for(lambda: is_file(process.pid, path, symbol), 10), f"the doorbell at {symbol} was not removed")
        process.send_signal(signal.SIGUSR1)
        time.sleep(0.3)
        tool.end()
        profile = end_record(context, one, "calls")
        context.check(losses(profile) > 0, f"nothing is said of {symbol}")
        before.same(context, process.pid, f"after a probe of {symbol}")
    end(context, process, "with probes that came to doorbells")


@tap.case
def come_to_agent_hooks(context):
    """A probe comes over an agent's hook, while nobody calls the function: the hook makes way, however long the first instruction is. It is
    hit then, and goes while tally records, or after it has left."""
    _, probe, process, before = begin_alone(context)
    for mode, symbol in AGENT_HOOKS if harm.LONG else AGENT_HOOKS[:4]:
        path = file_of(context, symbol)
        for gone_first in (True, False):
            what = f"{symbol} in mode {mode}, gone {'first' if gone_first else 'last'}"
            one = start_record(context, mode, process.pid)
            context.check(not is_file(process.pid, path, symbol), f"there is no hook of {what}")
            process.send_signal(signal.SIGUSR2)
            time.sleep(0.1)
            tool = Probe(context, probe, [symbol])
            context.check(tally.wait_for(lambda: is_file(process.pid, path, symbol), 10), f"the hook was not removed: {what}")
            hits = tool.end() if gone_first else None
            process.send_signal(signal.SIGUSR2)
            time.sleep(0.3)
            profile = end_record(context, one, mode)
            context.check(losses(profile) > 0, f"nothing is reported: {what}")
            context.equal(harm.ours(process.pid), [], f"memory: {what}")
            context.check(gone_first or tool.end() > 0, f"it was not hit ({hits}): {what}")
            if not context.check(process.poll() is None, f"it ended: {process.poll()}, {what}"):
                return
            before.same(context, process.pid, f"after {what}")
    end(context, process, "with probes that came to an agent's hooks")


def is_file(pid, program, symbol):
    """Whether all behind the first byte of the function is the file's."""
    place = int(offset(program, symbol), 16)
    with open(program, "rb") as file:
        file.seek(place + 1)
        there = file.read(4)
    for start, end, protection, low, path in calls.mappings(pid):
        if path == program and low <= place < low + end - start:
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(start + place - low + 1)
                return memory.read(4) == there
    return False


@tap.case
def killed_then_gone(context):
    """The same when tally is killed, and another one cleans, with the probe there and without."""
    _, probe, process, before = begin_alone(context)
    for mode in ("calls", "function", "all"):
        one = start_record(context, mode, process.pid)
        tool = Probe(context, probe, ["lea_first"])
        one.kill()
        one.communicate()
        context.check(tally.wait_for(lambda: not calls.tracers(process.pid), 5), f"it is traced still in mode {mode}")
        result = tally.run(context, [context.tally, "detach", "-p", str(process.pid)])
        context.equal(result.status, 0, f"status of detach in mode {mode} ({result.text()})")
        context.equal(harm.ours(process.pid), [], f"memory after mode {mode}")
        context.equal(len(calls.changed_text(process.pid)), 1, f"changed texts after mode {mode}")
        tool.end()
        before.same(context, process.pid, f"after mode {mode}")
    end(context, process, "after a killed tally")


harm.run()
