"""Programs that move their own text, and what others write into it."""
import harm
import tally
import tap

MODES = {"calls": ["--calls"], "heap": ["--heap"], "function": ["--function", "step_fn"], "all": ["--calls", "--heap", "--function", "leaf_fn"]}
COMPILE = "gcc -O1 -g -no-pie -Wl,--section-start=.hot_text=0x10000 -o {program} {source}"


def visited_while_it_moves(how, mode):
    def run(context):
        """Its text moves while it is recorded: leaving must not take it away."""
        row = harm.Row("remap", source="remap.c", compile=COMPILE, command=["{program}", how], seconds="1.1")
        process, line = harm.begin(row, context, row.prepare(context))
        harm.visit(row, context, process, MODES[mode], "profile")
        tally.wait_for(lambda: process.poll() is not None, 0.2)
        status, output, errors, _ = harm.end(row, context, process, line)
        context.equal((status, output, errors), (0, b"begun\nmoved\n", b""), "outcome")
    run.__name__ = f"moved_by_{how}_{mode}"
    tap.case(run)


for way in ("1", "2"):
    for name in MODES:
        visited_while_it_moves(way, name)
harm.run()
