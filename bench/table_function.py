"""What a call of a function costs that is timed: tally record --function, with its stack and its histogram, and --instrumented, beside uftrace."""
import os
import shutil
import subprocess

import measure

NAME = "function"
TITLE = "Timing functions"
CALLS = 5000000
PAIRS = {"leaf": "one function from a loop", "tree": "Fibonacci, 25 deep", "ways": "64 ways of six functions",
         "first": "one function from a loop that is not instrumented: its stack is walked"}
UFTRACE_CALLS = 1000000
KINDS = {"place": "from one place", "ways": "by 64 ways through six frames", "busy": "with work between calls"}


def run(bench, kind, calls, prefix, name="bench_function"):
    """ns of CPU time a call, by the program's own clock."""
    program = os.path.join(bench.build, "bench", name)
    done = subprocess.run([*prefix, program, kind, str(calls)], check=False, capture_output=True, text=True, cwd=bench.work)
    if done.returncode:
        raise RuntimeError(f"{' '.join(done.args)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return float(done.stdout.split()[0])


def measure_pairs(bench):
    """An enter and exit of instrumented functions: rows, and what --instrumented adds at most to one that is called again and again."""
    calls = CALLS // 10 if bench.quick else 4 * CALLS
    name, data = "bench_instrumented", bench.path("uftrace")
    ours = [bench.tally, "record", "--no-time", "--instrumented", "-o", bench.path("instrumented.tally"), "--"]
    theirs = ["uftrace", "record", "--no-libcall", "-d", data] if shutil.which("uftrace") else None
    figures = {kind: {"alone": [], "tally": [], "uftrace": []} for kind in PAIRS}
    for _ in range(bench.repeat):
        for kind, found in figures.items():
            found["alone"].append(run(bench, kind, calls, [], name))
            found["tally"].append(run(bench, kind, calls, ours, name) - found["alone"][-1])
            if theirs:
                found["uftrace"].append(run(bench, kind, min(calls, UFTRACE_CALLS), theirs, name) - found["alone"][-1])
                shutil.rmtree(data, ignore_errors=True)
    rows = [[PAIRS[kind]] + [f"{measure.median(found[who]):.1f}" if found[who] else "-" for who in ("alone", "tally", "uftrace")]
            for kind, found in figures.items()]
    return rows, max(measure.median(found["tally"]) for kind, found in figures.items() if kind in ("leaf", "tree"))


def measure_table(bench):
    calls = CALLS // 10 if bench.quick else CALLS
    prefix = [bench.tally, "record", "--no-time", "--function", "timed_add", "-o", bench.path("function.tally"), "--"]
    alone, added = {kind: [] for kind in KINDS}, {kind: [] for kind in KINDS}
    for _ in range(bench.repeat):
        for kind in KINDS:
            alone[kind].append(run(bench, kind, calls, []))
            added[kind].append(run(bench, kind, calls, prefix) - alone[kind][-1])
    rows = [[text, f"{measure.median(alone[kind]):.1f}", f"{1000 / measure.median(alone[kind]):.1f} M",
             f"{measure.median(added[kind]):.1f}"] for kind, text in KINDS.items()]
    busy = measure.median(added["busy"])
    pairs, most = measure_pairs(bench)
    return {"lines": measure.table(["calls", "alone, ns", "calls a second", "added, ns a call"], rows) +
                     ["", "Functions built with -finstrument-functions: an enter and exit, against the C library's empty hooks.", ""] +
                     measure.table(["calls", "alone, ns", "--instrumented adds, ns", "uftrace adds, ns"], pairs),
            "goals": [measure.goal("--instrumented: at most 25 ns an enter and exit, of one function or recursion", f"{most:.1f} ns", most <= 25),
                      measure.goal("--function: at most 60 ns a call at ten million calls a second", f"{busy:.1f} ns", busy <= 60)]}
