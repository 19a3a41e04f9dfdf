"""What counting every call costs, beside who else counts calls; what is counted; what setting up takes."""
import math
import os

import shutil
import subprocess
import tempfile

import calls_programs
import measure
import programs

NAME = "calls"
TITLE = "Counting every call"
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
ROUNDS = 10  # the "mean of ten"
RUNS_OF_SHARES = 4
START_UP = ("deregister_tm_clones", "register_tm_clones", "__do_global_dtors_aux", "frame_dummy")  # the compiler's crtbegin.o


def tally_prefix(bench, output, more=("--no-time",)):
    return [bench.tally, "record", "--calls", *more, "-o", output, "--"]


def succeeds(command):
    """minisat says with its status what it found."""
    return ["sh", "-c", '"$@" > /dev/null 2>&1; status=$?; [ $status = 0 ] || [ $status = 10 ] || [ $status = 20 ]', "sh", *command]


# --- the cost to the target ---

def runs(bench, program, rounds):
    """{"alone", "tally": [Run]}, interleaved."""
    output = bench.path("calls.tally")
    chosen = {"alone": ([], None), "tally": (tally_prefix(bench, output), output)}
    command = program.command if not program.name.startswith("minisat") else succeeds(program.command)
    return measure.rounds(bench, command, chosen, program.stdin, rounds)


def mean(values):
    return sum(values) / len(values)


def middle_ratio(values):
    """Median, and the half of the rounds around it."""
    ordered = sorted(values)
    return measure.median(ordered), ordered[len(ordered) // 4], ordered[(3 * len(ordered)) // 4]


def whole_cpu(bench, command, environment=None, directory=None):
    """CPU seconds of a command with its children, output thrown away; None if it fails."""
    with open(bench.path("peer.txt"), "wb") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, cwd=directory,
                                   env=dict(os.environ, **(environment or {})))
        used = measure.wait_usage(process)
    return used if process.returncode in (0, 10, 20) else None


def peer_ratio(bench, base, command, rounds=3, **options):
    """Median of CPU ratios of two commands, interleaved."""
    ratios = []
    for _ in range(1 if bench.quick else rounds):
        alone, other = whole_cpu(bench, base, **options), whole_cpu(bench, command, **options)
        if not alone or other is None:
            return None
        ratios.append(other / alone)
    return measure.median(ratios)


def uftrace(bench, plain, arguments):
    if not shutil.which("uftrace"):
        return None
    with tempfile.TemporaryDirectory(dir=bench.work) as directory:
        command = ["uftrace", "record", "--no-libcall", "-P", ".", "-d", os.path.join(directory, "data"), plain, *arguments]
        return peer_ratio(bench, [plain, *arguments], command, 1, directory=directory)


def gprof(bench, plain, profiled, arguments):
    with tempfile.TemporaryDirectory(dir=bench.work) as directory:
        return peer_ratio(bench, [plain, *arguments], [profiled, *arguments], directory=directory)


def callgrind(bench, command):
    if not shutil.which("valgrind"):
        return None
    wrapped = ["valgrind", "-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    return peer_ratio(bench, command, wrapped, rounds=1)


def peers(bench, program):
    """Ratios of the others, on builds of our own where they need one, and less work where they are slow."""
    found = {"uftrace": None, "gprof": None, "callgrind": callgrind(bench, program.small)}
    if program.source:
        try:
            plain, profiled = calls_programs.builds(bench, program.source)
            found["uftrace"] = uftrace(bench, plain, program.small[1:])
            found["gprof"] = gprof(bench, plain, profiled, program.command[1:])
        except (RuntimeError, OSError, IndexError) as error:
            bench.say(f"{program.name}: no build of our own: {error}")
    return found


def cost(bench, program):
    results = runs(bench, program, 2 if bench.quick else max(bench.repeat, ROUNDS))
    ratios = [one.target_cpu / max(other.target_cpu, 1e-9) for one, other in zip(results["tally"], results["alone"])]
    median, low, high = middle_ratio(ratios)
    bench.say(f"{program.name}: {median:.3f} ({low:.3f}-{high:.3f})")
    return {"name": program.name, "group": program.group, "alone": measure.middle(results, "alone", "target_cpu"), "median": median, "low": low,
            "high": high, "mean": mean([run.target_cpu for run in results["tally"]]) / mean([run.target_cpu for run in results["alone"]]),
            "wall": measure.ratio(results, "tally", "alone", "wall"), "peers": peers(bench, program)}


def cost_row(found):
    def times(value):
        return "" if value is None else f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return [f"{found['name']} ({found['alone']:.2f} s)", f"{found['median']:.3f}", f"{found['low']:.3f}-{found['high']:.3f}", f"{found['mean']:.3f}",
            f"{found['wall']:.3f}"] + [times(found["peers"][name]) for name in ("uftrace", "gprof", "callgrind")]


def cost_goals(found):
    main = [one for one in found if one["group"] == calls_programs.MAIN]
    middle = math.exp(mean([math.log(one["median"]) for one in main]))
    worst = max(main, key=lambda one: one["median"])
    goals = [measure.goal("whole-program CPU with --calls --no-time: geometric mean at most 1.04 over bzip2, gzip, xz -T2, lua5.4, sqlite3, minisat, "
                          "coremark", f"{middle:.3f}", middle <= 1.04),
             measure.goal("whole-program CPU with --calls --no-time: none above 1.12", f"{worst['median']:.3f} ({worst['name']})", worst["median"] <= 1.12)]
    single = [one for one in found if one["group"] == calls_programs.SINGLE]
    worst = max(single, key=lambda one: one["mean"])
    goals.append(measure.goal("one thread, mean of ten: coremark, minisat -rnd-freq=0, djpeg, vpxenc at most 1.015",
                              ", ".join(f"{one['name'].split(',')[0]} {one['mean']:.3f}" for one in single), worst["mean"] <= 1.015))
    for group, limit, text in ((calls_programs.MULTIPLY, 1.045, "multiply at -O0 at most 1.045"),
                               (calls_programs.HAMMER, 1.25, "two threads hammering one function at most 1.25")):
        one = next(one for one in found if one["group"] == group)
        value = one["mean"] if group == calls_programs.MULTIPLY else one["median"]
        goals.append(measure.goal(text, f"{value:.3f}", value <= limit))
    return goals


# --- exactness ---

def exact(bench):
    """Calls that tally counted of two threads that make so many of one function."""
    calls, output = 200_000_000 if not bench.quick else 2_000_000, bench.path("hammer.tally")
    command = tally_prefix(bench, output) + [calls_programs.compiled(bench, "hammer", ["-O2", "-g"]), str(calls)]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    counted = rows(bench, output, "select sum(calls) from edges where callee = 'hammer_nail'")[0][0]
    return measure.goal("two threads hammering one function are counted exactly", f"{int(counted):,} of {2 * calls:,}", int(counted) == 2 * calls)


def rows(bench, path, sql):
    import csv
    done = subprocess.run([bench.tally, "query", path, sql, "--csv"], check=True, capture_output=True, text=True)
    return list(csv.reader(done.stdout.splitlines()))[1:]


# --- coverage ---

def coverage(bench, command, name):
    """[image row]: functions of every image that is counted."""
    output = bench.path("coverage.tally")
    subprocess.run(tally_prefix(bench, output) + command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    figures = {}
    for image, kind, found, counted in rows(bench, output, "select image, kind, found, counted from coverage"):
        figures.setdefault(image, {})[kind] = (int(found), int(counted))
    names = ", ".join(f"'{name}'" for name in START_UP)
    for image, count in rows(bench, output, f"select image, count(*) from uncovered where function in ({names}) group by image"):
        found, counted = figures[image]["functions"]
        figures[image]["functions"] = (found - int(count), counted)
    left = {}
    for image, reason, count in rows(bench, output, "select image, reason, count from coverage_left order by count desc"):
        left.setdefault(image, []).append(f"{int(count):,} {reason}")
    return [{"program": name, "image": image, "figures": kinds, "left": left.get(image, [])[:3]} for image, kinds in sorted(figures.items())]


def built_at_levels(bench):
    """Some at every level of optimisation, so that coverage is seen by level."""
    found = []
    for name in ("bzip2", "lua", "coremark"):
        for level in LEVELS:
            try:
                out = calls_programs.built(bench, name, level, [level, "-g"])
            except (RuntimeError, OSError, IndexError) as error:
                bench.say(f"{name} {level}: not built: {error}")
                continue
            arguments = {"bzip2": ["-c", "-k", programs.text_input(bench, 1_000_000)], "coremark": calls_programs.coremark_arguments(200),
                         "lua": [os.path.join(programs.HERE, "workloads", "work.lua"), "0.1"]}[name]
            found.append((f"{name} {level}", [out, *arguments]))
    return found


def share(pair):
    found, counted = pair
    return 100 * counted / found if found else 100.0


def cut(value):
    """One digit after the point, never rounded up to a full hundred."""
    return f"{math.floor(value * 10) / 10:.1f} %"


def coverage_row(entry):
    figures = entry["figures"]
    functions, sites, indirect = (figures.get(kind, (0, 0)) for kind in ("functions", "sites", "indirect"))
    return [f"{entry['program']}: {entry['image']}", f"{functions[1]:,} of {functions[0]:,}", cut(share(functions)),
            f"{sites[1]:,} of {sites[0]:,}", f"{indirect[1]:,} of {indirect[0]:,}", f"{100 * indirect[0] / max(1, sites[0]):.1f} %",
            "; ".join(entry["left"])]


def coverage_goal(entries):
    """A program is what is counted of it: its file and its libraries."""
    programs_found = {}
    for entry in entries:
        found, counted = programs_found.get(entry["program"], (0, 0))
        more = entry["figures"].get("functions", (0, 0))
        programs_found[entry["program"]] = (found + more[0], counted + more[1])
    worst = min(programs_found, key=lambda name: share(programs_found[name]))
    return measure.goal("functions whose every call is counted: at least 99 % of each program", f"lowest {cut(share(programs_found[worst]))} ({worst})",
                        share(programs_found[worst]) >= 99)


# --- setting up ---

def set_up(bench, name, command, cached):
    """Median milliseconds that planning and writing take, by the profile's own account."""
    times = []
    for _ in range(1 if bench.quick else 3):
        with tempfile.TemporaryDirectory(dir=bench.work) as cache:
            environment = dict(os.environ, XDG_CACHE_HOME=cache)
            output = bench.path("setup.tally")
            for _ in range(2 if cached else 1):
                subprocess.run(tally_prefix(bench, output) + command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=environment)
            meta = dict(rows(bench, output, "select key, value from meta"))
            times.append(int(meta["calls_setup_ns"]) / 1e6)
    return measure.median(times)


def set_ups(bench):
    found = []
    for name, command, first, again in (("lua5.4", ["lua5.4", "-v"], 8, 2), ("sqlite3 and libsqlite3", ["sqlite3", "--version"], 40, 6),
                                        ("libLLVM", llvm(bench), 1500, 150)):
        if command is None:
            continue
        found.append({"name": name, "first": set_up(bench, name, command, False), "again": set_up(bench, name, command, True),
                      "limits": (first, again)})
        bench.say(f"set-up of {name}: {found[-1]['first']:.1f} ms, {found[-1]['again']:.1f} ms")
    return found


def llvm(bench):
    """A program that has libLLVM loaded and ends."""
    for directory in ("/usr/lib/llvm-14/lib", "/usr/lib/x86_64-linux-gnu"):
        for name in ("libLLVM-14.so.1", "libLLVM-14.so"):
            if os.path.exists(os.path.join(directory, name)):
                out = os.path.join(bench.build, "bench", "programs", "with-llvm")
                if not os.path.exists(out):
                    os.makedirs(os.path.dirname(out), exist_ok=True)
                    with open(out + ".c", "w", encoding="ascii") as source:
                        source.write("int main(void) { return 0; }\n")
                    programs.call(["gcc", "-o", out, out + ".c", "-Wl,--no-as-needed", os.path.join(directory, name)])
                return [out]
    return None


def set_up_goals(found):
    figure = "; ".join(f"{one['name']} {one['first']:.1f} ms" for one in found)
    again = "; ".join(f"{one['name']} {one['again']:.1f} ms" for one in found)
    limits = ", ".join(f"{one['limits'][0]} ms for {one['name']}" for one in found)
    limits_again = ", ".join(f"{one['limits'][1]} ms for {one['name']}" for one in found)
    return [measure.goal("set-up, the first time: at most " + limits, figure, all(one["first"] <= one["limits"][0] for one in found)),
            measure.goal("set-up from a cached plan: at most " + limits_again, again, all(one["again"] <= one["limits"][1] for one in found))]


# --- what the target has of it ---

def attached(bench):
    """Median milliseconds that a running program with about 5,000 sites is stopped, and how many sites those are."""
    script = bench.path("waits.lua")
    with open(script, "w", encoding="ascii") as file:
        file.write("local text, count = 'abc', 0\nwhile true do count = count + #text:rep(3) end\n")
    chosen = ["--calls", "--calls-image", "lua*", "--calls-image", "libtinfo*", "--no-time"]
    times, sites = [], 0
    process = subprocess.Popen(["lua5.4", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        for _ in range(3 if bench.quick else 15):
            output = bench.path("attach.tally")
            subprocess.run([bench.tally, "record", *chosen, "-o", output, "--duration", "0.1", "-p", str(process.pid)], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            meta = dict(rows(bench, output, "select key, value from meta"))
            times.append(int(meta["calls_attach_stopped_ns"]) / 1e6)
            sites = int(meta["calls_stubs"])
    finally:
        process.kill()
        process.wait()
    bench.say(f"attaching to {sites:,} sites: stopped for {measure.median(times):.2f} ms (most {max(times):.2f})")
    return {"sites": sites, "median": measure.median(times), "most": max(times)}


def stubs(bench, command, name):
    """Bytes of stub for each site of a program."""
    output = bench.path("stubs.tally")
    subprocess.run(tally_prefix(bench, output) + command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    meta = dict(rows(bench, output, "select key, value from meta"))
    return {"program": name, "sites": int(meta["calls_stubs"]), "bytes": int(meta["calls_stub_bytes"])}


def bytes_each(entry):
    return entry["bytes"] / max(1, entry["sites"])


def memory_goals(visit, found):
    worst = max(found, key=bytes_each)
    return [measure.goal("a running target is stopped for at most 3 ms for 5,000 sites",
                         f"{visit['median']:.2f} ms for {visit['sites']:,} (most {visit['most']:.2f})", visit["median"] <= 3),
            measure.goal("at most 24 bytes of stub a site", f"{bytes_each(worst):.1f} ({worst['program']})", bytes_each(worst) <= 24)]


# --- what one call costs ---

def one_call(bench, arguments, counted):
    """{way: nanoseconds}."""
    prefix = tally_prefix(bench, bench.path("ways.tally")) if counted else []
    command = [*prefix, calls_programs.compiled(bench, "ways", ["-O2", "-g"]), *arguments]
    output = subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL, text=True).stdout
    return {way: float(figure) for way, figure in (line.split("\t") for line in output.splitlines())}


def ways(bench):
    """{column: {way: nanoseconds}}: the least of three runs each, interleaved."""
    columns = {"alone": ([], False), "one thread": ([], True), "several threads": (["several"], True)}
    found = {name: {} for name in columns}
    for _ in range(1 if bench.quick else 3):
        for name, (arguments, counted) in columns.items():
            for way, figure in one_call(bench, arguments, counted).items():
                found[name][way] = min(figure, found[name].get(way, figure))
    return found


def ways_lines(found):
    text = ["", "### One call", "", "Nanoseconds, with the loop around it, of a function that does next to nothing (`bench/calls/ways.c`): the least of many short",
            "loops, in which nobody else's work shows.", ""]
    return text + measure.table(["called", *found], [[way, *(f"{found[name][way]:.2f}" for name in found)] for way in found["alone"]])


# --- the distortion of time ---

def flat(bench, path):
    sql = "select function, sum(self), min(self_low), max(self_high) from flat group by function order by 2 desc"
    total = max(1.0, float(rows(bench, path, "select sum(self) from flat")[0][0] or 0))
    return {name: (float(value) / total, float(low), float(high)) for name, value, low, high in rows(bench, path, sql)}


def recorded_in_turn(bench, program, kinds):
    """{name: path} of one profile for each of `kinds` {name: options}, of several runs in turn: a machine's slower minute, or the
    first run's reading from disk, is then in all of them."""
    parts = {name: [] for name in kinds}
    for number in range(1 if bench.quick else RUNS_OF_SHARES):
        for name, more in kinds.items():
            parts[name].append(bench.path(f"{name}-{number}.tally"))
            command = [bench.tally, "record", *more, "-o", parts[name][-1], "--", *program.command]
            subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for name, files in parts.items():
        subprocess.run([bench.tally, "merge", "-o", bench.path(name + ".tally"), *files], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    return {name: bench.path(name + ".tally") for name in kinds}


def distortion(bench, program):
    """[(function, share without, interval, share with, interval)] of the top five."""
    paths = recorded_in_turn(bench, program, {"bare": [], "counted": ["--calls"]})
    without, with_calls = flat(bench, paths["bare"]), flat(bench, paths["counted"])
    top = sorted(without, key=lambda name: -without[name][0])[:5]
    return [(program.name, name, without[name], with_calls.get(name, (0.0, 0.0, 0.0))) for name in top]


def agrees(without, counted):
    return without[1] <= counted[2] and counted[1] <= without[2]


def distortion_row(entry):
    program, name, without, counted = entry
    def one(figure):
        return f"{100 * figure[0]:.1f} % ({100 * figure[1]:.1f}-{100 * figure[2]:.1f})"
    return [f"{program}: {name}", one(without), one(counted), "yes" if agrees(without, counted) else "**no**"]


# --- all of it ---

def measure_table(bench):
    chosen = calls_programs.every(bench)
    found = [cost(bench, program) for program in chosen]
    entries = [entry for program in chosen if not program.name.startswith(("coremark,", "minisat -"))
               for entry in coverage(bench, program.small, program.name)]
    entries += [entry for name, command in built_at_levels(bench) for entry in coverage(bench, command, name)]
    shares = [entry for program in chosen if program.group == calls_programs.MAIN for entry in distortion(bench, program)]
    ready = set_ups(bench)
    visit = attached(bench)
    sizes = [stubs(bench, program.small, program.name) for program in chosen if program.group == calls_programs.MAIN]
    return {"lines": lines(found, entries, shares, ready) + memory_lines(visit, sizes) + ways_lines(ways(bench)), "rounds": 2 if bench.quick else max(bench.repeat, ROUNDS),
            "goals": cost_goals(found) + [exact(bench), coverage_goal(entries)] + set_up_goals(ready) + memory_goals(visit, sizes) + [
                measure.goal("sampled shares with and without --calls agree within their intervals, top five of each program",
                             f"{sum(agrees(*entry[2:]) for entry in shares)} of {len(shares)}", all(agrees(*entry[2:]) for entry in shares))]}


def lines(found, entries, shares, ready):
    header = ["program (CPU alone)", "tally: CPU, median ratio", "half of the rounds", "ratio of means", "wall clock",
              "uftrace -P", "gprof (-pg)", "callgrind"]
    text = ["CPU of the target with `--calls --no-time` as a ratio to the same program alone in the same round; Debian's own",
            "binaries (coremark, multiply and the two threads are built here), all objects but libc and the like counted. The peers: uftrace -P and gprof on builds of our own of the",
            "same sources (Debian's have no symbols; gprof needs -pg), uftrace and callgrind with less of the same work.", ""]
    text += measure.table(header, [cost_row(entry) for entry in found])
    text += ["", "### What is counted", "", "Functions whose every call is counted, of those that can be called at all, without the four of crtbegin.o, which has no", "call-frame information; the last column has what was left alone.", ""]
    text += measure.table(["program: file", "functions", "share", "sites", "indirect sites", "indirect of all", "left, and why"],
                          [coverage_row(entry) for entry in entries])
    text += ["", "### Time with and without counting", "", f"Shares of sampled time with their 95 % intervals; {RUNS_OF_SHARES} runs of each, in turn.", ""]
    text += measure.table(["function", "without", "with --calls", "agree"], [distortion_row(entry) for entry in shares])
    text += ["", "### Setting up", ""]
    return text + measure.table(["what", "first time", "from a cached plan"],
                                [[one["name"], f"{one['first']:.1f} ms", f"{one['again']:.1f} ms"] for one in ready])


def memory_lines(visit, found):
    text = ["", f"Attaching to a running lua5.4 with {visit['sites']:,} sites stops it for {visit['median']:.2f} ms (most {visit['most']:.2f} ms).", "",
            "### Stubs", ""]
    return text + measure.table(["program", "sites", "bytes of stub a site"],
                                [[entry["program"], f"{entry['sites']:,}", f"{bytes_each(entry):.1f}"] for entry in found])
