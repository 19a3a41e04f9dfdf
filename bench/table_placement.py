"""What a counted call costs the tightest loop, by where its text lies: alone, with a bare jump in each call, and counted.

A displacement rewrite puts one jump into each call, so the bare jump is what no stub can be quicker than."""
import calls_programs
import measure
import table_calls

NAME = "placement"
TITLE = "A counted call, by where the loop lies"
SHIFTS = (0, 7, 16, 23, 32, 39, 48, 55)  # bytes behind a cache line's beginning
CALLS = 200_000_000


def variants(bench, shift):
    """{what it is: (program, what it runs below, its output)}"""
    flags, output = ["-O0", "-g", f'-DSHIFT="{shift}"'], bench.path("placement.tally")
    plain = calls_programs.compiled(bench, "multiply", flags, f"-at-{shift}")
    jumping = calls_programs.compiled(bench, "multiply", [*flags, "-DBY_JUMP"], f"-by-jump-at-{shift}")
    return {"alone": (plain, [], None), "by a jump": (jumping, [], None), "counted": (plain, table_calls.tally_prefix(bench, output), output)}


def one(bench, shift):
    """{what it is: ns a call}, and the ratios of the counted to each of the others, medians over the rounds."""
    calls, found = CALLS // 20 if bench.quick else CALLS, variants(bench, shift)
    results = {name: [] for name in found}
    for number in range(bench.repeat):
        for name in reversed(found) if number % 2 else found:
            program, prefix, output = found[name]
            results[name].append(measure.run(bench, [program, str(calls)], prefix, output))
    times = {name: measure.median([run.target_cpu for run in runs]) / calls * 1e9 for name, runs in results.items()}
    return times, [measure.ratio(results, "counted", base) for base in ("alone", "by a jump")]


def measure_table(bench):
    rows = []
    for shift in SHIFTS:
        times, ratios = one(bench, shift)
        rows.append([str(shift), *(f"{time:.2f}" for time in times.values()), *(f"{ratio:.3f}" for ratio in ratios)])
    text = ["`multiply` at -O0 (`bench/calls/multiply.c`), its text moved behind the beginning of a cache line; ns of CPU a call with the loop",
            "around it. *By a jump*: an untouched program whose calls go through a jump that does nothing else.", ""]
    header = ["moved by, bytes", "alone", "by a jump", "counted", "counted / alone", "counted / by a jump"]
    return {"lines": text + measure.table(header, rows), "goals": []}
