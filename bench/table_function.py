"""What a call of a function costs that is timed (tally record --function), with its stack and its histogram."""
import os
import subprocess

import measure

NAME = "function"
TITLE = "Timing functions"
CALLS = 5000000
KINDS = {"place": "from one place", "ways": "by 64 ways through six frames", "busy": "with work between calls"}


def run(bench, kind, calls, prefix):
    """ns of CPU time a call, by the program's own clock."""
    program = os.path.join(bench.build, "bench", "bench_function")
    done = subprocess.run([*prefix, program, kind, str(calls)], check=False, capture_output=True, text=True, cwd=bench.work)
    if done.returncode:
        raise RuntimeError(f"{' '.join(done.args)}: exit status {done.returncode}: {done.stderr.strip()[-500:]}")
    return float(done.stdout)


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
    return {"lines": measure.table(["calls", "alone, ns", "calls a second", "added, ns a call"], rows),
            "goals": [measure.goal("--function: at most 60 ns a call at ten million calls a second", f"{busy:.1f} ns", busy <= 60)]}
