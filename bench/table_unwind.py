"""What a frame costs: bench_unwind walks one stack by our rows, by libunwind and by glibc, in one process."""
import measure
import table_figures

NAME = "unwind"
TITLE = "Unwinding"


def equal_goal(figures):
    """`equal_PLACE N of_A_and_B`: N frames agree, of A that we found and B that unw_step found."""
    said, held = [], True
    for name, (value, unit) in figures.items():
        if name.startswith("equal_"):
            counts = [int(word) for word in unit.replace("_", " ").split() if word.isdigit()]
            said.append(f"{name[6:].replace('_', ' ')} {value:.0f} of {max(counts)}")
            held = held and all(value == count for count in counts)
    return measure.goal("equal program counters from both, in a function, a handler, on an alternate stack",
                        ", ".join(said), held and len(said) >= 3)


def measure_table(bench):
    figures = table_figures.read(bench, "bench_unwind")
    ours, step = figures["tally_walk"][0], figures["libunwind_unw_step"][0]
    goals = [measure.goal("at most 5 ns a frame, warm, 30 deep", f"{ours:.2f} ns", ours <= 5),
             measure.goal("at least 25x faster than libunwind's unw_step", f"{step / ours:.0f}x", step / ours >= 25),
             equal_goal(figures)]
    if "libllvm_blob" in figures:
        blob, compiled = figures["libllvm_blob"][0], figures["libllvm_compile"][0]
        goals += [measure.goal("rows of libLLVM at most 4.5 MB", f"{blob:.2f} MB", blob <= 4.5),
                  measure.goal("and at most 150 ms to compile, once", f"{compiled:.0f} ms", compiled <= 150)]
    return {"lines": table_figures.lines(figures), "goals": goals}
