"""Timers inside the program (--engine=agent), beside perf's and none: what 999 Hz for each thread costs, and how many samples come."""
import os

import measure
import programs

NAME = "timers"
TITLE = "Timers inside the program"
RATE = 999
MOST = 1.02
THREADS = "4"


def targets(bench):
    """{what it says: (command, input, note)}: a tight loop, an interpreter, deep stacks of stripped code, threads."""
    hashing = os.path.join(bench.build, "bench", "threads", "thread_hashing")
    found = {program: programs.target(bench, program) for program in ("bzip2", "lua", "link-parser")}
    return {**found, f"hashing, {THREADS} threads": ([hashing, THREADS, "1" if bench.quick else "2"], None, "")}


def configurations(bench):
    agent, perf = bench.path("timers.tally"), bench.path("timers.perf.tally")
    inside = [bench.tally, "record", "-F", str(RATE), "--engine=agent", "-o", agent, "--"]
    return {"alone": ([], None), "agent": (inside, agent), "perf": (measure.tally_prefix(bench, RATE, perf), perf)}


def one(bench, target, stdin):
    results = measure.rounds(bench, target, configurations(bench), stdin)
    return {"alone": measure.middle(results, "alone", "target_cpu"),
            "agent": measure.ratio(results, "agent", "alone"), "perf": measure.ratio(results, "perf", "alone"),
            "samples": {name: measure.reached(results, name, RATE) for name in ("agent", "perf")}}


def measure_table(bench):
    wanted = targets(bench)
    found = {name: one(bench, target, stdin) for name, (target, stdin, _) in wanted.items()}
    rows = [[name, f"{figures['alone']:.2f} s", f"{figures['agent']:.3f}", f"{figures['perf']:.3f}",
             f"{100 * figures['samples']['agent']:.1f} %", f"{100 * figures['samples']['perf']:.1f} %"] for name, figures in found.items()]
    header = ["program", "alone", "--engine=agent, ratio", "perf_event, ratio", "its samples / (CPU time x rate)", "perf_event's"]
    notes = sorted({note for _, _, note in wanted.values() if note})
    text = ["Ratios are of the program's CPU time, against the same program alone in the same round. Where the kernel looks at CPU timers at its ticks",
            "only, no more samples come than ticks: each then stands for as much time as has passed.", ""]
    said = ", ".join(f"{name} {figures['agent']:.3f}" for name, figures in found.items())
    goal = measure.goal(f"timers inside the program, {RATE} Hz for each thread: at most {MOST}", said,
                        all(figures["agent"] <= MOST for figures in found.values()))
    return {"lines": text + measure.table(header, rows) + [""] + notes, "goals": [goal]}
