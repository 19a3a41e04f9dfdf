"""What a sample costs by rate, split: the event itself, reading one address, walking and keeping the whole stack."""
import measure
import programs

NAME = "sweep"
TITLE = "A sweep of rates"
RATES = [100, 250, 999, 4000, 10000, 27000]
PROGRAMS = ["bzip2", "link-parser"]
KINDS = ["none", "address", "full"]


def one(bench, program, rate):
    target, stdin, _ = programs.target(bench, program)
    output = bench.path("sweep.tally")
    chosen = {kind: (measure.tally_prefix(bench, rate, output, kind), output) for kind in KINDS}
    results = measure.rounds(bench, target, {"alone": ([], None), **chosen}, stdin)
    ratios = {kind: measure.ratio(results, kind, "alone") for kind in KINDS}
    beyond = measure.median([(full.target_cpu - empty.target_cpu) / alone.target_cpu for full, empty, alone
                             in zip(results["full"], results["none"], results["alone"])])
    single = measure.median([(address.target_cpu - empty.target_cpu) / alone.target_cpu for address, empty, alone
                             in zip(results["address"], results["none"], results["alone"])])
    tool = measure.median([run.tool_cpu / run.target_cpu for run in results["full"]])
    return {"program": program, "rate": rate, "ratios": ratios, "address": single, "full": beyond, "tool": tool,
            "reached": measure.reached(results, "full", rate)}


def row(found):
    ratios = found["ratios"]
    return [found["program"], f"{found['rate']:,} Hz"] + [f"{ratios[kind]:.3f}" for kind in KINDS] + [
        f"{100 * found['address']:+.1f} %", f"{100 * found['full']:+.1f} %", f"{100 * found['tool']:.1f} %",
        f"{100 * found['reached']:.0f} %"]


def measure_table(bench):
    rates = RATES[2:5:2] if bench.quick else RATES
    found = [one(bench, program, rate) for program in PROGRAMS for rate in rates]
    header = ["program", "rate", "empty event", "address only", "full stacks", "address - empty", "full - empty",
              "tally's CPU / target's", "samples / (CPU time x rate)"]
    text = ["The target's CPU time as ratios to the program alone. An *empty event* is the timer interrupt with nothing taken",
            "along; what an interrupt costs is the machine's doing (on virtual ones much), so the differences to it are what",
            "can be compared with figures published elsewhere (1 to 4 % at 27 kHz with 16 frames). The last column tells whether",
            "the rate was reached: Tally lowers one that the machine, as busy as it is, would not bear.", ""]
    at_most = [entry for entry in found if entry["rate"] == rates[-1]]
    figure = ", ".join(f"{entry['program']} {100 * entry['full']:+.1f} %" for entry in at_most)
    goals = [measure.goal(f"full stacks beyond the empty event at {rates[-1]:,} Hz (published: 1 to 4 %)", figure,
                          all(entry["full"] <= 0.04 for entry in at_most))]
    return {"lines": text + measure.table(header, [row(entry) for entry in found]), "goals": goals}
