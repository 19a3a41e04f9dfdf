"""bzip2 and lua under tally and perf, side by side: what it costs the target, the tool, and whoever waits."""

import measure
import programs

NAME = "record"
TITLE = "Recording, beside perf"
RATES = [999, 10000]
PROGRAMS = ["bzip2", "lua"]
TOOLS = ["tally", "perf fp", "perf dwarf"]


def configurations(bench, rate):
    tally, perf = bench.path("record.tally"), bench.path("record.perf")
    return {"alone": ([], None), "tally": (measure.tally_prefix(bench, rate, tally), tally),
            "perf fp": (measure.perf_prefix(rate, perf, "fp"), perf),
            "perf dwarf": (measure.perf_prefix(rate, perf, "dwarf"), perf)}


def report_times(bench, target, stdin, chosen):
    """Seconds that each tool's text report of such a run takes; dwarf stacks are only unwound then."""
    times = {}
    for name in TOOLS:
        prefix, output = chosen[name]
        measure.run(bench, target, prefix, output, stdin)
        command = [bench.tally, "report", output] if name == "tally" else ["perf", "report", "-i", output, "--stdio"]
        times[name] = measure.timed(command)
    return times


def one(bench, program, rate):
    target, stdin, note = programs.target(bench, program)
    chosen = configurations(bench, rate)
    results = measure.rounds(bench, target, chosen, stdin)
    reports = report_times(bench, target, stdin, chosen)
    figures = {}
    for name in TOOLS:
        figures[name] = {
            "target": measure.ratio(results, name, "alone"), "tool": measure.middle(results, name, "tool_cpu"),
            "tool_to_fp": measure.ratio(results, name, "perf fp", "tool_cpu"),
            "target_to": {rival: measure.ratio(results, name, rival) for rival in TOOLS},
            "prompt": measure.middle(results, name, "prompt"), "size": measure.middle(results, name, "size"),
            "report": reports[name]}
    alone = measure.middle(results, "alone", "target_cpu")
    return {"program": program, "rate": rate, "alone": alone, "figures": figures, "note": note}


def row(found, name):
    figure = found["figures"][name]
    return [f"{found['program']} ({found['alone']:.2f} s), {found['rate']:,} Hz", name, f"{figure['target']:.3f}",
            f"{figure['tool']:.3f} s", f"{figure['tool_to_fp']:.2f}", measure.seconds(figure["prompt"]),
            measure.megabytes(figure["size"]), measure.seconds(figure["report"])]


def each(found, rate, say):
    """'bzip2 1.01, lua 1.02' of what `say` makes of the figures of one rate."""
    return ", ".join(f"{one['program']} {say(one['figures'])}" for one in found if one["rate"] == rate)


def every(found, rate, holds):
    return all(holds(one["figures"]) for one in found if one["rate"] == rate)


def goals(found):
    low, high = RATES
    def beside(rival):
        return lambda figures: (f"{figures['tally']['target_to'][rival]:.3f} of it "
                                f"({figures['tally']['target']:.3f} and {figures[rival]['target']:.3f} of the program alone)")
    def report(figures):
        return figures["tally"]["report"] if figures["tally"]["report"] is not None else 1e9
    both = [low, high]
    return [
        measure.goal("target's CPU at 999 Hz at most that of perf record -g + 1 %", each(found, low, beside("perf fp")),
                     every(found, low, lambda f: f["tally"]["target_to"]["perf fp"] <= 1.01)),
        measure.goal("target's CPU at 10 kHz at most that of perf record --call-graph dwarf",
                     each(found, high, beside("perf dwarf")),
                     every(found, high, lambda f: f["tally"]["target_to"]["perf dwarf"] <= 1)),
        measure.goal("tally's own CPU at 999 Hz at most a quarter of perf record's",
                     each(found, low, lambda f: f"{f['tally']['tool_to_fp']:.2f} of it"),
                     every(found, low, lambda f: f["tally"]["tool_to_fp"] <= 0.25)),
        measure.goal("the prompt is back within 0.15 s of the target's end",
                     "; ".join(each(found, rate, lambda f: measure.seconds(f["tally"]["prompt"])) for rate in both),
                     all(every(found, rate, lambda f: f["tally"]["prompt"] <= 0.15) for rate in both)),
        measure.goal("profiles at 10 kHz under 1 MB", each(found, high, lambda f: measure.megabytes(f["tally"]["size"])),
                     every(found, high, lambda f: f["tally"]["size"] < 1e6)),
        measure.goal("tally report in under 0.1 s",
                     "; ".join(each(found, rate, lambda f: measure.seconds(f["tally"]["report"])) for rate in both),
                     all(every(found, rate, lambda f: report(f) < 0.1) for rate in both)),
    ]


def measure_table(bench):
    found = [one(bench, program, rate) for program in PROGRAMS for rate in RATES]
    header = ["program, rate", "profiler", "target's CPU, ratio", "tool's CPU", "of perf fp's", "end to prompt", "file",
              "report"]
    lines = measure.table(header, [row(entry, name) for entry in found for name in TOOLS])
    notes = sorted({entry["note"] for entry in found if entry["note"]})
    text = ["Ratios are against the same program alone in the same round. *Tool's CPU* is what the whole command used beyond",
            "the target. *End to prompt*: from the target's end until the command returned, with tally's profile readable.", ""]
    return {"lines": text + lines + [""] + notes, "goals": goals(found)}
