"""Reading what was recorded: reports, exports, comparisons, listings of large profiles; names, lines and inlined frames."""
import collections
import json
import os
import signal
import subprocess
import time

import calls_programs
import measure
import programs

NAME = "read"
TITLE = "Reading, annotating, comparing, handing on"
UNITS = 10           # of the C++ program: over 100 MB of debug information
ADDRESSES, FEW = 50000, 100
NODES, SAMPLES = 200_000, 10_000_000
FORMATS = [["pprof"], ["callgrind"], ["folded"], ["speedscope"], ["csv"], ["csv", "--table", "tree"]]


# --- the C++ program ---

def main_source():
    names = [f"run_unit{unit}" for unit in range(UNITS)]
    declared = "".join(f'extern "C" long {name}(unsigned);\n' for name in names)
    return declared + "int main() { return (" + " + ".join(f"{name}(100)" for name in names) + ") == 0; }\n"


def compile_units(directory, source):
    """As many at a time as there are CPUs; the objects."""
    objects, running = [], []
    for unit in range(UNITS):
        objects.append(os.path.join(directory, f"unit{unit}.o"))
        command = ["g++", "-std=c++17", "-O2", "-g", f"-DUNIT={unit}", "-c", "-o", objects[-1], source]
        running.append(subprocess.Popen(command, stdin=subprocess.DEVNULL))
        if len(running) >= (os.cpu_count() or 1):
            running.pop(0).wait()
    for process in running:
        process.wait()
    if not all(os.path.exists(path) for path in objects):
        raise RuntimeError("g++ could not compile bench/read/templates.cpp")
    return objects


def templates(bench):
    """bench/read/templates.cpp, compiled UNITS times, in one program."""
    out = os.path.join(bench.build, "bench", "programs", "templates")
    if os.path.exists(out):
        return out
    directory = out + "-objects"
    os.makedirs(directory, exist_ok=True)
    bench.say("building a C++ program with 100 MB of debug information (some minutes)")
    objects = compile_units(directory, os.path.join(os.path.dirname(os.path.abspath(__file__)), "read", "templates.cpp"))
    with open(os.path.join(directory, "main.cpp"), "w", encoding="ascii") as source:
        source.write(main_source())
    programs.call(["g++", "-O2", "-g", "-o", out + ".part", source.name, *objects])
    os.rename(out + ".part", out)
    for path in objects:
        os.unlink(path)
    return out


def debug_bytes(path):
    """What the sections .debug_* hold."""
    listed = said(["readelf", "-SW", path])
    words = [line.split("]", 1)[1].split() for line in listed.splitlines() if "] .debug_" in line]
    return sum(int(word[4], 16) for word in words)


# --- one run of a command ---

class Use:
    """What a command took: wall clock and CPU in seconds, memory in MB; ended: False if it was stopped at its limit."""

    def __init__(self, wall, cpu, memory, ended):
        self.wall, self.cpu, self.memory, self.ended = wall, cpu, memory, ended


def use_of(command, limit=600):
    """Output is thrown away; what is not through in time is stopped with all that it started."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)
    ended = True
    while True:
        done, status, usage = os.wait4(process.pid, os.WNOHANG)
        if done:
            break
        if time.monotonic() - start > limit:
            ended = False
            os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
            break
        time.sleep(0.002)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    errors = process.stderr.read().decode(errors="replace")
    if ended and process.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {process.returncode}\n{errors[-500:]}")
    return Use(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1000, ended)


def middle_use(bench, command):
    """Medians over the rounds, after one that warms the caches."""
    use_of(command)
    uses = [use_of(command) for _ in range(bench.repeat)]
    return Use(*(measure.median([getattr(one, what) for one in uses]) for what in ("wall", "cpu", "memory")), True)


def said(command):
    done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stderr[-500:]}")
    return done.stdout


# --- names ---

def make(bench, *arguments):
    programs.call([os.path.join(bench.build, "bench", "bench_read"), *map(str, arguments)])


def tally_names(bench, profile):
    return [bench.tally, "report", "--by", "line", "--inlines", profile]


def perf_names(recorded):
    return ["perf", "report", "--stdio", "--no-children", "-g", "caller", "-s", "sym,srcline", "-i", recorded]


def innermost_by_tally(bench, profile):
    """{"12": samples} of the innermost lines' numbers."""
    command = tally_names(bench, profile) + ["--json", "--limit", "0%"]
    rows = json.loads(said(command))["rows"]
    found = collections.Counter()
    for row in rows:
        if row.get("file"):
            found[str(row["line"])] += row["self"]["samples"]
    return found


def innermost_by_addr2line(program, addresses):
    """Without files: addr2line of binutils 2.40 gives lines of some headers to the unit's own file."""
    command = ["addr2line", "-e", program, *(hex(address) for address in addresses)]
    lines = said(command).splitlines()
    return collections.Counter(line.split(" (")[0].rpartition(":")[2] for line in lines)


def addresses_of(bench, profile):
    sql = "select address from data_addresses where image > 0"
    return [int(word) for word in said([bench.tally, "query", "--csv", profile, sql]).split() if word.isdigit()]


def names(bench):
    """Rows and goals: all addresses by tally; by perf as far as it comes, and a few by both."""
    program = templates(bench)
    size = debug_bytes(program)
    many, few = ([bench.path(f"read-{count}.{end}") for end in ("tally", "perf")] for count in (ADDRESSES, FEW))
    make(bench, "addresses", program, ADDRESSES, *many)
    make(bench, "addresses", program, FEW, *few)
    tally = middle_use(bench, tally_names(bench, many[0]))
    limit = max(15.0, 12 * tally.wall)
    bench.say(f"tally named {ADDRESSES:,} addresses in {tally.wall:.2f} s; perf has {limit:.0f} s")
    perf = use_of(perf_names(many[1]), limit)
    small, perf_small = middle_use(bench, tally_names(bench, few[0])), use_of(perf_names(few[1]))
    mine, theirs = innermost_by_tally(bench, few[0]), innermost_by_addr2line(program, addresses_of(bench, few[0]))
    equal = sum((mine & theirs).values())
    more = "" if perf.ended else "over "
    rows = [[f"{ADDRESSES:,}", "tally", f"{tally.wall:.2f} s", f"{tally.cpu:.2f} s", f"{tally.memory:.0f} MB"],
            [f"{ADDRESSES:,}", "perf", f"{more}{perf.wall:.0f} s" + ("" if perf.ended else ", stopped"), "", ""],
            [f"{FEW}", "tally", f"{small.wall:.2f} s", f"{small.cpu:.2f} s", f"{small.memory:.0f} MB"],
            [f"{FEW}", "perf", f"{perf_small.wall:.1f} s", "", ""]]
    goals = [measure.goal(f"{ADDRESSES:,} addresses of a C++ program with at least 100 MB of debug information, with lines "
                          "and inlined frames: under 10 s", f"{tally.wall:.2f} s ({size / 1e6:.0f} MB)",
                          tally.wall < 10 and size >= 100e6),
             measure.goal("and at least 10x faster than perf report", f"{more}{perf.wall / tally.wall:.0f}x",
                          perf.wall >= 10 * tally.wall)]
    text = [f"The program has {size / 1e6:.0f} MB of debug information. Both tools are given the same addresses, which nobody has",
            "named yet, with stacks of which perf 6.1 unfolds inlined frames (`perf report -g caller -s sym,srcline`; it asks",
            f"addr2line). Of {FEW} addresses {equal} have the number of the innermost line that addr2line has.", ""]
    return text + measure.table(["addresses", "tool", "wall clock", "CPU", "memory"], rows), goals


# --- large profiles ---

def large(bench):
    old, new = bench.path("read-old.tally"), bench.path("read-new.tally")
    make(bench, "tree", NODES, SAMPLES, 0, old)
    make(bench, "tree", NODES, SAMPLES, 10, new)
    reports = [["report", old], *(["report", old, f"--{view}"] for view in ("graph", "tree", "paths")), ["report", old, "--by", "line"],
               ["report", old, "--json"]]
    exports = [["export", "--format", *words, "-o", bench.path("read-export"), old] for words in FORMATS]
    diffs = [["diff", old, new], ["diff", old, new, "--total"], ["diff", old, new, "--paths"]]
    uses = [(command, middle_use(bench, [bench.tally, *command])) for command in reports + exports + diffs]
    rows = [["tally " + " ".join(shown(word) for word in command), f"{one.wall:.2f} s", f"{one.cpu:.2f} s", f"{one.memory:.0f} MB"]
            for command, one in uses]
    reading = [one for command, one in uses if command[0] != "diff"]
    slowest, largest = max(one.wall for one in reading), max(one.memory for one in reading)
    comparing = max(one.wall for command, one in uses if command[0] == "diff")
    goals = [measure.goal(f"report and export on {NODES:,} nodes from {SAMPLES / 1e6:.0f} M samples: under 1 s, every view and format",
                          f"slowest {slowest:.2f} s", slowest < 1),
             measure.goal("and under 300 MB", f"largest {largest:.0f} MB", largest < 300),
             measure.goal("diff of two such profiles, functions, totals and paths: under 2 s", f"slowest {comparing:.2f} s", comparing < 2)]
    return measure.table(["command", "wall clock", "CPU", "memory"], rows), goals


def shown(word):
    """A file by what it is."""
    return {"read-old.tally": "OLD", "read-new.tally": "NEW", "read-export": "OUT"}.get(os.path.basename(word), word)


# --- annotate ---

def annotated(bench):
    """sqlite3 at the demonstration's work: the function with most of the time in itself."""
    path, note = programs.binary(bench, "sqlite3")
    profile = bench.path("read-sqlite3.tally")
    command = calls_programs.sqlite(bench, 8 if bench.quick else 2)
    programs.call([bench.tally, "record", "-o", profile, "--", path, *command[1:]])
    rows = json.loads(said([bench.tally, "report", "--json", profile]))["rows"]
    hottest = next(row["function"] for row in rows if row["image"].startswith(("sqlite3", "libsqlite3")))
    uses = {words: middle_use(bench, [bench.tally, *words.split(), profile]) for words in
            (f"annotate {hottest}", f"annotate {hottest} --asm", "report --loops")}
    lines = measure.table(["command", "wall clock", "CPU", "memory"],
                          [["tally " + words, f"{one.wall:.2f} s", f"{one.cpu:.2f} s", f"{one.memory:.0f} MB"] for words, one in uses.items()])
    slowest = max(one.wall for words, one in uses.items() if words.startswith("annotate"))
    goal = measure.goal("annotate of the hottest function of sqlite3, by line and by instruction: under 0.3 s",
                        f"slowest {slowest:.2f} s ({hottest})", slowest < 0.3)
    return lines + (["", note] if note else []), [goal]


def measure_table(bench):
    parts = [("Names, lines and inlined frames", names), (f"Profiles of {NODES:,} nodes from {SAMPLES / 1e6:.0f} M samples", large),
             ("sqlite3, annotated", annotated)]
    lines, goals = [], []
    for title, part in parts:
        text, found = part(bench)
        lines += ["", f"### {title}", ""] + text
        goals += found
    return {"lines": lines[1:], "goals": goals}
