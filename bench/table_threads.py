"""Four data-parallel programs at 1 to 128 threads: overhead by rate, how many samples arrive, where the cost is."""
import os

import measure

NAME = "threads"
TITLE = "Many threads"
THREADS = [1, 2, 4, 8, 16, 32, 64, 128]
RATES = [999, 10000]
PROGRAMS = ["matrix", "histogram", "bodies", "hashing"]
KINDS = ["none", "address", "full"]


def rounds_of(bench):
    return min(bench.repeat, 3)


def both_rates(bench, program, threads):
    """One entry a rate, of rounds in which the program runs alone once."""
    target = [os.path.join(bench.build, "bench", "threads", "thread_" + program), str(threads), "1" if bench.quick else "2"]
    output = bench.path("threads.tally")
    chosen = {f"{kind} {rate}": (measure.tally_prefix(bench, rate, output, kind), output)
              for rate in RATES for kind in KINDS}
    results = measure.rounds(bench, target, {"alone": ([], None), **chosen}, repeat=rounds_of(bench))
    return [{"program": program, "threads": threads, "rate": rate,
             "samples": measure.reached(results, f"full {rate}", rate),
             "tool": measure.median([run.tool_cpu / run.target_cpu for run in results[f"full {rate}"]]),
             "ratios": {kind: measure.ratio(results, f"{kind} {rate}", "alone") for kind in KINDS}} for rate in RATES]


def row(found):
    ratios = found["ratios"]
    empty, address, full = (ratios[kind] for kind in KINDS)
    return [found["program"], found["threads"], f"{found['rate']:,} Hz", f"{full:.3f}", f"{100 * (empty - 1):+.1f} %",
            f"{100 * (address - empty):+.1f} %", f"{100 * (full - address):+.1f} %", f"{100 * found['tool']:.1f} %",
            f"{100 * found['samples']:.1f} %"]


def measure_table(bench):
    counts = [1, 16, 128] if bench.quick else THREADS
    found = [entry for program in PROGRAMS for threads in counts for entry in both_rates(bench, program, threads)]
    header = ["program", "threads", "rate", "target's CPU, ratio", "of it: empty event", "address", "stack",
              "tally's CPU / target's", "samples / (CPU time x rate)"]
    text = ["Each program does the same work whatever the number of threads; more of them than CPUs is the interesting half.",
            "The ratio's excess is split into the event by itself, taking one address, and taking the stack.", ""]
    worst = max(found, key=lambda entry: abs(entry["samples"] - 1))
    figure = (f"furthest: {100 * worst['samples']:.1f} % ({worst['program']}, {worst['threads']} threads, "
              f"{worst['rate']:,} Hz)")
    goals = [measure.goal("samples within 2 % of CPU time x rate at every thread count", figure,
                          abs(worst["samples"] - 1) <= 0.02)]
    return {"lines": text + measure.table(header, [row(entry) for entry in found]), "goals": goals, "rounds": rounds_of(bench)}
